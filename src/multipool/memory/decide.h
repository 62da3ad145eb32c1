/* What the parts of the extension share. All arrays belong to the caller and are changed in place. */
#ifndef MULTIPOOL_DECIDE_H
#define MULTIPOOL_DECIDE_H

#include <float.h>
#include <stdint.h>

#if FLT_EVAL_METHOD != 0
#error "sums must be rounded to double one by one"
#endif

/* Raised with every change of what take() expects or does; switch.py refuses any other binary. */
#define DECIDE_VERSION 3

#define MOST_SLOTS ((int64_t)1 << 20)   /* K_max N, as in checks.py */
#define MOST_CLASSES ((int64_t)1 << 20) /* as in checks.py */
#define MOST_NUMBERS ((int64_t)1 << 20) /* D */
#define MOST_SEEN ((int64_t)1 << 53)    /* samples of a stream, as in checks.py */

enum { SPAWNED, MERGED, REPLACED, REJECTED, EVENTS }; /* as in compiled.py */

typedef struct {
    int64_t capacity, most, width; /* N, K_max, D */
    int64_t quota, classes;        /* quota 0: none; L */
    int gated, if_worse, age_alone;
    double threshold, doubt_weight, log_classes, distance_weight;
    const double *timely; /* (oldest + 1,) timeliness by age; beyond its end it does not grow */
    int64_t oldest;
    /* The holdings, as in holdings.py: samples by slot of their image, S = K_max N, */
    double *points;      /* (S, D) descriptors */
    double *uncertainty; /* (S,) */
    int64_t *serials;    /* (S,) */
    int64_t *indices;    /* (S,) in the stream: the serial number, or the number of the call */
    int64_t *labels;     /* (S,) -1: unknown */
    /* and clusters in order of creation. */
    int64_t *count;     /* (1,) how many there are */
    int64_t *sizes;     /* (K_max,) */
    int64_t *created;   /* (K_max,) */
    int64_t *last_used; /* (K_max,) */
    int64_t *members;   /* (K_max, N) slots, in any order */
    double *totals;     /* (K_max, D) sums of the descriptors */
    int64_t *events;    /* (EVENTS,) counted up */
} Memory;

typedef struct { /* a batch of B samples, in stream order */
    int64_t size;
    const double *points;      /* (B, D) */
    const double *uncertainty; /* (B,) */
    const int64_t *labels;     /* (B,) */
    const int64_t *doubtful;   /* (B,) whose label is in doubt, so that nobody leaves */
    int64_t serial, now;       /* of the first sample */
    int by_call;               /* all have the same index */
} Batch;

typedef struct { /* one member of a union of two clusters */
    double uncertainty;
    int64_t serial, slot;
} Entry;

typedef struct { /* room for decisions, made before anything changes */
    int64_t *free;   /* (S,) the first ``spare`` are free slots, the last goes first */
    int64_t spare;
    int64_t *row_of; /* (S,) */
    Entry *entries;  /* (2N,) */
    int64_t *seen;   /* (L,) zeros, with a quota */
    double *centre;  /* (2, D) */
} Scratch;

/* Return what is wrong with the contents, or NULL; ``room->free`` is filled on the way. O(S + B). */
const char *wrong_options(const Memory *m);
const char *wrong_contents(const Memory *m, const Batch *batch, Scratch *room);

/* Take in a batch of sound contents. Write slots, then from B on the rows whose images go there;
 * return how many. */
int64_t take_batch(const Memory *m, Scratch *room, const Batch *batch, int64_t *written);

/* Merge a cluster with the next one. */
void merge(const Memory *m, Scratch *room, int64_t first);

#endif
