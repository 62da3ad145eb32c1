/* What decide.c, the door, and the rules behind it have in common. All arrays are the caller's. */
#ifndef MULTIPOOL_DECIDE_H
#define MULTIPOOL_DECIDE_H

#include <float.h>
#include <stdint.h>

#if FLT_EVAL_METHOD != 0
#error "sums must be rounded to double one by one"
#endif

enum { SERIAL, INDEX, SLOT, LABEL, WHOLES };           /* rows of Memory.whole, as in cluster.py */
enum { CLUSTERS, FREE, SPAWNED, MERGED, REPLACED, REJECTED, COUNTS }; /* as in compiled.py */

typedef struct {
    int64_t size, created, last_used;
    int64_t block; /* where its members are; beyond the clusters in use: the unused blocks */
} Cluster;

typedef struct {
    int64_t capacity, most, width; /* N, K_max, D */
    int64_t quota, classes;        /* quota 0: none */
    int gated, if_worse, age_alone;
    double threshold, doubt_weight, log_classes, distance_weight;
    const double *timely; /* timeliness by age; beyond its end it does not grow */
    int64_t oldest;       /* the last age in it */
    double *real;         /* (K_max, D+2, N) descriptor, uncertainty, uncertainty term of H(x) */
    int64_t *whole;       /* (K_max, 4, N) serial number, index, slot, label */
    double *sums;         /* (K_max, 2, D) sum of the descriptors, centroid */
    Cluster *clusters;    /* (K_max,) in order of creation */
    int64_t *free;        /* (K_max N,) the first counts[FREE] are free slots, the last goes first */
    int64_t *counts;      /* (COUNTS,) */
} Memory;

enum { ITEMS, SPARE, EVICTED, TURNED_AWAY, POOL_COUNTS };

typedef struct {
    int64_t capacity, classes;
    double quota, doubt_weight, log_classes;
    const double *timely; /* as above */
    int64_t oldest;
    double *doubts;   /* (N,) uncertainty of the items, in any order */
    int64_t *arrived; /* (N,) their indices in the stream */
    int64_t *labels;  /* (N,) -1: unknown */
    int64_t *slots;   /* (N,) of their images */
    int64_t *free;    /* (N,) as above */
    int64_t *counts;  /* (POOL_COUNTS,) */
} Pool;

typedef struct { /* a batch of B samples, in stream order */
    int64_t size;
    const double *points;      /* (B, D); not for pools */
    const double *uncertainty; /* (B,) */
    const int64_t *labels;     /* (B,) */
    const int64_t *doubtful;   /* (B,) whose label is in doubt, so that nobody leaves; not for pools */
    int64_t serial, now;       /* of the first sample */
    int by_call;               /* all have the same index */
} Batch;

/* Take in a batch. Write slots, then from B on the rows whose images go there; return how many, or
 * -1 for want of memory, and nothing has changed then. */
int64_t clusters_take(const Memory *m, const Batch *batch, int64_t *written);
int64_t pool_take(const Pool *pool, const Batch *batch, int64_t *written);

/* Write slots and rows of the images that are to be stored, given the slot of each sample of a
 * batch or -1, in the first B numbers of ``written``; return how many. A later one goes over an
 * earlier one in the same slot. ``row_of``: room for a number a slot. */
int64_t last_ones(int64_t *written, int64_t size, int64_t *row_of, int64_t slots);

#endif
