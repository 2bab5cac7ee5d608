/* scale.c - see scale.h. */
#include "fabric/sim/scale.h"
#include "fabric/ctx.h"
#include "fabric/sim/heap.h"
#include "fabric/sim/random.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { INLINE_BYTES = 256 };

struct cpu {
    uint64_t free_at; /* what it was last given to do is done */
    uint64_t phase;   /* of its noise */
    uint32_t last;    /* the rank that had it last */
};

struct node {
    struct sfab_group group;
    uint64_t send_at, receive_at; /* when its port can do the next of each */
    bool has_turn;
    bool rung; /* something has arrived since its last turn */
};

struct message {
    void *word_at, *data_at;
    uint64_t word;
    size_t len;
    uint8_t data[];
};

struct loggp_tp {
    struct sfab_tp base;
    struct scale *scale;
};

struct scale {
    struct sfab_ctx ctx; /* of the rank whose turn it is */
    struct loggp_tp tp;
    struct sfab_ep *eps; /* by target; the sender is whose turn it is */
    struct scale_model model;
    struct sim_heap heap;
    struct sim_random random;
    struct cpu *cpus;
    uint32_t cpu_count;
    struct node *nodes;
    uint64_t now;
    struct scale_counts counts;
    bool stopped;
};

/* ---- time -------------------------------------------------------------------------------- */

static struct cpu *cpu_of(struct scale *s, uint32_t rank)
{
    return &s->cpus[rank % s->cpu_count];
}

/* When the CPU has done `work` more, begun at `from`. */
static uint64_t worked(const struct scale *s, const struct cpu *cpu, uint64_t from, uint64_t work)
{
    uint64_t period = s->model.noise_period, away = s->model.noise;

    if (away == 0 || period == 0)
        return from + work;
    uint64_t since = (from + period - cpu->phase) % period; /* its last detour began */
    if (since < away) {
        from += away - since;
        since = away;
    }
    while (work >= period - since) {
        work -= period - since;
        from += period - since + away;
        since = away;
    }
    return from + work;
}

static void spend(struct scale *s, uint64_t work)
{
    s->now = worked(s, cpu_of(s, s->ctx.rank), s->now, work);
}

/* ---- the transport ----------------------------------------------------------------------- */

static int post(struct sfab_ep *ep, void *word_at, uint64_t word, void *data_at, const void *data,
                size_t len)
{
    struct scale *s = ((struct loggp_tp *)ep->tp)->scale;
    struct message *m = malloc(sizeof *m + len);

    if (m == NULL)
        abort();
    *m = (struct message){.word_at = word_at, .data_at = data_at, .word = word, .len = len};
    if (len > 0)
        memcpy(m->data, data, len);
    spend(s, s->model.overhead);
    struct node *from = &s->nodes[s->ctx.rank];
    uint64_t body = s->model.byte * (len + sizeof word - 1);
    uint64_t leaves = s->now > from->send_at ? s->now : from->send_at;
    from->send_at = leaves + s->model.gap + body;
    s->counts.messages++;
    s->counts.bytes += len + sizeof word;
    sim_heap_push(&s->heap, leaves + body + s->model.latency, NULL, m, ep->peer);
    return 0;
}

static void *there(const struct sfab_raddr *to, uint64_t offset)
{
    return (char *)(uintptr_t)to->base + offset;
}

static int put_u64(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset, uint64_t value)
{
    return post(ep, there(to, offset), value, NULL, NULL, 0);
}

static int put_signal(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                      const struct sfab_tp_mem *mem, const void *src, size_t len,
                      const struct sfab_raddr *signal_to, uint64_t signal_offset, uint64_t value)
{
    (void)mem;
    return post(ep, there(signal_to, signal_offset), value, there(to, offset), src, len);
}

static int connect_now(struct sfab_ep *ep)
{
    (void)ep;
    return 0;
}

#pragma GCC diagnostic ignored "-Woverride-init" /* SFAB_TP_DEFAULTS first, then ours */

static const struct sfab_tp_ops ops = {SFAB_TP_DEFAULTS, .name = "loggp", .connect = connect_now,
                                       .put_u64 = put_u64, .put_signal = put_signal};

/* ---- what happens ------------------------------------------------------------------------ */

/* One context is everybody's: its list of operations is that rank's own for now. */
static void become(struct scale *s, uint32_t rank)
{
    struct sfab_op *op = s->nodes[rank].group.state, *head = &s->ctx.ops;
    bool listed = op->state != SFAB_OP_FREE && op->listed;

    s->ctx.rank = rank;
    s->ctx.world = &s->nodes[rank].group;
    head->next = head->prev = listed ? op : head;
}

void scale_after(struct scale *s, uint32_t rank, uint64_t delay)
{
    if (s->nodes[rank].has_turn)
        return;
    s->nodes[rank].has_turn = true;
    sim_heap_push(&s->heap, s->now + delay, NULL, NULL, rank);
}

static void arrive(struct scale *s, struct message *m, uint32_t rank)
{
    struct node *node = &s->nodes[rank];

    if (node->receive_at > s->now) { /* its port is still taking in another */
        sim_heap_push(&s->heap, node->receive_at, NULL, m, rank);
        return;
    }
    node->receive_at = s->now + s->model.gap + s->model.byte * (m->len + 7);
    if (m->len > 0)
        memcpy(m->data_at, m->data, m->len);
    atomic_store_explicit((_Atomic uint64_t *)m->word_at, m->word, memory_order_release);
    free(m);
    node->rung = true;
    scale_after(s, rank, 0);
}

static void take_turn(struct scale *s, uint32_t rank, scale_turn *turn, void *arg)
{
    struct node *node = &s->nodes[rank];
    struct cpu *cpu = cpu_of(s, rank);

    if (cpu->free_at > s->now) {
        sim_heap_push(&s->heap, cpu->free_at, NULL, NULL, rank);
        return;
    }
    node->has_turn = false;
    become(s, rank);
    if (s->cpu_count < s->ctx.size && cpu->last != rank)
        spend(s, s->model.change);
    cpu->last = rank;
    if (node->rung)
        spend(s, s->model.poll);
    node->rung = false;
    turn(s, rank, arg);
    cpu->free_at = s->now;
}

void scale_run(struct scale *s, scale_turn *turn, void *arg)
{
    s->stopped = false;
    while (s->heap.count > 0 && !s->stopped) {
        struct sim_event e = sim_heap_pop(&s->heap);

        s->now = e.at;
        s->counts.events++;
        if (e.arg != NULL)
            arrive(s, e.arg, (uint32_t)e.value);
        else
            take_turn(s, (uint32_t)e.value, turn, arg);
    }
}

void scale_stop(struct scale *s)
{
    s->stopped = true;
}

uint64_t scale_now(const struct scale *s)
{
    return s->now;
}

uint64_t scale_random(struct scale *s, uint64_t below)
{
    return below > 0 ? sim_random_next(&s->random) % below : 0;
}

struct scale_counts scale_counts(const struct scale *s)
{
    return s->counts;
}

const char *scale_error(const struct scale *s)
{
    return s->ctx.err.text;
}

struct sfab_group *scale_group(struct scale *s, uint32_t rank)
{
    return &s->nodes[rank].group;
}

/* ---- life -------------------------------------------------------------------------------- */

static uint64_t now_ns(const struct sfab_ctx *ctx)
{
    return ((const struct scale *)(const void *)ctx)->now / 1000;
}

static bool fence_others(void)
{
    return true; /* one thread runs them all */
}

static const struct sfab_runtime runtime = {.now_ns = now_ns, .fence_others = fence_others};

static void begin_ctx(struct scale *s, uint32_t ranks, const struct sfab_config *config)
{
    struct sfab_ctx *ctx = &s->ctx;

    ctx->magic = SFAB_CTX_MAGIC;
    ctx->size = ranks;
    ctx->rt = &runtime;
    ctx->config = *config;
    ctx->ops.next = ctx->ops.prev = &ctx->ops;
    ctx->tps[0] = &s->tp.base;
    ctx->tp_count = 1;
    ctx->nodes = ranks;
    ctx->local_ranks = 1;
    pthread_mutex_init(&ctx->groups_lock, NULL);
    pthread_mutex_init(&ctx->lock, NULL);
    strcpy(ctx->host, "scale");
}

static int begin_node(struct scale *s, uint32_t rank, const struct sfab_group_class *class,
                      struct sfab_err *err)
{
    struct sfab_group *group = &s->nodes[rank].group;
    uint32_t ranks = s->ctx.size;

    *group = (struct sfab_group){.magic = SFAB_GROUP_MAGIC,
                                 .ctx = &s->ctx,
                                 .class = class,
                                 .size = ranks,
                                 .me = rank,
                                 .block_bytes = class->block_bytes(&s->ctx, ranks, rank)};
    size_t bytes = (group->block_bytes + SFAB_CACHE_LINE - 1) / SFAB_CACHE_LINE * SFAB_CACHE_LINE;
    group->block = aligned_alloc(SFAB_CACHE_LINE, bytes);
    if (group->block == NULL)
        return sfab_fail(err, -ENOMEM, "out of memory at rank %u of %u", rank, ranks);
    memset(group->block, 0, bytes);
    s->eps[rank] =
        (struct sfab_ep){.ops = &ops, .tp = &s->tp.base, .peer = rank, .state = SFAB_EP_READY};
    s->ctx.peers[rank].ep = &s->eps[rank];
    s->ctx.peers[rank].node = rank;
    s->ctx.peers[rank].arena = (struct sfab_raddr){.base = (uint64_t)(uintptr_t)group->block,
                                                   .len_bytes = group->block_bytes};
    s->ctx.rank = rank;
    return class->attach(group, err);
}

int scale_new(const struct scale_model *model, uint32_t ranks, const struct sfab_config *config,
              const struct sfab_group_class *class, struct scale **out, struct sfab_err *err)
{
    struct scale *s = calloc(1, sizeof *s);
    int rc = 0;

    if (s == NULL)
        return sfab_fail(err, -ENOMEM, "out of memory");
    s->model = *model;
    s->cpu_count = model->cpus > 0 && model->cpus < ranks ? model->cpus : ranks;
    sim_random_seed(&s->random, model->seed);
    begin_ctx(s, ranks, config);
    s->tp =
        (struct loggp_tp){.base = {.ops = &ops,
                                   .caps = {.flags = SFAB_CAP_WAW_ORDERED | SFAB_CAP_BUSY_READABLE,
                                            .inline_bytes = INLINE_BYTES}},
                          .scale = s};
    s->nodes = calloc(ranks, sizeof *s->nodes);
    s->eps = calloc(ranks, sizeof *s->eps);
    s->cpus = calloc(s->cpu_count, sizeof *s->cpus);
    s->ctx.peers = calloc(ranks, sizeof *s->ctx.peers);
    if (s->nodes == NULL || s->eps == NULL || s->cpus == NULL || s->ctx.peers == NULL)
        rc = sfab_fail(err, -ENOMEM, "out of memory for %u ranks", ranks);
    for (uint32_t i = 0; rc == 0 && i < s->cpu_count; i++)
        s->cpus[i].phase = scale_random(s, model->noise_period);
    for (uint32_t i = 0; rc == 0 && i < ranks; i++)
        rc = begin_node(s, i, class, err);
    if (rc != 0)
        scale_free(s);
    else
        *out = s;
    return rc;
}

void scale_free(struct scale *s)
{
    if (s == NULL)
        return;
    for (uint32_t i = 0; s->nodes != NULL && i < s->ctx.size; i++) {
        struct sfab_group *group = &s->nodes[i].group;

        if (group->state != NULL)
            group->class->detach(group);
        free(group->block);
    }
    for (size_t i = 0; i < s->heap.count; i++)
        free(s->heap.events[i].arg);
    free(s->heap.events);
    free(s->ctx.peers);
    free(s->cpus);
    free(s->eps);
    free(s->nodes);
    free(s);
}
