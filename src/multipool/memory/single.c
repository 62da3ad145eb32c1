/* The rules of RoTTA's pool, one sample after another: the faster equal of class_balanced.py, by the
 * same operations in the same order, so that the two decide alike, bit for bit.
 */
#include "decide.h"

#include <stdlib.h>

static double score(const Pool *pool, int64_t age, double uncertainty)
{
    age = age > pool->oldest ? pool->oldest : age;
    return pool->timely[age] + pool->doubt_weight * uncertainty / pool->log_classes;
}

/* How many items the largest class has; ``held`` counts by label, -1 included. */
static int64_t most_held(const Pool *pool, const int64_t *held)
{
    int64_t most = 0;
    for (int64_t i = 0; i < pool->counts[ITEMS]; i++)
        if (held[pool->labels[i]] > most)
            most = held[pool->labels[i]];
    return most;
}

/* The item with the highest score above the newcomer's, or -1; of equals the last in reading order.
 * ``label``: among its own; -2: among the classes that hold most. */
static int64_t worst(
    const Pool *pool, const int64_t *held, int64_t label, double newcomer, int64_t now)
{
    int64_t found = -1, most = label == -2 ? most_held(pool, held) : 0;
    double top = newcomer;
    for (int64_t i = 0; i < pool->counts[ITEMS]; i++) {
        int64_t own = pool->labels[i];
        if (label == -2 ? held[own] < most : own != label)
            continue;
        double here = score(pool, now - pool->arrived[i], pool->doubts[i]);
        int later = found >= 0 && here == top
                    && (own > pool->labels[found]
                        || (own == pool->labels[found] && pool->arrived[i] > pool->arrived[found]));
        if (here > top || later) {
            found = i;
            top = here;
        }
    }
    return found;
}

/* Take in one sample; return its slot, or -1 if it was turned away. */
static int64_t take(
    const Pool *pool, int64_t *held, int64_t label, double uncertainty, int64_t now)
{
    int64_t place = pool->counts[ITEMS], full = place == pool->capacity;
    int own = (double)held[label] >= pool->quota;
    if (own || full) {
        double newcomer = score(pool, 0, uncertainty);
        place = worst(pool, held, own ? label : -2, newcomer, now);
        if (place < 0) {
            pool->counts[TURNED_AWAY]++;
            return -1;
        }
        held[pool->labels[place]]--;
        pool->counts[EVICTED]++;
    } else {
        pool->slots[place] = pool->free[--pool->counts[SPARE]];
        pool->counts[ITEMS]++;
    }
    held[label]++;
    pool->labels[place] = label;
    pool->doubts[place] = uncertainty;
    pool->arrived[place] = now;
    return pool->slots[place];
}

int64_t pool_take(const Pool *pool, const Batch *batch, int64_t *written)
{
    int64_t *held = calloc((size_t)pool->classes + 1, sizeof(int64_t)), count = -1;
    int64_t *row_of = malloc((size_t)pool->capacity * sizeof(int64_t));
    if (held && row_of) {
        for (int64_t i = 0; i < pool->counts[ITEMS]; i++)
            held[pool->labels[i] + 1]++;
        for (int64_t row = 0; row < batch->size; row++)
            written[row] = take(
                pool, held + 1, batch->labels[row], batch->uncertainty[row], batch->now + row);
        count = last_ones(written, batch->size, row_of, pool->capacity);
    }
    free(held);
    free(row_of);
    return count;
}
