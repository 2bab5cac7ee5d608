/* main.c - an outside program: sees nothing but the installed header and library.
 *
 * Adds up the ranks in a barrier, puts a word into the next rank's memory and waits for its own. */
#include <syncfab/syncfab.h>

#include <stdio.h>
#include <string.h>

#define PATIENCE_NS INT64_C(30000000000)

static int fail(sfab_ctx *ctx, const char *what)
{
    char text[1024];

    sfab_last_error(ctx, text, sizeof text);
    fprintf(stderr, "consumer: %s: %s\n", what, text);
    return 1;
}

/* The header and the library that runs are of one version. */
static int same_version(void)
{
    char header[32];

    snprintf(header, sizeof header, "%d.%d.%d", SFAB_VERSION_MAJOR, SFAB_VERSION_MINOR,
             SFAB_VERSION_PATCH);
    if (strcmp(header, sfab_version()) == 0)
        return 1;
    fprintf(stderr, "consumer: the header is of version %s, the library of %s\n", header,
            sfab_version());
    return 0;
}

static int work(sfab_ctx *ctx)
{
    int rank = sfab_rank(ctx), size = sfab_size(ctx);
    uint64_t sum = (uint64_t)rank + 1;
    sfab_rmem *table[64];
    sfab_mem *mem;

    if (size > 64)
        return fail(ctx, "more than 64 ranks");
    if (sfab_barrier_reduce(sfab_world(ctx), SFAB_SUM, &sum, 1, PATIENCE_NS) != 0)
        return fail(ctx, "sfab_barrier_reduce");
    if (sfab_mem_alloc(ctx, sizeof(uint64_t), SFAB_REMOTE_WRITE, &mem) != 0 ||
        sfab_mem_share(mem, sfab_world(ctx), table, PATIENCE_NS) != 0)
        return fail(ctx, "sharing memory");
    if (sfab_put_u64(table[(rank + 1) % size], 0, sum) != 0 ||
        sfab_wait_u64(mem, 0, sum, SFAB_ALL_RANKS, PATIENCE_NS) != 0)
        return fail(ctx, "a word to the next rank");
    if (sfab_barrier(sfab_world(ctx), PATIENCE_NS) != 0)
        return fail(ctx, "sfab_barrier");
    for (int i = 0; i < size; i++)
        sfab_rmem_close(table[i]);
    sfab_mem_free(mem);
    printf("consumer: rank %d of %d, sum %llu\n", rank, size, (unsigned long long)sum);
    return 0;
}

int main(void)
{
    sfab_ctx *ctx;

    if (!same_version())
        return 1;
    if (sfab_open(NULL, &ctx) != 0)
        return fail(NULL, "sfab_open");
    int status = work(ctx);
    if (sfab_close(ctx) != 0)
        status = fail(NULL, "sfab_close");
    return status;
}
