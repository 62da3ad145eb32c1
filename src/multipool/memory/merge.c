/* How two clusters become one (Sec. 3.3): the faster equal of merging in organiser.py. */
#include "decide.h"

#include <stdlib.h>
#include <string.h>

/* Serial numbers are compared last, and slots after them: qsort wants an order without equals. */
static int by_certainty(const void *a, const void *b)
{
    const Entry *one = a, *other = b;
    if (one->uncertainty != other->uncertainty)
        return one->uncertainty < other->uncertainty ? -1 : 1;
    if (one->serial != other->serial)
        return one->serial > other->serial ? -1 : 1;
    return (one->slot > other->slot) - (one->slot < other->slot);
}

static int64_t list_members(const Memory *m, int64_t cluster, Entry *entries)
{
    const int64_t *slots = m->members + cluster * m->capacity;
    int64_t size = m->clusters[cluster].size;
    for (int64_t p = 0; p < size; p++) {
        Entry entry = {m->uncertainty[slots[p]], m->serials[slots[p]], slots[p]};
        entries[p] = entry;
    }
    return size;
}

/* Put those who stay first and free the slots of the others; return how many stay: the N of lowest
 * uncertainty, of equals the newer, no more of a known label than the quota. */
static int64_t keep(const Memory *m, Scratch *room, int64_t count)
{
    Entry *entries = room->entries;
    int64_t kept = 0;
    if (m->quota > 0 || count > m->capacity)
        qsort(entries, (size_t)count, sizeof(Entry), by_certainty);
    for (int64_t e = 0; e < count; e++) {
        Entry entry = entries[e];
        int64_t label = m->labels[entry.slot];
        int known = m->quota > 0 && label >= 0;
        if (kept < m->capacity && (!known || room->seen[label]++ < m->quota))
            entries[kept++] = entry;
        else
            room->free[room->spare++] = entry.slot;
    }
    for (int64_t e = 0; m->quota > 0 && e < kept; e++)
        if (m->labels[entries[e].slot] >= 0)
            room->seen[m->labels[entries[e].slot]] = 0;
    return kept;
}

/* Close the gap that a cluster leaves in the sequence. */
static void take_out(const Memory *m, int64_t cluster)
{
    size_t after = (size_t)(--m->counts[CLUSTERS] - cluster);
    size_t slots = (size_t)m->capacity, width = (size_t)m->width;
    memmove(m->clusters + cluster, m->clusters + cluster + 1, after * sizeof(Cluster));
    int64_t *members = m->members + (size_t)cluster * slots;
    memmove(members, members + slots, after * slots * sizeof(int64_t));
    double *totals = m->totals + (size_t)cluster * width;
    memmove(totals, totals + width, after * width * sizeof(double));
}

void merge(const Memory *m, Scratch *room, int64_t first)
{
    Cluster *a = m->clusters + first, *b = a + 1;
    double *total = m->totals + first * m->width;
    int64_t count = list_members(m, first, room->entries);
    count += list_members(m, first + 1, room->entries + count);
    a->size = keep(m, room, count);
    memset(total, 0, (size_t)m->width * sizeof(double));
    for (int64_t p = 0; p < a->size; p++) {
        int64_t slot = room->entries[p].slot;
        m->members[first * m->capacity + p] = slot;
        for (int64_t d = 0; d < m->width; d++)
            total[d] += m->points[slot * m->width + d];
    }
    if (b->created < a->created)
        a->created = b->created;
    if (b->last_used > a->last_used)
        a->last_used = b->last_used;
    take_out(m, first + 1);
    m->counts[MERGED]++;
}
