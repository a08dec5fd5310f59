/* Records what a process does to the files below one folder, in order and with data.
 *
 * Loaded with LD_PRELOAD. Nothing is recorded before `power_start(root, log)`. Then every call that
 * changes a file or a folder below `root` is made and written to `log` under one lock, so that the
 * order of the records is the order of the calls. Children of the process are not recorded.
 *
 * A record is a `struct head`, `first` bytes (a path below the root, or data), `second` bytes (the
 * other path of a rename or link). `recording.py` reads it and says what each kind means.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 65536

enum kind {
    OPEN = 1, CLOSE, WRITE, TRUNCATE, RESERVE, SYNC, SYNC_DATA, RENAME, UNLINK, MKDIR, RMDIR, LINK,
    DUP, MAP, MARK, SYNC_ALL, UNKNOWN
};

struct head {
    uint32_t kind, fd, other, flags;
    int64_t offset;
    uint32_t first, second;
};

static char root[PATH_MAX];
static size_t root_length;
static int log_fd = -1;
static pid_t owner;
static unsigned char tracked[FILES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static int on(void) { return log_fd >= 0 && getpid() == owner; }
static int ours(int fd) { return on() && fd >= 0 && fd < FILES && tracked[fd]; }

static void put(const void *data, size_t size) {
    const char *at = data;
    while (size) {
        ssize_t done = syscall(SYS_write, log_fd, at, size);
        if (done < 0) {
            if (errno == EINTR) continue;
            static const char text[] = "shim.c: cannot write the log\n";
            syscall(SYS_write, 2, text, sizeof text - 1);
            abort();
        }
        at += done;
        size -= (size_t)done;
    }
}

static void record(enum kind kind, int fd, int other, unsigned flags, int64_t offset,
                   const void *first, size_t n, const char *second) {
    int saved = errno;
    struct head head = {kind, (uint32_t)fd, (uint32_t)other, flags, offset, (uint32_t)n,
                        (uint32_t)(second ? strlen(second) : 0)};
    put(&head, sizeof head);
    put(first, n);
    if (second) put(second, head.second);
    errno = saved;
}

static void record_path(enum kind kind, int fd, unsigned flags, const char *path) {
    record(kind, fd, 0, flags, 0, path, strlen(path), NULL);
}

/* The path below the root of a name, whose last part is not followed; NULL if it is elsewhere. */
static const char *below(int folder, const char *path, char *out) {
    if (!on() || !path || !*path) return NULL;
    int saved = errno;
    char whole[PATH_MAX * 2], parent[PATH_MAX];
    if (*path == '/') {
        snprintf(whole, sizeof whole, "%s", path);
    } else {
        char base[PATH_MAX] = "";
        if (folder == AT_FDCWD) {
            if (!getcwd(base, sizeof base)) goto elsewhere;
        } else {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            ssize_t n = readlink(link, base, sizeof base - 1);
            if (n < 0) goto elsewhere;
            base[n] = 0;
        }
        snprintf(whole, sizeof whole, "%s/%s", base, path);
    }
    size_t length = strlen(whole);
    while (length > 1 && whole[length - 1] == '/') whole[--length] = 0;
    if (!strcmp(whole, root)) {
        *out = 0;
        errno = saved;
        return out;
    }
    char *slash = strrchr(whole, '/');
    const char *name = slash + 1;
    *slash = 0;
    if (!realpath(*whole ? whole : "/", parent)) goto elsewhere;
    if (strncmp(parent, root, root_length)) goto elsewhere;
    if (parent[root_length] == 0) {
        snprintf(out, PATH_MAX, "%s", name);
    } else if (parent[root_length] == '/') {
        if (snprintf(out, PATH_MAX, "%s/%s", parent + root_length + 1, name) >= PATH_MAX)
            goto elsewhere;
    } else {
        goto elsewhere;
    }
    errno = saved;
    return out;
elsewhere:
    errno = saved;
    return NULL;
}

/* ---- what the recorded process itself calls ---- */

int power_start(const char *folder, const char *log) {
    if (!realpath(folder, root)) return -1;
    root_length = strlen(root);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return -1;
    memset(tracked, 0, sizeof tracked);
    owner = getpid();
    log_fd = fd;
    return 0;
}

void power_stop(void) {
    pthread_mutex_lock(&lock);
    if (log_fd >= 0) syscall(SYS_close, log_fd);
    log_fd = -1;
    pthread_mutex_unlock(&lock);
}

void power_mark(const char *text) {
    if (!on()) return;
    pthread_mutex_lock(&lock);
    record_path(MARK, 0, 0, text);
    pthread_mutex_unlock(&lock);
}

/* ---- opening and closing ---- */

#define OPENER(call, folder) \
    char room[PATH_MAX]; \
    const char *path_ = below(folder, path, room); \
    if (!path_) return call; \
    pthread_mutex_lock(&lock); \
    int fd = call; \
    if (fd >= FILES) record_path(UNKNOWN, 0, 0, "open: the descriptor's number is too large"); \
    if (fd >= 0 && fd < FILES) { \
        tracked[fd] = 1; \
        record_path((flags & O_TMPFILE) == O_TMPFILE ? UNKNOWN : OPEN, fd, (unsigned)flags, path_); \
    } \
    pthread_mutex_unlock(&lock); \
    return fd

#define MODE \
    mode_t mode = 0; \
    if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) { REAL(open); MODE OPENER(real(path, flags, mode), AT_FDCWD); }
int open64(const char *path, int flags, ...) { REAL(open64); MODE OPENER(real(path, flags, mode), AT_FDCWD); }
int openat(int at, const char *path, int flags, ...) { REAL(openat); MODE OPENER(real(at, path, flags, mode), at); }
int openat64(int at, const char *path, int flags, ...) { REAL(openat64); MODE OPENER(real(at, path, flags, mode), at); }
int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open64(path, flags); }
int __openat_2(int at, const char *path, int flags) { return openat(at, path, flags); }
int __openat64_2(int at, const char *path, int flags) { return openat64(at, path, flags); }
int creat(const char *path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return open64(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int fd) {
    REAL(close);
    if (!ours(fd)) return real(fd);
    pthread_mutex_lock(&lock);
    tracked[fd] = 0;
    record(CLOSE, fd, 0, 0, 0, NULL, 0, NULL);
    int done = real(fd);
    pthread_mutex_unlock(&lock);
    return done;
}

static int copied(int fd, int other) {
    if (other >= 0 && other < FILES && other != fd) {
        tracked[other] = 1;
        record(DUP, fd, other, 0, 0, NULL, 0, NULL);
    }
    return other;
}

#define COPY(call) \
    if (!ours(fd)) return call; \
    pthread_mutex_lock(&lock); \
    int done = copied(fd, call); \
    pthread_mutex_unlock(&lock); \
    return done

/* Another descriptor put in the place of a recorded one closes it. */
static void replaced(int fd, int by) {
    if (ours(fd) && fd != by) {
        pthread_mutex_lock(&lock);
        tracked[fd] = 0;
        record(CLOSE, fd, 0, 0, 0, NULL, 0, NULL);
        pthread_mutex_unlock(&lock);
    }
}

int dup(int fd) { REAL(dup); COPY(real(fd)); }
int dup2(int fd, int other) { REAL(dup2); replaced(other, fd); COPY(real(fd, other)); }
int dup3(int fd, int other, int flags) { REAL(dup3); replaced(other, fd); COPY(real(fd, other, flags)); }

#define CONTROL(name) \
    int name(int fd, int command, ...) { \
        REAL(name); \
        va_list rest; \
        va_start(rest, command); \
        void *value = va_arg(rest, void *); \
        va_end(rest); \
        if (command != F_DUPFD && command != F_DUPFD_CLOEXEC) return real(fd, command, value); \
        COPY(real(fd, command, value)); \
    }
CONTROL(fcntl)
CONTROL(fcntl64)

/* ---- data ---- */

#define WRITER(call, where) \
    if (!ours(fd)) return call; \
    pthread_mutex_lock(&lock); \
    ssize_t done = call; \
    if (done > 0) { \
        int saved = errno; \
        off64_t at = where; \
        errno = saved; \
        record(WRITE, fd, 0, 0, at, data, (size_t)done, NULL); \
    } \
    pthread_mutex_unlock(&lock); \
    return done

ssize_t write(int fd, const void *data, size_t n) { REAL(write); WRITER(real(fd, data, n), lseek64(fd, 0, SEEK_CUR) - done); }
ssize_t pwrite(int fd, const void *data, size_t n, off_t at_) { REAL(pwrite); WRITER(real(fd, data, n, at_), at_); }
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at_) { REAL(pwrite64); WRITER(real(fd, data, n, at_), at_); }

static void *gathered(const struct iovec *parts, int count, size_t *size) {
    *size = 0;
    for (int i = 0; i < count; i++) *size += parts[i].iov_len;
    char *all = malloc(*size ? *size : 1), *at = all;
    if (!all) abort();
    for (int i = 0; i < count; i++) {
        memcpy(at, parts[i].iov_base, parts[i].iov_len);
        at += parts[i].iov_len;
    }
    return all;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    if (!ours(fd)) return real(fd, parts, count);
    size_t n;
    void *data = gathered(parts, count, &n);
    ssize_t done = write(fd, data, n);
    free(data);
    return done;
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
    REAL(pwritev64);
    if (!ours(fd)) return real(fd, parts, count, at);
    size_t n;
    void *data = gathered(parts, count, &n);
    ssize_t done = pwrite64(fd, data, n, at);
    free(data);
    return done;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { return pwritev64(fd, parts, count, at); }

#define CHANGE(type, call, kind, flags, where, size) \
    if (!ours(fd)) return call; \
    pthread_mutex_lock(&lock); \
    type done = call; \
    if (done == 0) { \
        int64_t n_ = size; \
        record(kind, fd, 0, (unsigned)(flags), where, &n_, sizeof n_, NULL); \
    } \
    pthread_mutex_unlock(&lock); \
    return done

int ftruncate(int fd, off_t n) { REAL(ftruncate); CHANGE(int, real(fd, n), TRUNCATE, 0, n, 0); }
int ftruncate64(int fd, off64_t n) { REAL(ftruncate64); CHANGE(int, real(fd, n), TRUNCATE, 0, n, 0); }
int fallocate(int fd, int mode, off_t at, off_t n) { REAL(fallocate); CHANGE(int, real(fd, mode, at, n), RESERVE, mode, at, n); }
int fallocate64(int fd, int mode, off64_t at, off64_t n) { REAL(fallocate64); CHANGE(int, real(fd, mode, at, n), RESERVE, mode, at, n); }
int posix_fallocate(int fd, off_t at, off_t n) { REAL(posix_fallocate); CHANGE(int, real(fd, at, n), RESERVE, 0, at, n); }
int posix_fallocate64(int fd, off64_t at, off64_t n) { REAL(posix_fallocate64); CHANGE(int, real(fd, at, n), RESERVE, 0, at, n); }
int fsync(int fd) { REAL(fsync); CHANGE(int, real(fd), SYNC, 0, 0, 0); }
int fdatasync(int fd) { REAL(fdatasync); CHANGE(int, real(fd), SYNC_DATA, 0, 0, 0); }

void sync(void) {
    REAL(sync);
    real();
    if (!on()) return;
    pthread_mutex_lock(&lock);
    record(SYNC_ALL, 0, 0, 0, 0, NULL, 0, NULL);
    pthread_mutex_unlock(&lock);
}

int syncfs(int fd) { REAL(syncfs); CHANGE(int, real(fd), SYNC_ALL, 0, 0, 0); }

static void mapped(int fd, int rights, int flags) {
    if (!(flags & MAP_SHARED) || !(rights & PROT_WRITE) || !ours(fd)) return;
    pthread_mutex_lock(&lock);
    record(MAP, fd, 0, 0, 0, NULL, 0, NULL);
    pthread_mutex_unlock(&lock);
}

void *mmap(void *at, size_t n, int rights, int flags, int fd, off_t from) {
    REAL(mmap);
    mapped(fd, rights, flags);
    return real(at, n, rights, flags, fd, from);
}

void *mmap64(void *at, size_t n, int rights, int flags, int fd, off64_t from) {
    REAL(mmap64);
    mapped(fd, rights, flags);
    return real(at, n, rights, flags, fd, from);
}

/* ---- names ---- */

#define NAMED(kind, call, folder) \
    char room[PATH_MAX]; \
    const char *path_ = below(folder, path, room); \
    if (!path_) return call; \
    pthread_mutex_lock(&lock); \
    int done = call; \
    if (done == 0) record_path(kind, 0, 0, path_); \
    pthread_mutex_unlock(&lock); \
    return done

int mkdir(const char *path, mode_t mode) { REAL(mkdir); NAMED(MKDIR, real(path, mode), AT_FDCWD); }
int mkdirat(int at, const char *path, mode_t mode) { REAL(mkdirat); NAMED(MKDIR, real(at, path, mode), at); }
int rmdir(const char *path) { REAL(rmdir); NAMED(RMDIR, real(path), AT_FDCWD); }
int unlink(const char *path) { REAL(unlink); NAMED(UNLINK, real(path), AT_FDCWD); }
int unlinkat(int at, const char *path, int flags) { REAL(unlinkat); NAMED(flags & AT_REMOVEDIR ? RMDIR : UNLINK, real(at, path, flags), at); }

int remove(const char *path) {
    struct stat about;
    if (lstat(path, &about)) return -1;
    return S_ISDIR(about.st_mode) ? rmdir(path) : unlink(path);
}

#define PAIR(kind, flags, call, at1, at2) \
    char room1[PATH_MAX], room2[PATH_MAX]; \
    const char *from_ = below(at1, from, room1), *to_ = below(at2, to, room2); \
    if (!from_ && !to_) return call; \
    pthread_mutex_lock(&lock); \
    int done = call; \
    if (done == 0 && from_ && to_) \
        record(kind, 0, 0, flags, 0, from_, strlen(from_), to_); \
    else if (done == 0) \
        record_path(UNKNOWN, 0, 0, "rename or link from or to another folder"); \
    pthread_mutex_unlock(&lock); \
    return done

int rename(const char *from, const char *to) { REAL(rename); PAIR(RENAME, 0, real(from, to), AT_FDCWD, AT_FDCWD); }
int renameat(int a, const char *from, int b, const char *to) { REAL(renameat); PAIR(RENAME, 0, real(a, from, b, to), a, b); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { REAL(renameat2); PAIR(RENAME, flags, real(a, from, b, to, flags), a, b); }
int link(const char *from, const char *to) { REAL(link); PAIR(LINK, 0, real(from, to), AT_FDCWD, AT_FDCWD); }
int linkat(int a, const char *from, int b, const char *to, int flags) { REAL(linkat); PAIR(LINK, 0, real(a, from, b, to, flags), a, b); }

/* ---- what is not modelled, and so must not happen unnoticed ---- */

#define STRANGE(call, name, fd) \
    if (ours(fd)) { \
        pthread_mutex_lock(&lock); \
        record_path(UNKNOWN, 0, 0, name); \
        pthread_mutex_unlock(&lock); \
    } \
    return call

int symlink(const char *target, const char *path) { REAL(symlink); NAMED(UNKNOWN, real(target, path), AT_FDCWD); }
int symlinkat(const char *target, int at, const char *path) { REAL(symlinkat); NAMED(UNKNOWN, real(target, at, path), at); }
int truncate(const char *path, off_t n) { REAL(truncate); NAMED(UNKNOWN, real(path, n), AT_FDCWD); }
int truncate64(const char *path, off64_t n) { REAL(truncate64); NAMED(UNKNOWN, real(path, n), AT_FDCWD); }
ssize_t copy_file_range(int a, off64_t *x, int b, off64_t *y, size_t n, unsigned flags) { REAL(copy_file_range); STRANGE(real(a, x, b, y, n, flags), "copy_file_range", b); }
ssize_t sendfile64(int b, int a, off64_t *x, size_t n) { REAL(sendfile64); STRANGE(real(b, a, x, n), "sendfile", b); }
ssize_t pwritev2(int fd, const struct iovec *p, int n, off_t at, int flags) { REAL(pwritev2); STRANGE(real(fd, p, n, at, flags), "pwritev2", fd); }
ssize_t pwritev64v2(int fd, const struct iovec *p, int n, off64_t at, int flags) { REAL(pwritev64v2); STRANGE(real(fd, p, n, at, flags), "pwritev2", fd); }
