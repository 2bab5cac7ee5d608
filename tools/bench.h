/* bench.h - what the benches share: options, samples, and the report. */
#ifndef SFAB_TOOLS_BENCH_H
#define SFAB_TOOLS_BENCH_H

#include "syncfab/syncfab.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sfab_bench_options {
    const char *kind; /* "barrier", ... */
    int ranks, nodes;
    bool bind; /* a CPU for each rank */
    bool json;
    uint64_t iterations;   /* operations measured */
    uint64_t batch;        /* operations a sample; 0: chosen so that the timer does not show */
    size_t size_bytes;     /* put and get; 0: a table of sizes */
    const char *transport; /* NULL: as the environment says */
};

/* One rank's figures of one bench, per operation; also what ranks send to rank 0. */
struct sfab_bench_figures {
    double samples; /* 0: this rank took no part */
    double min_ns, p50_ns, mean_ns, p99_ns, max_ns;
};

/* A line of the report. */
struct sfab_bench_result {
    const char *bench;
    char transport[32];
    char algorithm[32];
    uint64_t radix, rounds;
    int ranks, nodes;
    uint64_t iterations, batch;
    size_t size_bytes;
    double bytes_per_s;            /* 0: no matter of bandwidth */
    struct sfab_bench_figures all; /* means over ranks; min and max over all samples */
    int slowest_rank;
    struct sfab_bench_figures slowest; /* of the rank with the largest mean */
};

/* One rank under way. */
struct sfab_bench {
    const struct sfab_bench_options *options;
    sfab_ctx *ctx;
    sfab_group *world;
    int rank, size;
    double *samples; /* of the bench that runs; capacity options->iterations */
    uint64_t sample_count;
    struct sfab_bench_result result;
};

/* The benches; 0 or an error code of the library. */
int sfab_bench_barrier(struct sfab_bench *bench);
int sfab_bench_put(struct sfab_bench *bench);
int sfab_bench_get(struct sfab_bench *bench);
int sfab_bench_atomic(struct sfab_bench *bench);
int sfab_bench_switch(struct sfab_bench *bench);

/* How many operations make one sample: enough that reading the clock does not show. The same on every
 * rank; `op_ns` is this rank's guess at the cost of one. 0 or an error code. */
int sfab_bench_agree_batch(struct sfab_bench *bench, double op_ns, uint64_t *batch);

void sfab_bench_sample(struct sfab_bench *bench, double ns_per_op);

/* Figures of sorted or unsorted samples (sorts them). */
struct sfab_bench_figures sfab_bench_figures(double *samples, uint64_t count);

/* Collects every rank's figures on rank 0 and prints the line there. Collective. */
int sfab_bench_report(struct sfab_bench *bench);

/* Prints the head of a table once (text only, rank 0). */
void sfab_bench_head(const struct sfab_bench *bench);

/* A progress line on a terminal, rank 0 alone; every `of`-th call or so. */
void sfab_bench_progress(const struct sfab_bench *bench, uint64_t done, uint64_t of);

double sfab_bench_now_ns(void);

#endif
