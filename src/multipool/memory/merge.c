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
    int64_t size = m->sizes[cluster];
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

/* Close the gap that a row leaves in an array of rows of ``width`` numbers of 8 bytes. */
static void close_gap(void *array, int64_t row, int64_t rows, int64_t width)
{
    char *start = (char *)array + (size_t)row * (size_t)width * 8;
    memmove(start, start + width * 8, (size_t)(rows - row - 1) * (size_t)width * 8);
}

void merge(const Memory *m, Scratch *room, int64_t first)
{
    int64_t second = first + 1, *members = m->members + first * m->capacity;
    double *total = m->totals + first * m->width;
    int64_t count = list_members(m, first, room->entries);
    count += list_members(m, second, room->entries + count);
    m->sizes[first] = keep(m, room, count);
    memset(total, 0, (size_t)m->width * sizeof(double));
    for (int64_t p = 0; p < m->sizes[first]; p++) {
        members[p] = room->entries[p].slot;
        for (int64_t d = 0; d < m->width; d++)
            total[d] += m->points[members[p] * m->width + d];
    }
    if (m->created[second] < m->created[first])
        m->created[first] = m->created[second];
    if (m->last_used[second] > m->last_used[first])
        m->last_used[first] = m->last_used[second];
    close_gap(m->sizes, second, *m->count, 1);
    close_gap(m->created, second, *m->count, 1);
    close_gap(m->last_used, second, *m->count, 1);
    close_gap(m->members, second, *m->count, m->capacity);
    close_gap(m->totals, second, *m->count, m->width);
    --*m->count;
    m->events[MERGED]++;
}
