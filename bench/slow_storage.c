/*
 * Storage that takes 1 ms to read, simulated: a library to preload (LD_PRELOAD) into the postmaster.
 *
 * A read of a relation's file, under base/, ends 1 ms after it was asked for. posix_fadvise(POSIX_FADV_WILLNEED) asks
 * ahead: the read of an advised block waits only for what is left. As of a real device, DEPTH requests are at work at a
 * time; one more begins when the first of them ends. Nothing stays in a cache: a block read twice waits twice, unless
 * it was advised twice.
 *
 * What is asked for is remembered by each process for itself: advice and read come from the same one. So this is no
 * simulation of many processes that share a device.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define LATENCY INT64_C(1000000) /* ns */
#define DEPTH 64
/* How late a sleep may end: longer than reads that are at work together are apart. So much of each wait is no sleep. */
#define LATE INT64_C(60000) /* ns */
#define BLOCK 8192
/* How many blocks can be asked for and not yet read; beyond that the oldest is forgotten. */
#define REMEMBERED 4096

_Static_assert(sizeof(long) == 8, "offsets are passed to system calls as one number");

typedef struct {
    uint64_t file; /* 0: read, or never asked for */
    int64_t block;
    int64_t ready;
} Request;

static Request requests[REMEMBERED];
/* Counted from the first one ever; their places are these numbers modulo REMEMBERED. */
static uint64_t oldest, next;
static int64_t busy_until[DEPTH];

/* Timers are 50 µs late unless a process asks for better; children inherit it. */
__attribute__((constructor)) static void
be_punctual(void)
{
    prctl(PR_SET_TIMERSLACK, 1);
}

static int64_t
now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void
wait_until(int64_t moment)
{
    int64_t wake = moment - LATE;
    struct timespec time = {wake / INT64_C(1000000000), wake % INT64_C(1000000000)};

    if (wake > now())
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
            ;
    while (now() < moment)
        ;
}

/* A number for the relation's file behind the descriptor; 0 if it is another kind of file. */
static uint64_t
relation_file(int fd)
{
    char link[32], path[4096];
    uint64_t hash = UINT64_C(14695981039346656037);
    ssize_t length;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof(path) - 1);
    if (length < 0)
        return 0;
    path[length] = '\0';
    if (strstr(path, "/base/") == NULL || strstr(path, "/pgsql_tmp") != NULL)
        return 0;
    for (ssize_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char) path[i]) * UINT64_C(1099511628211);
    return hash | 1;
}

/* Hands the device one request; returns when it will be done. */
static int64_t
submit(void)
{
    int first = 0;
    int64_t begin = now();

    for (int i = 1; i < DEPTH; i++)
        if (busy_until[i] < busy_until[first])
            first = i;
    if (begin < busy_until[first])
        begin = busy_until[first];
    return busy_until[first] = begin + LATENCY;
}

static Request *
find(uint64_t file, int64_t block)
{
    for (uint64_t i = oldest; i < next; i++) {
        Request *request = &requests[i % REMEMBERED];

        if (request->file == file && request->block == block)
            return request;
    }
    return NULL;
}

static void
remember(uint64_t file, int64_t block, int64_t ready)
{
    if (next - oldest == REMEMBERED)
        oldest++;
    requests[next++ % REMEMBERED] = (Request) {file, block, ready};
}

/* When the block, if it was asked for, is there, or else 0. It is forgotten. */
static int64_t
take(uint64_t file, int64_t block)
{
    Request *request = find(file, block);

    if (request == NULL)
        return 0;
    request->file = 0;
    while (oldest < next && requests[oldest % REMEMBERED].file == 0)
        oldest++;
    return request->ready;
}

/* Waits for blocks that are about to be read: those not asked for before are one request. */
static void
wait_for(int fd, off_t offset, size_t length)
{
    int saved = errno;
    uint64_t file = relation_file(fd);
    int64_t done = 0;
    bool unasked = false;

    if (file == 0 || length == 0) {
        errno = saved;
        return;
    }
    for (int64_t block = offset / BLOCK; block <= (int64_t) (offset + length - 1) / BLOCK; block++) {
        int64_t ready = take(file, block);

        unasked |= ready == 0;
        if (done < ready)
            done = ready;
    }
    if (unasked) {
        int64_t ready = submit();

        if (done < ready)
            done = ready;
    }
    wait_until(done);
    errno = saved;
}

ssize_t
pread(int fd, void *buffer, size_t length, off_t offset)
{
    wait_for(fd, offset, length);
    return syscall(SYS_pread64, fd, buffer, length, offset);
}

ssize_t
preadv(int fd, const struct iovec *parts, int count, off_t offset)
{
    size_t length = 0;

    for (int i = 0; i < count; i++)
        length += parts[i].iov_len;
    wait_for(fd, offset, length);
    return syscall(SYS_preadv, fd, parts, (long) count, offset, 0L);
}

int
posix_fadvise(int fd, off_t offset, off_t length, int advice)
{
    uint64_t file = advice == POSIX_FADV_WILLNEED && length > 0 ? relation_file(fd) : 0;

    if (file != 0) {
        int64_t ready = 0;

        for (int64_t block = offset / BLOCK; block <= (offset + length - 1) / BLOCK; block++) {
            if (find(file, block) != NULL)
                continue;
            if (ready == 0)
                ready = submit();
            remember(file, block, ready);
        }
    }
    return syscall(SYS_fadvise64, fd, offset, length, (long) advice) == 0 ? 0 : errno;
}

/* The names that programs built for large files on 32 bits use, and some on 64. */
ssize_t pread64(int, void *, size_t, off_t) __attribute__((alias("pread")));
ssize_t preadv64(int, const struct iovec *, int, off_t) __attribute__((alias("preadv")));
int posix_fadvise64(int, off_t, off_t, int) __attribute__((alias("posix_fadvise")));
