/* bench_barrier.c - how long a barrier takes: every rank times its own, in batches where one would
 * drown in the clock. */
#include "tools/bench.h"

#include <stdio.h>
#include <string.h>

static int run(struct sfab_bench *bench, uint64_t count)
{
    int rc = 0;

    for (uint64_t i = 0; rc == 0 && i < count; i++)
        rc = sfab_barrier(bench->world, -1);
    return rc;
}

static int warm_up(struct sfab_bench *bench, double *op_ns)
{
    uint64_t count = bench->options->iterations / 10;

    if (count > 10000)
        count = 10000;
    int rc = run(bench, 3); /* connections */
    double start = sfab_bench_now_ns();
    if (rc == 0)
        rc = run(bench, count + 1);
    *op_ns = (sfab_bench_now_ns() - start) / (double)(count + 1);
    return rc;
}

static void describe(struct sfab_bench *bench)
{
    struct sfab_bench_result *r = &bench->result;
    char text[256];
    unsigned radix = 0, rounds = 0;

    sfab_barrier_describe(bench->world, text, sizeof text);
    snprintf(r->algorithm, sizeof r->algorithm, "%.*s", (int)strcspn(text, ",:"), text);
    if (sscanf(text, "dissemination, radix %u, %u rounds", &radix, &rounds) == 2) {
        r->radix = radix;
        r->rounds = rounds;
    }
}

int sfab_bench_barrier(struct sfab_bench *bench)
{
    double op_ns;
    uint64_t batch = 1, samples;

    describe(bench);
    int rc = warm_up(bench, &op_ns);
    if (rc == 0)
        rc = sfab_bench_agree_batch(bench, op_ns, &batch);
    if (rc != 0)
        return rc;
    samples = bench->options->iterations / batch;
    for (uint64_t i = 0; rc == 0 && i < samples; i++) {
        double start = sfab_bench_now_ns();

        rc = run(bench, batch);
        sfab_bench_sample(bench, (sfab_bench_now_ns() - start) / (double)batch);
        sfab_bench_progress(bench, i + 1, samples);
    }
    bench->result.iterations = samples * batch;
    bench->result.batch = batch;
    if (rc != 0)
        return rc;
    sfab_bench_head(bench);
    return sfab_bench_report(bench);
}
