/* What gaussians.c, which fits, and arguments.c, which Python calls, share. */
#ifndef MULTIPOOL_GAUSSIANS_H
#define MULTIPOOL_GAUSSIANS_H
#include <stdint.h>

#define BLOCK 8 /* rows and columns are filled up to multiples of this */

typedef struct {
    int64_t count, width, starts; /* N, D, S */
    int64_t rows, columns; /* N and D, rounded up to whole blocks; what is beyond is 0 */
    const double *points;
    double *table, *turned; /* (rows, columns) and (columns, rows): the points, filled up */
    double *first, *moved; /* (S + 1, rows), the last for starts that a tile has too few of */
    double *sums, *gap; /* (S + 1, columns) */
    double *total, *mean; /* (columns,) sum of all points, (S,) share of the first domain */
    int64_t *going; /* (S + 1,) starts that are not over yet, and room for one more */
    double *means, *shares, *likelihoods; /* what is found */
} Fit;

/* Fit from starts (S, N), with memory of its own; 0 if there is none. */
int fit_from(Fit *f, const double *starts);

#endif
