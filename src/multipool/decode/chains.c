/* The faster equal of predict in chains.py: the same operations in the same order, and sums added as
 * numpy adds them. Nothing is kept between calls. Arguments are checked before anything is written.
 */
#include "chains.h"

#define CHAINS_VERSION 3 /* as in compiled.py */

enum { EMISSIONS, HEAT, BEFORE, STAY, PRIOR, EVIDENCE, ARRAYS };

static const char *const names[ARRAYS] = {
    "emissions", "heat", "before", "stay", "prior", "evidence",
};
static const int axes[ARRAYS] = {3, 1, 3, 1, 3, 2};

typedef struct {
    int64_t size, heats, chains, classes, lag;
    int backwards;
    const double *emissions, *before, *stay;
    const int64_t *heat;
    double *prior, *evidence;
} Bank;

/* One chain at one sample: its prior from the posterior a lag before, and its evidence. */
ALWAYS void step(const Bank *k, int64_t turn, int64_t g)
{
    int64_t t = k->backwards ? k->size - 1 - turn : turn;
    int64_t from = k->backwards ? t + k->lag : t - k->lag, wide = k->classes;
    const double *now = k->emissions + (t * k->heats + k->heat[g]) * wide;
    double *restrict prior = k->prior + (t * k->chains + g) * wide;
    double rho = k->stay[g], rest = (1 - rho) / (double)wide;
    if (turn < k->lag) {
        const double *before = k->before + (turn * k->chains + g) * wide;
        for (int64_t y = 0; y < wide; y++)
            prior[y] = before[y] * rho + rest;
    } else {
        const double *then = k->emissions + (from * k->heats + k->heat[g]) * wide;
        const double *past = k->prior + (from * k->chains + g) * wide;
        double total = k->evidence[from * k->chains + g];
        for (int64_t y = 0; y < wide; y++)
            prior[y] = (past[y] * then[y]) / total * rho + rest;
    }
    k->evidence[t * k->chains + g] = sum_product(prior, now, wide);
}

ALWAYS void all_steps(const Bank *k)
{
    for (int64_t turn = 0; turn < k->size; turn++)
        for (int64_t g = 0; g < k->chains; g++)
            step(k, turn, g);
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

static int is_kind(const Py_buffer *b, int array)
{
    const char *format = b->format;
    if (b->itemsize != 8 || !format || !format[0] || format[1] || (uintptr_t)b->buf % 8)
        return 0;
    return array == HEAT ? format[0] == 'l' || format[0] == 'q' : format[0] == 'd';
}

/* Take hold of all arrays of the right kind; return how many, with an error set if not all. */
static int hold(PyObject **objects, Py_buffer *b)
{
    for (int k = 0; k < ARRAYS; k++) {
        int flags = PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (k >= PRIOR ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(objects[k], b + k, flags))
            return k;
        if (b[k].ndim != axes[k] || !is_kind(b + k, k)) {
            PyErr_Format(
                PyExc_ValueError, "%s must be an aligned %s array with %d axes", names[k],
                k == HEAT ? "int64" : "float64", axes[k]);
            return k + 1;
        }
    }
    return ARRAYS;
}

static int shaped(const Py_buffer *b, int64_t first, int64_t second, int64_t third)
{
    return b->shape[0] == first && (b->ndim < 2 || b->shape[1] == second)
           && (b->ndim < 3 || b->shape[2] == third);
}

/* What is wrong with the arguments, or NULL; what passes keeps every index inside its array. */
static const char *wrong(const Bank *k, const Py_buffer *b)
{
    if (k->size < 1 || k->heats < 1 || k->classes < 1 || k->chains < 1 || k->lag < 1)
        return "there must be a sample, a class, a chain and a lag of at least 1";
    if (!shaped(b + BEFORE, k->lag, k->chains, k->classes)
        || !shaped(b + STAY, k->chains, 0, 0) || !shaped(b + EVIDENCE, k->size, k->chains, 0)
        || !shaped(b + PRIOR, k->size, k->chains, k->classes))
        return "the shapes of the arrays do not fit each other";
    for (int64_t g = 0; g < k->chains; g++)
        if (k->heat[g] < 0 || k->heat[g] >= k->heats)
            return "heat must say which of the emissions";
    for (int i = PRIOR; i < ARRAYS; i++)
        for (int j = 0; j < ARRAYS; j++) {
            if (i != j && overlap(b + i, b + j))
                return "an array to be written shares its memory with another one";
        }
    return NULL;
}

static PyObject *run(const Py_buffer *b, long long lag, int backwards)
{
    const Py_ssize_t *shape = b[EMISSIONS].shape;
    Bank k = {
        shape[0], shape[1], b[HEAT].shape[0], shape[2], lag, backwards, b[EMISSIONS].buf,
        b[BEFORE].buf, b[STAY].buf, b[HEAT].buf, b[PRIOR].buf, b[EVIDENCE].buf,
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
    long long lag;
    int backwards;
    (void)module;
    if (!PyArg_ParseTuple(
            args, "OOOOLpOO:predict", o, o + 1, o + 2, o + 3, &lag, &backwards, o + 4, o + 5))
        return NULL;
    int held = hold(o, b);
    if (!PyErr_Occurred())
        answer = run(b, lag, backwards);
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
    {"predict", predict, METH_VARARGS, "Fill prior and evidence of a bank of chains."},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject *module) { return PyModule_AddIntConstant(module, "VERSION", CHAINS_VERSION); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "multipool.decode._chains", .m_size = 0,
    .m_methods = methods, .m_slots = slots,
};

PyMODINIT_FUNC PyInit__chains(void) { return PyModuleDef_Init(&definition); }
