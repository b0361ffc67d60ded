/* What a process does to the files below POWER_ROOT, in the order in which it happened, appended to POWER_LOG.

   Preloaded into a real collector. Each call and its record are made under one lock, so that the order of the records
   is the order of the calls. What is written through mmap is not seen: SQLite's -shm, which every opening makes anew.
   Nothing is really synced: disk.py decides what a disk would have kept. */
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
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CREATE = 1, WRITE, TRUNCATE, RENAME, UNLINK, MKDIR, RMDIR, SYNC_FILE, SYNC_DIRECTORY, SYNC_ALL };

struct record { uint32_t kind, path_length, data_length; uint64_t inode, offset; } __attribute__((packed));

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *root;
static int log_fd = -1;

#define REAL(type, name, ...) \
    static type (*real_##name)(__VA_ARGS__); \
    if (!real_##name) real_##name = (type (*)(__VA_ARGS__)) dlsym(RTLD_NEXT, #name)

static ssize_t plain_write(int fd, const void *data, size_t length) {
    REAL(ssize_t, write, int, const void *, size_t);
    return real_write(fd, data, length);
}

static int plain_open(const char *path, int flags, mode_t mode) {
    REAL(int, open, const char *, int, ...);
    return real_open(path, flags, mode);
}

static void begin(void) {
    pthread_mutex_lock(&lock);
    if (log_fd < 0 && (root = getenv("POWER_ROOT")))
        log_fd = plain_open(getenv("POWER_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void end(void) { int kept = errno; pthread_mutex_unlock(&lock); errno = kept; }

static int below(const char *path) {
    return log_fd >= 0 && path && !strncmp(path, root, strlen(root)) &&
           (path[strlen(root)] == '/' || !path[strlen(root)]);
}

static void put(uint32_t kind, uint64_t inode, uint64_t offset, const char *path, size_t path_length,
                const void *data, size_t data_length) {
    struct record head = {kind, (uint32_t) path_length, (uint32_t) data_length, inode, offset};
    struct iovec parts[] = {{&head, sizeof head}, {(void *) path, path_length}, {(void *) data, data_length}};
    REAL(ssize_t, writev, int, const struct iovec *, int);
    ssize_t want = (ssize_t) (sizeof head + path_length + data_length);
    if (real_writev(log_fd, parts, 3) != want) abort();
}

static int known(int fd, char *path, struct stat *status) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX);
    if (length <= 0) return 0;
    path[length] = 0;
    return below(path) && !fstat(fd, status);
}

static int opened(int fd, int flags, int existed) {
    char path[PATH_MAX + 1];
    struct stat status;
    if (fd >= 0 && known(fd, path, &status) && S_ISREG(status.st_mode)) {
        if (!existed && flags & O_CREAT) put(CREATE, status.st_ino, 0, path, strlen(path), 0, 0);
        else if (flags & O_TRUNC) put(TRUNCATE, status.st_ino, 0, 0, 0, 0, 0);
    }
    return fd;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; va_end(rest); \
        REAL(int, name, const char *, int, ...); \
        begin(); \
        int existed = !access(path, F_OK); \
        int fd = opened(real_##name(path, flags, mode), flags, existed); \
        end(); return fd; }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int at, const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; va_end(rest); \
        REAL(int, name, int, const char *, int, ...); \
        begin(); \
        int existed = !faccessat(at, path, F_OK, 0); \
        int fd = opened(real_##name(at, path, flags, mode), flags, existed); \
        end(); return fd; }
OPENAT(openat)
OPENAT(openat64)

static void wrote(int fd, const void *data, ssize_t length, off_t offset) {
    char path[PATH_MAX + 1];
    struct stat status;
    if (length > 0 && known(fd, path, &status) && S_ISREG(status.st_mode))
        put(WRITE, status.st_ino, (uint64_t) offset, 0, 0, data, (size_t) length);
}

ssize_t write(int fd, const void *data, size_t length) {
    begin();
    ssize_t done = plain_write(fd, data, length);
    if (done > 0 && log_fd >= 0) {
        int kept = errno;
        off_t at = lseek(fd, 0, SEEK_CUR);  /* behind what was written, with O_APPEND too */
        if (at >= 0) wrote(fd, data, done, at - done);
        errno = kept;
    }
    end(); return done;
}

#define PWRITE(name) \
    ssize_t name(int fd, const void *data, size_t length, off_t offset) { \
        REAL(ssize_t, name, int, const void *, size_t, off_t); \
        begin(); \
        ssize_t done = real_##name(fd, data, length, offset); \
        wrote(fd, data, done, offset); \
        end(); return done; }
PWRITE(pwrite)
PWRITE(pwrite64)

static void unheard(int fd, const char *call) {  /* whatever we do not record must not pass in silence */
    char path[PATH_MAX + 1];
    struct stat status;
    if (known(fd, path, &status)) { fprintf(stderr, "recorder: %s on %s is not recorded\n", call, path); abort(); }
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    begin(); unheard(fd, "writev"); end();
    return real_writev(fd, parts, count);
}

int fallocate(int fd, int mode, off_t offset, off_t length) {
    REAL(int, fallocate, int, int, off_t, off_t);
    begin(); unheard(fd, "fallocate"); end();
    return real_fallocate(fd, mode, offset, length);
}

#define TRUNCATE_FD(name) \
    int name(int fd, off_t size) { \
        char path[PATH_MAX + 1]; struct stat status; \
        REAL(int, name, int, off_t); \
        begin(); \
        int done = real_##name(fd, size); \
        if (!done && known(fd, path, &status)) put(TRUNCATE, status.st_ino, (uint64_t) size, 0, 0, 0, 0); \
        end(); return done; }
TRUNCATE_FD(ftruncate)
TRUNCATE_FD(ftruncate64)

static void moved(const char *from, const char *to) {
    char both[2 * PATH_MAX + 2];
    if (!below(from) && !below(to)) return;
    size_t length = (size_t) snprintf(both, sizeof both, "%s%c%s", from, 0, to);
    put(RENAME, 0, 0, both, length, 0, 0);
}

int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *);
    begin();
    int done = real_rename(from, to);
    if (!done) moved(from, to);
    end(); return done;
}

#define ONE_PATH(name, kind, mode_declared, mode_passed, ...) \
    int name(const char *path mode_declared) { \
        REAL(int, name, const char *__VA_ARGS__); \
        begin(); \
        int done = real_##name(path mode_passed); \
        if (!done && below(path)) put(kind, 0, 0, path, strlen(path), 0, 0); \
        end(); return done; }
#define COMMA_MODE , mode_t mode
#define COMMA_PASSED , mode
ONE_PATH(unlink, UNLINK, , )
ONE_PATH(remove, UNLINK, , )
ONE_PATH(rmdir, RMDIR, , )
ONE_PATH(mkdir, MKDIR, COMMA_MODE, COMMA_PASSED, , mode_t)

int unlinkat(int at, const char *path, int flags) {
    REAL(int, unlinkat, int, const char *, int);
    begin();
    int done = real_unlinkat(at, path, flags);
    if (!done && below(path)) put(flags & AT_REMOVEDIR ? RMDIR : UNLINK, 0, 0, path, strlen(path), 0, 0);
    end(); return done;
}

#define SYNC(name) \
    int name(int fd) { \
        char path[PATH_MAX + 1]; struct stat status; \
        begin(); \
        if (known(fd, path, &status)) \
            put(S_ISDIR(status.st_mode) ? SYNC_DIRECTORY : SYNC_FILE, status.st_ino, 0, path, strlen(path), 0, 0); \
        end(); return 0; }
SYNC(fsync)
SYNC(fdatasync)

int syncfs(int fd) {
    char path[PATH_MAX + 1];
    struct stat status;
    begin();
    if (known(fd, path, &status)) put(SYNC_ALL, 0, 0, path, strlen(path), 0, 0);
    end(); return 0;
}
