/* The compiled loops of a release and its dossier: draws, alias tables, digests of cells, permutations of ranks, weights
   of links; and the module, with those of risk and of texts, which are in _risk_loops.c and _text_loops.c.

   The same loops, with the same names, arguments and results, are in numba_loops.py, where they are explained; they
   serve where this file was not compiled. tests/test_loops.py compares the two, and both with plain Python.

   Every function takes contiguous numpy arrays through the buffer protocol, checks their types and shapes, and works
   without the interpreter's lock. Codes are 8, 16, 32 or 64 bits wide, and are NOT checked: the caller has to.

   Only the stable interface of Python 3.11 is used, so one binary serves all later versions. */

#include "_loops.h"

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)(address))
#endif

/* Codes may be drawn in place: a record's is read before it is written, and no other record's is read. */
#if defined(__GNUC__) && !defined(__clang__)
#define EACH_ON_ITS_OWN _Pragma("GCC ivdep")
#else
#define EACH_ON_ITS_OWN
#endif

enum {
    AHEAD = 128,        /* draws between asking for a table entry and using it: hides what memory takes */
    LARGE_TABLE = 10,   /* bits of a row from which most entries come from beyond the second cache */
};

/* ---- The loops, once for each type of codes -------------------------------------------------------------------- */

/* The entry of the table that a word finds in the row of a code; the first row is that of code -1. */
#define ENTRY(i) (entries + (((uint64_t)((int64_t)codes[i] + 1) << bits) + (words[(i) * lanes] >> (64 - bits))))

/* With the low bits set on the left, the alias field never decides: rest < threshold, and nothing else. What is stored
   of an entry is its low bits, as many as the code type has: narrowing keeps them in every compiler we know of. */
#define DRAW_ONE(T, i)                                                                                                 \
    do {                                                                                                               \
        uint64_t word = words[(i) * lanes], entry = *ENTRY(i);                                                         \
        released[i] = (T)(((word << bits) | low) < entry ? word >> (64 - bits) : entry);                               \
    } while (0)

#define LOOPS(T)                                                                                                       \
    FOR_SEVERAL_PROCESSORS                                                                                             \
    static void draw_rows_##T(const uint64_t *restrict words, Py_ssize_t lanes, const T *codes,                        \
                              const uint64_t *restrict entries, int bits, T *released, Py_ssize_t n) {                 \
        const uint64_t low = ((uint64_t)1 << (11 + bits)) - 1;                                                         \
        Py_ssize_t i = 0;                                                                                              \
        if (bits >= LARGE_TABLE)                                                                                       \
            for (; i < n - AHEAD; i++) {                                                                               \
                PREFETCH(ENTRY(i + AHEAD));                                                                            \
                DRAW_ONE(T, i);                                                                                        \
            }                                                                                                          \
        EACH_ON_ITS_OWN                                                                                                \
        for (; i < n; i++)                                                                                             \
            DRAW_ONE(T, i);                                                                                            \
        if (8 * (int)sizeof(T) <= 11 + bits) /* the alias has 11 + bits, all set in the row of code -1 */              \
            return;                                                                                                    \
        for (i = 0; i < n; i++)                                                                                        \
            released[i] = (T)((int64_t)((uint64_t)released[i] << (53 - bits)) >> (53 - bits));                         \
    }                                                                                                                  \
                                                                                                                       \
    FOR_SEVERAL_PROCESSORS                                                                                             \
    static void draw_one_row_##T(const uint64_t *restrict words, Py_ssize_t lanes, const T *codes,                     \
                                 const uint64_t *restrict entries, int bits, T *released, Py_ssize_t n) {              \
        const uint64_t low = ((uint64_t)1 << (11 + bits)) - 1, mask = ((uint64_t)1 << bits) - 1;                       \
        EACH_ON_ITS_OWN                                                                                                \
        for (Py_ssize_t i = 0; i < n; i++) {                                                                           \
            const uint64_t word = words[i * lanes];                                                                    \
            const int64_t code = codes[i], bucket = (int64_t)(word >> (64 - bits));                                    \
            const uint64_t entry = entries[2 * bucket + (code <= bucket)];                                             \
            const int64_t first = (int64_t)(entry & mask), last = (int64_t)(entry >> bits & mask);                     \
            const int64_t least = code < first ? first : code, alias = least > last ? last : least;                    \
            const int64_t drawn = ((word << bits) | low) < entry ? bucket : alias;                                     \
            released[i] = (T)(code < 0 ? -1 : drawn);                                                                  \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static void stay_or_move_##T(const uint64_t *words, Py_ssize_t lanes, const T *codes, const int64_t *off,          \
                                 int64_t others, T *released, Py_ssize_t n) {                                          \
        for (Py_ssize_t i = 0; i < n; i++) {                                                                           \
            int64_t code = codes[i], value = (int64_t)(words[i * lanes] >> 11), share = off[code + 1];                 \
            if (value < others * share) {                                                                              \
                int64_t other = value / share;                                                                         \
                released[i] = (T)(other + (other >= code));                                                            \
            } else                                                                                                     \
                released[i] = (T)code;                                                                                 \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    FOR_SEVERAL_PROCESSORS                                                                                             \
    static void append_digit_##T(uint64_t *restrict number, uint64_t base, const T *restrict codes, Py_ssize_t n) {    \
        for (Py_ssize_t i = 0; i < n; i++)                                                                             \
            number[i] = number[i] * base + (uint64_t)((int64_t)codes[i] + 1);                                          \
    }

/* Read without their signs, negative indices are beyond every table: one comparison finds both kinds of stray ones. */
#define LOOK_UP(T, I)                                                                                                  \
    FOR_SEVERAL_PROCESSORS                                                                                             \
    static void look_up_##I##_##T(const T *restrict table, Py_ssize_t size, const u##I *restrict indices,              \
                                  T *restrict out, Py_ssize_t n) {                                                     \
        const uint64_t last = (uint64_t)size - 1;                                                                      \
        for (Py_ssize_t i = 0; i < n; i++)                                                                             \
            out[i] = table[indices[i] < last ? indices[i] : last];                                                     \
    }

#define ALL_LOOPS(T)                                                                                                   \
    LOOPS(T)                                                                                                           \
    LOOK_UP(T, int8_t)                                                                                                 \
    LOOK_UP(T, int16_t)                                                                                                \
    LOOK_UP(T, int32_t)                                                                                                \
    LOOK_UP(T, int64_t)

ALL_LOOPS(int8_t)
ALL_LOOPS(int16_t)
ALL_LOOPS(int32_t)
ALL_LOOPS(int64_t)

/* A table of up to 16 bytes fits into a register, where 16 of its entries are found at once. */
#if defined(__GNUC__) && !defined(__clang__)
typedef int8_t Register __attribute__((vector_size(16)));
enum { IN_REGISTER = sizeof(Register), BYTES_AT_A_TIME = 4096 };

#define LOOK_UP_BYTES(I)                                                                                               \
    FOR_SEVERAL_PROCESSORS                                                                                             \
    static void look_up_bytes_##I(const int8_t *table, Py_ssize_t size, const u##I *restrict indices,                  \
                                  int8_t *restrict out, Py_ssize_t n) {                                                \
        const u##I last = (u##I)(size - 1);                                                                            \
        Register entries = {0};                                                                                        \
        memcpy(&entries, table, (size_t)size);                                                                         \
        for (Py_ssize_t from = 0; from < n; from += BYTES_AT_A_TIME) {                                                 \
            const Py_ssize_t end = n - from < BYTES_AT_A_TIME ? n : from + BYTES_AT_A_TIME;                            \
            Py_ssize_t i = from;                                                                                       \
            for (Py_ssize_t at = from; at < end; at++)                                                                 \
                out[at] = (int8_t)(indices[at] < last ? indices[at] : last);                                           \
            for (; i + IN_REGISTER <= end; i += IN_REGISTER) {                                                         \
                Register held;                                                                                         \
                memcpy(&held, out + i, sizeof held);                                                                   \
                held = __builtin_shuffle(entries, held);                                                               \
                memcpy(out + i, &held, sizeof held);                                                                   \
            }                                                                                                          \
            for (; i < end; i++)                                                                                       \
                out[i] = table[out[i]];                                                                                \
        }                                                                                                              \
    }

LOOK_UP_BYTES(int8_t)
LOOK_UP_BYTES(int16_t)
LOOK_UP_BYTES(int32_t)
LOOK_UP_BYTES(int64_t)
#else
enum { IN_REGISTER = 0 };
#define look_up_bytes_int8_t look_up_int8_t_int8_t
#define look_up_bytes_int16_t look_up_int16_t_int8_t
#define look_up_bytes_int32_t look_up_int32_t_int8_t
#define look_up_bytes_int64_t look_up_int64_t_int8_t
#endif

/* ---- The loops that know no codes ------------------------------------------------------------------------------ */

static Py_ssize_t next_donor(const int64_t *rest, int64_t unit, Py_ssize_t start, Py_ssize_t buckets) {
    while (start < buckets && rest[start] <= unit)
        start++;
    return start;
}

/* One row by Walker's method in ascending order. `rest` and `small` have room for one number for each bucket. */
static void fill_row(const int64_t *weights, Py_ssize_t size, int bits, int64_t *rest, char *small, uint64_t *entry) {
    const Py_ssize_t buckets = (Py_ssize_t)1 << bits;
    const int64_t unit = (int64_t)1 << (53 - bits);
    for (Py_ssize_t j = 0; j < buckets; j++) {
        rest[j] = j < size ? weights[j] : 0;
        small[j] = rest[j] < unit;
        entry[j] = (uint64_t)j; /* full: threshold 0, alias itself */
    }
    Py_ssize_t donor = next_donor(rest, unit, 0, buckets);
    for (Py_ssize_t j = 0; j < buckets && donor < buckets; j++) {
        if (!small[j])
            continue;
        Py_ssize_t taker = j;
        for (;;) {
            entry[taker] = ((uint64_t)rest[taker] << (11 + bits)) | (uint64_t)donor;
            rest[donor] -= unit - rest[taker];
            if (rest[donor] >= unit)
                break;
            taker = donor;
            donor = next_donor(rest, unit, donor + 1, buckets);
            if (donor == buckets) /* only where a row does not sum to 2^53 */
                return;
        }
        if (rest[donor] == unit)
            donor = next_donor(rest, unit, donor + 1, buckets);
    }
}

static void shuffle(int64_t *places, Py_ssize_t n, const int64_t *starts, Py_ssize_t runs, const uint64_t *words) {
    for (Py_ssize_t run = 0; run < runs; run++) {
        const int64_t start = starts[run], end = run + 1 < runs ? starts[run + 1] : n;
        for (int64_t i = end - 1; i > start; i--) {
            /* A run is shorter than 2^32, so the 96-bit product needs two partial ones. */
            const uint64_t length = (uint64_t)(i - start + 1), word = words[i];
            const int64_t j = start + (int64_t)(((word >> 32) * length + (((word & 0xFFFFFFFF) * length) >> 32)) >> 32);
            const int64_t kept = places[i];
            places[i] = places[j];
            places[j] = kept;
        }
    }
}

FOR_WIDE_NUMBERS
static void weigh(const double *restrict tail, Py_ssize_t targets, const int64_t *tails, const double *weights,
                  const double *shares, Py_ssize_t cells, const int64_t *starts, Py_ssize_t heads,
                  double *restrict most, double *restrict total) {
    for (Py_ssize_t head = 0; head < heads; head++, most += targets, total += targets) {
        const int64_t end = head + 1 < heads ? starts[head + 1] : cells;
        memset(most, 0, (size_t)targets * sizeof *most);
        memset(total, 0, (size_t)targets * sizeof *total);
        for (int64_t cell = starts[head]; cell < end; cell++) {
            const double *factor = tail + tails[cell] * targets, weight = weights[cell], share = shares[cell];
            for (Py_ssize_t x = 0; x < targets; x++) {
                const double weighed = factor[x] * weight;
                most[x] = weighed > most[x] ? weighed : most[x];
                total[x] += factor[x] * share;
            }
        }
    }
}

/* ---- Arrays in, arrays out ------------------------------------------------------------------------------------- */

/* Read whole numbers from the arguments at two places. */
static int numbers(PyObject *const *arguments, int one, Py_ssize_t *first, int two, Py_ssize_t *second) {
    *first = PyLong_AsSsize_t(arguments[one]);
    *second = PyErr_Occurred() ? -1 : PyLong_AsSsize_t(arguments[two]);
    return PyErr_Occurred() ? -1 : 0;
}

/* The first of `n` codes from `start`; NULL with an exception where the array does not have as many. */
static char *codes_from(const Py_buffer *codes, Py_ssize_t start, Py_ssize_t n) {
    if (start >= 0 && n <= codes->shape[0] && start <= codes->shape[0] - n)
        return (char *)codes->buf + start * codes->itemsize;
    refuse("the array of codes does not contain these records");
    return NULL;
}

/* One block of a mechanism whose records are drawn: which law, its numbers, true and released codes. */
typedef struct {
    Py_buffer views[3]; /* codes, law, released */
    Py_ssize_t kind, bits;
    const char *codes;
    char *released;
} Block;

enum { ROWS, ONE_ROW, STAY_OR_MOVE };

/* Open a block (kind, codes, law, bits, released) for `n` records from `start`; on failure it is not open. */
static int open_block(PyObject *given, Py_ssize_t start, Py_ssize_t n, Block *block) {
    if (!PyTuple_Check(given) || PyTuple_Size(given) != 5)
        return refuse("a block is (kind, codes, law, bits, released)");
    PyObject *parts[5];
    for (int i = 0; i < 5; i++)
        parts[i] = PyTuple_GetItem(given, i);
    if (numbers(parts, 0, &block->kind, 3, &block->bits) < 0)
        return -1;
    const Array wanted[] = {{1, "codes", CODES, 1, 0},
                            {2, "law", block->kind == STAY_OR_MOVE ? INT64 : UINT64, 1, 0},
                            {4, "released", CODES, 1, 1}};
    if (enter(parts, wanted, 3, block->views) < 0)
        return -1;
    const Py_buffer *codes = &block->views[0], *law = &block->views[1], *released = &block->views[2];
    const int with_tables = block->kind == ROWS || block->kind == ONE_ROW;
    block->codes = codes_from(codes, start, n);
    block->released = block->codes ? codes_from(released, start, n) : NULL;
    if (block->released && codes->itemsize != released->itemsize)
        refuse("true and released codes have different types");
    else if (!with_tables && block->kind != STAY_OR_MOVE)
        refuse("there is no such kind of law");
    else if (with_tables && (block->bits < 1 || block->bits > 40 || law->shape[0] < (Py_ssize_t)2 << block->bits))
        refuse("the entries are not those of tables with so many bits");
    else if (!with_tables && law->shape[0] < 2)
        refuse("a law off the diagonal has at least one category");
    if (!PyErr_Occurred())
        return 0;
    leave(block->views, 3);
    return -1;
}

static void draw_block(const Block *block, const uint64_t *words, Py_ssize_t lanes, Py_ssize_t n) {
    const Py_buffer *law = &block->views[1];
    const Py_ssize_t width = block->views[0].itemsize;
    const int bits = (int)block->bits;
    if (block->kind == ROWS)
        FOR_TYPE(width, draw_rows, words, lanes, (const T *)block->codes, law->buf, bits, (T *)block->released, n)
    else if (block->kind == ONE_ROW)
        FOR_TYPE(width, draw_one_row, words, lanes, (const T *)block->codes, law->buf, bits, (T *)block->released, n)
    else
        FOR_TYPE(width, stay_or_move, words, lanes, (const T *)block->codes, law->buf, law->shape[0] - 2,
                 (T *)block->released, n)
}

/* All blocks in one call: between calls, threads wait for the interpreter's lock. */
static PyObject *draw(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    static const Array wanted[] = {{0, "words", UINT64, 3, 0}};
    Py_buffer words;
    if (counted(count, 3) < 0)
        return NULL;
    const Py_ssize_t start = PyLong_AsSsize_t(arguments[1]);
    if (PyErr_Occurred() || enter(arguments, wanted, 1, &words) < 0)
        return NULL;
    const Py_ssize_t slots = words.shape[0], n = words.shape[1], lanes = words.shape[2];
    const Py_ssize_t given = PyTuple_Check(arguments[2]) ? PyTuple_Size(arguments[2]) : -1;
    Block *blocks = NULL;
    Py_ssize_t opened = 0;
    if (given < 0 || given > slots * lanes)
        refuse("blocks are a tuple, at most one for each word of a record");
    else if (!(blocks = PyMem_Malloc((size_t)(given + 1) * sizeof *blocks)))
        PyErr_NoMemory();
    else
        while (opened < given && open_block(PyTuple_GetItem(arguments[2], opened), start, n, &blocks[opened]) == 0)
            opened++;
    if (!PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t b = 0; b < given; b++)
            draw_block(&blocks[b], (const uint64_t *)words.buf + b / lanes * n * lanes + b % lanes, lanes, n);
        Py_END_ALLOW_THREADS
    }
    while (opened--)
        leave(blocks[opened].views, 3);
    PyMem_Free(blocks);
    leave(&words, 1);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

enum { DIGITS_AT_A_TIME = 2048 /* numbers that stay in the first cache from column to column */ };

static PyObject *join_digits(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    static const Array wanted_number[] = {{0, "number", UINT64, 1, 1}}, wanted_codes[] = {{0, "codes", CODES, 1, 0}};
    Py_buffer number, *views = NULL;
    if (counted(count, 4) < 0)
        return NULL;
    const Py_ssize_t start = PyLong_AsSsize_t(arguments[3]);
    if (PyErr_Occurred() || enter(arguments, wanted_number, 1, &number) < 0)
        return NULL;
    const Py_ssize_t n = number.shape[0];
    const Py_ssize_t columns = PyTuple_Check(arguments[2]) ? PyTuple_Size(arguments[2]) : -1;
    uint64_t *bases = NULL;
    int opened = 0;
    if (columns < 0 || columns > 64 || !PyTuple_Check(arguments[1]) || PyTuple_Size(arguments[1]) != columns)
        refuse("bases and columns are tuples of the same length, at most 64");
    else if (!(views = PyMem_Malloc((size_t)(columns + 1) * sizeof *views))
             || !(bases = PyMem_Malloc((size_t)(columns + 1) * sizeof *bases)))
        PyErr_NoMemory();
    for (Py_ssize_t j = 0; !PyErr_Occurred() && j < columns; j++) {
        PyObject *column = PyTuple_GetItem(arguments[2], j);
        bases[j] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(arguments[1], j));
        if (!PyErr_Occurred() && enter(&column, wanted_codes, 1, &views[j]) == 0) {
            opened++;
            codes_from(&views[j], start, n);
        }
    }
    if (!PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t from = 0; from < n; from += DIGITS_AT_A_TIME) {
            const Py_ssize_t many = n - from < DIGITS_AT_A_TIME ? n - from : DIGITS_AT_A_TIME;
            uint64_t *part = (uint64_t *)number.buf + from;
            memset(part, 0, (size_t)many * sizeof *part);
            for (Py_ssize_t j = 0; j < columns; j++)
                FOR_TYPE(views[j].itemsize, append_digit, part, bases[j], (const T *)views[j].buf + start + from, many)
        }
        Py_END_ALLOW_THREADS
    }
    if (views)
        leave(views, opened);
    PyMem_Free(views);
    PyMem_Free(bases);
    leave(&number, 1);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

#define LOOK_UP_BY(I)                                                                                                  \
    if (table->itemsize == 1 && table->shape[0] <= IN_REGISTER)                                                        \
        look_up_bytes_##I(table->buf, table->shape[0], indices->buf, out->buf, out->shape[0]);                         \
    else                                                                                                               \
        FOR_TYPE(table->itemsize, look_up_##I, (const T *)table->buf, table->shape[0], indices->buf, (T *)out->buf,    \
                 out->shape[0])

/* Indices beyond the table find its last entry. */
static PyObject *look_up(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    static const Array wanted[] = {{0, "table", CODES, 1, 0}, {1, "indices", CODES, 1, 0}, {2, "out", CODES, 1, 1}};
    Py_buffer views[3];
    if (counted(count, 3) < 0 || enter(arguments, wanted, 3, views) < 0)
        return NULL;
    const Py_buffer *table = &views[0], *indices = &views[1], *out = &views[2];
    const int fits = table->shape[0] > 0 && table->itemsize == out->itemsize && indices->shape[0] == out->shape[0];
    if (!fits)
        refuse("a table with an entry, indices, and as much room for entries of its type do not belong together");
    else {
        Py_BEGIN_ALLOW_THREADS
        switch (indices->itemsize) {
        case 1: LOOK_UP_BY(int8_t) break;
        case 2: LOOK_UP_BY(int16_t) break;
        case 4: LOOK_UP_BY(int32_t) break;
        default: LOOK_UP_BY(int64_t)
        }
        Py_END_ALLOW_THREADS
    }
    leave(views, 3);
    return fits ? Py_NewRef(Py_None) : NULL;
}

static PyObject *fill_tables(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    static const Array wanted[] = {{0, "weights", INT64, 2, 0}, {2, "entries", UINT64, 2, 1}};
    Py_buffer views[2];
    if (counted(count, 3) < 0)
        return NULL;
    const Py_ssize_t bits = PyLong_AsSsize_t(arguments[1]);
    if (PyErr_Occurred() || enter(arguments, wanted, 2, views) < 0)
        return NULL;
    const Py_ssize_t size = views[0].shape[0], buckets = views[1].shape[1];
    int64_t *rest = NULL;
    if (views[0].shape[1] != size || views[1].shape[0] != size + 1 || bits < 1 || bits > 40
        || buckets != (Py_ssize_t)1 << bits || buckets < size)
        refuse("weights (S, S) and entries (S + 1, 2^bits) do not belong together");
    else if (!(rest = PyMem_Malloc((size_t)buckets * (sizeof *rest + 1))))
        PyErr_NoMemory();
    else {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t row = 0; row < size; row++)
            fill_row((const int64_t *)views[0].buf + row * size, size, (int)bits, rest, (char *)(rest + buckets),
                     (uint64_t *)views[1].buf + (row + 1) * buckets);
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(rest);
    leave(views, 2);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *shuffle_runs(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    static const Array wanted[] = {{0, "places", INT64, 1, 1}, {1, "starts", INT64, 1, 0}, {2, "words", UINT64, 1, 0}};
    Py_buffer views[3];
    if (counted(count, 3) < 0 || enter(arguments, wanted, 3, views) < 0)
        return NULL;
    const Py_ssize_t n = views[0].shape[0], runs = views[1].shape[0];
    const int64_t *starts = views[1].buf;
    int inside = views[2].shape[0] >= n;
    for (Py_ssize_t run = 0; run < runs; run++)
        inside = inside && starts[run] >= (run ? starts[run - 1] : 0) && starts[run] <= n;
    if (!inside)
        refuse("runs start in ascending order within the places, and each place has a word");
    else {
        Py_BEGIN_ALLOW_THREADS
        shuffle(views[0].buf, n, starts, runs, views[2].buf);
        Py_END_ALLOW_THREADS
    }
    leave(views, 3);
    return inside ? Py_NewRef(Py_None) : NULL;
}

static PyObject *weigh_cells(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    static const Array wanted[] = {{0, "tail", DOUBLE, 2, 0},    {1, "tails", INT64, 1, 0},  {2, "weights", DOUBLE, 1, 0},
                                   {3, "shares", DOUBLE, 1, 0},  {4, "starts", INT64, 1, 0}, {5, "most", DOUBLE, 2, 1},
                                   {6, "total", DOUBLE, 2, 1}};
    Py_buffer views[7];
    if (counted(count, 7) < 0 || enter(arguments, wanted, 7, views) < 0)
        return NULL;
    const Py_ssize_t kinds = views[0].shape[0], targets = views[0].shape[1];
    const Py_ssize_t cells = views[1].shape[0], heads = views[4].shape[0];
    const int64_t *tails = views[1].buf, *starts = views[4].buf;
    int inside = views[2].shape[0] == cells && views[3].shape[0] == cells;
    for (int k = 5; k < 7; k++)
        inside = inside && views[k].shape[0] == heads && views[k].shape[1] == targets;
    for (Py_ssize_t cell = 0; inside && cell < cells; cell++)
        inside = tails[cell] >= 0 && tails[cell] < kinds;
    for (Py_ssize_t head = 0; inside && head < heads; head++)
        inside = starts[head] >= (head ? starts[head - 1] : 0) && starts[head] <= cells;
    if (!inside)
        refuse("heads start in ascending order within the cells, and each cell has a tail and two numbers");
    else {
        Py_BEGIN_ALLOW_THREADS
        weigh(views[0].buf, targets, tails, views[2].buf, views[3].buf, cells, starts, heads, views[5].buf,
              views[6].buf);
        Py_END_ALLOW_THREADS
    }
    leave(views, 7);
    return inside ? Py_NewRef(Py_None) : NULL;
}

/* ---- The module ------------------------------------------------------------------------------------------------ */

#define FUNCTION(name, text) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, text}

static PyMethodDef functions[] = {
    FUNCTION(draw, "draw(words, start, blocks)"),
    FUNCTION(join_digits, "join_digits(number, bases, columns, start)"),
    FUNCTION(look_up, "look_up(table, indices, out)"),
    FUNCTION(fill_tables, "fill_tables(weights, bits, entries)"),
    FUNCTION(shuffle_runs, "shuffle_runs(places, starts, words)"),
    FUNCTION(weigh_cells, "weigh_cells(tail, tails, weights, shares, starts, most, total)"),
    FUNCTION(scale_and_sum, "scale_and_sum(mu, index, ratio, next_index, out)"),
    FUNCTION(wildcard_matches, "wildcard_matches(codes, counts, matches)"),
    FUNCTION(leverage, "leverage(covariance, index, out)"),
    FUNCTION(sum_products, "sum_products(index, mu, matrix)"),
    FUNCTION(move_codes, "move_codes(codes, drawn, keep, steps, last)"),
    FUNCTION(permanents, "permanents(table, true, released, out)"),
    FUNCTION(match_draws, "match_draws(own, others, expected, single, scale, found, rng)"),
    FUNCTION(match_texts, "match_texts(known_ends, known, ends, data, otherwise, places)"),
    FUNCTION(end_texts, "end_texts(known_ends, places, ends)"),
    FUNCTION(copy_texts, "copy_texts(known_ends, known, places, data)"),
    {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_loops", .m_methods = functions, .m_slots = slots};

PyMODINIT_FUNC PyInit__loops(void) { return PyModuleDef_Init(&definition); }
