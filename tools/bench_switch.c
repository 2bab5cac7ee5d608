/* bench_switch.c - what a context switch between processes costs here: a ring of ranks on one CPU, each
 * yielding until the token comes round to it. No barrier of n ranks on c CPUs can be quicker than n/c of
 * these, since every rank has to run once. */
#include "tools/bench.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

/* All ranks on the first CPU that this process may run on. */
static int share_one_cpu(void)
{
    cpu_set_t cpus, one;
    size_t cpu = 0;

    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        return -errno;
    while (cpu < CPU_SETSIZE && !CPU_ISSET(cpu, &cpus))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0 ? 0 : -errno;
}

/* Waits for the token number `value`, hands on the next. */
static int pass(struct sfab_bench *bench, sfab_mem *mem, sfab_rmem *next, uint64_t value)
{
    uint64_t seen = 0;
    int rc = sfab_load_u64(mem, 0, &seen);

    while (rc == 0 && seen < value) {
        sched_yield();
        rc = sfab_load_u64(mem, 0, &seen);
    }
    (void)bench;
    return rc == 0 ? sfab_put_u64(next, 0, bench->rank == bench->size - 1 ? value + 1 : value) : rc;
}

static int ring(struct sfab_bench *bench, sfab_mem *mem, sfab_rmem *next)
{
    uint64_t laps = bench->options->iterations / (uint64_t)bench->size + 1;
    int rc = sfab_barrier(bench->world, -1);

    if (rc == 0 && bench->rank == 0) { /* the token: lap 1 */
        uint64_t *word = sfab_mem_addr(mem);
        *word = 1;
    }
    for (uint64_t lap = 1; rc == 0 && lap <= laps; lap++) {
        double start = sfab_bench_now_ns();

        rc = pass(bench, mem, next, lap);
        /* From hand-over to hand-over each rank waits one lap: size switches. */
        if (lap > laps / 10 && bench->sample_count < bench->options->iterations)
            sfab_bench_sample(bench, (sfab_bench_now_ns() - start) / (double)bench->size);
    }
    bench->result.iterations = laps * (uint64_t)bench->size;
    bench->result.batch = (uint64_t)bench->size;
    return rc;
}

int sfab_bench_switch(struct sfab_bench *bench)
{
    sfab_rmem **table = calloc((size_t)bench->size, sizeof(sfab_rmem *));
    sfab_mem *mem = NULL;
    int rc = table == NULL ? -ENOMEM : 0;

    if (bench->size < 2) {
        fprintf(stderr, "sfab bench switch: it takes two ranks at least: use -n 2\n");
        rc = -EINVAL;
    }
    if (rc == 0)
        rc = sfab_mem_alloc(bench->ctx, 64, SFAB_REMOTE_WRITE, &mem);
    if (rc == 0)
        rc = sfab_mem_share(mem, bench->world, table, 60000000000);
    if (rc == 0)
        rc = share_one_cpu();
    if (rc == 0)
        rc = ring(bench, mem, table[(bench->rank + 1) % bench->size]);
    if (rc == 0) {
        sfab_bench_head(bench);
        rc = sfab_bench_report(bench);
    }
    for (int i = 0; rc == 0 && i < bench->size; i++)
        sfab_rmem_close(table[i]);
    if (rc == 0)
        rc = sfab_barrier(bench->world, -1);
    sfab_mem_free(mem);
    free(table);
    return rc;
}
