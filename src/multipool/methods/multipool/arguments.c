/* gaussians.c for Python: arguments are checked before anything is written. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "gaussians.h"

#define GAUSSIANS_VERSION 1 /* as in gaussians.py */

enum { POINTS, STARTS, MEANS, SHARES, LIKELIHOODS, ARRAYS };

static const char *const names[ARRAYS] = {"points", "starts", "means", "shares", "likelihoods"};
static const int axes[ARRAYS] = {2, 2, 3, 1, 1};

/* Take hold of all arrays of the right kind; return how many, with an error set if not all. */
static int hold(PyObject **objects, Py_buffer *b)
{
    for (int k = 0; k < ARRAYS; k++) {
        int flags = PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (k >= MEANS ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(objects[k], b + k, flags))
            return k;
        const char *format = b[k].format;
        if (b[k].ndim != axes[k] || b[k].itemsize != 8 || !format || format[0] != 'd' || format[1]
            || (uintptr_t)b[k].buf % 8) {
            PyErr_Format(
                PyExc_ValueError, "%s must be an aligned float64 array with %d axes", names[k],
                axes[k]);
            return k + 1;
        }
    }
    return ARRAYS;
}

/* What is wrong with the arguments, or NULL; what passes keeps every index inside its array. */
static const char *wrong(const Fit *f, const Py_buffer *b)
{
    const Py_ssize_t *means = b[MEANS].shape;
    if (f->count < 2 || f->width < 1 || f->starts < 1)
        return "there must be two points, a dimension and a start";
    if (f->count > 1 << 20 || f->width > 1 << 12 || f->starts > 1 << 8)
        return "there are too many points, dimensions or starts";
    if (b[STARTS].shape[1] != f->count || means[0] != f->starts || means[1] != 2
        || means[2] != f->width || b[SHARES].shape[0] != f->starts
        || b[LIKELIHOODS].shape[0] != f->starts)
        return "the shapes of the arrays do not fit each other";
    for (int i = MEANS; i < ARRAYS; i++)
        for (int j = 0; j < ARRAYS; j++) {
            const char *one = b[i].buf, *other = b[j].buf;
            if (i != j && one < other + b[j].len && other < one + b[i].len)
                return "an array to be written shares its memory with another one";
        }
    return NULL;
}

static PyObject *run(const Py_buffer *b)
{
    int64_t count = b[POINTS].shape[0], width = b[POINTS].shape[1];
    Fit f = {
        .count = count, .width = width, .starts = b[STARTS].shape[0],
        .rows = (count + BLOCK - 1) / BLOCK * BLOCK, .columns = (width + BLOCK - 1) / BLOCK * BLOCK,
        .points = b[POINTS].buf, .means = b[MEANS].buf, .shares = b[SHARES].buf,
        .likelihoods = b[LIKELIHOODS].buf,
    };
    const char *trouble = wrong(&f, b);
    int enough;
    if (trouble) {
        PyErr_SetString(PyExc_ValueError, trouble);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS; /* a search is for another thread, which should hold up nobody */
    enough = fit_from(&f, b[STARTS].buf);
    Py_END_ALLOW_THREADS;
    if (!enough)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *fit_all(PyObject *module, PyObject *args)
{
    PyObject *o[ARRAYS], *answer = NULL;
    Py_buffer b[ARRAYS];
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOO:fit", o, o + 1, o + 2, o + 3, o + 4))
        return NULL;
    int held = hold(o, b);
    if (!PyErr_Occurred())
        answer = run(b);
    for (int k = 0; k < held; k++)
        PyBuffer_Release(b + k);
    return answer;
}

static PyMethodDef methods[] = {
    {"fit", fit_all, METH_VARARGS, "Fit two Gaussians from each of several starts."},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject *module)
{
    return PyModule_AddIntConstant(module, "VERSION", GAUSSIANS_VERSION);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "multipool.methods.multipool._gaussians", .m_size = 0,
    .m_methods = methods, .m_slots = slots,
};

PyMODINIT_FUNC PyInit__gaussians(void) { return PyModuleDef_Init(&definition); }
