/* What the compiled loops share: how arrays come in, and which processors a loop is compiled for. */

#ifndef POSTRAND_LOOPS_H
#define POSTRAND_LOOPS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

/* On x86, loops over records are compiled for several processors; the right one is taken when the library is loaded.
   Loads from tables become gathers there: a draw takes 0.7 to 1.2 ns instead of 1.2 to 2, a digit 0.2 instead of 0.5.
   GCC knows the levels of x86-64 from 12 on: they narrow codes in fewer steps than AVX-512F alone (0.7 instead of 0.9). */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__)
#if __GNUC__ >= 12 && !defined(__clang__)
#define FOR_SEVERAL_PROCESSORS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_SEVERAL_PROCESSORS __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
/* Of floating-point loops every result has to be the same bits: without processors that add what they multiply at once. */
#define FOR_WIDE_NUMBERS __attribute__((target_clones("avx2", "default")))
#else
#define FOR_SEVERAL_PROCESSORS
#define FOR_WIDE_NUMBERS
#endif

typedef struct {
    int place;          /* among the arguments */
    const char *name;
    const char *kinds;  /* what it may hold: the buffer protocol's letters */
    int dimensions;
    int written;
} Array;

#define UINT64 "LQ"     /* the letter depends on the platform; the width is checked as well */
#define INT64 "lq"
#define INT32 "il"
#define CODES "bhilq"
#define DOUBLE "d"
#define BYTES "B"

static void leave(Py_buffer *views, int count) {
    while (count--)
        PyBuffer_Release(&views[count]);
}

static Py_ssize_t width_of(const char *kinds) { return strcmp(kinds, BYTES) == 0 ? 1 : strcmp(kinds, INT32) ? 8 : 4; }

/* Open the buffers of `count` arrays; on failure none is open, and an exception is set. */
static int enter(PyObject *const *arguments, const Array *wanted, int count, Py_buffer *views) {
    for (int i = 0; i < count; i++) {
        const Array *want = &wanted[i];
        Py_buffer *view = &views[i];
        const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (want->written ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(arguments[want->place], view, flags) < 0) {
            leave(views, i);
            return -1;
        }
        const char *kind = view->format ? view->format : "B";
        const int fits = kind[0] && !kind[1] && strchr(want->kinds, kind[0]) && view->ndim == want->dimensions
                         && (strcmp(want->kinds, CODES) == 0 || view->itemsize == width_of(want->kinds));
        if (!fits) {
            PyErr_Format(PyExc_TypeError, "%s: %d dimensions of type '%s'; wanted: %d of one of '%s'", want->name,
                         view->ndim, kind, want->dimensions, want->kinds);
            leave(views, i + 1);
            return -1;
        }
    }
    return 0;
}

static int refuse(const char *what) {
    PyErr_SetString(PyExc_ValueError, what);
    return -1;
}

static int counted(Py_ssize_t given, Py_ssize_t wanted) {
    if (given == wanted)
        return 0;
    PyErr_Format(PyExc_TypeError, "%zd arguments; wanted: %zd", given, wanted);
    return -1;
}

/* Call the loop of the type that a buffer of codes has; the arguments may use the name T for it. */
#define FOR_TYPE(itemsize, loop, ...)                                                                                  \
    switch (itemsize) {                                                                                                \
    case 1: { typedef int8_t T; loop##_int8_t(__VA_ARGS__); break; }                                                   \
    case 2: { typedef int16_t T; loop##_int16_t(__VA_ARGS__); break; }                                                 \
    case 4: { typedef int32_t T; loop##_int32_t(__VA_ARGS__); break; }                                                 \
    default: { typedef int64_t T; loop##_int64_t(__VA_ARGS__); break; }                                                \
    }

/* The loops of _risk_loops.c. */
PyObject *scale_and_sum(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *wildcard_matches(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *leverage(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *sum_products(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *move_codes(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *permanents(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *match_draws(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

/* The loops of _text_loops.c. */
PyObject *match_texts(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *end_texts(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *copy_texts(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
