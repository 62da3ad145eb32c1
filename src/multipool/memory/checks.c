/* Whether contents are sound, so that the rules need not ask: whatever passes here keeps every index
 * that clusters.c and merge.c compute inside its array, and every sum of whole numbers in range.
 */
#include "decide.h"

#include <math.h>

static int within(int64_t value, int64_t low, int64_t high) { return value >= low && value <= high; }

static int all_finite(const double *values, int64_t count)
{
    for (int64_t k = 0; k < count; k++)
        if (!isfinite(values[k]))
            return 0;
    return 1;
}

static int all_within(const int64_t *values, int64_t count, int64_t low, int64_t high)
{
    for (int64_t k = 0; k < count; k++)
        if (!within(values[k], low, high))
            return 0;
    return 1;
}

const char *wrong_options(const Memory *m)
{
    if (!within(m->capacity, 1, MOST_SLOTS) || !within(m->most, 1, MOST_SLOTS)
        || m->capacity > MOST_SLOTS / m->most)
        return "capacity times clusters must be 1 to 2^20";
    if (!within(m->width, 1, MOST_NUMBERS))
        return "a descriptor must have 1 to 2^20 numbers";
    if (!within(m->classes, 1, MOST_CLASSES))
        return "classes must be 1 to 2^20";
    if (!within(m->quota, 0, MOST_SLOTS + 1))
        return "the quota must be 0 to 2^20 + 1";
    if (isnan(m->threshold) || !isfinite(m->doubt_weight) || !isfinite(m->distance_weight)
        || !isfinite(m->log_classes) || m->log_classes <= 0.0)
        return "weights must be finite, and the logarithm of the classes above 0";
    return 0;
}

/* Whether one slot's numbers are those of a sample seen before this batch. */
static int sound_member(const Memory *m, const Batch *batch, int64_t slot)
{
    return all_finite(m->points + slot * m->width, m->width) && isfinite(m->uncertainty[slot])
           && within(m->serials[slot], 0, batch->serial - 1)
           && within(m->indices[slot], 0, batch->now)
           && within(m->labels[slot], -1, m->classes - 1);
}

/* The clusters' members must be sound and in a slot each; the other slots are the free ones. */
static const char *wrong_members(const Memory *m, const Batch *batch, Scratch *room)
{
    int64_t slots = m->most * m->capacity, *taken = room->row_of;
    for (int64_t slot = 0; slot < slots; slot++)
        taken[slot] = 0;
    for (int64_t k = 0; k < *m->count; k++) {
        if (!within(m->sizes[k], 1, m->capacity))
            return "a cluster must have 1 to N members";
        for (int64_t p = 0; p < m->sizes[k]; p++) {
            int64_t slot = m->members[k * m->capacity + p];
            if (!within(slot, 0, slots - 1) || taken[slot]++)
                return "members must be in slots of the memory, each in its own";
            if (!sound_member(m, batch, slot))
                return "members must be finite, of known labels and of the past";
        }
        if (!all_finite(m->totals + k * m->width, m->width))
            return "sums of descriptors must be finite";
    }
    room->spare = 0;
    for (int64_t slot = slots - 1; slot >= 0; slot--)
        if (!taken[slot])
            room->free[room->spare++] = slot;
    return 0;
}

const char *wrong_contents(const Memory *m, const Batch *batch, Scratch *room)
{
    if (!within(batch->serial, 0, MOST_SEEN) || !within(batch->now, 0, MOST_SEEN))
        return "serial number and index must be 0 to 2^53";
    if (!all_within(batch->labels, batch->size, -1, m->classes - 1))
        return "labels must be -1 to L-1";
    if (!all_finite(batch->uncertainty, batch->size)
        || !all_finite(batch->points, batch->size * m->width))
        return "descriptors and uncertainty must be finite";
    if (!all_finite(m->timely, m->oldest + 1))
        return "timeliness must be finite";
    if (!within(*m->count, 0, m->most))
        return "there must be 0 to K_max clusters";
    if (!all_within(m->events, EVENTS, 0, MOST_SEEN))
        return "counters must be 0 to 2^53";
    return wrong_members(m, batch, room);
}
