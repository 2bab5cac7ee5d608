/* sim_barrier.c - the prediction of a barrier: every rank runs it some times over, in virtual time. */
#include "collectives/barrier.h"
#include "collectives/world.h"
#include "tools/bench.h"
#include "tools/sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct rank {
    sfab_op *op;
    uint64_t entered, done;
    uint64_t words[SFAB_REDUCE_WORDS_MAX];
};

/* Of one episode, among all ranks. */
struct episode {
    uint32_t in, out;
    uint64_t last_in, last_out;
};

struct run {
    const struct sfab_sim_options *options;
    struct rank *ranks;
    struct episode *episodes;
    double *samples;
    uint64_t count, total;
    int failed;
};

static int enter(struct scale *s, struct run *run, uint32_t rank)
{
    struct rank *r = &run->ranks[rank];
    struct episode *e = &run->episodes[r->done];
    struct sfab_group *group = scale_group(s, rank);

    r->entered = scale_now(s);
    e->in++;
    e->last_in = r->entered > e->last_in ? r->entered : e->last_in;
    if (run->options->words == 0)
        return sfab_barrier_start(group, &r->op);
    for (unsigned i = 0; i < run->options->words; i++)
        r->words[i] = rank + i;
    return sfab_barrier_reduce_start(group, SFAB_SUM, r->words, run->options->words, &r->op);
}

static int leave(struct scale *s, struct run *run, uint32_t rank)
{
    struct rank *r = &run->ranks[rank];
    struct episode *e = &run->episodes[r->done];
    uint64_t n = run->options->ranks, now = scale_now(s);

    r->op = NULL;
    e->out++;
    e->last_out = now > e->last_out ? now : e->last_out;
    if (e->in < n) {
        fprintf(stderr, "sfab sim: rank %u left episode %llu when %u of %llu had entered\n", rank,
                (unsigned long long)r->done + 1, e->in, (unsigned long long)n);
        return -EPROTO;
    }
    for (unsigned i = 0; i < run->options->words; i++)
        if (r->words[i] != n * (n - 1) / 2 + n * i) {
            fprintf(stderr, "sfab sim: rank %u has the sum %llu in episode %llu\n", rank,
                    (unsigned long long)r->words[i], (unsigned long long)r->done + 1);
            return -EPROTO;
        }
    if (r->done >= run->options->warmup)
        run->samples[run->count++] = (double)(now - r->entered) / 1e3;
    if (run->options->progress && e->out == n)
        fprintf(stderr, "\rsfab sim: %u ranks: barrier %llu of %llu ", run->options->ranks,
                (unsigned long long)r->done + 1, (unsigned long long)run->total);
    if (++r->done < run->total)
        scale_after(s, rank, run->options->work + scale_random(s, run->options->imbalance + 1));
    return 0;
}

static void turn(struct scale *s, uint32_t rank, void *arg)
{
    struct run *run = arg;
    struct rank *r = &run->ranks[rank];
    int rc = r->op == NULL ? enter(s, run, rank) : 0;

    if (rc == 0)
        rc = sfab_op_test(r->op);
    if (rc == SFAB_INPROGRESS)
        return;
    if (rc != 0)
        fprintf(stderr, "sfab sim: %s\n", scale_error(s));
    else
        rc = leave(s, run, rank);
    if (rc != 0) {
        run->failed = rc;
        scale_stop(s);
    }
}

static int conclude(struct scale *s, struct run *run, struct sfab_sim_result *result)
{
    const struct sfab_sim_options *o = run->options;
    struct scale_counts counts = scale_counts(s);
    double barriers = (double)o->ranks * (double)o->episodes;
    double sent_in = (double)o->ranks * (double)run->total; /* every one is the same */
    struct rusage usage;

    if (run->failed == 0 && run->count != (uint64_t)barriers) {
        fprintf(stderr, "sfab sim: nothing is left to happen, and %llu barriers are not done\n",
                (unsigned long long)((uint64_t)barriers - run->count));
        run->failed = -EDEADLK;
    }
    if (run->failed != 0)
        return run->failed;
    struct sfab_bench_figures f = sfab_bench_figures(run->samples, run->count);
    result->mean_ns = f.mean_ns;
    result->p50_ns = f.p50_ns;
    result->p99_ns = f.p99_ns;
    result->max_ns = f.max_ns;
    for (uint64_t i = o->warmup; i < run->total; i++)
        result->after_last_ns += (double)(run->episodes[i].last_out - run->episodes[i].last_in) /
                                 1e3 / (double)o->episodes;
    result->messages = (double)counts.messages / sent_in;
    result->bytes = (double)counts.bytes / sent_in;
    result->events = counts.events;
    sfab_barrier_describe(scale_group(s, 0), result->algorithm, sizeof result->algorithm);
    getrusage(RUSAGE_SELF, &usage);
    result->memory_bytes = (uint64_t)usage.ru_maxrss * 1024;
    return 0;
}

int sfab_sim_barrier(const struct sfab_sim_options *options, struct sfab_sim_result *result)
{
    double began = sfab_bench_now_ns();
    struct run run = {.options = options, .total = options->warmup + options->episodes};
    struct scale *s = NULL;
    struct sfab_err err = {0};

    *result = (struct sfab_sim_result){0};
    run.ranks = calloc(options->ranks, sizeof *run.ranks);
    run.episodes = calloc(run.total, sizeof *run.episodes);
    run.samples = calloc(options->ranks * options->episodes, sizeof *run.samples);
    int rc = run.ranks == NULL || run.episodes == NULL || run.samples == NULL ? -ENOMEM : 0;
    if (rc == 0)
        rc = scale_new(&options->model, options->ranks, &options->config, &sfab_barrier_group_class,
                       &s, &err);
    if (rc != 0) {
        fprintf(stderr, "sfab sim: %s\n", err.text[0] != '\0' ? err.text : "out of memory");
    } else {
        for (uint32_t i = 0; i < options->ranks; i++)
            scale_after(s, i, scale_random(s, options->imbalance + 1));
        scale_run(s, turn, &run);
        if (options->progress)
            fprintf(stderr, "\r%60s\r", "");
        rc = conclude(s, &run, result);
        result->seconds = (sfab_bench_now_ns() - began) / 1e9;
    }
    scale_free(s);
    free(run.ranks);
    free(run.episodes);
    free(run.samples);
    return rc;
}
