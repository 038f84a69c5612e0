/* The compiled loops of risk: sweeps over a table and its margins, standard errors, wildcards, households, drawn
   matches.

   As in _loops.c: the same loops are in numba_loops.py, where they are explained; tests/test_loops.py compares the two.
   Here the numbers of cells are 32 bits wide, and are checked. Sums are added in the order that numba's have. */

#include "_loops.h"

#include <math.h>

/* ---- Tables and margins ---------------------------------------------------------------------------------------- */

/* Whether all numbers are those of one of `size` cells; numbers below zero are the largest without a sign. */
FOR_SEVERAL_PROCESSORS
static int within(const int32_t *restrict index, Py_ssize_t n, Py_ssize_t size) {
    uint32_t most = 0;
    for (Py_ssize_t i = 0; i < n; i++)
        most = (uint32_t)index[i] > most ? (uint32_t)index[i] : most;
    return !n || (Py_ssize_t)most < size;
}

static PyObject *ended(Py_buffer *views, int count) {
    leave(views, count);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

PyObject *scale_and_sum(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    static const Array wanted[] = {{0, "mu", DOUBLE, 1, 1},
                                   {1, "index", INT32, 1, 0},
                                   {2, "ratio", DOUBLE, 1, 0},
                                   {3, "next_index", INT32, 1, 0},
                                   {4, "out", DOUBLE, 1, 1}};
    Py_buffer views[5];
    if (counted(count, 5) < 0 || enter(arguments, wanted, 5, views) < 0)
        return NULL;
    const Py_ssize_t n = views[0].shape[0], sums = views[4].shape[0];
    double *restrict mu = views[0].buf, *restrict out = views[4].buf;
    const int32_t *index = views[1].buf, *next_index = views[3].buf;
    const double *ratio = views[2].buf;
    if (views[1].shape[0] != n || views[3].shape[0] != n || !within(index, n, views[2].shape[0])
        || !within(next_index, n, sums))
        refuse("each cell of the table has a cell of this margin and of the next");
    else {
        Py_BEGIN_ALLOW_THREADS
        memset(out, 0, (size_t)sums * sizeof *out);
        for (Py_ssize_t i = 0; i < n; i++) {
            const double value = mu[i] * ratio[index[i]];
            mu[i] = value;
            out[next_index[i]] += value;
        }
        Py_END_ALLOW_THREADS
    }
    return ended(views, 5);
}

static int agree(const int32_t *one, const int32_t *other, Py_ssize_t keys) {
    for (Py_ssize_t j = 0; j < keys; j++)
        if (one[j] != other[j] && one[j] >= 0 && other[j] >= 0)
            return 0;
    return 1;
}

PyObject *wildcard_matches(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    static const Array wanted[] = {{0, "codes", INT32, 2, 0}, {1, "counts", INT64, 1, 0}, {2, "matches", INT64, 1, 1}};
    Py_buffer views[3];
    if (counted(count, 3) < 0 || enter(arguments, wanted, 3, views) < 0)
        return NULL;
    const Py_ssize_t cells = views[0].shape[0], keys = views[0].shape[1];
    const int32_t *codes = views[0].buf;
    const int64_t *counts = views[1].buf;
    int64_t *matches = views[2].buf;
    if (views[1].shape[0] != cells || views[2].shape[0] != cells)
        refuse("each cell has a count, and room for its matches");
    else {
        Py_BEGIN_ALLOW_THREADS
        memcpy(matches, counts, (size_t)cells * sizeof *matches);
        for (Py_ssize_t a = 0; a < cells; a++)
            for (Py_ssize_t b = a + 1; b < cells; b++)
                if (agree(codes + a * keys, codes + b * keys, keys)) {
                    matches[a] += counts[b];
                    matches[b] += counts[a];
                }
        Py_END_ALLOW_THREADS
    }
    return ended(views, 3);
}

/* ---- Standard errors ------------------------------------------------------------------------------------------- */

PyObject *leverage(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    static const Array wanted[] = {
        {0, "covariance", DOUBLE, 2, 0}, {1, "index", INT32, 2, 0}, {2, "out", DOUBLE, 1, 1}};
    Py_buffer views[3];
    if (counted(count, 3) < 0 || enter(arguments, wanted, 3, views) < 0)
        return NULL;
    const Py_ssize_t size = views[0].shape[0], cells = views[1].shape[0], margins = views[1].shape[1];
    const double *covariance = views[0].buf;
    const int32_t *index = views[1].buf;
    double *out = views[2].buf;
    if (views[0].shape[1] != size || views[2].shape[0] != cells || !within(index, cells * margins, size))
        refuse("the matrix is square and has each column that a cell names, and each cell has a result");
    else {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t i = 0; i < cells; i++, index += margins) {
            double total = 0.0;
            for (Py_ssize_t a = 0; a < margins; a++) {
                const double *row = covariance + index[a] * size;
                total += row[index[a]];
                for (Py_ssize_t b = 0; b < a; b++)
                    total += 2.0 * row[index[b]];
            }
            out[i] = total;
        }
        Py_END_ALLOW_THREADS
    }
    return ended(views, 3);
}

PyObject *sum_products(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    static const Array wanted[] = {{0, "index", INT32, 2, 0}, {1, "mu", DOUBLE, 1, 0}, {2, "matrix", DOUBLE, 2, 1}};
    Py_buffer views[3];
    if (counted(count, 3) < 0 || enter(arguments, wanted, 3, views) < 0)
        return NULL;
    const Py_ssize_t size = views[2].shape[0], cells = views[0].shape[0], margins = views[0].shape[1];
    const int32_t *index = views[0].buf;
    const double *mu = views[1].buf;
    double *matrix = views[2].buf;
    if (views[2].shape[1] != size || views[1].shape[0] != cells || !within(index, cells * margins, size))
        refuse("the matrix is square and has each column that a cell names, and each cell has a number");
    else {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t i = 0; i < cells; i++, index += margins)
            for (Py_ssize_t a = 0; a < margins; a++)
                for (Py_ssize_t b = a; b < margins; b++)
                    matrix[index[a] * size + index[b]] += mu[i];
        Py_END_ALLOW_THREADS
    }
    return ended(views, 3);
}

/* ---- Households that are compared ------------------------------------------------------------------------------ */

enum { PAIRS = 32 /* that are summed side by side */, MOST_MEMBERS = 16 };

static int members_of(unsigned subset) {
    int found = 0;
    for (; subset; subset &= subset - 1)
        found++;
    return found;
}

/* The permanents of one row of pairs; `entry` has room for size x size, `held` for 2^size numbers of each pair. */
FOR_WIDE_NUMBERS
static void permanents_of(const double *table, Py_ssize_t width, const int32_t *true_cells, int size,
                          const int32_t *released, Py_ssize_t pairs, double *restrict entry, double *restrict held,
                          double *restrict out) {
    for (Py_ssize_t start = 0; start < pairs; start += PAIRS) {
        const int many = pairs - start < PAIRS ? (int)(pairs - start) : PAIRS;
        for (int i = 0; i < size; i++) {
            const double *row = table + true_cells[i] * width;
            for (int j = 0; j < size; j++) {
                const int32_t *cells = released + j * pairs + start;
                for (int k = 0; k < many; k++)
                    entry[(i * size + j) * PAIRS + k] = row[cells[k]];
            }
        }
        for (int k = 0; k < PAIRS; k++)
            held[k] = 1.0;
        for (unsigned subset = 1; subset < 1u << size; subset++) {
            double sum[PAIRS] = {0};
            const double *factors = entry + (members_of(subset) - 1) * size * PAIRS;
            for (int j = 0; j < size; j++)
                if (subset >> j & 1) {
                    const double *less = held + (subset ^ 1u << j) * PAIRS, *factor = factors + j * PAIRS;
                    for (int k = 0; k < PAIRS; k++)
                        sum[k] += less[k] * factor[k];
                }
            memcpy(held + subset * PAIRS, sum, sizeof sum);
        }
        memcpy(out + start, held + (((size_t)1 << size) - 1) * PAIRS, (size_t)many * sizeof *out);
    }
}

PyObject *permanents(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    static const Array wanted[] = {{0, "table", DOUBLE, 2, 0},
                                   {1, "true", INT32, 2, 0},
                                   {2, "released", INT32, 2, 0},
                                   {3, "out", DOUBLE, 2, 1}};
    Py_buffer views[4];
    if (counted(count, 4) < 0 || enter(arguments, wanted, 4, views) < 0)
        return NULL;
    const Py_ssize_t rows = views[1].shape[0], size = views[1].shape[1], pairs = views[2].shape[1];
    const int32_t *true_cells = views[1].buf, *released = views[2].buf;
    double *entry = NULL, *out = views[3].buf;
    if (size < 1 || size > MOST_MEMBERS || views[2].shape[0] != size || views[3].shape[0] != rows
        || views[3].shape[1] != pairs || !within(true_cells, rows * size, views[0].shape[0])
        || !within(released, size * pairs, views[0].shape[1]))
        refuse("households have 1 to 16 members, each with a cell of the table, and each pair of them a result");
    else if (!(entry = PyMem_Calloc((size_t)(size * size + ((Py_ssize_t)1 << size)) * PAIRS, sizeof *entry)))
        PyErr_NoMemory();
    else {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t a = 0; a < rows; a++)
            permanents_of(views[0].buf, views[0].shape[1], true_cells + a * size, (int)size, released, pairs, entry,
                          entry + size * size * PAIRS, out + a * pairs);
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(entry);
    return ended(views, 4);
}

/* ---- Draws ----------------------------------------------------------------------------------------------------- */

/* How many of the steps, which ascend, are at most `value`. */
static Py_ssize_t steps_up_to(const double *steps, Py_ssize_t size, double value) {
    Py_ssize_t first = 0;
    for (Py_ssize_t left = size, half; left > 1; left -= half) {
        half = left / 2;
        first += steps[first + half - 1] <= value ? half : 0;
    }
    return first + (steps[first] <= value);
}

/* Codes are checked as they are read; false where one is not that of a row. */
#define MOVE(T)                                                                                                        \
    static int move_##T(const double *restrict stays, const double *restrict where, Py_ssize_t n, T *codes,            \
                        const double *restrict keep, const double *restrict steps, const int64_t *restrict last,       \
                        Py_ssize_t size) {                                                                             \
        for (Py_ssize_t i = 0; i < n; i++) {                                                                           \
            const Py_ssize_t code = (Py_ssize_t)codes[i];                                                              \
            if (code < 0 || code >= size)                                                                              \
                return 0;                                                                                              \
            if (stays[i] >= keep[code]) {                                                                              \
                const Py_ssize_t place = steps_up_to(steps + code * size, size, (double)code + where[i]);              \
                codes[i] = (T)(place < last[code] ? place : last[code]);                                               \
            }                                                                                                          \
        }                                                                                                              \
        return 1;                                                                                                      \
    }

MOVE(int8_t)
MOVE(int16_t)
MOVE(int32_t)
MOVE(int64_t)

PyObject *move_codes(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    static const Array wanted[] = {{0, "codes", CODES, 1, 1},
                                   {1, "drawn", DOUBLE, 2, 0},
                                   {2, "keep", DOUBLE, 1, 0},
                                   {3, "steps", DOUBLE, 2, 0},
                                   {4, "last", INT64, 1, 0}};
    Py_buffer views[5];
    if (counted(count, 5) < 0 || enter(arguments, wanted, 5, views) < 0)
        return NULL;
    const Py_ssize_t n = views[0].shape[0], size = views[2].shape[0];
    const double *stays = views[1].buf, *keep = views[2].buf, *steps = views[3].buf;
    const int64_t *last = views[4].buf;
    int inside = views[1].shape[0] == 2 && views[1].shape[1] == n && views[3].shape[0] == size
                 && views[3].shape[1] == size && views[4].shape[0] == size;
    if (inside) {
        Py_BEGIN_ALLOW_THREADS
        switch (views[0].itemsize) {
        case 1: inside = move_int8_t(stays, stays + n, n, views[0].buf, keep, steps, last, size); break;
        case 2: inside = move_int16_t(stays, stays + n, n, views[0].buf, keep, steps, last, size); break;
        case 4: inside = move_int32_t(stays, stays + n, n, views[0].buf, keep, steps, last, size); break;
        default: inside = move_int64_t(stays, stays + n, n, views[0].buf, keep, steps, last, size);
        }
        Py_END_ALLOW_THREADS
    }
    if (!inside)
        refuse("each record has a code of a row and two numbers, and each row a chance, its steps and a last code");
    return ended(views, 5);
}

/* What numpy gives to C of a bit generator, in the capsule of that name (numpy/random/bitgen.h). */
typedef struct {
    void *state;
    uint64_t (*next_uint64)(void *);
    uint32_t (*next_uint32)(void *);
    double (*next_double)(void *);
    uint64_t (*next_raw)(void *);
} BitGenerator;

/* Poisson as numpy's Generator draws it: below 10 by products of uniforms, else by Hörmann's PTRS (1993). */
static double poisson(const BitGenerator *bits, double mean) {
    if (mean == 0.0)
        return 0.0;
    if (mean < 10.0) {
        const double least = exp(-mean);
        double drawn = 0.0;
        for (double product = bits->next_double(bits->state); product > least; drawn++)
            product *= bits->next_double(bits->state);
        return drawn;
    }
    const double root = sqrt(mean), slope = log(mean), b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), squeeze = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        const double u = bits->next_double(bits->state) - 0.5, v = bits->next_double(bits->state), us = 0.5 - fabs(u);
        const double k = floor((2 * a / us + b) * u + mean + 0.43);
        if (us >= 0.07 && v <= squeeze)
            return k;
        if (k < 0 || (us < 0.013 && v > us))
            continue;
        if (log(v) + log(inverse_alpha) - log(a / (us * us) + b) <= -mean + k * slope - lgamma(k + 1))
            return k;
    }
}

static double one_draw(const double *own, const double *others, const double *expected, Py_ssize_t records, int single,
                       double scale, double whole, const BitGenerator *bits) {
    double found = 0.0, held = 0.0;
    for (Py_ssize_t i = 0; i < records; i++) {
        const double wanted = own[i] * scale, chance = wanted < 1.0 ? wanted : 1.0;
        held += chance * expected[i];
        if (bits->next_double(bits->state) < chance) {
            const double more = poisson(bits, others[i]);
            found += single ? more == 0.0 : 1.0 / (1.0 + more);
        }
    }
    return held > 0.0 ? found * (scale * whole / held) : found;
}

/* The capsule of a numpy Generator; NULL with an exception where it has none. */
static PyObject *capsule_of(PyObject *rng) {
    PyObject *generator = PyObject_GetAttrString(rng, "bit_generator");
    PyObject *capsule = generator ? PyObject_GetAttrString(generator, "capsule") : NULL;
    Py_XDECREF(generator);
    return capsule;
}

PyObject *match_draws(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    static const Array wanted[] = {{0, "own", DOUBLE, 1, 0},
                                   {1, "others", DOUBLE, 1, 0},
                                   {2, "expected", DOUBLE, 1, 0},
                                   {4, "scale", DOUBLE, 1, 0},
                                   {5, "found", DOUBLE, 1, 1}};
    Py_buffer views[5];
    const int single = counted(count, 7) < 0 ? -1 : PyObject_IsTrue(arguments[3]);
    if (single < 0 || enter(arguments, wanted, 5, views) < 0)
        return NULL;
    PyObject *capsule = capsule_of(arguments[6]);
    const BitGenerator *bits = capsule ? PyCapsule_GetPointer(capsule, "BitGenerator") : NULL;
    const Py_ssize_t n = views[0].shape[0], draws = views[3].shape[0];
    const double *own = views[0].buf, *others = views[1].buf, *expected = views[2].buf, *scale = views[3].buf;
    int inside = views[1].shape[0] == n && views[2].shape[0] == n && views[4].shape[0] == draws;
    double whole = 0.0, *found = views[4].buf;
    for (Py_ssize_t i = 0; inside && i < n; i++) {
        inside = others[i] >= 0.0 && others[i] < 9e15; /* beyond, or of no number, no draw would end */
        whole += own[i] * expected[i];
    }
    if (bits && !inside)
        refuse("each record has a chance, a mean number of others from 0 on, and an expectation; each draw a result");
    else if (bits) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t d = 0; d < draws; d++)
            found[d] = one_draw(own, others, expected, n, single, scale[d], whole, bits);
        Py_END_ALLOW_THREADS
    }
    Py_XDECREF(capsule);
    return ended(views, 5);
}
