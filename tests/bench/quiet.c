/* quiet.c - rank program: a thousand barriers between two marks that strace shows, with every allocation
 * of this thread in between counted. tests/bench/quiet_barrier runs it and looks for system calls
 * between the marks.
 *
 *     sfab run -n 2 quiet [allocate]
 *
 * allocate: plants an allocation, so that the test can be seen to fail. Exit status 3: allocations
 * were seen. The counting stands on glibc's __libc_ names, the ones it keeps for this purpose. */
#include "tests/support/check.h"
#include "tests/support/job.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WARM_UP = 1000, BARRIERS = 1000, ALLOCATIONS_SEEN = 3 };

/* ---- a counting allocator ---------------------------------------------------------------- */

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static _Thread_local bool counting;
static _Thread_local unsigned long allocations, frees;

void *malloc(size_t len)
{
    allocations += counting;
    return __libc_malloc(len);
}

void *calloc(size_t count, size_t len)
{
    allocations += counting;
    return __libc_calloc(count, len);
}

void *realloc(void *old, size_t len)
{
    allocations += counting;
    return __libc_realloc(old, len);
}

void *memalign(size_t alignment, size_t len);
void *memalign(size_t alignment, size_t len)
{
    allocations += counting;
    return __libc_memalign(alignment, len);
}

void *aligned_alloc(size_t alignment, size_t len)
{
    return memalign(alignment, len);
}

int posix_memalign(void **out, size_t alignment, size_t len)
{
    void *memory = memalign(alignment, len);

    if (memory == NULL)
        return ENOMEM;
    *out = memory;
    return 0;
}

void free(void *memory)
{
    frees += counting;
    __libc_free(memory);
}

/* ---- the ranks --------------------------------------------------------------------------- */

/* A write to nowhere: fails with EBADF, and strace shows the text. */
static void mark(const char *text)
{
    syscall(SYS_write, -1, text, strlen(text));
}

static void *volatile planted;

static void barriers(struct sfab_check *c, bool plant)
{
    mark("quiet: begin");
    counting = true;
    for (int i = 0; c->failures == 0 && i < BARRIERS; i++) {
        CHECK_OK(c, sfab_barrier(c->world, -1));
        if (plant && i == BARRIERS / 2)
            planted = malloc(64);
    }
    counting = false;
    mark("quiet: end");
}

static int work(sfab_ctx *ctx, void *arg)
{
    struct sfab_check c = {.ctx = ctx,
                           .world = sfab_world(ctx),
                           .rank = sfab_rank(ctx),
                           .size = sfab_size(ctx),
                           .name = "quiet barrier"};
    sfab_counters before, after;

    for (int i = 0; c.failures == 0 && i < WARM_UP; i++)
        CHECK_OK(&c, sfab_barrier(c.world, PATIENCE_NS));
    sfab_counters_get(ctx, &before);
    barriers(&c, *(bool *)arg);
    sfab_counters_get(ctx, &after);
    free(planted);
    printf("rank %d: %lu allocations, %lu frees, %llu yields, %llu blocks\n", c.rank, allocations,
           frees, (unsigned long long)(after.yields - before.yields),
           (unsigned long long)(after.blocks - before.blocks));
    fflush(stdout);
    return c.failures;
}

int main(int argc, char **argv)
{
    bool plant = argc > 1 && strcmp(argv[1], "allocate") == 0;
    int failures = sfab_job_process(work, &plant);

    if (failures > 0)
        return EXIT_FAILURE;
    return allocations + frees > 0 ? ALLOCATIONS_SEEN : EXIT_SUCCESS;
}
