/* Loops over texts: the codes of texts that are known, and texts by their codes. They work without the interpreter's
   lock. coding.py and texts.py say what they are for, and do without them where this file was not compiled.

   Texts are as in Arrow: text i is the bytes from ends[i] to ends[i + 1] of the data. */

#include "_loops.h"

enum {
    LONGEST_CHAIN = 8,  /* comparisons for one text; where known ones are more alike, the caller does without */
    AT_ONCE = 16        /* bytes that are copied for any shorter text: the next one overwrites what is too many */
};

/* Number of bytes, the first eight and the last eight: all there is to compare of a text up to 16 bytes. */
typedef struct {
    uint64_t head, tail;
    int64_t length;
} Key;

typedef struct {
    Key key;
    const char *text;
    int64_t place; /* -1: nothing here */
} Known;

static inline Key key_of(const char *text, int64_t length) {
    Key key = {0, 0, length};
    if (length >= 8) {
        memcpy(&key.head, text, 8);
        memcpy(&key.tail, text + length - 8, 8);
    } else if (length >= 4) {
        memcpy(&key.head, text, 4);
        memcpy(&key.tail, text + length - 4, 4);
    } else if (length > 0)
        key.head = (uint64_t)(unsigned char)text[0] | (uint64_t)(unsigned char)text[length / 2] << 8
                   | (uint64_t)(unsigned char)text[length - 1] << 16;
    return key;
}

static inline uint64_t slot_of(Key key, int bits) {
    const uint64_t mixed = (key.head ^ (uint64_t)key.length) * 0x9E3779B97F4A7C15u + key.tail;
    return ((mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93u) >> (64 - bits);
}

static inline int same(const Known *known, Key key, const char *text) {
    return known->key.head == key.head && known->key.tail == key.tail && known->key.length == key.length
           && (key.length <= 16 || memcmp(known->text + 8, text + 8, (size_t)key.length - 16) == 0);
}

/* The place of a text among the known ones; `otherwise` where it is none of them. */
static inline int64_t place_of(const Known *known, int bits, const char *text, int64_t length, int64_t otherwise) {
    const Key key = key_of(text, length);
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    for (uint64_t slot = slot_of(key, bits); known[slot].place >= 0; slot = (slot + 1) & mask)
        if (same(&known[slot], key, text))
            return known[slot].place;
    return otherwise;
}

/* Enter the known texts; whether none of them needs more than a few comparisons. The first of equal ones counts. */
static int enter_known(Known *known, int bits, const int64_t *ends, const char *data, Py_ssize_t count) {
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    for (uint64_t slot = 0; slot <= mask; slot++)
        known[slot].place = -1;
    for (Py_ssize_t place = 0; place < count; place++) {
        const char *text = data + ends[place];
        const Key key = key_of(text, ends[place + 1] - ends[place]);
        uint64_t slot = slot_of(key, bits);
        int steps = 0;
        while (known[slot].place >= 0 && !same(&known[slot], key, text)) {
            slot = (slot + 1) & mask;
            if (++steps == LONGEST_CHAIN)
                return 0;
        }
        if (known[slot].place < 0)
            known[slot] = (Known){key, text, place};
    }
    return 1;
}

/* Whether texts lie within their data, one after the other. */
static int inside(const int64_t *ends, Py_ssize_t count, Py_ssize_t size) {
    int fits = ends[0] >= 0 && ends[count] <= size;
    for (Py_ssize_t i = 0; i < count; i++)
        fits &= ends[i] <= ends[i + 1];
    return fits;
}

/* E is the type of ends, P that of places: codes as narrow as the caller has them, so that none are widened. */
#define TEXT_LOOPS(E, P)                                                                                               \
    static int match_##E##_##P(const Known *known, int bits, const E *ends, const char *data, int64_t size,            \
                               int64_t otherwise, P *restrict places, Py_ssize_t n) {                                  \
        int fits = 1;                                                                                                  \
        for (Py_ssize_t i = 0; i < n; i++) {                                                                           \
            const int64_t start = ends[i], end = ends[i + 1], here = start >= 0 && start <= end && end <= size;        \
            fits &= (int)here;                                                                                         \
            places[i] = (P)(here ? place_of(known, bits, data + start, end - start, otherwise) : otherwise);           \
        }                                                                                                              \
        return fits;                                                                                                   \
    }                                                                                                                  \
                                                                                                                       \
    static int64_t end_##E##_##P(const int64_t *known_ends, Py_ssize_t texts, const P *places, E *restrict ends,       \
                                 Py_ssize_t n) {                                                                       \
        int64_t total = 0;                                                                                             \
        ends[0] = 0;                                                                                                   \
        for (Py_ssize_t i = 0; i < n; i++) {                                                                           \
            if (places[i] < 0 || places[i] >= texts)                                                                   \
                return -1;                                                                                             \
            total += known_ends[places[i] + 1] - known_ends[places[i]];                                                \
            ends[i + 1] = (E)total;                                                                                    \
        }                                                                                                              \
        return total;                                                                                                  \
    }

#define COPY_LOOP(P)                                                                                                   \
    static int copy_##P(const int64_t *ends, Py_ssize_t texts, const char *known, const P *places,                     \
                        char *restrict data, Py_ssize_t room, Py_ssize_t n) {                                          \
        Py_ssize_t written = 0;                                                                                        \
        for (Py_ssize_t i = 0; i < n; i++) {                                                                           \
            if (places[i] < 0 || places[i] >= texts)                                                                   \
                return 0;                                                                                              \
            const int64_t start = ends[places[i]], length = ends[places[i] + 1] - start;                               \
            if (written + length > room)                                                                               \
                return 0;                                                                                              \
            memcpy(data + written, known + start, AT_ONCE);                                                            \
            if (length > AT_ONCE)                                                                                      \
                memcpy(data + written, known + start, (size_t)length);                                                 \
            written += length;                                                                                         \
        }                                                                                                              \
        return written == room;                                                                                        \
    }

#define ALL_LOOPS(P)                                                                                                   \
    TEXT_LOOPS(int32_t, P)                                                                                             \
    TEXT_LOOPS(int64_t, P)                                                                                             \
    COPY_LOOP(P)

ALL_LOOPS(int8_t)
ALL_LOOPS(int16_t)
ALL_LOOPS(int32_t)
ALL_LOOPS(int64_t)

/* Write the place of each text among the known ones, `otherwise` where it is none of them; whether it could. */
PyObject *match_texts(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    static const Array wanted[] = {{0, "known_ends", INT64, 1, 0}, {1, "known", BYTES, 1, 0}, {2, "ends", CODES, 1, 0},
                                   {3, "data", BYTES, 1, 0},       {5, "places", CODES, 1, 1}};
    Py_buffer views[5];
    if (counted(count, 6) < 0)
        return NULL;
    const Py_ssize_t otherwise = PyLong_AsSsize_t(arguments[4]);
    if (PyErr_Occurred() || enter(arguments, wanted, 5, views) < 0)
        return NULL;
    const Py_ssize_t texts = views[0].shape[0] - 1, n = views[4].shape[0], size = views[3].shape[0];
    const int wide = views[2].itemsize == 8, width = (int)views[4].itemsize;
    /* Places are as wide as the caller's codes: those of all known texts have to fit. */
    const int64_t most = width == 8 ? INT64_MAX : ((int64_t)1 << (8 * width - 1)) - 1;
    Known *known = NULL;
    int bits = 4, matched = 0;
    int fits = texts >= 0 && texts < (1 << 24) && texts - 1 <= most && views[2].shape[0] == n + 1
               && (wide || views[2].itemsize == 4) && inside(views[0].buf, texts, views[1].shape[0]);
    while (((Py_ssize_t)1 << bits) < 4 * texts)
        bits++;
    if (fits && !(known = PyMem_Malloc(((size_t)1 << bits) * sizeof *known)))
        PyErr_NoMemory();
    else if (fits) {
        Py_BEGIN_ALLOW_THREADS
        matched = enter_known(known, bits, views[0].buf, views[1].buf, texts);
        if (matched && wide)
            FOR_TYPE(width, fits = match_int64_t, known, bits, views[2].buf, views[3].buf, size, otherwise,
                     (T *)views[4].buf, n)
        else if (matched)
            FOR_TYPE(width, fits = match_int32_t, known, bits, views[2].buf, views[3].buf, size, otherwise,
                     (T *)views[4].buf, n)
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(known);
    leave(views, 5);
    if (!fits)
        refuse("ends of texts, one more than texts, ascend within their data, and places of known ones fit");
    return PyErr_Occurred() ? NULL : PyBool_FromLong(matched);
}

/* Write where the texts at these places end; their bytes in all, also where they are too many for such ends. */
PyObject *end_texts(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    static const Array wanted[] = {
        {0, "known_ends", INT64, 1, 0}, {1, "places", CODES, 1, 0}, {2, "ends", CODES, 1, 1}};
    Py_buffer views[3];
    if (counted(count, 3) < 0 || enter(arguments, wanted, 3, views) < 0)
        return NULL;
    const Py_ssize_t texts = views[0].shape[0] - 1, n = views[1].shape[0], width = views[2].itemsize;
    int64_t total = -1;
    if (texts >= 0 && views[2].shape[0] == n + 1 && (width == 4 || width == 8)) {
        Py_BEGIN_ALLOW_THREADS
        if (width == 4)
            FOR_TYPE(views[1].itemsize, total = end_int32_t, views[0].buf, texts, (const T *)views[1].buf,
                     views[2].buf, n)
        else
            FOR_TYPE(views[1].itemsize, total = end_int64_t, views[0].buf, texts, (const T *)views[1].buf,
                     views[2].buf, n)
        Py_END_ALLOW_THREADS
    }
    leave(views, 3);
    if (total < 0)
        refuse("places are those of known texts, and have an end each");
    return total < 0 ? NULL : PyLong_FromLongLong(total);
}

/* Write the bytes of the texts at these places, one after the other; there is room for AT_ONCE bytes more. */
PyObject *copy_texts(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    static const Array wanted[] = {{0, "known_ends", INT64, 1, 0}, {1, "known", BYTES, 1, 0},
                                   {2, "places", CODES, 1, 0},     {3, "data", BYTES, 1, 1}};
    Py_buffer views[4];
    if (counted(count, 4) < 0 || enter(arguments, wanted, 4, views) < 0)
        return NULL;
    const Py_ssize_t texts = views[0].shape[0] - 1, n = views[2].shape[0], room = views[3].shape[0] - AT_ONCE;
    int fits = texts >= 0 && inside(views[0].buf, texts, views[1].shape[0] - AT_ONCE);
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        FOR_TYPE(views[2].itemsize, fits = copy, views[0].buf, texts, views[1].buf, (const T *)views[2].buf,
                 views[3].buf, room, n)
        Py_END_ALLOW_THREADS
    }
    leave(views, 4);
    return fits ? Py_NewRef(Py_None) : (refuse("places of known texts do not fill the room for them"), NULL);
}
