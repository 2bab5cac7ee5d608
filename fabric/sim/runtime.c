/* runtime.c - the rest of a rank's world: settings, time, memory, giving way. */
#include "fabric/sim/impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

static uint64_t now_ns(const struct sfab_ctx *ctx)
{
    (void)ctx;
    return sim_now_running->now;
}

/* Sleeps until something happens to the rank; a nap's length at the longest, since not all that a rank
 * waits for happens to it. */
static int give_way(struct sfab_ctx *ctx, struct sfab_op *op, uint64_t waited_ns, uint64_t left_ns)
{
    struct sim *s = sim_now_running;
    struct sim_rank *r = s->current;

    (void)ctx;
    (void)op;
    (void)waited_ns;
    if (r->dirty) {
        r->dirty = false;
        sim_sleep(r, 50 + sim_random(s, 400), false);
    } else {
        uint64_t nap_ns = 100 * SIM_MS;

        sim_sleep(r, left_ns < nap_ns ? left_ns + 1 : nap_ns, false);
        r->dirty = false;
    }
    return SFAB_INPROGRESS;
}

static int random_bytes(void *buf, size_t len)
{
    for (size_t i = 0; i < len; i++)
        ((uint8_t *)buf)[i] = (uint8_t)sim_random(sim_now_running, 256);
    return 0;
}

static char *const *environment(void)
{
    struct sim *s = sim_now_running;
    struct sim_rank *r = s->current;
    int n = 0;

#define SET(...) (snprintf(r->env_text[n], sizeof r->env_text[n], __VA_ARGS__), n++)
    SET("SFAB_RANK=%u", r->rank);
    SET("SFAB_SIZE=%u", s->world.ranks);
    SET("SFAB_ROOT=sim:1");
    SET("SFAB_ROOT_SERVED=yes");
    SET("SFAB_SECRET=sim");
    SET("SFAB_TRANSPORT=%s", s->world.transport != NULL ? s->world.transport : "sim");
    SET("SFAB_BARRIER=%s", s->world.barrier != NULL ? s->world.barrier : "auto");
    SET("SFAB_RADIX=%u", s->world.radix);
    SET("SFAB_HOST=host%u", r->rank);
    SET("SFAB_CLOSE_TIMEOUT_MS=4000");
    SET("SFAB_LOG=error");
#undef SET
    for (int i = 0; i < n; i++)
        r->env[i] = r->env_text[i];
    r->env[n] = NULL;
    return r->env;
}

static int identity(struct sfab_ctx *ctx, struct sfab_identity *out)
{
    const struct sim_world *w = &sim_now_running->world;
    uint32_t cpu = w->crowded ? 0 : ctx->rank % SFAB_CPUS_MAX;

    *out = (struct sfab_identity){.pid = ctx->rank + 1,
                                  .incarnation = ctx->incarnation,
                                  .radix = (uint32_t)ctx->config.radix,
                                  .barrier = (uint32_t)ctx->config.barrier};
    out->cpus.bits[cpu / 64] = UINT64_C(1) << cpu % 64;
    snprintf(out->host, sizeof out->host, "%s", ctx->host);
    snprintf(out->node, sizeof out->node, "sim|sim|%u", w->nodes > 0 ? ctx->rank % w->nodes : 0);
    snprintf(out->transport, sizeof out->transport, "%.31s", ctx->config.transport);
    return 0;
}

static int seg_create(size_t len_bytes, struct sfab_seg *out, struct sfab_err *err)
{
    struct sim *s = sim_now_running;
    size_t bytes = (len_bytes + PAGE - 1) / PAGE * PAGE;
    void *addr = aligned_alloc(64, bytes);

    (void)err;
    if (s->seg_count == s->seg_cap) {
        s->seg_cap = s->seg_cap * 2 + 64;
        s->segs = realloc(s->segs, s->seg_cap * sizeof *s->segs);
    }
    if (addr == NULL || s->segs == NULL)
        abort();
    memset(addr, 0, bytes);
    s->segs[s->seg_count++] = (struct sim_seg){.addr = addr, .len_bytes = len_bytes};
    *out = (struct sfab_seg){.kind = SFAB_SEG_SHARED,
                             .addr = addr,
                             .len_bytes = len_bytes,
                             .fd = -1,
                             .inode = s->seg_count};
    return 0;
}

/* The memory itself stays until the end: what is still on its way may be going there. */
static void seg_destroy(struct sfab_seg *seg)
{
    if (seg->inode > 0 && seg->inode <= sim_now_running->seg_count)
        sim_now_running->segs[seg->inode - 1].gone = true;
    *seg = (struct sfab_seg){.fd = -1};
}

/* One thread runs them all, in one order. */
static bool fence_others(void)
{
    return true;
}

static const struct sfab_tp_ops *const transports[] = {&sim_shm_ops, &sim_net_ops, NULL};

const struct sfab_runtime sim_runtime = {.now_ns = now_ns,
                                         .relax = give_way,
                                         .random = random_bytes,
                                         .environment = environment,
                                         .identity = identity,
                                         .seg_create = seg_create,
                                         .seg_destroy = seg_destroy,
                                         .transports = transports,
                                         .fence_others = fence_others,
                                         .join = sim_join,
                                         .allgather = sim_allgather,
                                         .send = sim_send,
                                         .survey = sim_survey,
                                         .survey_ask = sim_survey_ask,
                                         .accuse = sim_accuse,
                                         .abort = sim_abort,
                                         .watch = sim_watch,
                                         .last_words = sim_last_words,
                                         .leave = sim_leave,
                                         .close = sim_close};
