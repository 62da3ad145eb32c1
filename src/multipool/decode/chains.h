/* What chains.c and order.c share: sums added as numpy adds them. */
#ifndef MULTIPOOL_CHAINS_H
#define MULTIPOOL_CHAINS_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#if defined(__GNUC__) && defined(__x86_64__)
#define ALWAYS static inline __attribute__((always_inline))
#define WIDE __attribute__((target("avx"))) /* registers for four, which most have but not all */
#define HAS_WIDE __builtin_cpu_supports("avx")
#else
#define ALWAYS static inline
#define WIDE
#define HAS_WIDE 0
#endif

/* The sum of up to 128 products, in numpy's order: eight running sums. Without b, of a alone. */
ALWAYS double sum_few(const double *a, const double *b, int64_t count)
{
    double r[8], sum = 0.0;
    int64_t i = 8;
    if (count < 8) {
        for (i = 0; i < count; i++)
            sum += b ? a[i] * b[i] : a[i];
        return sum;
    }
    for (int k = 0; k < 8; k++)
        r[k] = b ? a[k] * b[k] : a[k];
    for (; i < count - count % 8; i += 8)
        for (int k = 0; k < 8; k++)
            r[k] += b ? a[i + k] * b[i + k] : a[i + k];
    sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < count; i++)
        sum += b ? a[i] * b[i] : a[i];
    return sum;
}

/* The same of any number: halves beyond 128. */
static inline double sum_many(const double *a, const double *b, int64_t count)
{
    if (count <= 128)
        return sum_few(a, b, count);
    int64_t half = count / 2;
    half -= half % 8;
    return sum_many(a, b, half) + sum_many(a + half, b ? b + half : NULL, count - half);
}

ALWAYS double sum_product(const double *a, const double *b, int64_t count)
{
    return count <= 128 ? sum_few(a, b, count) : sum_many(a, b, count);
}

ALWAYS double sum_alone(const double *a, int64_t count)
{
    return count <= 128 ? sum_few(a, NULL, count) : sum_many(a, NULL, count);
}

ALWAYS int is_float64(const Py_buffer *b)
{
    const char *format = b->format;
    return b->itemsize == 8 && format && format[0] == 'd' && !format[1] && !((uintptr_t)b->buf % 8);
}

/* Whether two arrays share memory. */
ALWAYS int overlap(const Py_buffer *a, const Py_buffer *b)
{
    const char *one = a->buf, *other = b->buf;
    return one < other + b->len && other < one + a->len;
}

/* Python's compare, in order.c. */
PyObject *compare(PyObject *module, PyObject *args);

#endif
