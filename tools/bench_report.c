/* bench_report.c - from samples to figures, from ranks to rank 0, from figures to a line. */
#include "tools/bench.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double sfab_bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

void sfab_bench_sample(struct sfab_bench *bench, double ns_per_op)
{
    bench->samples[bench->sample_count++] = ns_per_op;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct sfab_bench_figures sfab_bench_figures(double *samples, uint64_t count)
{
    struct sfab_bench_figures f = {0};
    double sum = 0;

    if (count == 0)
        return f;
    qsort(samples, count, sizeof *samples, compare);
    f.samples = (double)count;
    for (uint64_t i = 0; i < count; i++)
        sum += samples[i];
    f.min_ns = samples[0];
    f.p50_ns = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
    f.mean_ns = sum / (double)count;
    f.p99_ns = samples[(uint64_t)((double)(count - 1) * 0.99)];
    f.max_ns = samples[count - 1];
    return f;
}

int sfab_bench_agree_batch(struct sfab_bench *bench, double op_ns, uint64_t *batch)
{
    /* A clock reading costs some 30 ns: below 1 % of a sample of 10 us. */
    uint64_t want = op_ns < 5000 ? (uint64_t)ceil(10000 / (op_ns > 1 ? op_ns : 1)) : 1;

    if (want > 1000)
        want = 1000;
    if (bench->options->batch != 0)
        want = bench->options->batch;
    if (want > bench->options->iterations)
        want = bench->options->iterations;
    int rc = sfab_barrier_reduce(bench->world, SFAB_MAX, &want, 1, -1);
    *batch = want;
    return rc;
}

/* Means over the ranks that took part; the least and the most of all; the rank with the largest mean. */
static void summarise(struct sfab_bench_result *r, const struct sfab_bench_figures *of_rank)
{
    struct sfab_bench_figures all = {.min_ns = INFINITY};
    int measured = 0;

    r->slowest_rank = 0;
    for (int i = 0; i < r->ranks; i++)
        measured += of_rank[i].samples > 0;
    for (int i = 0; i < r->ranks; i++) {
        if (of_rank[i].samples <= 0)
            continue;
        all.min_ns = fmin(all.min_ns, of_rank[i].min_ns);
        all.max_ns = fmax(all.max_ns, of_rank[i].max_ns);
        all.p50_ns += of_rank[i].p50_ns / measured;
        all.mean_ns += of_rank[i].mean_ns / measured;
        all.p99_ns += of_rank[i].p99_ns / measured;
        if (of_rank[i].mean_ns > of_rank[r->slowest_rank].mean_ns)
            r->slowest_rank = i;
    }
    r->all = all;
    r->slowest = of_rank[r->slowest_rank];
}

static double rounded(double ns)
{
    return round(ns * 10) / 10;
}

static void print_json(const struct sfab_bench_result *r)
{
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:i, s:i, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, "
                  "s:i, s:f, s:f}",
                  "bench", r->bench, "transport", r->transport, "algorithm", r->algorithm, "radix",
                  (json_int_t)r->radix, "rounds", (json_int_t)r->rounds, "ranks", r->ranks, "nodes",
                  r->nodes, "iterations", (json_int_t)r->iterations, "batch", (json_int_t)r->batch,
                  "size_bytes", (json_int_t)r->size_bytes, "min_ns", rounded(r->all.min_ns),
                  "p50_ns", rounded(r->all.p50_ns), "mean_ns", rounded(r->all.mean_ns), "p99_ns",
                  rounded(r->all.p99_ns), "max_ns", rounded(r->all.max_ns), "slowest_rank",
                  r->slowest_rank, "slowest_p50_ns", rounded(r->slowest.p50_ns), "slowest_mean_ns",
                  rounded(r->slowest.mean_ns));

    if (object == NULL)
        return;
    if (r->bytes_per_s > 0)
        json_object_set_new(object, "bytes_per_s", json_real(round(r->bytes_per_s)));
    json_dumpf(object, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12));
    printf("\n");
    json_decref(object);
}

void sfab_bench_head(const struct sfab_bench *bench)
{
    const struct sfab_bench_result *r = &bench->result;

    if (bench->rank != 0 || bench->options->json)
        return;
    printf("# sfab bench %s: %d ranks, %d node%s, transport %s%s%s\n", r->bench, r->ranks, r->nodes,
           r->nodes == 1 ? "" : "s", r->transport, r->algorithm[0] != '\0' ? ", " : "",
           r->algorithm);
    printf("#%10s %12s %12s %12s %12s %12s %9s %12s %10s\n", "bytes", "min ns", "median ns",
           "mean ns", "p99 ns", "max ns", "slowest", "its mean", "MB/s");
}

static void print_text(const struct sfab_bench_result *r)
{
    printf("%11zu %12.1f %12.1f %12.1f %12.1f %12.1f %9d %12.1f", r->size_bytes, r->all.min_ns,
           r->all.p50_ns, r->all.mean_ns, r->all.p99_ns, r->all.max_ns, r->slowest_rank,
           r->slowest.mean_ns);
    if (r->bytes_per_s > 0)
        printf(" %10.1f\n", r->bytes_per_s / 1e6);
    else
        printf(" %10s\n", "-");
    fflush(stdout);
}

/* Everyone puts its figures into rank 0's memory: the library's own way. */
int sfab_bench_report(struct sfab_bench *bench)
{
    struct sfab_bench_figures mine = sfab_bench_figures(bench->samples, bench->sample_count);
    sfab_rmem **table = calloc((size_t)bench->size, sizeof(sfab_rmem *));
    sfab_mem *mem = NULL;
    int rc = table == NULL ? -12 : 0;

    if (rc == 0)
        rc = sfab_mem_alloc(bench->ctx, (size_t)(bench->size + 1) * sizeof mine, SFAB_REMOTE_WRITE,
                            &mem);
    if (rc == 0)
        rc = sfab_mem_share(mem, bench->world, table, 60000000000);
    struct sfab_bench_figures *of_rank = sfab_mem_addr(mem);
    if (rc == 0) {
        of_rank[bench->size] = mine;
        rc = sfab_put(table[0], (uint64_t)bench->rank * sizeof mine, mem,
                      (uint64_t)bench->size * sizeof mine, sizeof mine);
    }
    if (rc == 0)
        rc = sfab_flush(bench->ctx, 0, -1);
    if (rc == 0)
        rc = sfab_barrier(bench->world, -1);
    if (rc == 0 && bench->rank == 0) {
        summarise(&bench->result, of_rank);
        if (bench->options->json)
            print_json(&bench->result);
        else
            print_text(&bench->result);
    }
    for (int i = 0; rc == 0 && i < bench->size; i++)
        sfab_rmem_close(table[i]);
    if (rc == 0)
        rc = sfab_barrier(bench->world, -1); /* nobody frees what another still maps */
    sfab_mem_free(mem);
    free(table);
    bench->sample_count = 0;
    return rc;
}

void sfab_bench_progress(const struct sfab_bench *bench, uint64_t done, uint64_t of)
{
    static double last_ns;

    if (bench->rank != 0 || !isatty(STDERR_FILENO))
        return;
    double now = sfab_bench_now_ns();
    if (done < of && now - last_ns < 2e8)
        return;
    last_ns = now;
    if (done < of)
        fprintf(stderr, "\r%s: %3.0f %%", bench->result.bench, 100.0 * (double)done / (double)of);
    else
        fprintf(stderr, "\r%40s\r", "");
}
