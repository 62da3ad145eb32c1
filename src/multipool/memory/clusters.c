/* The rules of the multi-cluster memory, one sample after another: the faster equal of organiser.py
 * for the distance l2 and the consolidation acc. Every number is computed by the same operations
 * in the same order as there, so that the two decide alike, bit for bit.
 */
#include "decide.h"

#include <math.h>
#include <string.h>

typedef struct {
    const double *point; /* (D,) */
    double uncertainty;
    int64_t serial, now, label, doubtful;
} Sample;

/* Write the centroid: the sum of the descriptors by their number. */
static const double *centroid(const Memory *m, int64_t cluster, double *centre)
{
    const double *total = m->totals + cluster * m->width;
    double size = (double)m->sizes[cluster];
    for (int64_t d = 0; d < m->width; d++)
        centre[d] = total[d] / size;
    return centre;
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

/* Write a newcomer into a slot and add it to its cluster's sum. */
static void put(const Memory *m, int64_t cluster, int64_t slot, const Sample *s)
{
    double *point = m->points + slot * m->width, *total = m->totals + cluster * m->width;
    for (int64_t d = 0; d < m->width; d++) {
        point[d] = s->point[d];
        total[d] += s->point[d];
    }
    m->uncertainty[slot] = s->uncertainty;
    m->serials[slot] = s->serial;
    m->indices[slot] = s->now;
    m->labels[slot] = s->label;
}

static int64_t append(const Memory *m, Scratch *room, int64_t cluster, const Sample *s)
{
    int64_t slot = room->free[--room->spare];
    m->members[cluster * m->capacity + m->sizes[cluster]++] = slot;
    put(m, cluster, slot, s);
    return slot;
}

static int64_t replace(const Memory *m, int64_t cluster, int64_t slot, const Sample *s)
{
    const double *point = m->points + slot * m->width;
    double *total = m->totals + cluster * m->width;
    for (int64_t d = 0; d < m->width; d++)
        total[d] -= point[d];
    put(m, cluster, slot, s);
    return slot;
}

static int64_t open_cluster(const Memory *m, Scratch *room, const Sample *s)
{
    int64_t cluster = (*m->count)++;
    m->sizes[cluster] = 0;
    m->created[cluster] = m->last_used[cluster] = s->now;
    memset(m->totals + cluster * m->width, 0, (size_t)m->width * sizeof(double));
    m->events[SPAWNED]++;
    return append(m, room, cluster, s);
}

/* The nearest cluster and its distance; ties go to the lowest position. */
static int64_t nearest(const Memory *m, Scratch *room, const double *point, double *gap)
{
    int64_t found = 0;
    for (int64_t k = 0; k < *m->count; k++) {
        double here = distance(centroid(m, k, room->centre), point, m->width);
        if (k == 0 || here < *gap) {
            found = k;
            *gap = here;
        }
    }
    return found;
}

/* H(x) = timeliness + doubt + weighted distance to the centroid, added in this order (Eq. 5). */
static double score(const Memory *m, int64_t age, double uncertainty, double gap)
{
    age = age < 0 ? 0 : age > m->oldest ? m->oldest : age;
    double doubt = m->doubt_weight * uncertainty / m->log_classes;
    return (m->timely[age] + doubt) + m->distance_weight * gap;
}

static double member_score(const Memory *m, int64_t slot, const double *centre, int64_t now)
{
    double gap = distance(m->points + slot * m->width, centre, m->width);
    return score(m, now - m->indices[slot], m->uncertainty[slot], gap);
}

/* Who has the highest H(x), of equals the older; ``label`` -1: of all, else among its own. */
static int64_t worst(
    const Memory *m, int64_t cluster, const double *centre, int64_t label, int64_t now)
{
    const int64_t *members = m->members + cluster * m->capacity;
    int64_t found = -1;
    double top = 0.0;
    for (int64_t p = 0; p < m->sizes[cluster]; p++) {
        int64_t slot = members[p];
        if (label >= 0 && m->labels[slot] != label)
            continue;
        /* By age alone the oldest has the highest H(x), or one as high and is the older. */
        double here = m->age_alone ? 0.0 : member_score(m, slot, centre, now);
        if (found < 0 || here > top || (here == top && m->serials[slot] < m->serials[found])) {
            found = slot;
            top = here;
        }
    }
    return found;
}

/* The slot of the member that must go for a newcomer, or -1 if there is room. */
static int64_t leaving(const Memory *m, int64_t cluster, const double *centre, const Sample *s)
{
    const int64_t *members = m->members + cluster * m->capacity;
    int64_t size = m->sizes[cluster];
    if (m->quota > 0 && s->label >= 0) {
        int64_t alike = 0;
        for (int64_t p = 0; p < size; p++)
            alike += m->labels[members[p]] == s->label;
        if (alike >= m->quota)
            return worst(m, cluster, centre, s->label, s->now);
    }
    return size == m->capacity ? worst(m, cluster, centre, -1, s->now) : -1;
}

/* Whether a cluster can be opened, after merging the closest neighbours if all are taken. */
static int make_room(const Memory *m, Scratch *room, double gap)
{
    int64_t count = *m->count, pair = 0;
    double closest = 0.0, *centre = room->centre, *next = room->centre + m->width;
    if (count < m->most)
        return 1;
    if (count == 1)
        return 0;
    for (int64_t k = 0; k + 1 < count; k++) {
        double apart = distance(centroid(m, k + 1, next), centroid(m, k, centre), m->width);
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
    if (*m->count == 0)
        return open_cluster(m, room, s);
    int64_t cluster = nearest(m, room, s->point, &gap);
    if (gap > m->threshold && make_room(m, room, gap))
        return open_cluster(m, room, s);
    m->last_used[cluster] = s->now;
    const double *centre = centroid(m, cluster, room->centre);
    int64_t member = leaving(m, cluster, centre, s);
    if (member < 0)
        return append(m, room, cluster, s);
    /* A newcomer's age is 0. */
    int stays = m->if_worse
                && !(member_score(m, member, centre, s->now) > score(m, 0, s->uncertainty, gap));
    if (s->doubtful || stays) {
        m->events[REJECTED]++;
        return -1;
    }
    m->events[REPLACED]++;
    return replace(m, cluster, member, s);
}

/* Turn the slot of each sample of a batch, or -1, into slots and rows of the images that are to be
 * stored; return how many. A later one goes over an earlier one in the same slot. */
static int64_t last_ones(int64_t *written, int64_t size, int64_t *row_of, int64_t slots)
{
    int64_t count = 0;
    for (int64_t slot = 0; slot < slots; slot++)
        row_of[slot] = -1;
    for (int64_t row = 0; row < size; row++)
        if (written[row] >= 0)
            row_of[written[row]] = row;
    for (int64_t row = 0; row < size; row++) {
        int64_t slot = written[row];
        if (slot >= 0 && row_of[slot] == row) {
            written[count] = slot;
            written[size + count++] = row;
        }
    }
    return count;
}

int64_t take_batch(const Memory *m, Scratch *room, const Batch *batch, int64_t *written)
{
    for (int64_t row = 0; row < batch->size; row++) {
        Sample s = {
            batch->points + row * m->width, batch->uncertainty[row], batch->serial + row,
            batch->now + (batch->by_call ? 0 : row), batch->labels[row], batch->doubtful[row],
        };
        written[row] = take(m, room, &s);
    }
    return last_ones(written, batch->size, room->row_of, m->most * m->capacity);
}
