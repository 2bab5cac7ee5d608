/* straggler.c - a barrier that names who holds it up: the last rank works longer, the others ask who is
 * missing each time their patience ends, and go on waiting.
 *
 *     sfab run -n 4 build/release/examples/straggler */
#include <syncfab/syncfab.h>

#include <errno.h>
#include <stdio.h>
#include <time.h>

int main(void)
{
    const struct timespec work = {.tv_nsec = 700000000};
    char text[1024];
    sfab_ctx *ctx;
    int rc;

    if (sfab_open(NULL, &ctx) != 0) {
        sfab_last_error(NULL, text, sizeof text);
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    if (sfab_rank(ctx) == sfab_size(ctx) - 1)
        nanosleep(&work, NULL);
    while ((rc = sfab_barrier(sfab_world(ctx), 200000000)) == -ETIMEDOUT) {
        sfab_last_error(ctx, text, sizeof text);
        if (sfab_rank(ctx) == 0)
            printf("%s\n", text);
    }
    if (sfab_rank(ctx) == 0)
        printf("through: %s\n", sfab_strerror(rc));
    sfab_close(ctx);
    return rc == 0 ? 0 : 1;
}
