/* The extension's one function: arguments are read and checked here, and the rules are in clusters.c
 * and merge.c. Nothing is kept between calls: the caller's arrays are the state. They are changed in
 * place, once type, shape and contents of all of them were found to be sound.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>

#include "decide.h"

enum {
    TIMELY, POINTS, UNCERTAINTY, SERIALS, INDICES, LABELS, COUNT, SIZES, CREATED, LAST_USED,
    MEMBERS, TOTALS, NEW_POINTS, NEW_UNCERTAINTY, NEW_LABELS, DOUBTFUL, COUNTED, WRITTEN, ARRAYS
};

typedef struct {
    const char *name;
    int real, writable; /* float64, else int64 */
    int64_t rows, columns; /* rows -1: any number of them; columns 0: one axis */
} Expected;

static int is_kind(const Py_buffer *b, int real)
{
    const char *format = b->format;
    if (b->itemsize != 8 || !format || !format[0] || format[1])
        return 0;
    return real ? format[0] == 'd' : format[0] == 'l' || format[0] == 'q';
}

static int has_shape(const Py_buffer *b, const Expected *e)
{
    if (b->ndim != (e->columns ? 2 : 1) || (e->columns && b->shape[1] != e->columns))
        return 0;
    return e->rows < 0 || b->shape[0] == e->rows;
}

/* Whether an array that is written to shares memory with another one. */
static const char *shared(const Py_buffer *b, const Expected *expected)
{
    for (int i = 0; i < ARRAYS; i++)
        for (int j = 0; expected[i].writable && j < ARRAYS; j++) {
            const char *one = b[i].buf, *other = b[j].buf;
            if (i != j && one < other + b[j].len && other < one + b[i].len)
                return expected[i].name;
        }
    return NULL;
}

/* Take hold of all arrays that are as expected; return how many, with an error set if not all. */
static int hold(PyObject **objects, const Expected *expected, Py_buffer *b)
{
    for (int k = 0; k < ARRAYS; k++) {
        int flags = PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (expected[k].writable ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(objects[k], b + k, flags))
            return k;
        int aligned = (uintptr_t)b[k].buf % 8 == 0;
        if (!is_kind(b + k, expected[k].real) || !has_shape(b + k, expected + k) || !aligned) {
            PyErr_Format(
                PyExc_ValueError, "%s must be an aligned %s array of the shape that the options say",
                expected[k].name, expected[k].real ? "float64" : "int64");
            return k + 1;
        }
    }
    const char *name = shared(b, expected);
    if (name)
        PyErr_Format(PyExc_ValueError, "%s shares its memory with another array", name);
    return ARRAYS;
}

static void point_to(Memory *m, Batch *batch, const Py_buffer *b)
{
    m->timely = b[TIMELY].buf, m->oldest = b[TIMELY].shape[0] - 1;
    m->points = b[POINTS].buf, m->uncertainty = b[UNCERTAINTY].buf;
    m->serials = b[SERIALS].buf, m->indices = b[INDICES].buf, m->labels = b[LABELS].buf;
    m->count = b[COUNT].buf, m->sizes = b[SIZES].buf, m->created = b[CREATED].buf;
    m->last_used = b[LAST_USED].buf, m->members = b[MEMBERS].buf;
    m->totals = b[TOTALS].buf, m->events = b[COUNTED].buf;
    batch->size = b[NEW_LABELS].shape[0];
    batch->points = b[NEW_POINTS].buf, batch->uncertainty = b[NEW_UNCERTAINTY].buf;
    batch->labels = b[NEW_LABELS].buf, batch->doubtful = b[DOUBTFUL].buf;
}

static int prepare(const Memory *m, Scratch *room)
{
    size_t slots = (size_t)(m->most * m->capacity), classes = (size_t)(m->quota ? m->classes : 1);
    room->free = malloc(slots * sizeof(int64_t));
    room->row_of = malloc(slots * sizeof(int64_t));
    room->entries = malloc(2 * (size_t)m->capacity * sizeof(Entry));
    room->seen = calloc(classes, sizeof(int64_t));
    room->centre = malloc(2 * (size_t)m->width * sizeof(double));
    return room->free && room->row_of && room->entries && room->seen && room->centre;
}

static void dispose(Scratch *room)
{
    free(room->free), free(room->row_of), free(room->entries), free(room->seen), free(room->centre);
}

static PyObject *decide(const Memory *m, const Batch *batch, int64_t *written)
{
    Scratch room;
    PyObject *answer = NULL;
    if (!prepare(m, &room)) {
        PyErr_NoMemory();
    } else {
        const char *wrong = m->oldest < 0 ? "timeliness needs an age" : NULL;
        wrong = wrong ? wrong : wrong_contents(m, batch, &room);
        if (wrong)
            PyErr_SetString(PyExc_ValueError, wrong);
        else
            answer = PyLong_FromLongLong(take_batch(m, &room, batch, written));
    }
    dispose(&room);
    return answer;
}

static PyObject *take(PyObject *module, PyObject *args)
{
    Memory m;
    Batch batch;
    PyObject *o[ARRAYS], *answer = NULL;
    Py_buffer b[ARRAYS];
    long long capacity, most, width, quota, classes, serial, now;
    (void)module;
    if (!PyArg_ParseTuple(
            args, "(LLLLpppdddd)LOOOOOOOOOOOOOOOOOOLLp:take", &capacity, &most, &quota, &classes,
            &m.gated, &m.if_worse, &m.age_alone, &m.threshold, &m.doubt_weight, &m.log_classes,
            &m.distance_weight, &width, o, o + 1, o + 2, o + 3, o + 4, o + 5, o + 6, o + 7, o + 8,
            o + 9, o + 10, o + 11, o + 12, o + 13, o + 14, o + 15, o + 16,
            o + 17, &serial, &now, &batch.by_call))
        return NULL;
    m.capacity = capacity, m.most = most, m.width = width, m.quota = quota, m.classes = classes;
    batch.serial = serial, batch.now = now;
    const char *wrong = wrong_options(&m);
    if (wrong) {
        PyErr_SetString(PyExc_ValueError, wrong);
        return NULL;
    }
    Py_ssize_t size = PyObject_Size(o[NEW_LABELS]);
    if (size < 1) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a batch must have at least one sample");
        return NULL;
    }
    int64_t slots = most * capacity;
    const Expected expected[ARRAYS] = {
        {"timely", 1, 0, -1, 0}, {"points", 1, 1, slots, width}, {"uncertainty", 1, 1, slots, 0},
        {"serials", 0, 1, slots, 0}, {"indices", 0, 1, slots, 0}, {"labels", 0, 1, slots, 0},
        {"count", 0, 1, 1, 0}, {"sizes", 0, 1, most, 0}, {"created", 0, 1, most, 0},
        {"last_used", 0, 1, most, 0}, {"members", 0, 1, most, capacity},
        {"totals", 1, 1, most, width}, {"new points", 1, 0, size, width},
        {"new uncertainty", 1, 0, size, 0}, {"new labels", 0, 0, size, 0},
        {"doubtful", 0, 0, size, 0}, {"counted", 0, 1, EVENTS, 0}, {"written", 0, 1, 2, size},
    };
    int held = hold(o, expected, b);
    if (!PyErr_Occurred()) {
        point_to(&m, &batch, b);
        answer = decide(&m, &batch, b[WRITTEN].buf);
    }
    for (int k = 0; k < held; k++)
        PyBuffer_Release(b + k);
    return answer;
}

static PyMethodDef methods[] = {
    {"take", take, METH_VARARGS, "Take a batch into a multi-cluster memory."},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject *module) { return PyModule_AddIntConstant(module, "VERSION", DECIDE_VERSION); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "multipool.memory._decide", .m_size = 0, .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__decide(void) { return PyModuleDef_Init(&definition); }
