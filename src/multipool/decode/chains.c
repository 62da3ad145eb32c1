/* The faster equal of predict in chains.py: the same operations in the same order, and sums added as
 * numpy adds them. Nothing is kept between calls. Arguments are checked before anything is written.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#define CHAINS_VERSION 1 /* as in compiled.py */

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

/* The sum of a product, in numpy's order: eight running sums up to 128, and halves beyond. */
static double sum_product(const double *a, const double *b, int64_t count)
{
    if (count < 8) {
        double sum = 0.0;
        for (int64_t i = 0; i < count; i++)
            sum += a[i] * b[i];
        return sum;
    }
    if (count <= 128) {
        double r[8];
        int64_t i = 8;
        for (int k = 0; k < 8; k++)
            r[k] = a[k] * b[k];
        for (; i < count - count % 8; i += 8)
            for (int k = 0; k < 8; k++)
                r[k] += a[i + k] * b[i + k];
        double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
        for (; i < count; i++)
            sum += a[i] * b[i];
        return sum;
    }
    int64_t half = count / 2;
    half -= half % 8;
    return sum_product(a, b, half) + sum_product(a + half, b + half, count - half);
}

/* One chain at one sample: its prior from the posterior a lag before, and its evidence. */
static void step(const Bank *k, int64_t turn, int64_t g)
{
    int64_t t = k->backwards ? k->size - 1 - turn : turn;
    int64_t from = k->backwards ? t + k->lag : t - k->lag, wide = k->classes;
    const double *now = k->emissions + (t * k->heats + k->heat[g]) * wide;
    double *prior = k->prior + (t * k->chains + g) * wide;
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
            const char *one = b[i].buf, *other = b[j].buf;
            if (i != j && one < other + b[j].len && other < one + b[i].len)
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
    for (int64_t turn = 0; turn < k.size; turn++)
        for (int64_t g = 0; g < k.chains; g++)
            step(&k, turn, g);
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

static PyMethodDef methods[] = {
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
