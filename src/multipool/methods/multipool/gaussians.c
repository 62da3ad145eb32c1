/* The faster equal of the fit in gaussians.py. Sums are added in another order than BLAS adds them,
 * so the two agree to rounding. Nothing is kept between calls, and nothing of Python is touched.
 */
#include "gaussians.h"

#include <math.h>
#include <stdlib.h>

/* As in gaussians.py. */
#define STEPS 40
#define RARE 0.04
#define TILE 4 /* starts that are multiplied at once */

/* out_r = sum_i weights_r[i] table[i] for TILE starts r; a table of ``wide`` columns, of which
 * twice as many as a register holds go at once: the sums stay in registers. */
#define PRODUCT(name, Lanes) \
    static void name( \
        const double *const *weights, const double *table, int64_t count, int64_t wide, \
        double *const *out) \
    { \
        const double *a = weights[0], *b = weights[1], *c = weights[2], *d = weights[3]; \
        const int64_t step = 2 * sizeof(Lanes) / sizeof(double); \
        for (int64_t column = 0; column < wide; column += step) { \
            Lanes sums[TILE][2] = {{{0.0}}}; \
            for (int64_t i = 0; i < count; i++) { \
                const Lanes *row = (const Lanes *)(table + i * wide + column); \
                Lanes low = row[0], high = row[1]; \
                sums[0][0] += a[i] * low, sums[0][1] += a[i] * high; \
                sums[1][0] += b[i] * low, sums[1][1] += b[i] * high; \
                sums[2][0] += c[i] * low, sums[2][1] += c[i] * high; \
                sums[3][0] += d[i] * low, sums[3][1] += d[i] * high; \
            } \
            for (int r = 0; r < TILE; r++) { \
                Lanes *to = (Lanes *)(out[r] + column); \
                to[0] = sums[r][0], to[1] = sums[r][1]; \
            } \
        } \
    }

typedef double Two __attribute__((vector_size(16), aligned(8), may_alias));
PRODUCT(product_of_two, Two)

#ifdef __x86_64__ /* most have registers for four, but not all; the bits are the same */
typedef double Four __attribute__((vector_size(32), aligned(8), may_alias));
__attribute__((target("avx,fma"), optimize("fp-contract=fast"))) PRODUCT(product_of_four, Four)
#define PRODUCT_HERE (__builtin_cpu_supports("fma") ? product_of_four : product_of_two)
#else
#define PRODUCT_HERE product_of_two
#endif

/* The same for all that are going: rows of ``from`` times the table into rows of ``to``. */
static void products(
    const Fit *f, const int64_t *going, int64_t left, const double *from, int64_t stride,
    const double *table, int64_t count, int64_t wide, double *to)
{
    for (int64_t i = 0; i < left; i += TILE) {
        const double *weights[TILE];
        double *out[TILE];
        for (int r = 0; r < TILE; r++) {
            int64_t s = i + r < left ? going[i + r] : f->starts;
            weights[r] = from + s * stride;
            out[r] = to + s * wide;
        }
        PRODUCT_HERE(weights, table, count, wide, out);
    }
}

/* As fmax and fmin, which are calls. */
static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* The mean of a row of ``f->rows`` numbers, of which those beyond the points are 0. */
static double mean_of(const Fit *f, const double *values)
{
    double sums[4] = {0.0};
    for (int64_t n = 0; n < f->rows; n += 4)
        for (int k = 0; k < 4; k++)
            sums[k] += values[n + k];
    return (sums[0] + sums[1] + sums[2] + sums[3]) / (double)f->count;
}

/* By how many nats a sample the two Gaussians of a start are likelier than one. */
static double gain(const Fit *f, int64_t s, double share)
{
    const double *one = f->means + 2 * s * f->width, *two = one + f->width;
    double *direction = f->gap + s * f->columns, *along = f->moved + s * f->rows;
    double apart = 0.0, first, second, middle, spread = 0.0, sum = 0.0;
    for (int64_t d = 0; d < f->width; d++)
        apart += (one[d] - two[d]) * (one[d] - two[d]);
    for (int64_t d = 0; d < f->width; d++)
        direction[d] = (one[d] - two[d]) / sqrt(apart);
    first = dot(one, direction, f->width), second = dot(two, direction, f->width);
    f->going[f->starts] = s;
    products(f, f->going + f->starts, 1, f->gap, f->columns, f->turned, f->width, f->rows, f->moved);
    middle = mean_of(f, along);
    for (int64_t n = 0; n < f->count; n++)
        spread += (along[n] - middle) * (along[n] - middle);
    spread /= (double)f->count;
    double inside = larger(spread - share * (1 - share) * apart, 0.02);
    spread = larger(spread, 1e-12);
    for (int64_t n = 0; n < f->count; n++) {
        double to_first = log(share) - (along[n] - first) * (along[n] - first) / (2 * inside);
        double to_second = log(1 - share) - (along[n] - second) * (along[n] - second) / (2 * inside);
        double both = larger(to_first, to_second) + log1p(exp(-fabs(to_first - to_second)));
        sum += both + (along[n] - middle) * (along[n] - middle) / (2 * spread);
    }
    return sum / (double)f->count + 0.5 * (log(spread) - log(inside));
}

/* The two means of a start, their difference, and what they leave of the variance along it. */
static void separate(Fit *f, int64_t s, double *slope, double *middle)
{
    double share = f->mean[s], have = share * (double)f->count, apart = 0.0;
    double *one = f->means + 2 * s * f->width, *two = one + f->width, *gap = f->gap + s * f->columns;
    *middle = 0.0;
    for (int64_t d = 0; d < f->width; d++) {
        double sum = f->sums[s * f->columns + d];
        one[d] = sum / have;
        two[d] = (f->total[d] - sum) / ((double)f->count - have);
        gap[d] = one[d] - two[d];
        apart += gap[d] * gap[d];
        *middle += (one[d] + two[d]) / 2 * gap[d];
    }
    *slope = 1 / (1 - smaller(share * (1 - share) * apart, 0.98));
}

/* Take a start one step on; return whether that was its last. */
static int settle(Fit *f, int64_t s, double slope, double middle, int last)
{
    double *first = f->first + s * f->rows, *moved = f->moved + s * f->rows;
    double prior = log(f->mean[s] / (1 - f->mean[s]));
    int still = 1;
    for (int64_t n = 0; n < f->count; n++)
        moved[n] = -smaller(larger((moved[n] - middle) * slope + prior, -30.0), 30.0);
    for (int64_t n = 0; n < f->count; n++)
        moved[n] = exp(moved[n]);
    for (int64_t n = 0; n < f->count; n++) {
        double now = 1 / (1 + moved[n]);
        still &= fabs(now - first[n]) < 1e-3;
        first[n] = now;
    }
    f->mean[s] = mean_of(f, first);
    if (!still && !last)
        return 0;
    f->shares[s] = f->mean[s];
    if (f->mean[s] > RARE && f->mean[s] < 1 - RARE)
        f->likelihoods[s] = gain(f, s, f->mean[s]);
    return 1;
}

static void fit(Fit *f)
{
    int64_t left = 0;
    for (int64_t n = 0; n < f->count; n++)
        for (int64_t d = 0; d < f->width; d++) {
            double value = f->points[n * f->width + d];
            f->table[n * f->columns + d] = f->turned[d * f->rows + n] = value;
            f->total[d] += value;
        }
    for (int64_t s = 0; s < f->starts; s++) {
        f->mean[s] = mean_of(f, f->first + s * f->rows);
        f->shares[s] = 0.0;
        f->likelihoods[s] = -INFINITY;
        f->going[left++] = s;
    }
    for (int step = 0; step < STEPS && left; step++) {
        int64_t stay = 0;
        for (int64_t i = 0; i < left; i++) {
            double share = f->mean[f->going[i]];
            if (share > RARE && share < 1 - RARE)
                f->going[stay++] = f->going[i];
        }
        left = stay, stay = 0;
        products(f, f->going, left, f->first, f->rows, f->table, f->count, f->columns, f->sums);
        double *slopes = f->total + f->columns, *middles = slopes + f->starts;
        for (int64_t i = 0; i < left; i++)
            separate(f, f->going[i], slopes + i, middles + i);
        products(f, f->going, left, f->gap, f->columns, f->turned, f->width, f->rows, f->moved);
        for (int64_t i = 0; i < left; i++)
            if (!settle(f, f->going[i], slopes[i], middles[i], step == STEPS - 1))
                f->going[stay++] = f->going[i];
        left = stay;
    }
}

int fit_from(Fit *f, const double *starts)
{
    int64_t each = f->starts + 1, many = 2 * f->rows * f->columns + 2 * each * (f->rows + f->columns);
    double *room = calloc((size_t)(many + f->columns + 3 * f->starts), sizeof(double));
    f->going = calloc((size_t)f->starts + 1, sizeof(int64_t));
    if (room && f->going) {
        f->table = room, f->turned = f->table + f->rows * f->columns;
        f->first = f->turned + f->rows * f->columns, f->moved = f->first + each * f->rows;
        f->sums = f->moved + each * f->rows, f->gap = f->sums + each * f->columns;
        f->mean = f->gap + each * f->columns, f->total = f->mean + f->starts;
        for (int64_t s = 0; s < f->starts; s++)
            for (int64_t n = 0; n < f->count; n++)
                f->first[s * f->rows + n] = starts[s * f->count + n];
        fit(f);
    }
    int enough = room && f->going;
    free(room);
    free(f->going);
    return enough;
}
