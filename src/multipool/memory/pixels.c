/* Passes over the pixels of a batch, each image read once: pixels.py says in numpy what they do.
 * Arrays belong to the caller; the interpreter runs on while pixels are read.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "products must be rounded to float one by one"
#endif

/* Raised with every change of what the functions expect or do; switch.py refuses any other binary. */
#define PIXELS_VERSION 1
#define LANES 32            /* sums beside each other: as many as two kinds of them fit in registers */
#define HALFWAY 12582912.0f /* 1.5 * 2^23: added and taken away, it rounds half to even */

/* One binary that uses wide registers where the processor has them; every number is the same. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) \
    && !defined(__SANITIZE_ADDRESS__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif

typedef struct {
    double sum, square;
} Moments;

/* Sums, sums of squares and 8-bit levels of `size` pixels; returns whether all lie in [0, 1]. */
WIDE static int look_at(const float *x, int64_t size, uint8_t *levels, Moments *found)
{
    double sums[LANES] = {0}, squares[LANES] = {0};
    int64_t whole = size - size % LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
        int outside = 0;
        for (int k = 0; k < LANES; k++)
            outside |= !((x[i + k] >= 0.0f) & (x[i + k] <= 1.0f));
        if (outside)
            return 0;
        for (int k = 0; k < LANES; k++) {
            double value = (double)x[i + k];
            sums[k] += value;
            squares[k] += value * value;
        }
        for (int k = 0; k < LANES; k++)
            levels[i + k] = (uint8_t)(int32_t)((x[i + k] * 255.0f + HALFWAY) - HALFWAY);
    }
    for (int64_t i = whole; i < size; i++) {
        if (!(x[i] >= 0.0f && x[i] <= 1.0f))
            return 0;
        double value = (double)x[i];
        sums[i - whole] += value;
        squares[i - whole] += value * value;
        levels[i] = (uint8_t)(int32_t)((x[i] * 255.0f + HALFWAY) - HALFWAY);
    }
    for (int half = LANES / 2; half; half /= 2)
        for (int k = 0; k < half; k++) {
            sums[k] += sums[k + half];
            squares[k] += squares[k + half];
        }
    found->sum = sums[0], found->square = squares[0];
    return 1;
}

/* Levels 0 to 255 as numbers in [0, 1], divided in float as everywhere. */
WIDE static void spread(const uint8_t *levels, int64_t size, float *x)
{
    for (int64_t i = 0; i < size; i++)
        x[i] = (float)levels[i] / 255.0f;
}

/* Take hold of an array of a kind, (rows, columns) or (rows,); -1 with an error set if it is not. */
static int hold(PyObject *object, Py_buffer *b, const char *name, char kind, int axes, int writable)
{
    if (PyObject_GetBuffer(object, b, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0)))
        return -1;
    const char *format = b->format ? b->format : "";
    int known = format[0] && !format[1]
                && (kind == 'q' ? (format[0] == 'l' || format[0] == 'q') && b->itemsize == 8
                                : format[0] == kind);
    if (!known || b->ndim != axes || (uintptr_t)b->buf % (uintptr_t)b->itemsize) {
        PyErr_Format(PyExc_ValueError, "%s must be an aligned array of kind %c with %d axes", name, kind, axes);
        PyBuffer_Release(b);
        return -1;
    }
    return 0;
}

/* look(pixels (R, n) float32, levels (R, n) uint8, moments (R, 2) float64) -> whether all in [0, 1] */
static PyObject *look(PyObject *module, PyObject *args)
{
    PyObject *o[3], *answer = NULL;
    Py_buffer x, levels, moments;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOO:look", o, o + 1, o + 2) || hold(o[0], &x, "pixels", 'f', 2, 0))
        return NULL;
    if (!hold(o[1], &levels, "levels", 'B', 2, 1)) {
        if (!hold(o[2], &moments, "moments", 'd', 2, 1)) {
            int64_t rows = x.shape[0], size = x.shape[1];
            if (levels.shape[0] != rows || levels.shape[1] != size || moments.shape[0] != rows
                || moments.shape[1] != 2) {
                PyErr_SetString(PyExc_ValueError, "levels and moments must be as long as pixels");
            } else {
                int inside = 1;
                Py_BEGIN_ALLOW_THREADS;
                for (int64_t row = 0; inside && row < rows; row++)
                    inside = look_at((const float *)x.buf + row * size, size,
                                     (uint8_t *)levels.buf + row * size, (Moments *)moments.buf + row);
                Py_END_ALLOW_THREADS;
                answer = PyBool_FromLong(inside);
            }
            PyBuffer_Release(&moments);
        }
        PyBuffer_Release(&levels);
    }
    PyBuffer_Release(&x);
    return answer;
}

/* Whether all rows are rows of an array that has `most` of them. */
static int sound(const int64_t *rows, int64_t count, int64_t most)
{
    for (int64_t k = 0; k < count; k++)
        if (rows[k] < 0 || rows[k] >= most)
            return 0;
    return 1;
}

/* read(levels (S, n) uint8, slots (M,) int64, pixels (M, n) float32): slots as numbers in [0, 1] */
static PyObject *read_slots(PyObject *module, PyObject *args)
{
    PyObject *o[3], *answer = NULL;
    Py_buffer levels, slots, x;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOO:read", o, o + 1, o + 2) || hold(o[0], &levels, "levels", 'B', 2, 0))
        return NULL;
    if (!hold(o[1], &slots, "slots", 'q', 1, 0)) {
        if (!hold(o[2], &x, "pixels", 'f', 2, 1)) {
            int64_t count = slots.shape[0], size = levels.shape[1];
            const int64_t *places = slots.buf;
            if (x.shape[0] != count || x.shape[1] != size) {
                PyErr_SetString(PyExc_ValueError, "pixels must have a row for every slot");
            } else if (!sound(places, count, levels.shape[0])) {
                PyErr_SetString(PyExc_ValueError, "slots must be slots of the memory");
            } else {
                Py_BEGIN_ALLOW_THREADS;
                for (int64_t k = 0; k < count; k++)
                    spread((const uint8_t *)levels.buf + places[k] * size, size, (float *)x.buf + k * size);
                Py_END_ALLOW_THREADS;
                answer = Py_NewRef(Py_None);
            }
            PyBuffer_Release(&x);
        }
        PyBuffer_Release(&slots);
    }
    PyBuffer_Release(&levels);
    return answer;
}

static PyMethodDef methods[] = {
    {"look", look, METH_VARARGS, "Describe float pixels and round them to 8 bits, in one pass."},
    {"read", read_slots, METH_VARARGS, "Return slots of 8-bit images as floats."},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject *module) { return PyModule_AddIntConstant(module, "VERSION", PIXELS_VERSION); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "multipool.memory._pixels", .m_size = 0, .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__pixels(void) { return PyModuleDef_Init(&definition); }
