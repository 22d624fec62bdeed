/* A file system that fails at the n-th call, laid over libc with LD_PRELOAD.
 *
 * Calls count when what they name lies below FAULT_DIR: by path, by path relative to a folder's
 * descriptor, or by descriptor. FAULT_CALLS picks some of them. At number FAULT_N (with FAULT_FROM
 * set, from there on) FAULT_DO happens:
 *
 *   <number>   the call fails with that errno
 *   short      a write takes half of what it is given
 *   lost       a rename says that it is done, and is not
 *   delay      the call comes 5 ms later
 *   kill       the process is killed before the call
 *   swap       FAULT_SWAP is renamed to FAULT_ASIDE before the call, and is a link to
 *              FAULT_PLANTED then
 *
 * Each counted call is a line of FAULT_LOG: its name, what it names, and `!` where the fault was.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NOTHING = 0, SHORT = -1, LOST = -2 };

static const char *dir, *calls, *action, *swap_from, *swap_aside, *swap_planted;
static long n, from;
static int log_fd = -1;
static long counted;

__attribute__((constructor)) static void start(void) {
    dir = getenv("FAULT_DIR");
    calls = getenv("FAULT_CALLS");
    action = getenv("FAULT_DO");
    swap_from = getenv("FAULT_SWAP");
    swap_aside = getenv("FAULT_ASIDE");
    swap_planted = getenv("FAULT_PLANTED");
    n = getenv("FAULT_N") ? atol(getenv("FAULT_N")) : 0;
    from = getenv("FAULT_FROM") != NULL;
    if (getenv("FAULT_LOG"))
        log_fd = syscall(SYS_openat, AT_FDCWD, getenv("FAULT_LOG"),
                         O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* The path of what a call names, without links being followed in its last part. */
static void name_of(int fd, const char *path, char *out, size_t size) {
    char at[PATH_MAX] = "";
    if (path && path[0] == '/') {
        snprintf(out, size, "%s", path);
        return;
    }
    char link[64];
    if (fd == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/self/cwd");
    else
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, at, sizeof at - 1);
    at[length < 0 ? 0 : length] = 0;
    if (path && path[0])
        snprintf(out, size, "%s/%s", at, path);
    else
        snprintf(out, size, "%s", at);
}

static int listed(const char *call) {
    if (!calls)
        return 1;
    for (const char *at = strstr(calls, call); at; at = strstr(at + 1, call)) {
        char after = at[strlen(call)];
        if ((at == calls || at[-1] == ' ') && (after == ' ' || !after))
            return 1;
    }
    return 0;
}

/* What is to happen to this call. */
static int fault(const char *call, int fd, const char *path) {
    int before = errno;
    int what = NOTHING;
    char name[2 * PATH_MAX];
    if (!dir || !listed(call))
        return NOTHING;
    name_of(fd, path, name, sizeof name);
    size_t length = strlen(dir);
    if (strncmp(name, dir, length) != 0 || (name[length] != '/' && name[length] != 0)) {
        errno = before;
        return NOTHING;
    }
    long number = __atomic_add_fetch(&counted, 1, __ATOMIC_SEQ_CST);
    int now = action && n && (from ? number >= n : number == n);
    if (log_fd >= 0) {
        char line[2 * PATH_MAX + 64];
        int text = snprintf(line, sizeof line, "%s%s %s\n", now ? "!" : "", call,
                            name + length + (name[length] == '/'));
        (void)!syscall(SYS_write, log_fd, line, (size_t)text);
    }
    if (now) {
        if (!strcmp(action, "short")) {
            what = SHORT;
        } else if (!strcmp(action, "lost")) {
            what = LOST;
        } else if (!strcmp(action, "delay")) {
            struct timespec wait = {0, 5 * 1000 * 1000};
            nanosleep(&wait, NULL);
        } else if (!strcmp(action, "kill")) {
            kill(getpid(), SIGKILL);
        } else if (!strcmp(action, "swap")) {
            syscall(SYS_renameat2, AT_FDCWD, swap_from, AT_FDCWD, swap_aside, 0);
            syscall(SYS_symlinkat, swap_planted, AT_FDCWD, swap_from);
        } else {
            what = atoi(action);
        }
    }
    errno = before;
    return what;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL_IF(call, fd, path, value)                                                             \
    int what = fault(call, fd, path);                                                              \
    if (what > 0) {                                                                                \
        errno = what;                                                                              \
        return value;                                                                              \
    }

#define MODE_OF(flags)                                                                             \
    mode_t mode = 0;                                                                               \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                         \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode = va_arg(rest, mode_t);                                                               \
        va_end(rest);                                                                              \
    }

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...) {                                                   \
        MODE_OF(flags)                                                                             \
        FAIL_IF("open", AT_FDCWD, path, -1)                                                        \
        return REAL(name)(path, flags, mode);                                                      \
    }
#define OPENAT(name)                                                                               \
    int name(int fd, const char *path, int flags, ...) {                                           \
        MODE_OF(flags)                                                                             \
        FAIL_IF("open", fd, path, -1)                                                              \
        return REAL(name)(fd, path, flags, mode);                                                  \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

ssize_t read(int fd, void *buffer, size_t size) {
    FAIL_IF("read", fd, NULL, -1)
    return REAL(read)(fd, buffer, size);
}

ssize_t write(int fd, const void *buffer, size_t size) {
    FAIL_IF("write", fd, NULL, -1)
    return REAL(write)(fd, buffer, what == SHORT ? (size + 1) / 2 : size);
}

int rename(const char *old, const char *new) {
    FAIL_IF("rename", AT_FDCWD, new, -1)
    return what == LOST ? 0 : REAL(rename)(old, new);
}

int renameat(int old_fd, const char *old, int new_fd, const char *new) {
    FAIL_IF("rename", new_fd, new, -1)
    return what == LOST ? 0 : REAL(renameat)(old_fd, old, new_fd, new);
}

int mkdir(const char *path, mode_t mode) {
    FAIL_IF("mkdir", AT_FDCWD, path, -1)
    return REAL(mkdir)(path, mode);
}

int mkdirat(int fd, const char *path, mode_t mode) {
    FAIL_IF("mkdir", fd, path, -1)
    return REAL(mkdirat)(fd, path, mode);
}

int unlink(const char *path) {
    FAIL_IF("unlink", AT_FDCWD, path, -1)
    return REAL(unlink)(path);
}

int unlinkat(int fd, const char *path, int flags) {
    FAIL_IF(flags & AT_REMOVEDIR ? "rmdir" : "unlink", fd, path, -1)
    return REAL(unlinkat)(fd, path, flags);
}

int chmod(const char *path, mode_t mode) {
    FAIL_IF("chmod", AT_FDCWD, path, -1)
    return REAL(chmod)(path, mode);
}

int fchmod(int fd, mode_t mode) {
    FAIL_IF("chmod", fd, NULL, -1)
    return REAL(fchmod)(fd, mode);
}

int statx(int fd, const char *restrict path, int flags, unsigned mask, struct statx *restrict out) {
    FAIL_IF(flags & AT_EMPTY_PATH ? "fstat" : "stat", fd, path, -1)
    return REAL(statx)(fd, path, flags, mask, out);
}

int flock(int fd, int how) {
    FAIL_IF("flock", fd, NULL, -1)
    return REAL(flock)(fd, how);
}

int futimens(int fd, const struct timespec times[2]) {
    FAIL_IF("futimens", fd, NULL, -1)
    return REAL(futimens)(fd, times);
}

char *realpath(const char *restrict path, char *restrict resolved) {
    FAIL_IF("realpath", AT_FDCWD, path, NULL)
    return REAL(realpath)(path, resolved);
}

DIR *fdopendir(int fd) {
    FAIL_IF("fdopendir", fd, NULL, NULL)
    return REAL(fdopendir)(fd);
}

DIR *opendir(const char *path) {
    FAIL_IF("opendir", AT_FDCWD, path, NULL)
    return REAL(opendir)(path);
}

struct dirent64 *readdir64(DIR *stream) {
    FAIL_IF("readdir", dirfd(stream), NULL, NULL)
    return REAL(readdir64)(stream);
}

struct dirent *readdir(DIR *stream) {
    FAIL_IF("readdir", dirfd(stream), NULL, NULL)
    return REAL(readdir)(stream);
}
