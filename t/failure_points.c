/*
 * Failure points: every allocation and every file call of a server process can be told to fail.
 *
 * One library in two roles: preloaded (LD_PRELOAD) into the postmaster it stands before the C library's functions, and
 * loaded again from the same path by CREATE FUNCTION it lets a session say which call is to fail. What it counts is the
 * process's own. File calls count if they are about files below the data directory's base/, temporary files among them:
 * the server PANICs by design where the log cannot be written.
 */
#define _GNU_SOURCE
#include "postgres.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

StaticAssertDecl(sizeof(long) == 8, "offsets are passed to system calls as one number");

/* Not there in the other programs that the postmaster's environment reaches. */
#pragma weak emit_log_hook
#pragma weak CritSectionCount

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void _PG_init(void);

enum kind { MEMORY, FILES };

static struct {
    bool armed, sticky, hit;
    enum kind kind;
    int64 nth, seen;
} order;

/* The code of the library under test and of ICU, once they are loaded. ICU does not survive that an allocation of its own
 * fails (ucol_open), whatever index or sort it is that wants a collation. */
enum library { UNDER_TEST, ICU, ICU_COMMON, LIBRARIES };
static const char *const names[LIBRARIES] = {"/fpbtree.so", "/libicui18n.so", "/libicuuc.so"};
static struct {
    uintptr_t start, end;
} code[LIBRARIES];

/* The end of the stack; where relations and temporary files are. */
static uintptr_t *stack_end;
static char base[4096];
static emit_log_hook_type next_emit_log_hook;

static int
find_code(struct dl_phdr_info *object, size_t size, void *arg)
{
    for (int which = 0; which < LIBRARIES; which++) {
        if (strstr(object->dlpi_name, names[which]) == NULL)
            continue;
        for (int i = 0; i < object->dlpi_phnum; i++) {
            const ElfW(Phdr) *part = &object->dlpi_phdr[i];

            if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0) {
                code[which].start = object->dlpi_addr + part->p_vaddr;
                code[which].end = code[which].start + part->p_memsz;
            }
        }
    }
    return 0;
}

static bool
is_in(enum library which, uintptr_t address)
{
    return address >= code[which].start && address < code[which].end;
}

/* A look at the stack is cheap, but takes what earlier calls have left behind for callers as well. */
static bool
may_be_ours(void)
{
    uintptr_t *word = __builtin_frame_address(0);

    if (code[UNDER_TEST].end == 0)
        dl_iterate_phdr(find_code, NULL);
    while (word < stack_end && !is_in(UNDER_TEST, *word))
        word++;
    return word < stack_end;
}

/*
 * Functions in which an allocation that fails ends the process, whoever has called them. The C library's own says so
 * itself; a session's statistics keep an entry that was never filled in (15 to 18), and the next who wants it goes astray.
 */
static bool
is_fatal_in(void *address)
{
    static const char *const functions[] = {"__tls_get_addr", "pgstat_get_entry_ref"};
    Dl_info about;

    if (dladdr(address, &about) == 0 || about.dli_sname == NULL)
        return false;
    for (int i = 0; i < lengthof(functions); i++)
        if (strcmp(about.dli_sname, functions[i]) == 0)
            return true;
    return false;
}

/* Whether that is so of this call. Names take their time: it is asked only of a call that is to fail. */
static bool
is_fatal(void)
{
    void *frames[128];
    int count = backtrace(frames, lengthof(frames));

    for (int i = 0; i < count; i++)
        if (is_fatal_in(frames[i]))
            return true;
    return false;
}

/* Whether this call may fail: the library under test waits for it, or anybody does if others have failed, but not ICU. */
static bool
is_concerned(void)
{
    void *frames[128];
    int count;
    bool is_ours = order.hit;

    if (!is_ours && !may_be_ours())
        return false;
    count = backtrace(frames, lengthof(frames));
    for (int i = 0; i < count; i++) {
        uintptr_t address = (uintptr_t) frames[i];

        if (is_in(ICU, address) || is_in(ICU_COMMON, address))
            return false;
        is_ours = is_ours || is_in(UNDER_TEST, address);
    }
    return is_ours;
}

static void
print_stack(const char *title)
{
    void *frames[64];

    if (write(STDERR_FILENO, title, strlen(title)) >= 0)
        backtrace_symbols_fd(frames, backtrace(frames, lengthof(frames)), STDERR_FILENO);
}

static bool
fails(enum kind kind)
{
    if (!order.armed || order.kind != kind)
        return false;
    if (order.hit)
        return order.sticky && is_concerned() && !is_fatal();
    if (!is_concerned() || ++order.seen != order.nth || is_fatal())
        return false;
    order.hit = true;
    if (getenv("FAILURE_POINTS_TRACE") != NULL)
        print_stack("this call fails:\n");
    return true;
}

/* Allocations. */

#define RETURN_NULL_IF_TOLD                                                                                            \
    do {                                                                                                               \
        if (fails(MEMORY)) {                                                                                           \
            errno = ENOMEM;                                                                                            \
            return NULL;                                                                                               \
        }                                                                                                              \
    } while (0)

void *
malloc(size_t size)
{
    RETURN_NULL_IF_TOLD;
    return __libc_malloc(size);
}

void *
calloc(size_t count, size_t size)
{
    RETURN_NULL_IF_TOLD;
    return __libc_calloc(count, size);
}

void *
realloc(void *memory, size_t size)
{
    RETURN_NULL_IF_TOLD;
    return __libc_realloc(memory, size);
}

void *
aligned_alloc(size_t alignment, size_t size)
{
    RETURN_NULL_IF_TOLD;
    return __libc_memalign(alignment, size);
}

int
posix_memalign(void **memory, size_t alignment, size_t size)
{
    if (fails(MEMORY))
        return ENOMEM;
    *memory = __libc_memalign(alignment, size);
    return *memory == NULL ? ENOMEM : 0;
}

/* File calls. */

static bool
path_fails(const char *path)
{
    return order.armed && (strncmp(path, "base/", 5) == 0 || strncmp(path, base, strlen(base)) == 0) && fails(FILES);
}

static bool
file_fails(int fd)
{
    char link[32], path[4096];
    ssize_t length;
    int saved = errno;
    bool result;

    if (!order.armed || order.kind != FILES)
        return false;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof(path) - 1);
    path[length < 0 ? 0 : length] = '\0';
    result = path_fails(path);
    errno = saved;
    return result;
}

#define FAIL_IF(fails_)                                                                                                \
    do {                                                                                                               \
        if (fails_) {                                                                                                  \
            errno = EIO;                                                                                               \
            return -1;                                                                                                 \
        }                                                                                                              \
    } while (0)

int
open(const char *path, int flags, ...)
{
    va_list more;
    int mode;

    va_start(more, flags);
    mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(more, int) : 0;
    va_end(more);
    FAIL_IF(path_fails(path));
    return syscall(SYS_openat, (long) AT_FDCWD, path, (long) flags, (long) mode);
}

int
unlink(const char *path)
{
    FAIL_IF(path_fails(path));
    return syscall(SYS_unlinkat, (long) AT_FDCWD, path, 0L);
}

int
truncate(const char *path, off_t length)
{
    FAIL_IF(order.armed && CritSectionCount == 0 && path_fails(path));
    return syscall(SYS_truncate, path, length);
}

/* RelationTruncate is a critical section of the server's, for indexes and tables of all kinds. */
int
ftruncate(int fd, off_t length)
{
    FAIL_IF(order.armed && CritSectionCount == 0 && file_fails(fd));
    return syscall(SYS_ftruncate, fd, length);
}

int
fstat(int fd, struct stat *about)
{
    FAIL_IF(file_fails(fd));
    return syscall(SYS_fstat, fd, about);
}

off_t
lseek(int fd, off_t offset, int from)
{
    FAIL_IF(file_fails(fd));
    return syscall(SYS_lseek, fd, offset, (long) from);
}

ssize_t
pread(int fd, void *buffer, size_t length, off_t offset)
{
    FAIL_IF(file_fails(fd));
    return syscall(SYS_pread64, fd, buffer, length, offset);
}

ssize_t
preadv(int fd, const struct iovec *parts, int count, off_t offset)
{
    FAIL_IF(file_fails(fd));
    return syscall(SYS_preadv, fd, parts, (long) count, offset, 0L);
}

ssize_t
pwrite(int fd, const void *buffer, size_t length, off_t offset)
{
    FAIL_IF(file_fails(fd));
    return syscall(SYS_pwrite64, fd, buffer, length, offset);
}

ssize_t
pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    FAIL_IF(file_fails(fd));
    return syscall(SYS_pwritev, fd, parts, (long) count, offset, 0L);
}

int
posix_fadvise(int fd, off_t offset, off_t length, int advice)
{
    if (file_fails(fd))
        return EIO;
    return syscall(SYS_fadvise64, fd, offset, length, (long) advice) == 0 ? 0 : errno;
}

int
posix_fallocate(int fd, off_t offset, off_t length)
{
    if (file_fails(fd))
        return EIO;
    return syscall(SYS_fallocate, fd, 0L, offset, length) == 0 ? 0 : errno;
}

/* The names that programs built for large files on 32 bits use, and some on 64. */
int open64(const char *, int, ...) __attribute__((alias("open")));
int truncate64(const char *, off_t) __attribute__((alias("truncate")));
int ftruncate64(int, off_t) __attribute__((alias("ftruncate")));
int fstat64(int, struct stat64 *) __attribute__((alias("fstat")));
off_t lseek64(int, off_t, int) __attribute__((alias("lseek")));
ssize_t pread64(int, void *, size_t, off_t) __attribute__((alias("pread")));
ssize_t preadv64(int, const struct iovec *, int, off_t) __attribute__((alias("preadv")));
ssize_t pwrite64(int, const void *, size_t, off_t) __attribute__((alias("pwrite")));
ssize_t pwritev64(int, const struct iovec *, int, off_t) __attribute__((alias("pwritev")));
int posix_fadvise64(int, off_t, off_t, int) __attribute__((alias("posix_fadvise")));
int posix_fallocate64(int, off_t, off_t) __attribute__((alias("posix_fallocate")));

/* What a session says. */

static void
die_with_stack(int signal)
{
    char title[64];

    order.armed = false;
    snprintf(title, sizeof(title), "signal %d in process %d:\n", signal, (int) getpid());
    print_stack(title);
    raise(signal);
}

/* Memory is there again when an error has been caught: the server itself cannot clean up without. */
static void
see_report(ErrorData *report)
{
    if (report->elevel >= ERROR && order.sticky && order.hit)
        order.armed = false;
    if (next_emit_log_hook != NULL)
        next_emit_log_hook(report);
}

/* Behind the commit record nothing may fail: by design the server PANICs. */
static void
see_transaction(XactEvent event, void *arg)
{
    if (event == XACT_EVENT_PRE_COMMIT && TransactionIdIsValid(GetTopTransactionIdIfAny()))
        order.armed = false;
}

void
_PG_init(void)
{
    struct sigaction action = {.sa_handler = die_with_stack, .sa_flags = SA_RESETHAND | SA_NODEFER};
    pthread_attr_t about;
    void *stack, *frame;
    size_t size;

    next_emit_log_hook = emit_log_hook;
    emit_log_hook = see_report;
    RegisterXactCallback(see_transaction, NULL);
    /* The first one loads a library. */
    backtrace(&frame, 1);
    dl_iterate_phdr(find_code, NULL);
    sigaction(SIGABRT, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGILL, &action, NULL);
    if (pthread_getattr_np(pthread_self(), &about) != 0 || pthread_attr_getstack(&about, &stack, &size) != 0)
        elog(ERROR, "no stack");
    stack_end = (uintptr_t *) ((char *) stack + size);
    pthread_attr_destroy(&about);
    if (getcwd(base, sizeof(base) - 6) == NULL)
        elog(ERROR, "no data directory");
    strcat(base, "/base/");
}

/* fail_arm(what text, nth bigint, sticky boolean): from now on the nth call of a kind (memory or files) that the library
 * under test makes, directly or not, fails, none if it is 0; if sticky, all later ones do too, whoever makes them, until the
 * error is reported. */
PG_FUNCTION_INFO_V1(fail_arm);
Datum
fail_arm(PG_FUNCTION_ARGS)
{
    char *what = text_to_cstring(PG_GETARG_TEXT_PP(0));

    memset(&order, 0, sizeof(order));
    order.kind = strcmp(what, "memory") == 0 ? MEMORY : FILES;
    order.nth = PG_GETARG_INT64(1);
    order.sticky = PG_GETARG_BOOL(2);
    order.armed = true;
    PG_RETURN_VOID();
}

/* Nothing fails any more. Returns how many calls were counted. */
PG_FUNCTION_INFO_V1(fail_disarm);
Datum
fail_disarm(PG_FUNCTION_ARGS)
{
    order.armed = false;
    PG_RETURN_INT64(order.seen);
}

/* Whether a call failed since arming. */
PG_FUNCTION_INFO_V1(fail_hit);
Datum
fail_hit(PG_FUNCTION_ARGS)
{
    PG_RETURN_BOOL(order.hit);
}
