/* The faster equal of what order.py says of neighbours, bit for bit. Nothing is kept between calls,
 * and arguments are checked before anything is written.
 */
#include "chains.h"

#include <stdlib.h>

#define AGREE 0.8 /* as in order.py */

enum { SAME, FIRST, KEPT, MATCH, NEAR, TERMS, COMPARED };

typedef struct {
    int64_t size, past, lags, strangers, fewest, unknown;
    double scale, even, agree;
    const double *same, *first, *shares;
    double *match, *near, *terms, *row;
} Comparison;

/* What order.py says of a batch's neighbours and strangers, sample by sample. */
static void compare_all(const Comparison *c)
{
    for (int64_t t = 0; t < c->size; t++) {
        const double *same = c->same + t * (c->past + c->size);
        double *near = c->near + t * c->lags, *more = c->terms + t * 5 * c->lags;
        double *squares = more + c->lags, *most = squares + c->lags, *apart = most + c->lags;
        c->row[0] = c->first[t];
        for (int64_t s = 0; s < c->size; s++)
            c->row[s + 1] = same[c->past + s];
        c->match[t] = c->scale * sum_product(c->shares + t * (c->size + 1), c->row, c->size + 1)
                      + c->even;
        int64_t oldest = t > c->unknown ? t : c->unknown; /* of the strangers that there are */
        int64_t count = t + c->strangers - oldest, judged = count >= c->fewest;
        double strange = judged ? sum_alone(same + oldest, count) / (double)count : 0.0;
        for (int64_t k = 0; k < c->lags; k++) {
            double one = same[c->past + t - k - 1];
            near[k] = c->agree * one + (1 - AGREE);
            more[k] = judged ? one - strange : 0.0;
            most[k] = judged ? same[c->past + t] - strange : 0.0;
        }
        double mean = sum_alone(more, c->lags) / (double)c->lags;
        for (int64_t k = 0; k < c->lags; k++) {
            squares[k] = more[k] * more[k];
            apart[k] = more[k] - mean;
            apart[c->lags + k] = apart[k] * apart[k];
        }
    }
}

/* Whether the arrays fit each other; what fits keeps every index inside its array. */
static int comparable(const Comparison *c, const Py_buffer *b)
{
    static const int ndim[COMPARED] = {2, 1, 2, 1, 2, 3};
    for (int i = 0; i < COMPARED; i++)
        if (b[i].ndim != ndim[i] || !is_float64(b + i))
            return 0;
    for (int i = MATCH; i < COMPARED; i++)
        for (int j = 0; j < COMPARED; j++)
            if (i != j && overlap(b + i, b + j))
                return 0;
    const Py_ssize_t *terms = b[TERMS].shape;
    return c->past > 0 && c->strangers > 0 && c->strangers <= c->past && c->fewest > 0
           && c->unknown >= 0 && c->unknown <= c->past
           && b[SAME].shape[1] - b[SAME].shape[0] == c->past && b[FIRST].shape[0] == b[SAME].shape[0]
           && b[KEPT].shape[0] >= b[SAME].shape[0] && b[KEPT].shape[1] == b[SAME].shape[0] + 1
           && b[MATCH].shape[0] == b[SAME].shape[0] && b[NEAR].shape[0] == b[SAME].shape[0]
           && b[NEAR].shape[1] > 0 && b[NEAR].shape[1] <= c->past && terms[0] == b[SAME].shape[0]
           && terms[1] == 5 && terms[2] == b[NEAR].shape[1];
}

PyObject *compare(PyObject *module, PyObject *args)
{
    PyObject *o[COMPARED], *answer = NULL;
    Py_buffer b[COMPARED];
    Comparison c = {0};
    long long past, strangers, fewest, unknown;
    int held = 0;
    (void)module;
    if (!PyArg_ParseTuple(
            args, "OOOLLLLdddOOO:compare", o, o + 1, o + 2, &past, &strangers, &fewest, &unknown,
            &c.scale, &c.even, &c.agree, o + 3, o + 4, o + 5))
        return NULL;
    while (held < COMPARED
           && !PyObject_GetBuffer(
               o[held], b + held,
               PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (held >= MATCH ? PyBUF_WRITABLE : 0)))
        held++;
    c.past = past, c.strangers = strangers, c.fewest = fewest, c.unknown = unknown;
    if (held == COMPARED && !comparable(&c, b))
        PyErr_SetString(PyExc_ValueError, "compare was given arrays that do not fit each other");
    else if (held == COMPARED) {
        c.size = b[SAME].shape[0], c.lags = b[NEAR].shape[1];
        c.same = b[SAME].buf, c.first = b[FIRST].buf, c.shares = b[KEPT].buf;
        c.match = b[MATCH].buf, c.near = b[NEAR].buf, c.terms = b[TERMS].buf;
        c.row = malloc((size_t)(c.size + 1) * sizeof(double));
        if (c.row) {
            compare_all(&c);
            answer = Py_NewRef(Py_None);
        } else
            PyErr_NoMemory();
        free(c.row);
    }
    while (held)
        PyBuffer_Release(b + --held);
    return answer;
}
