/* one_sided.c - every rank sends its neighbour a message that announces itself: data and signal in one
 * operation, no call on the receiving side but waiting for the word.
 *
 *     sfab run -n 4 build/release/examples/one_sided */
#include <syncfab/syncfab.h>

#include <stdio.h>
#include <stdlib.h>

enum { SIGNAL = 0, INBOX = 64, OUTBOX = 1024, BYTES = 2048 };

static int exchange(sfab_ctx *ctx, sfab_mem *mem, sfab_rmem **of)
{
    int rank = sfab_rank(ctx), size = sfab_size(ctx), next = (rank + 1) % size;
    char *bytes = sfab_mem_addr(mem);
    int len = snprintf(bytes + OUTBOX, 64, "greetings from rank %d", rank) + 1;
    int rc = sfab_put_signal(of[next], INBOX, mem, OUTBOX, (size_t)len, of[next], SIGNAL, 1);

    if (rc == 0)
        rc = sfab_wait_u64(mem, SIGNAL, 1, (rank + size - 1) % size, 10000000000);
    if (rc == 0)
        printf("rank %d got: %s\n", rank, bytes + INBOX);
    return rc == 0 ? sfab_barrier(sfab_world(ctx), 10000000000) : rc;
}

int main(void)
{
    char text[1024];
    sfab_ctx *ctx = NULL;
    sfab_mem *mem = NULL;
    int rc = sfab_open(NULL, &ctx);
    sfab_rmem **of = calloc(rc == 0 ? (size_t)sfab_size(ctx) : 1, sizeof *of);

    if (rc == 0)
        rc = sfab_mem_alloc(ctx, BYTES, SFAB_REMOTE_WRITE, &mem);
    if (rc == 0)
        rc = sfab_mem_share(mem, sfab_world(ctx), of, 10000000000);
    if (rc == 0)
        rc = exchange(ctx, mem, of);
    if (rc != 0) {
        sfab_last_error(ctx, text, sizeof text);
        fprintf(stderr, "%s\n", text);
    }
    sfab_close(ctx); /* frees mem and what was opened */
    free(of);
    return rc == 0 ? 0 : 1;
}
