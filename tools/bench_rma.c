/* bench_rma.c - one-sided operations between rank 0 and rank 1; the other ranks wait.
 *
 * put: a ping-pong of put_signal, half a round trip; and, from 1 KiB on, a stream of puts with a flush
 * at the end. get and atomic: operation and flush, a whole round trip. */
#include "tools/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct pair {
    struct sfab_bench *bench;
    sfab_mem *mem;    /* a word, then a buffer to be written to, then one to send from */
    sfab_rmem *other; /* of rank 1 - rank */
    sfab_rmem **table;
    size_t size_bytes;
    uint64_t count; /* ping-pongs so far: the signal's value */
};

enum { WORD = 0, LINE = 64, LARGEST = 1 << 20, WINDOW = 64 };

static uint64_t inbox(void)
{
    return LINE;
}

static uint64_t outbox(void)
{
    return LINE + LARGEST;
}

static int open_pair(struct sfab_bench *bench, struct pair *p)
{
    *p = (struct pair){.bench = bench};
    p->table = calloc((size_t)bench->size, sizeof(sfab_rmem *));
    if (p->table == NULL)
        return -ENOMEM;
    int rc = sfab_mem_alloc(bench->ctx, LINE + 2 * LARGEST,
                            SFAB_REMOTE_READ | SFAB_REMOTE_WRITE | SFAB_REMOTE_ATOMIC, &p->mem);
    if (rc == 0)
        rc = sfab_mem_share(p->mem, bench->world, p->table, 60000000000);
    if (rc == 0)
        p->other = p->table[bench->rank == 0 ? 1 : 0];
    return rc;
}

static int close_pair(struct pair *p)
{
    int rc = sfab_barrier(p->bench->world, -1);

    for (int i = 0; i < p->bench->size; i++)
        sfab_rmem_close(p->table[i]);
    if (rc == 0)
        rc = sfab_barrier(p->bench->world, -1);
    sfab_mem_free(p->mem);
    free(p->table);
    return rc;
}

/* ---- one operation of each kind ---------------------------------------------------------- */

static int ping_pong(struct pair *p)
{
    int me = p->bench->rank;
    int rc = 0;

    p->count++;
    for (int turn = 0; rc == 0 && turn < 2; turn++)
        if (turn == me)
            rc = sfab_put_signal(p->other, inbox(), p->mem, outbox(), p->size_bytes, p->other, WORD,
                                 p->count);
        else
            rc = sfab_wait_u64(p->mem, WORD, p->count, 1 - me, -1);
    /* The buffer may be used again: on a network that takes the acknowledgement. */
    return rc;
}

static int get_once(struct pair *p)
{
    int rc = sfab_get(p->mem, inbox(), p->other, outbox(), p->size_bytes);

    return rc == 0 ? sfab_flush(p->bench->ctx, 1, -1) : rc;
}

static int add_once(struct pair *p)
{
    uint64_t before;
    int rc = sfab_fetch_add(p->other, inbox(), 1, &before);

    return rc == 0 ? sfab_flush(p->bench->ctx, 1, -1) : rc;
}

/* ---- the loops --------------------------------------------------------------------------- */

/* Samples `once` on the ranks that take part; `share` is what one call counts for. */
static int sample(struct pair *p, int (*once)(struct pair *), int active_ranks, double share)
{
    struct sfab_bench *bench = p->bench;
    uint64_t iterations = bench->options->iterations, batch = 1;
    bool active = bench->rank < active_ranks;
    int rc = sfab_barrier(bench->world, -1);
    double start = sfab_bench_now_ns();
    const uint64_t warm = iterations / 10 < 1000 ? iterations / 10 + 2 : 1000;

    for (uint64_t i = 0; rc == 0 && active && i < warm; i++)
        rc = once(p);
    double guess = active ? (sfab_bench_now_ns() - start) / (double)warm : 1e9;
    if (rc == 0)
        rc = sfab_bench_agree_batch(bench, guess, &batch);
    for (uint64_t i = 0; rc == 0 && active && i < iterations / batch; i++) {
        start = sfab_bench_now_ns();
        for (uint64_t j = 0; rc == 0 && j < batch; j++)
            rc = once(p);
        sfab_bench_sample(bench, (sfab_bench_now_ns() - start) * share / (double)batch);
        sfab_bench_progress(bench, i + 1, iterations / batch);
    }
    bench->result.iterations = iterations / batch * batch;
    bench->result.batch = batch;
    return rc;
}

/* Puts in windows, each window flushed: bytes a second, as rank 0 sees it. */
static int stream(struct pair *p, double *bytes_per_s)
{
    struct sfab_bench *bench = p->bench;
    uint64_t windows = bench->options->iterations / WINDOW;
    int rc = 0;

    if (windows > 200)
        windows = 200;
    windows += windows == 0;
    double start = sfab_bench_now_ns();
    for (uint64_t w = 0; rc == 0 && bench->rank == 0 && w < windows; w++) {
        for (int i = 0; rc == 0 && i < WINDOW; i++)
            rc = sfab_put(p->other, inbox(), p->mem, outbox(), p->size_bytes);
        if (rc == 0)
            rc = sfab_flush(bench->ctx, 1, -1);
    }
    *bytes_per_s =
        (double)(windows * WINDOW * p->size_bytes) / ((sfab_bench_now_ns() - start) / 1e9);
    return rc;
}

static int line(struct pair *p, int (*once)(struct pair *), int active_ranks, double share,
                bool bandwidth)
{
    struct sfab_bench *bench = p->bench;

    bench->result.size_bytes = p->size_bytes;
    bench->result.bytes_per_s = 0;
    int rc = sample(p, once, active_ranks, share);
    if (rc == 0 && bandwidth)
        rc = stream(p, &bench->result.bytes_per_s);
    return rc == 0 ? sfab_bench_report(bench) : rc;
}

static int sizes(struct sfab_bench *bench, int (*once)(struct pair *), int active_ranks,
                 double share, bool bandwidth)
{
    struct pair p;
    size_t fixed = bench->options->size_bytes;
    int rc;

    if (bench->size < 2) {
        fprintf(stderr, "sfab bench %s: it takes two ranks at least: use -n 2\n",
                bench->result.bench);
        return -EINVAL;
    }
    rc = open_pair(bench, &p);
    if (rc != 0)
        return rc;
    sfab_bench_head(bench);
    for (size_t size = fixed != 0 ? fixed : 8; rc == 0 && size <= LARGEST; size *= 4) {
        p.size_bytes = size;
        rc = line(&p, once, active_ranks, share, bandwidth && size >= 1024);
        if (fixed != 0)
            break;
    }
    return rc == 0 ? close_pair(&p) : rc;
}

int sfab_bench_put(struct sfab_bench *bench)
{
    return sizes(bench, ping_pong, 2, 0.5, true);
}

int sfab_bench_get(struct sfab_bench *bench)
{
    return sizes(bench, get_once, 1, 1, false);
}

int sfab_bench_atomic(struct sfab_bench *bench)
{
    struct sfab_bench_options word = *bench->options;

    word.size_bytes = sizeof(uint64_t);
    bench->options = &word;
    int rc = sizes(bench, add_once, 1, 1, false);
    return rc;
}
