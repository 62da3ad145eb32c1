/* The rules of the multi-cluster memory, one sample after another: the faster equal of organiser.py
 * for the distance l2 and the consolidation acc. Every number is computed by the same operations
 * in the same order as there, so that the two decide alike, bit for bit.
 */
#include "decide.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64 }; /* members weighed at a time */

typedef struct {
    const double *point; /* (D,) */
    double uncertainty, doubt;
    int64_t serial, now, label, doubtful;
} Sample;

typedef struct { /* one member of a union of two clusters */
    double uncertainty;
    int64_t serial, label;
    const double *real; /* its column, rows N apart */
    const int64_t *whole;
} Entry;

typedef struct { /* room for one merge */
    Entry *entries;    /* (2N,) */
    double *real;      /* (D+2, N) */
    int64_t *whole;    /* (4, N) */
    int64_t *seen;     /* (L,) zeros, with a quota */
    int64_t *row_of;   /* (K_max N,) */
} Scratch;

static double *real_of(const Memory *m, const Cluster *c)
{
    return m->real + c->block * (m->width + 2) * m->capacity;
}

static int64_t *whole_of(const Memory *m, const Cluster *c)
{
    return m->whole + c->block * WHOLES * m->capacity;
}

static double *total_of(const Memory *m, const Cluster *c)
{
    return m->sums + c->block * 2 * m->width;
}

static double *centre_of(const Memory *m, const Cluster *c)
{
    return total_of(m, c) + m->width;
}

/* The Euclidean distance, added in order. */
static double distance(const double *a, const double *b, int64_t width)
{
    double sum = 0.0;
    for (int64_t d = 0; d < width; d++) {
        double gap = a[d] - b[d];
        sum += gap * gap;
    }
    return sqrt(sum);
}

static void settle(const Memory *m, const Cluster *c)
{
    const double *total = total_of(m, c);
    double *centre = centre_of(m, c);
    for (int64_t d = 0; d < m->width; d++)
        centre[d] = total[d] / (double)c->size;
}

/* Write a newcomer over a member's column and add it to the sum. */
static void put(const Memory *m, const Cluster *c, int64_t position, const Sample *s, int64_t slot)
{
    double *real = real_of(m, c) + position, *total = total_of(m, c);
    int64_t *whole = whole_of(m, c) + position, step = m->capacity;
    for (int64_t d = 0; d < m->width; d++) {
        real[d * step] = s->point[d];
        total[d] += s->point[d];
    }
    real[m->width * step] = s->uncertainty;
    real[(m->width + 1) * step] = s->doubt;
    whole[SERIAL * step] = s->serial;
    whole[INDEX * step] = s->now;
    whole[SLOT * step] = slot;
    whole[LABEL * step] = s->label;
    settle(m, c);
}

static int64_t append(const Memory *m, Cluster *c, const Sample *s)
{
    int64_t slot = m->free[--m->counts[FREE]];
    c->size++;
    put(m, c, c->size - 1, s, slot);
    return slot;
}

static int64_t replace(const Memory *m, const Cluster *c, int64_t position, const Sample *s)
{
    const double *real = real_of(m, c) + position;
    double *total = total_of(m, c);
    int64_t slot = whole_of(m, c)[SLOT * m->capacity + position];
    for (int64_t d = 0; d < m->width; d++)
        total[d] -= real[d * m->capacity];
    put(m, c, position, s, slot);
    return slot;
}

static int64_t open_cluster(const Memory *m, const Sample *s)
{
    Cluster *c = m->clusters + m->counts[CLUSTERS]++;
    c->size = 0;
    c->created = c->last_used = s->now;
    memset(total_of(m, c), 0, (size_t)m->width * sizeof(double));
    m->counts[SPAWNED]++;
    return append(m, c, s);
}

/* The nearest cluster and its distance; ties go to the lowest position. */
static int64_t nearest(const Memory *m, const double *point, double *gap)
{
    int64_t found = 0;
    for (int64_t k = 0; k < m->counts[CLUSTERS]; k++) {
        double here = distance(centre_of(m, m->clusters + k), point, m->width);
        if (k == 0 || here < *gap) {
            found = k;
            *gap = here;
        }
    }
    return found;
}

/* H(x) = timeliness + doubt + weighted distance to the centroid, added in this order (Eq. 5), of
 * at most CHUNK members from ``start`` on. */
static void scores(
    const Memory *m, const Cluster *c, int64_t start, int64_t count, int64_t now, double *found)
{
    const double *real = real_of(m, c) + start, *centre = centre_of(m, c);
    const double *doubt = real + (m->width + 1) * m->capacity;
    const int64_t *index = whole_of(m, c) + INDEX * m->capacity + start;
    double squares[CHUNK] = {0.0};
    for (int64_t d = 0; d < m->width; d++) {
        const double *row = real + d * m->capacity, middle = centre[d];
        for (int64_t p = 0; p < count; p++) {
            double gap = row[p] - middle;
            squares[p] += gap * gap;
        }
    }
    for (int64_t p = 0; p < count; p++) {
        int64_t age = now - index[p];
        age = age < 0 ? 0 : age > m->oldest ? m->oldest : age;
        found[p] = m->timely[age] + doubt[p];
    }
    for (int64_t p = 0; p < count; p++)
        found[p] += m->distance_weight * sqrt(squares[p]);
}

/* Who has the highest H(x), of equals the older; ``label`` -1: of all, else among its own. */
static int64_t worst(const Memory *m, const Cluster *c, int64_t label, int64_t now)
{
    const int64_t *serials = whole_of(m, c) + SERIAL * m->capacity;
    const int64_t *labels = whole_of(m, c) + LABEL * m->capacity;
    int64_t found = -1;
    double top = 0.0, here[CHUNK] = {0.0};
    for (int64_t p = 0; p < c->size; p++) {
        /* By age alone the oldest has the highest H(x), or one as high and is the older. */
        if (p % CHUNK == 0 && !m->age_alone)
            scores(m, c, p, c->size - p < CHUNK ? c->size - p : CHUNK, now, here);
        if (label >= 0 && labels[p] != label)
            continue;
        double score = here[p % CHUNK];
        if (found < 0 || score > top || (score == top && serials[p] < serials[found])) {
            found = p;
            top = score;
        }
    }
    return found;
}

/* The member that must go for a newcomer, or -1 if there is room. */
static int64_t leaving(const Memory *m, const Cluster *c, const Sample *s)
{
    if (m->quota > 0 && s->label >= 0) {
        const int64_t *labels = whole_of(m, c) + LABEL * m->capacity;
        int64_t alike = 0;
        for (int64_t p = 0; p < c->size; p++)
            alike += labels[p] == s->label;
        if (alike >= m->quota)
            return worst(m, c, s->label, s->now);
    }
    return c->size == m->capacity ? worst(m, c, -1, s->now) : -1;
}

/* Whether a member leaves for a newcomer, whose age is 0. */
static int gives_way(
    const Memory *m, const Cluster *c, int64_t member, const Sample *s, double gap)
{
    if (!m->if_worse)
        return 1;
    double score;
    scores(m, c, member, 1, s->now, &score);
    return score > (m->timely[0] + s->doubt) + m->distance_weight * gap;
}

static int by_certainty(const void *a, const void *b)
{
    const Entry *one = a, *other = b;
    if (one->uncertainty != other->uncertainty)
        return one->uncertainty < other->uncertainty ? -1 : 1;
    return one->serial > other->serial ? -1 : 1;
}

static int by_arrival(const void *a, const void *b)
{
    const Entry *one = a, *other = b;
    return one->serial < other->serial ? -1 : 1;
}

static int64_t list_members(const Memory *m, const Cluster *c, Entry *entries)
{
    const double *real = real_of(m, c);
    const int64_t *whole = whole_of(m, c);
    for (int64_t p = 0; p < c->size; p++) {
        entries[p].uncertainty = real[m->width * m->capacity + p];
        entries[p].serial = whole[SERIAL * m->capacity + p];
        entries[p].label = whole[LABEL * m->capacity + p];
        entries[p].real = real + p;
        entries[p].whole = whole + p;
    }
    return c->size;
}

/* Put those who stay first, by arrival, and free the slots of the others; return how many stay:
 * the N of lowest uncertainty, of equals the newer, no more of a known label than the quota. */
static int64_t keep(const Memory *m, Entry *entries, int64_t count, int64_t *seen)
{
    int64_t kept = 0;
    if (m->quota > 0 || count > m->capacity)
        qsort(entries, (size_t)count, sizeof(Entry), by_certainty);
    for (int64_t e = 0; e < count; e++) {
        Entry entry = entries[e];
        int known = m->quota > 0 && entry.label >= 0;
        if (kept < m->capacity && (!known || seen[entry.label]++ < m->quota))
            entries[kept++] = entry;
        else
            m->free[m->counts[FREE]++] = entry.whole[SLOT * m->capacity];
    }
    for (int64_t e = 0; m->quota > 0 && e < kept; e++)
        if (entries[e].label >= 0)
            seen[entries[e].label] = 0;
    qsort(entries, (size_t)kept, sizeof(Entry), by_arrival);
    return kept;
}

/* Merge a cluster with the next one into its block. */
static void merge(const Memory *m, Scratch *room, int64_t first)
{
    Cluster *a = m->clusters + first, *b = a + 1;
    int64_t step = m->capacity, rows = m->width + 2;
    int64_t count = list_members(m, a, room->entries);
    count += list_members(m, b, room->entries + count);
    a->size = keep(m, room->entries, count, room->seen);
    for (int64_t p = 0; p < a->size; p++) {
        for (int64_t r = 0; r < rows; r++)
            room->real[r * step + p] = room->entries[p].real[r * step];
        for (int64_t r = 0; r < WHOLES; r++)
            room->whole[r * step + p] = room->entries[p].whole[r * step];
    }
    double *real = real_of(m, a), *total = total_of(m, a);
    memcpy(real, room->real, (size_t)(rows * step) * sizeof(double));
    memcpy(whole_of(m, a), room->whole, (size_t)(WHOLES * step) * sizeof(int64_t));
    for (int64_t d = 0; d < m->width; d++) {
        total[d] = 0.0;
        for (int64_t p = 0; p < a->size; p++)
            total[d] += real[d * step + p];
    }
    settle(m, a);
    if (b->created < a->created)
        a->created = b->created;
    if (b->last_used > a->last_used)
        a->last_used = b->last_used;
    int64_t block = b->block, last = --m->counts[CLUSTERS];
    memmove(b, b + 1, (size_t)(last - first - 1) * sizeof(Cluster));
    m->clusters[last].block = block;
    m->counts[MERGED]++;
}

/* Whether a cluster can be opened, after merging the closest neighbours if all are taken. */
static int make_room(const Memory *m, Scratch *room, double gap)
{
    int64_t count = m->counts[CLUSTERS], pair = 0;
    double closest = 0.0;
    if (count < m->most)
        return 1;
    if (count == 1)
        return 0;
    for (int64_t k = 0; k + 1 < count; k++) {
        const double *next = centre_of(m, m->clusters + k + 1);
        double apart = distance(next, centre_of(m, m->clusters + k), m->width);
        if (k == 0 || apart < closest) {
            pair = k;
            closest = apart;
        }
    }
    if (m->gated && !(gap > closest))
        return 0;
    merge(m, room, pair);
    return 1;
}

/* Take in one sample; return its slot, or -1 if it was turned away. */
static int64_t take(const Memory *m, Scratch *room, const Sample *s)
{
    double gap = 0.0;
    if (m->counts[CLUSTERS] == 0)
        return open_cluster(m, s);
    int64_t found = nearest(m, s->point, &gap);
    if (gap > m->threshold && make_room(m, room, gap))
        return open_cluster(m, s);
    Cluster *c = m->clusters + found;
    c->last_used = s->now;
    int64_t member = leaving(m, c, s);
    if (member < 0)
        return append(m, c, s);
    if (s->doubtful || !gives_way(m, c, member, s, gap)) {
        m->counts[REJECTED]++;
        return -1;
    }
    m->counts[REPLACED]++;
    return replace(m, c, member, s);
}

/* Make room for merges; return 0 if there is not enough. In any case it is disposed of. */
static int prepare(const Memory *m, Scratch *room)
{
    size_t step = (size_t)m->capacity, slots = step * (size_t)m->most;
    room->entries = malloc(2 * step * sizeof(Entry));
    room->real = malloc((size_t)(m->width + 2) * step * sizeof(double));
    room->whole = malloc(WHOLES * step * sizeof(int64_t));
    room->seen = calloc(m->quota > 0 ? (size_t)m->classes : 1, sizeof(int64_t));
    room->row_of = malloc(slots * sizeof(int64_t));
    return room->entries && room->real && room->whole && room->seen && room->row_of;
}

static void dispose(Scratch *room)
{
    free(room->entries);
    free(room->real);
    free(room->whole);
    free(room->seen);
    free(room->row_of);
}

static void take_each(const Memory *m, Scratch *room, const Batch *batch, int64_t *slots)
{
    for (int64_t row = 0; row < batch->size; row++) {
        Sample s = {
            batch->points + row * m->width, batch->uncertainty[row], 0.0, batch->serial + row,
            batch->now + (batch->by_call ? 0 : row), batch->labels[row],
            batch->doubtful[row],
        };
        s.doubt = m->doubt_weight * s.uncertainty / m->log_classes;
        slots[row] = take(m, room, &s);
    }
}

int64_t clusters_take(const Memory *m, const Batch *batch, int64_t *written)
{
    Scratch room;
    int64_t count = -1;
    if (prepare(m, &room)) {
        take_each(m, &room, batch, written);
        count = last_ones(written, batch->size, room.row_of, m->most * m->capacity);
    }
    dispose(&room);
    return count;
}
