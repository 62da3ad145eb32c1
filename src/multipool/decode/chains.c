/* The faster equal of predict in chains.py: the same operations in the same order, and sums added as
 * numpy adds them. Nothing is kept between calls. Arguments are checked before anything is written.
 */
#include "chains.h"

#define CHAINS_VERSION 4 /* as in compiled.py */
#define MOST_KINDS 7     /* so many numpy adds up one after the other */
#define MOST_SLOTS 64

enum { EMISSIONS, BEFORE, SLOTS, STAY, BEGINS, PRIOR, SUMS, ARRAYS };

static const char *const names[ARRAYS] = {
    "emissions", "before", "slots", "stay", "begins", "prior", "sums",
};
static const int axes[ARRAYS] = {3, 4, 1, 1, 2, 4, 3};

typedef struct {
    int64_t size, heats, kinds, classes, slots;
    int backwards;
    const double *emissions, *before, *stay, *begins;
    const int64_t *slot;
    double *prior, *sums;
} Bank;

/* The share of runs that end at the sample before, whose sums over the classes these are. */
ALWAYS double ending(const Bank *k, const double *sums, double total)
{
    double sum = 0.0;
    for (int64_t kind = 0; kind < k->kinds; kind++)
        sum += sums[kind] / total * (1 - k->stay[kind]);
    return sum / (double)k->classes;
}

/* One chain at the first sample of a slot: its prior from the posterior before the batch. */
ALWAYS void first_step(const Bank *k, int64_t t, int64_t heat)
{
    int64_t wide = k->classes, from = (k->slot[t] * k->heats + heat) * k->kinds;
    int64_t place = (t * k->heats + heat) * k->kinds;
    double end = 0.0;
    for (int64_t kind = 0; kind < k->kinds; kind++)
        end += sum_alone(k->before + (from + kind) * wide, wide) * (1 - k->stay[kind]);
    end /= (double)wide;
    for (int64_t kind = 0; kind < k->kinds; kind++) {
        const double *before = k->before + (from + kind) * wide;
        double *restrict prior = k->prior + (place + kind) * wide;
        double rho = k->stay[kind], new = k->begins[heat * k->kinds + kind] * end;
        for (int64_t y = 0; y < wide; y++)
            prior[y] = before[y] * rho + new;
    }
}

/* One chain at one later sample: its prior from that of the sample it follows. */
ALWAYS void later_step(const Bank *k, int64_t from, int64_t t, int64_t heat)
{
    int64_t wide = k->classes, then = (from * k->heats + heat) * k->kinds;
    int64_t place = (t * k->heats + heat) * k->kinds;
    const double *seen = k->emissions + (from * k->heats + heat) * wide;
    double total = sum_alone(k->sums + then, k->kinds);
    double end = ending(k, k->sums + then, total);
    for (int64_t kind = 0; kind < k->kinds; kind++) {
        const double *past = k->prior + (then + kind) * wide;
        double *restrict prior = k->prior + (place + kind) * wide;
        double share = k->stay[kind] / total, new = k->begins[heat * k->kinds + kind] * end;
        for (int64_t y = 0; y < wide; y++)
            prior[y] = (past[y] * seen[y]) * share + new;
    }
}

ALWAYS void step(const Bank *k, int64_t from, int64_t t, int64_t heat)
{
    int64_t wide = k->classes;
    if (from < 0)
        first_step(k, t, heat);
    else
        later_step(k, from, t, heat);
    const double *now = k->emissions + (t * k->heats + heat) * wide;
    for (int64_t kind = 0; kind < k->kinds; kind++) {
        int64_t place = (t * k->heats + heat) * k->kinds + kind;
        k->sums[place] = sum_product(k->prior + place * wide, now, wide);
    }
}

ALWAYS void all_steps(const Bank *k)
{
    int64_t last[MOST_SLOTS];
    for (int64_t slot = 0; slot < k->slots; slot++)
        last[slot] = -1;
    for (int64_t turn = 0; turn < k->size; turn++) {
        int64_t t = k->backwards ? k->size - 1 - turn : turn;
        for (int64_t heat = 0; heat < k->heats; heat++)
            step(k, last[k->slot[t]], t, heat);
        last[k->slot[t]] = t;
    }
}

WIDE static void all_steps_wide(const Bank *k) { all_steps(k); }
static void all_steps_plain(const Bank *k) { all_steps(k); }

/* Sums of two powers of each of ``size`` rows, and of their squares, again and again. */
ALWAYS void all_sums(double *pair, double *found, int64_t size, int64_t wide, int64_t octaves)
{
    for (int64_t t = 0; t < size; t++) {
        double *half = pair + t * wide, *whole = pair + (size + t) * wide;
        found[t] = sum_alone(whole, wide);
        for (int64_t octave = 0; octave < octaves; octave++) {
            for (int64_t y = 0; y < wide; y++)
                whole[y] *= whole[y];
            found[(2 * octave + 1) * size + t] = sum_alone(half, wide);
            found[(2 * octave + 2) * size + t] = sum_alone(whole, wide);
            for (int64_t y = 0; y < wide; y++)
                half[y] *= half[y];
        }
    }
}

WIDE static void all_sums_wide(double *p, double *f, int64_t size, int64_t wide, int64_t octaves)
{
    all_sums(p, f, size, wide, octaves);
}

static void all_sums_plain(double *p, double *f, int64_t size, int64_t wide, int64_t octaves)
{
    all_sums(p, f, size, wide, octaves);
}

static int is_int64(const Py_buffer *b)
{
    const char *format = b->format;
    if (b->itemsize != 8 || !format || !format[0] || format[1] || (uintptr_t)b->buf % 8)
        return 0;
    return format[0] == 'l' || format[0] == 'q';
}

/* Take hold of all arrays of the right kind; return how many, with an error set if not all. */
static int hold(PyObject **objects, Py_buffer *b)
{
    for (int k = 0; k < ARRAYS; k++) {
        int flags = PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (k >= PRIOR ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(objects[k], b + k, flags))
            return k;
        if (b[k].ndim != axes[k] || !(k == SLOTS ? is_int64(b + k) : is_float64(b + k))) {
            PyErr_Format(
                PyExc_ValueError, "%s must be an aligned %s array with %d axes", names[k],
                k == SLOTS ? "int64" : "float64", axes[k]);
            return k + 1;
        }
    }
    return ARRAYS;
}

static int shaped(const Py_buffer *b, const int64_t *shape)
{
    for (int axis = 0; axis < b->ndim; axis++)
        if (b->shape[axis] != shape[axis])
            return 0;
    return 1;
}

/* What is wrong with the arguments, or NULL; what passes keeps every index inside its array. */
static const char *wrong(const Bank *k, const Py_buffer *b)
{
    if (k->kinds > MOST_KINDS)
        return "there are at most seven kinds of runs";
    if (k->size < 1 || k->heats < 1 || k->kinds < 1 || k->classes < 1)
        return "there must be a sample, a temperature, a kind and a class";
    if (k->slots < 1 || k->slots > MOST_SLOTS)
        return "there must be one to 64 slots";
    const int64_t before[] = {k->slots, k->heats, k->kinds, k->classes};
    const int64_t begins[] = {k->heats, k->kinds};
    const int64_t prior[] = {k->size, k->heats, k->kinds, k->classes};
    if (!shaped(b + BEFORE, before) || !shaped(b + BEGINS, begins) || !shaped(b + PRIOR, prior)
        || !shaped(b + SUMS, prior) || b[SLOTS].shape[0] != k->size)
        return "the shapes of the arrays do not fit each other";
    for (int64_t t = 0; t < k->size; t++)
        if (k->slot[t] < 0 || k->slot[t] >= k->slots)
            return "a sample's slot must be one of those before";
    for (int i = PRIOR; i < ARRAYS; i++)
        for (int j = 0; j < ARRAYS; j++) {
            if (i != j && overlap(b + i, b + j))
                return "an array to be written shares its memory with another one";
        }
    return NULL;
}

static PyObject *run(const Py_buffer *b, int backwards)
{
    const Py_ssize_t *shape = b[EMISSIONS].shape;
    Bank k = {
        shape[0], shape[1], b[STAY].shape[0], shape[2], b[BEFORE].shape[0], backwards,
        b[EMISSIONS].buf, b[BEFORE].buf, b[STAY].buf, b[BEGINS].buf, b[SLOTS].buf, b[PRIOR].buf,
        b[SUMS].buf,
    };
    const char *trouble = wrong(&k, b);
    if (trouble) {
        PyErr_SetString(PyExc_ValueError, trouble);
        return NULL;
    }
    (HAS_WIDE ? all_steps_wide : all_steps_plain)(&k);
    Py_RETURN_NONE;
}

static PyObject *predict(PyObject *module, PyObject *args)
{
    PyObject *o[ARRAYS], *answer = NULL;
    Py_buffer b[ARRAYS];
    int backwards;
    (void)module;
    if (!PyArg_ParseTuple(
            args, "OOOOOpOO:predict", o, o + 1, o + 2, o + 3, o + 4, &backwards, o + 5, o + 6))
        return NULL;
    int held = hold(o, b);
    if (!PyErr_Occurred())
        answer = run(b, backwards);
    for (int k = 0; k < held; k++)
        PyBuffer_Release(b + k);
    return answer;
}

/* Two arrays to be written: pairs (2, B, L) of powers, and sums (S, B) of them, S odd. */
static PyObject *sums(PyObject *module, PyObject *args)
{
    PyObject *o[2], *answer = NULL;
    Py_buffer b[2];
    int held = 0, flags = PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:sums", o, o + 1))
        return NULL;
    while (held < 2 && !PyObject_GetBuffer(o[held], b + held, flags))
        held++;
    if (held == 2) {
        if (b[0].ndim == 3 && b[1].ndim == 2 && is_float64(b) && is_float64(b + 1)
            && !overlap(b, b + 1) && b[0].shape[0] == 2 && b[0].shape[1] == b[1].shape[1] && b[1].shape[0] % 2) {
            int64_t size = b[0].shape[1], wide = b[0].shape[2], octaves = b[1].shape[0] / 2;
            (HAS_WIDE ? all_sums_wide : all_sums_plain)(b[0].buf, b[1].buf, size, wide, octaves);
            answer = Py_NewRef(Py_None);
        } else
            PyErr_SetString(
                PyExc_ValueError, "sums takes float64 arrays (2, B, L) and (S, B), S odd, apart");
    }
    while (held)
        PyBuffer_Release(b + --held);
    return answer;
}

static PyMethodDef methods[] = {
    {"compare", compare, METH_VARARGS, "Fill in what neighbours and strangers agree on."},
    {"sums", sums, METH_VARARGS, "Fill in sums of powers; the powers are used up."},
    {"predict", predict, METH_VARARGS, "Fill what is foretold of each sample, and its sums."},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject *module) { return PyModule_AddIntConstant(module, "VERSION", CHAINS_VERSION); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "multipool.decode._chains", .m_size = 0,
    .m_methods = methods, .m_slots = slots,
};

PyMODINIT_FUNC PyInit__chains(void) { return PyModuleDef_Init(&definition); }
