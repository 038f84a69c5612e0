/* Calls to the system that fail on purpose: benchmarks/faults.py preloads this library, counts calls, and chooses one.

   A call is known by its name and by the file that it is about, relative to one folder; temporary names are made equal.
   Calls about other files are left alone, but for memory, threads and the clock. A thread that is refused shows a limit:
   no more run at a time than did then. A clock that has jumped stays where it is. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 4096, LABEL = 160, LOG = 1 << 22 };
static char root[1024], names[FILES][LABEL], wanted[LABEL * 2], *logged;
static size_t used;
static int on, nth, seen, kind, full, fired, running, most = -1;
static time_t ahead;
static size_t large = 1 << 16;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Kinds: an errno; or one of these. */
enum { KILL = -1, SHORT = -2, FULL = -3, PART = -4, BACK = -5, AHEAD = -6, READ_ONLY = -7 };

void faults_root(const char *folder) { strncpy(root, folder, sizeof root - 1); }
void faults_count(void) {
    if (!logged) logged = mmap(0, LOG, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    used = 0, on = 1, wanted[0] = 0;
}
void faults_at(const char *call, int number, int how) {
    strncpy(wanted, call, sizeof wanted - 1);
    nth = number, kind = how, seen = full = fired = 0, on = 2;
}
int faults_fired(void) { return fired; }
const char *faults_stop(void) {
    on = 0;
    if (!logged) return "";
    logged[used] = 0;
    return logged;
}

static void label(const char *path, char *out) {
    char here[4096];
    out[0] = 0;
    if (!path) return;
    if (path[0] != '/') {
        if (!getcwd(here, sizeof here - 512)) return;
        strcat(here, "/"), strncat(here, path, 500), path = here;
    }
    size_t n = strlen(root);
    if (!n || strncmp(path, root, n)) return;
    path += n;
    while (*path == '/') path++;
    size_t at = 0;
    out[at++] = '/';
    while (*path && at < LABEL - 1) { /* runs of 8 or more letters and digits with a digit that are hexadecimal or random */
        size_t run = strspn(path, "0123456789abcdefghijklmnopqrstuvwxyz_");
        if (run >= 8 && strcspn(path, "0123456789") < run) out[at++] = '*', path += run;
        else if (run) { while (run-- && at < LABEL - 1) out[at++] = *path++; }
        else out[at++] = *path++;
    }
    out[at] = 0;
}

/* Returns 0, or what is to happen to this call. */
static int event(const char *call, const char *about) {
    if (!on || !about[0]) return 0;
    char text[LABEL * 2];
    int saved = errno, happens = 0;
    snprintf(text, sizeof text, "%s %s", call, about);
    pthread_mutex_lock(&lock);
    if (on == 1 && used + strlen(text) + 2 < LOG) used += sprintf(logged + used, "%s\n", text);
    if (on == 2 && !strcmp(text, wanted) && ++seen == nth) {
        fired = 1, happens = kind;
        if (kind == FULL || kind == SHORT) full = 1;
        if (kind == READ_ONLY) full = 2, happens = EROFS;
    } else if (on == 2 && full == 2 && strstr("write create mkdir rename link unlink rmdir chmod truncate", call))
        happens = EROFS;
    else if (on == 2 && full && (!strcmp(call, "write") || !strcmp(call, "mkdir") || !strcmp(call, "create")))
        happens = ENOSPC;
    pthread_mutex_unlock(&lock);
    errno = saved;
    if (happens == KILL) kill(getpid(), SIGKILL), pause();
    return happens;
}

static int about_path(const char *call, const char *path) {
    char name[LABEL];
    if (!on) return 0;
    label(path, name);
    return event(call, name);
}
static int about_file(const char *call, int fd) { return fd < 0 || fd >= FILES ? 0 : event(call, names[fd]); }
static int error(int happens) { return happens == FULL || happens == SHORT || happens == PART ? ENOSPC : happens; }

#define REAL(type, name) static type (*real)(); if (!real) real = (type (*)())dlsym(RTLD_NEXT, #name)
#define FAIL(check) do { int h_ = (check); if (h_ && h_ != PART) { errno = error(h_); return -1; } } while (0)

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, name); \
        va_list more; va_start(more, flags); int mode = va_arg(more, int); va_end(more); \
        FAIL(about_path(flags & O_CREAT ? "create" : "open", path)); \
        int fd = real(path, flags, mode); \
        if (fd >= 0 && fd < FILES) label(path, names[fd]); \
        return fd; \
    }
OPEN(open) OPEN(open64)
#define OPENAT(name) \
    int name(int at, const char *path, int flags, ...) { \
        REAL(int, name); \
        va_list more; va_start(more, flags); int mode = va_arg(more, int); va_end(more); \
        FAIL(at == AT_FDCWD || path[0] == '/' ? about_path(flags & O_CREAT ? "create" : "open", path) : about_file("open", at)); \
        int fd = real(at, path, flags, mode); \
        if (fd >= 0 && fd < FILES) { \
            if (at == AT_FDCWD || path[0] == '/') label(path, names[fd]); \
            else if (at < FILES) memcpy(names[fd], names[at], LABEL); \
        } \
        return fd; \
    }
OPENAT(openat) OPENAT(openat64)
#define FOPEN(name) \
    FILE *name(const char *path, const char *mode) { \
        REAL(FILE *, name); \
        int h = about_path(mode[0] == 'r' ? "open" : "create", path); \
        if (h && h != PART) { errno = error(h); return 0; } \
        return real(path, mode); \
    }
FOPEN(fopen) FOPEN(fopen64)
int close(int fd) {
    REAL(int, close);
    int h = about_file("close", fd);
    if (fd >= 0 && fd < FILES) names[fd][0] = 0;
    int got = real(fd);
    if (h && h != PART) { errno = error(h); return -1; }
    return got;
}

#define READ(name, ...) \
    { REAL(ssize_t, name); int h = about_file("read", fd); \
      if (h == PART && size > 1) size = 1; else if (h && h != PART) { errno = error(h); return -1; } \
      return real(__VA_ARGS__); }
ssize_t read(int fd, void *to, size_t size) READ(read, fd, to, size)
ssize_t pread(int fd, void *to, size_t size, off_t at) READ(pread, fd, to, size, at)
ssize_t pread64(int fd, void *to, size_t size, off64_t at) READ(pread64, fd, to, size, at)
#define WRITE(name, ...) \
    { REAL(ssize_t, name); int h = about_file("write", fd); \
      if ((h == SHORT || h == PART) && size > 1) size /= 2; else if (h && h != PART) { errno = error(h); return -1; } \
      return real(__VA_ARGS__); }
ssize_t write(int fd, const void *from, size_t size) WRITE(write, fd, from, size)
ssize_t pwrite(int fd, const void *from, size_t size, off_t at) WRITE(pwrite, fd, from, size, at)
ssize_t pwrite64(int fd, const void *from, size_t size, off64_t at) WRITE(pwrite64, fd, from, size, at)
ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, writev);
    FAIL(about_file("write", fd));
    return real(fd, parts, count);
}
ssize_t sendfile(int to, int from, off_t *at, size_t size) {
    REAL(ssize_t, sendfile);
    FAIL(about_file("write", to));
    return real(to, from, at, size);
}
ssize_t sendfile64(int to, int from, off64_t *at, size_t size) {
    REAL(ssize_t, sendfile64);
    FAIL(about_file("write", to));
    return real(to, from, at, size);
}

#define ON_PATH(call, name, types, ...) int name types { REAL(int, name); FAIL(about_path(call, path)); return real(__VA_ARGS__); }
#define ON_FILE(call, name, types, ...) int name types { REAL(int, name); FAIL(about_file(call, fd)); return real(__VA_ARGS__); }
ON_FILE("fsync", fsync, (int fd), fd)
ON_FILE("fsync", fdatasync, (int fd), fd)
ON_FILE("truncate", ftruncate, (int fd, off_t size), fd, size)
ON_FILE("truncate", ftruncate64, (int fd, off64_t size), fd, size)
ON_FILE("chmod", fchmod, (int fd, mode_t mode), fd, mode)
ON_FILE("flock", flock, (int fd, int how), fd, how)
ON_FILE("stat", fstat, (int fd, struct stat *to), fd, to)
ON_FILE("stat", fstat64, (int fd, struct stat64 *to), fd, to)
ON_PATH("stat", stat, (const char *path, struct stat *to), path, to)
ON_PATH("stat", stat64, (const char *path, struct stat64 *to), path, to)
ON_PATH("stat", lstat, (const char *path, struct stat *to), path, to)
ON_PATH("stat", lstat64, (const char *path, struct stat64 *to), path, to)
ON_PATH("stat", fstatat, (int at, const char *path, struct stat *to, int how), at, path, to, how)
ON_PATH("stat", fstatat64, (int at, const char *path, struct stat64 *to, int how), at, path, to, how)
ON_PATH("stat", access, (const char *path, int how), path, how)
ON_PATH("rename", rename, (const char *path, const char *to), path, to)
ON_PATH("rename", renameat, (int from, const char *path, int at, const char *to), from, path, at, to)
ON_PATH("link", link, (const char *path, const char *to), path, to)
ON_PATH("link", linkat, (int from, const char *path, int at, const char *to, int how), from, path, at, to, how)
ON_PATH("mkdir", mkdir, (const char *path, mode_t mode), path, mode)
ON_PATH("mkdir", mkdirat, (int at, const char *path, mode_t mode), at, path, mode)
ON_PATH("rmdir", rmdir, (const char *path), path)
ON_PATH("unlink", unlink, (const char *path), path)
ON_PATH("chmod", chmod, (const char *path, mode_t mode), path, mode)
int unlinkat(int at, const char *path, int how) {
    REAL(int, unlinkat);
    FAIL(at == AT_FDCWD ? about_path("unlink", path) : about_file("unlink", at));
    return real(at, path, how);
}
DIR *opendir(const char *path) {
    REAL(DIR *, opendir);
    int h = about_path("list", path);
    if (h && h != PART) { errno = error(h); return 0; }
    return real(path);
}
DIR *fdopendir(int fd) {
    REAL(DIR *, fdopendir);
    int h = about_file("list", fd);
    if (h && h != PART) { errno = error(h); return 0; }
    return real(fd);
}

#define MAP(name, offset) \
    void *name(void *at, size_t size, int rights, int flags, int fd, offset from) { \
        REAL(void *, name); \
        int h = flags & MAP_ANONYMOUS ? (size >= large ? event("map", "memory") : 0) : about_file("map", fd); \
        if (h && h != PART) { errno = error(h); return MAP_FAILED; } \
        return real(at, size, rights, flags, fd, from); \
    }
MAP(mmap, off_t) MAP(mmap64, off64_t)
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
#define MEMORY(size) if (on && (size) >= large && event("allocate", "memory")) { errno = ENOMEM; return 0; }
void *malloc(size_t size) { MEMORY(size) return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { MEMORY(count * size) return __libc_calloc(count, size); }
void *realloc(void *held, size_t size) { MEMORY(size) return __libc_realloc(held, size); }
void *aligned_alloc(size_t to, size_t size) { MEMORY(size) return __libc_memalign(to, size); }
void *memalign(size_t to, size_t size) { MEMORY(size) return __libc_memalign(to, size); }
int posix_memalign(void **out, size_t to, size_t size) {
    if (on && size >= large && event("allocate", "memory")) return ENOMEM;
    *out = __libc_memalign(to, size);
    return *out || !size ? 0 : ENOMEM;
}

typedef struct { void *(*run)(void *); void *with; } Work;
static void over(void *unused) { __atomic_sub_fetch(&running, 1, __ATOMIC_SEQ_CST); }
static void *counted(void *held) {
    Work work = *(Work *)held;
    void *got;
    free(held);
    pthread_cleanup_push(over, 0);
    got = work.run(work.with);
    pthread_cleanup_pop(1);
    return got;
}
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *with) {
    REAL(int, pthread_create);
    if (event("thread", "process")) most = running;
    if (on == 2 && most >= 0 && running >= most) return EAGAIN;
    Work *work = malloc(sizeof *work);
    *work = (Work){run, with};
    __atomic_add_fetch(&running, 1, __ATOMIC_SEQ_CST);
    int got = real(thread, how, counted, work);
    if (got) over(0), free(work);
    return got;
}
static time_t jump(void) {
    int h = event("clock", "system");
    if (h) ahead = h == BACK ? -700 * 86400L : 9000 * 86400L;
    return on == 2 ? ahead : 0;
}
int clock_gettime(clockid_t which, struct timespec *to) {
    REAL(int, clock_gettime);
    int got = real(which, to);
    if (!got && which == CLOCK_REALTIME) to->tv_sec += jump();
    return got;
}
time_t time(time_t *to) {
    REAL(time_t, time);
    time_t got = real(0) + jump();
    if (to) *to = got;
    return got;
}
int gettimeofday(struct timeval *to, void *zone) {
    REAL(int, gettimeofday);
    int got = real(to, zone);
    if (!got) to->tv_sec += jump();
    return got;
}
