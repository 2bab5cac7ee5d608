/* hello.c - N processes meet in a barrier and add up their ranks.
 *
 *     sfab run -n 4 build/release/examples/hello */
#include <syncfab/syncfab.h>

#include <stdio.h>

static int fail(sfab_ctx *ctx)
{
    char text[1024];

    sfab_last_error(ctx, text, sizeof text);
    fprintf(stderr, "%s\n", text);
    return 1;
}

int main(void)
{
    sfab_ctx *ctx;

    if (sfab_open(NULL, &ctx) != 0)
        return fail(NULL);
    uint64_t sum = (uint64_t)sfab_rank(ctx);
    if (sfab_barrier_reduce(sfab_world(ctx), SFAB_SUM, &sum, 1, 10000000000) != 0)
        return fail(ctx);
    printf("rank %d of %d: the ranks add up to %llu\n", sfab_rank(ctx), sfab_size(ctx),
           (unsigned long long)sum);
    return sfab_close(ctx) == 0 ? 0 : 1;
}
