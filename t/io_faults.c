/*
 * A disk that fails, simulated: a library to preload (LD_PRELOAD) into the postmaster.
 *
 * While the file that the environment variable IO_FAULTS names exists, it says what fails in one line: what (read, write
 * or extend), the error's number, how many such calls a process is allowed first, and a part of the names of the files
 * that are concerned. A write fails wherever it goes, an extension behind the end of its file only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

_Static_assert(sizeof(long) == 8, "offsets are passed to system calls as one number");

/* Reads a small file, and the name behind a descriptor. */
static bool
get_order(char *order, size_t size)
{
    const char *path = getenv("IO_FAULTS");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length;

    if (fd < 0)
        return false;
    length = read(fd, order, size - 1);
    close(fd);
    order[length < 0 ? 0 : length] = '\0';
    return length > 0;
}

static bool
is_concerned(int fd, const char *part)
{
    char link[32], path[4096], *found;
    ssize_t length;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof(path) - 1);
    if (length < 0)
        return false;
    path[length] = '\0';
    found = strstr(path, part);
    /* The number of a file is no part of a longer one. */
    return found != NULL && (found[strlen(part)] < '0' || found[strlen(part)] > '9' || part[strlen(part) - 1] == '/');
}

static bool
is_behind_end(int fd, off_t offset)
{
    struct stat about;

    return fstat(fd, &about) == 0 && offset >= about.st_size;
}

/* The error that a call gets, 0 for none. */
static int
fault(int fd, bool writes, off_t offset)
{
    static int allowed = -1;
    char order[1024], what[16], part[512];
    int error, first, saved = errno, result = 0;

    if (!get_order(order, sizeof(order)))
        allowed = -1;
    else if (sscanf(order, "%15s %d %d %511s", what, &error, &first, part) == 4 && is_concerned(fd, part) &&
             (strcmp(what, "read") != 0) == writes && (strcmp(what, "extend") != 0 || is_behind_end(fd, offset))) {
        if (allowed < 0)
            allowed = first;
        if (allowed == 0)
            result = error;
        else
            allowed--;
    }
    errno = saved;
    return result;
}

#define FAIL_IF_TOLD(fd, writes, offset)                                                                               \
    do {                                                                                                               \
        int error_ = fault(fd, writes, offset);                                                                        \
        if (error_ != 0) {                                                                                             \
            errno = error_;                                                                                            \
            return -1;                                                                                                 \
        }                                                                                                              \
    } while (0)

ssize_t
pread(int fd, void *buffer, size_t length, off_t offset)
{
    FAIL_IF_TOLD(fd, false, offset);
    return syscall(SYS_pread64, fd, buffer, length, offset);
}

ssize_t
preadv(int fd, const struct iovec *parts, int count, off_t offset)
{
    FAIL_IF_TOLD(fd, false, offset);
    return syscall(SYS_preadv, fd, parts, (long) count, offset, 0L);
}

ssize_t
pwrite(int fd, const void *buffer, size_t length, off_t offset)
{
    FAIL_IF_TOLD(fd, true, offset);
    return syscall(SYS_pwrite64, fd, buffer, length, offset);
}

ssize_t
pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    FAIL_IF_TOLD(fd, true, offset);
    return syscall(SYS_pwritev, fd, parts, (long) count, offset, 0L);
}

int
posix_fallocate(int fd, off_t offset, off_t length)
{
    int error = fault(fd, true, offset);

    if (error != 0)
        return error;
    return syscall(SYS_fallocate, fd, 0L, offset, length) == 0 ? 0 : errno;
}

/* The names that programs built for large files on 32 bits use, and some on 64. */
ssize_t pread64(int, void *, size_t, off_t) __attribute__((alias("pread")));
ssize_t preadv64(int, const struct iovec *, int, off_t) __attribute__((alias("preadv")));
ssize_t pwrite64(int, const void *, size_t, off_t) __attribute__((alias("pwrite")));
ssize_t pwritev64(int, const struct iovec *, int, off_t) __attribute__((alias("pwritev")));
int posix_fallocate64(int, off_t, off_t) __attribute__((alias("posix_fallocate")));
