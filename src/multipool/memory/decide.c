/* The door to compiled decisions: Python's arguments are read and checked here, and the rules are in
 * clusters.c and single.c. Nothing is kept between calls: the caller's arrays are the state. They are
 * changed in place, once all of them were found to have the length that the options say.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "decide.h"

int64_t last_ones(int64_t *written, int64_t size, int64_t *row_of, int64_t slots)
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

/* Whether buffers hold as many numbers of 8 bytes as they should. */
static int fit(const Py_buffer *buffers, const int64_t *numbers, int count)
{
    for (int k = 0; k < count; k++)
        if (buffers[k].len != numbers[k] * 8)
            return 0;
    return 1;
}

static int within(int64_t value, int64_t low, int64_t high) { return value >= low && value <= high; }

/* Release the buffers; return how many images are to be written, or the error. */
static PyObject *answer(Py_buffer *buffers, int count, int fits, int64_t written)
{
    for (int k = 0; k < count; k++)
        PyBuffer_Release(buffers + k);
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the memory's arrays do not fit its options");
        return NULL;
    }
    return written < 0 ? PyErr_NoMemory() : PyLong_FromLongLong(written);
}

static PyObject *clusters(PyObject *module, PyObject *args)
{
    enum { TIMELY, REAL, WHOLE, SUMS, TABLE, SLOTS, COUNT, POINTS, DOUBTS, MARKS, DOUBTFUL, WRITTEN,
           ALL };
    Memory m;
    Batch batch;
    Py_buffer b[ALL];
    long long capacity, most, width, quota, classes, serial, now;
    (void)module;
    if (!PyArg_ParseTuple(
            args, "(LLLLpppdddd)Ly*w*w*w*w*w*w*y*y*y*y*w*LLp", &capacity, &most, &quota, &classes,
            &m.gated, &m.if_worse, &m.age_alone, &m.threshold, &m.doubt_weight, &m.log_classes,
            &m.distance_weight, &width, b, b + 1, b + 2, b + 3, b + 4, b + 5, b + 6, b + 7, b + 8,
            b + 9, b + 10, b + 11, &serial, &now, &batch.by_call))
        return NULL;
    m.capacity = capacity, m.most = most, m.width = width, m.quota = quota, m.classes = classes;
    m.timely = b[TIMELY].buf, m.oldest = b[TIMELY].len / 8 - 1;
    m.real = b[REAL].buf, m.whole = b[WHOLE].buf, m.sums = b[SUMS].buf;
    m.clusters = b[TABLE].buf, m.free = b[SLOTS].buf, m.counts = b[COUNT].buf;
    batch.points = b[POINTS].buf, batch.uncertainty = b[DOUBTS].buf, batch.labels = b[MARKS].buf;
    batch.doubtful = b[DOUBTFUL].buf;
    batch.size = b[MARKS].len / 8, batch.serial = serial, batch.now = now;
    int64_t slots = most * capacity, written = 0;
    int64_t numbers[ALL] = {
        m.oldest + 1, slots * (width + 2), slots * WHOLES, most * 2 * width, most * 4, slots,
        COUNTS, batch.size * width, batch.size, batch.size, batch.size, 2 * batch.size,
    };
    int fits = most > 0 && capacity > 0 && width > 0 && m.oldest >= 0 && fit(b, numbers, ALL);
    fits = fits && within(m.counts[CLUSTERS], 0, most) && within(m.counts[FREE], 0, slots);
    if (fits)
        written = clusters_take(&m, &batch, b[WRITTEN].buf);
    return answer(b, ALL, fits, written);
}

static PyObject *pool(PyObject *module, PyObject *args)
{
    enum { TIMELY, HELD, ARRIVED, LABELS, PLACES, SLOTS, COUNT, DOUBTS, MARKS, WRITTEN, ALL };
    Pool p;
    Batch batch = {0};
    Py_buffer b[ALL];
    long long capacity, classes, now;
    (void)module;
    if (!PyArg_ParseTuple(
            args, "(LLddd)y*w*w*w*w*w*w*y*y*w*L", &capacity, &classes, &p.quota, &p.doubt_weight,
            &p.log_classes, b, b + 1, b + 2, b + 3, b + 4, b + 5, b + 6, b + 7, b + 8, b + 9, &now))
        return NULL;
    p.capacity = capacity, p.classes = classes;
    p.timely = b[TIMELY].buf, p.oldest = b[TIMELY].len / 8 - 1;
    p.doubts = b[HELD].buf, p.arrived = b[ARRIVED].buf, p.labels = b[LABELS].buf;
    p.slots = b[PLACES].buf, p.free = b[SLOTS].buf, p.counts = b[COUNT].buf;
    batch.uncertainty = b[DOUBTS].buf, batch.labels = b[MARKS].buf;
    batch.size = b[MARKS].len / 8, batch.now = now;
    int64_t written = 0;
    int64_t numbers[ALL] = {
        p.oldest + 1, capacity, capacity, capacity, capacity, capacity, POOL_COUNTS, batch.size,
        batch.size, 2 * batch.size,
    };
    int fits = capacity > 0 && classes > 0 && p.oldest >= 0 && fit(b, numbers, ALL);
    fits = fits && within(p.counts[ITEMS], 0, capacity)
           && p.counts[SPARE] == capacity - p.counts[ITEMS];
    if (fits)
        written = pool_take(&p, &batch, b[WRITTEN].buf);
    return answer(b, ALL, fits, written);
}

static PyMethodDef methods[] = {
    {"clusters", clusters, METH_VARARGS, "Take a batch into a multi-cluster memory."},
    {"pool", pool, METH_VARARGS, "Take a batch into a class-balanced pool."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "multipool.memory._decide", .m_size = 0, .m_methods = methods,
};

PyMODINIT_FUNC PyInit__decide(void) { return PyModuleDef_Init(&definition); }
