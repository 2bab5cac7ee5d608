/* open.c - joining a job and leaving it.
 *
 * In this order: settings; the rendezvous (served here if this is rank 0 and no launcher does); who is
 * who, from which the nodes follow; the transports that this job needs; the sync memory; how each is
 * reached; which transport goes to whom. Every step has one sentence for its failure. */
#include "fabric/ctx.h"
#include "fabric/events.h"
#include "fabric/log.h"
#include "fabric/runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG_IDENTITY = 1, TAG_REACH = 2 };

static int64_t boot_timeout_ns(const struct sfab_ctx *ctx)
{
    return ctx->config.boot_timeout_ms * 1000000;
}

static int out_of_memory(struct sfab_ctx *ctx)
{
    return sfab_ctx_fail(ctx, -ENOMEM, "rank %u: out of memory while joining a job of %u",
                         ctx->rank, ctx->size);
}

/* ---- exchanges --------------------------------------------------------------------------- */

/* An allgather of all ranks; in a job of one there is no rendezvous and nothing to wait for. */
static int exchange(struct sfab_ctx *ctx, uint64_t tag, const uint8_t *blob, size_t len,
                    struct sfab_boot_blob **table)
{
    if (ctx->size > 1)
        return ctx->rt->allgather(ctx->boot, tag, NULL, ctx->size, blob, len, boot_timeout_ns(ctx),
                                  table, &ctx->err);
    *table = malloc(sizeof **table + len);
    if (*table == NULL)
        return out_of_memory(ctx);
    uint8_t *copy = (uint8_t *)(*table + 1);
    memcpy(copy, blob, len);
    (*table)[0] = (struct sfab_boot_blob){.data = copy, .len_bytes = len};
    return 0;
}

/* ---- who is who -------------------------------------------------------------------------- */

static int compare_settings(struct sfab_ctx *ctx, uint32_t rank)
{
    const struct sfab_identity *mine = &ctx->identities[ctx->rank], *other = &ctx->identities[rank];
    char name[96];

    sfab_ctx_peer_name(ctx, rank, name, sizeof name);
    if (other->radix != mine->radix)
        return sfab_ctx_fail(
            ctx, SFAB_ERR_CONFIG,
            "SFAB_RADIX is %u on rank %u (%s) and %u on %s: it must be the same on "
            "every rank",
            mine->radix, ctx->rank, ctx->host, other->radix, name);
    if (other->barrier != mine->barrier)
        return sfab_ctx_fail(
            ctx, SFAB_ERR_CONFIG,
            "SFAB_BARRIER differs between rank %u (%s) and %s: it must be the same on "
            "every rank",
            ctx->rank, ctx->host, name);
    if (strcmp(other->transport, mine->transport) != 0)
        return sfab_ctx_fail(
            ctx, SFAB_ERR_CONFIG,
            "SFAB_TRANSPORT is \"%s\" on rank %u (%s) and \"%s\" on %s: it must be the "
            "same on every rank",
            mine->transport, ctx->rank, ctx->host, other->transport, name);
    return 0;
}

static int exchange_identities(struct sfab_ctx *ctx)
{
    uint8_t blob[1024];
    struct sfab_boot_blob *table = NULL;
    struct sfab_identity mine;
    int rc = ctx->rt->identity(ctx, &mine);

    if (rc == 0)
        rc = exchange(ctx, TAG_IDENTITY, blob, sfab_identity_encode(&mine, blob, sizeof blob),
                      &table);
    for (uint32_t i = 0; rc == 0 && i < ctx->size; i++)
        if (!sfab_identity_decode(table[i].data, table[i].len_bytes, &ctx->identities[i]))
            rc = sfab_ctx_fail(
                ctx, SFAB_ERR_VERSION,
                "what rank %u says of itself is not understood: all ranks must run the "
                "same syncfab (this one is %s)",
                i, sfab_version());
    free(table);
    if (rc == 0)
        sfab_node_layout(ctx);
    for (uint32_t i = 0; rc == 0 && i < ctx->size; i++)
        rc = compare_settings(ctx, i);
    return rc;
}

/* ---- transports -------------------------------------------------------------------------- */

static bool named(const char *list, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = list; *at != '\0'; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, name, len) == 0 && (at[len] == ',' || at[len] == '\0'))
            return true;
    return false;
}

static int check_names(struct sfab_ctx *ctx)
{
    char known[128] = "";

    for (uint32_t i = 0; ctx->rt->transports[i] != NULL; i++) {
        size_t at = strlen(known);

        snprintf(known + at, sizeof known - at, "%s%s", i > 0 ? ", " : "",
                 ctx->rt->transports[i]->name);
    }
    for (const char *at = ctx->config.transport; *at != '\0';
         at += strcspn(at, ","), at += *at == ',') {
        bool found = strcmp(ctx->config.transport, "auto") == 0;
        size_t len = strcspn(at, ",");

        for (uint32_t i = 0; !found && ctx->rt->transports[i] != NULL; i++)
            found = strlen(ctx->rt->transports[i]->name) == len &&
                    strncmp(ctx->rt->transports[i]->name, at, len) == 0;
        if (!found)
            return sfab_ctx_fail(
                ctx, SFAB_ERR_CONFIG,
                "SFAB_TRANSPORT=\"%.80s\" cannot be used: \"%.*s\" is not a transport of "
                "this build, which has auto, %s",
                ctx->config.transport, (int)(len < 40 ? len : 40), at, known);
    }
    if (ctx->config.transport[0] == '\0')
        return sfab_ctx_fail(ctx, SFAB_ERR_CONFIG, "SFAB_TRANSPORT is empty: it takes auto, %s",
                             known);
    return 0;
}

/* auto: shared memory always, a network only for jobs that leave the node. */
static bool wanted(const struct sfab_ctx *ctx, const char *name)
{
    if (strcmp(ctx->config.transport, "auto") != 0)
        return named(ctx->config.transport, name);
    return strcmp(name, "shm") == 0 || ctx->nodes > 1;
}

static int open_transports(struct sfab_ctx *ctx)
{
    struct sfab_err why = {0};

    for (uint32_t i = 0; ctx->rt->transports[i] != NULL; i++) {
        struct sfab_tp *tp = NULL;

        if (!wanted(ctx, ctx->rt->transports[i]->name))
            continue;
        int rc = ctx->rt->transports[i]->open(sfab_ctx_link(ctx, ctx->tp_count), &tp, &why);
        if (rc == -ENODEV && strcmp(ctx->config.transport, "auto") == 0)
            continue; /* perhaps another reaches everybody; choose_transports tells if not */
        if (rc != 0)
            return sfab_ctx_fail(ctx, rc, "rank %u (%s): %s", ctx->rank, ctx->host, why.text);
        tp->ops = ctx->rt->transports[i];
        if (tp->ops->poll != sfab_tp_no_poll)
            ctx->polled[ctx->polled_count++] = tp;
        ctx->tps[ctx->tp_count++] = tp;
    }
    if (ctx->tp_count == 0)
        return sfab_ctx_fail(ctx, -ENODEV, "rank %u (%s): no transport can be used here: %s",
                             ctx->rank, ctx->host, why.text);
    snprintf(ctx->unopened_why, sizeof ctx->unopened_why, "%.255s", why.text);
    return 0;
}

/* ---- sync memory ------------------------------------------------------------------------- */

static int make_world(struct sfab_ctx *ctx, const struct sfab_group_class *class)
{
    struct sfab_group *world = calloc(1, sizeof *world);

    if (world == NULL)
        return out_of_memory(ctx);
    world->magic = SFAB_GROUP_MAGIC;
    world->ctx = ctx;
    world->class = class;
    world->size = ctx->size;
    world->me = ctx->rank;
    world->id = 1;
    ctx->world = world;
    return 0;
}

/* Head, scratch, the world's block. The kind of transport between members decides how big that block
 * is, which the nodes and the settings tell. */
static int make_arena(struct sfab_ctx *ctx)
{
    struct sfab_group *world = ctx->world;
    size_t scratch_offset = sizeof(struct sfab_arena_head);
    size_t block_offset = scratch_offset + SFAB_SCRATCH_WORDS * sizeof(uint64_t);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    world->block_bytes = world->class->block_bytes(ctx, world->size, world->me);
    size_t bytes = (block_offset + world->block_bytes + page - 1) / page * page;
    int rc = ctx->rt->seg_create(bytes, &ctx->arena, &ctx->err);
    if (rc != 0)
        return rc;
    struct sfab_arena_head *head = ctx->arena.addr;
    head->id = (struct sfab_arena_id){.magic = SFAB_ARENA_MAGIC,
                                      .incarnation = ctx->incarnation,
                                      .rank = ctx->rank,
                                      .size = ctx->size,
                                      .pid = ctx->identities[ctx->rank].pid};
    atomic_store_explicit(&head->status.beat, ctx->rt->now_ns(ctx), memory_order_relaxed);
    ctx->scratch = (uint64_t *)(void *)((char *)ctx->arena.addr + scratch_offset);
    world->block_offset = block_offset;
    world->block = (char *)ctx->arena.addr + block_offset;
    ctx->counters.sync_bytes_now = block_offset + world->block_bytes;
    ctx->counters.registered_bytes_now = bytes;
    return 0;
}

static int register_arena(struct sfab_ctx *ctx)
{
    for (uint32_t i = 0; i < ctx->tp_count; i++) {
        int rc =
            ctx->tps[i]->ops->reg(ctx->tps[i], &ctx->arena, SFAB_REMOTE_READ | SFAB_REMOTE_WRITE,
                                  &ctx->arena_mem[i], &ctx->err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* ---- how each is reached ----------------------------------------------------------------- */

static void describe_reach(const struct sfab_ctx *ctx, struct sfab_reach *mine)
{
    *mine = (struct sfab_reach){.incarnation = ctx->incarnation,
                                .world_block = ctx->world->block_offset,
                                .transports = ctx->tp_count};
    for (uint32_t i = 0; i < ctx->tp_count; i++) {
        struct sfab_tp *tp = ctx->tps[i];

        snprintf(mine->transport[i].name, sizeof mine->transport[i].name, "%s", tp->ops->name);
        mine->transport[i].address_bytes =
            (uint32_t)tp->ops->address(tp, mine->transport[i].address);
        mine->transport[i].arena_key_bytes =
            (uint32_t)tp->ops->pack_key(tp, ctx->arena_mem[i], mine->transport[i].arena_key);
    }
}

static int exchange_reach(struct sfab_ctx *ctx)
{
    uint8_t blob[SFAB_BOOT_BLOB_MAX];
    struct sfab_boot_blob *table = NULL;
    struct sfab_reach mine;

    describe_reach(ctx, &mine);
    int rc = exchange(ctx, TAG_REACH, blob, sfab_reach_encode(&mine, blob, sizeof blob), &table);
    for (uint32_t i = 0; rc == 0 && i < ctx->size; i++)
        if (!sfab_reach_decode(table[i].data, table[i].len_bytes, &ctx->reaches[i]) ||
            ctx->reaches[i].world_block != mine.world_block)
            rc = sfab_ctx_fail(
                ctx, SFAB_ERR_VERSION,
                "rank %u lays out its sync memory differently: all ranks must run the "
                "same syncfab (this one is %s)",
                i, sfab_version());
    free(table);
    return rc;
}

/* Whether transport tp leads from here to rank. */
static bool leads_to(struct sfab_ctx *ctx, uint32_t tp, uint32_t rank, struct sfab_err *why)
{
    const struct sfab_reach *reach = &ctx->reaches[rank];
    const char *name = ctx->tps[tp]->ops->name;

    if (strcmp(name, "shm") == 0 && ctx->peers[rank].node != ctx->peers[ctx->rank].node) {
        sfab_fail_first(why, -EHOSTUNREACH,
                        "it is on another node, where shared memory does not reach");
        return false;
    }
    for (uint32_t i = 0; i < reach->transports; i++)
        if (strcmp(reach->transport[i].name, name) == 0)
            return ctx->tps[tp]->ops->reachable(ctx->tps[tp], reach->transport[i].address,
                                                reach->transport[i].address_bytes, why) == 0;
    sfab_fail_first(why, -EHOSTUNREACH, "it has not opened transport %s", name);
    return false;
}

static int choose_transport(struct sfab_ctx *ctx, uint32_t rank)
{
    struct sfab_peer *peer = &ctx->peers[rank];
    struct sfab_err why = {0};
    char name[96];
    uint32_t tp = 0;

    while (tp < ctx->tp_count && !leads_to(ctx, tp, rank, &why))
        tp++;
    if (tp == ctx->tp_count)
        return sfab_ctx_fail(
            ctx, -EHOSTUNREACH, "rank %u (%s) cannot reach %s with SFAB_TRANSPORT=%s: %s%s%s",
            ctx->rank, ctx->host, sfab_ctx_peer_name(ctx, rank, name, sizeof name),
            ctx->config.transport, why.text, ctx->unopened_why[0] != '\0' ? "; no network: " : "",
            ctx->unopened_why);
    peer->tp = peer->atomic_tp = (uint8_t)tp;
    /* Who else has words of this rank under atomics? In a job of several nodes, ranks of other nodes:
     * then all go through the device, unless it is coherent with CPU atomics. */
    if (ctx->nodes > 1)
        for (uint32_t i = tp + 1; i < ctx->tp_count; i++)
            if ((ctx->tps[i]->caps.flags & SFAB_CAP_ATOMICS_COHERENT) == 0 &&
                leads_to(ctx, i, rank, &why))
                peer->atomic_tp = (uint8_t)i;
    return 0;
}

/* Each is watched by a few others of its node: enough, since who is alive of them tells all. A rank whose
 * connection is held open by a child it has forked ends unseen otherwise. */
static void watch_neighbours(struct sfab_ctx *ctx)
{
    enum { WATCHED = 4 };
    uint32_t watched = 0;

    for (uint32_t i = 1; i < ctx->size && watched < WATCHED; i++) {
        uint32_t rank = (ctx->rank + i) % ctx->size;

        if (ctx->peers[rank].node != ctx->peers[ctx->rank].node ||
            ctx->identities[rank].pid == ctx->identities[ctx->rank].pid)
            continue;
        /* Without pidfds there is still the end of the connection. */
        ctx->rt->watch(ctx->boot, rank, ctx->identities[rank].pid);
        watched++;
    }
}

/* ---- all of it --------------------------------------------------------------------------- */

static void set_names(struct sfab_ctx *ctx)
{
    if (ctx->config.host[0] != '\0')
        snprintf(ctx->host, sizeof ctx->host, "%.63s", ctx->config.host);
    else if (gethostname(ctx->host, sizeof ctx->host - 1) != 0)
        snprintf(ctx->host, sizeof ctx->host, "unknown host");
    snprintf(ctx->log_name, sizeof ctx->log_name, "rank %u %s", ctx->rank, ctx->host);
    sfab_log_set_name(ctx->log_name);
}

static int allocate(struct sfab_ctx *ctx)
{
    ctx->peers = calloc(ctx->size, sizeof *ctx->peers);
    ctx->identities = calloc(ctx->size, sizeof *ctx->identities);
    ctx->reaches = calloc(ctx->size, sizeof *ctx->reaches);
    for (uint32_t i = 0; i < SFAB_TRANSPORTS_MAX; i++)
        ctx->eps[i] = calloc(ctx->size, sizeof *ctx->eps[i]);
    if (ctx->peers == NULL || ctx->identities == NULL || ctx->reaches == NULL ||
        ctx->eps[0] == NULL || ctx->eps[1] == NULL || ctx->eps[2] == NULL || ctx->eps[3] == NULL)
        return out_of_memory(ctx);
    return 0;
}

static int open_all(struct sfab_ctx *ctx, const struct sfab_group_class *class)
{
    int rc = check_names(ctx);

    if (rc == 0)
        rc = allocate(ctx);
    if (rc == 0 && ctx->size > 1)
        rc = ctx->rt->join(ctx);
    if (rc == 0)
        rc = exchange_identities(ctx);
    if (rc == 0)
        rc = make_world(ctx, class);
    if (rc == 0)
        rc = make_arena(ctx);
    if (rc == 0)
        rc = open_transports(ctx);
    if (rc == 0)
        rc = register_arena(ctx);
    if (rc == 0)
        rc = exchange_reach(ctx);
    for (uint32_t i = 0; rc == 0 && i < ctx->size; i++)
        rc = choose_transport(ctx, i);
    if (rc == 0)
        rc = sfab_wait_policy_set(ctx);
    if (rc == 0)
        rc = class->attach(ctx->world, &ctx->err);
    if (rc == 0) {
        sfab_group_enlist(ctx->world);
        watch_neighbours(ctx);
    }
    return rc;
}

static void set_opened(struct sfab_ctx *ctx, int opened)
{
    pthread_mutex_lock(&ctx->lock);
    ctx->opened = opened;
    pthread_cond_broadcast(&ctx->opened_changed);
    pthread_mutex_unlock(&ctx->lock);
}

/* Frees whatever there is, in the order that the parts stand on each other. */
static void dismantle(struct sfab_ctx *ctx)
{
    set_opened(ctx, -1);
    if (ctx->boot != NULL)
        ctx->rt->close(ctx->boot);       /* no event comes after this */
    bool enlisted = ctx->groups != NULL; /* then the world's is among them */
    while (ctx->groups != NULL)
        sfab_group_dismantle(ctx->groups);
    if (!enlisted)
        sfab_group_dismantle(ctx->world);
    sfab_mem_release_all(ctx);
    for (uint32_t tp = 0; tp < ctx->tp_count; tp++) {
        for (uint32_t rank = 0; rank < ctx->size; rank++) {
            struct sfab_ep *ep = atomic_load_explicit(&ctx->eps[tp][rank], memory_order_relaxed);

            if (ep != NULL)
                ep->ops->ep_destroy(ep);
        }
        if (ctx->arena_mem[tp] != NULL)
            ctx->tps[tp]->ops->dereg(ctx->tps[tp], ctx->arena_mem[tp]);
        ctx->tps[tp]->ops->close(ctx->tps[tp]);
    }
    ctx->rt->seg_destroy(&ctx->arena);
    sfab_boot_server_stop(ctx->server);
    for (uint32_t i = 0; i < SFAB_TRANSPORTS_MAX; i++)
        free(ctx->eps[i]);
    free(ctx->reaches);
    free(ctx->identities);
    for (uint32_t i = 0; ctx->peers != NULL && i < ctx->size; i++)
        free(ctx->peers[i].why);
    free(ctx->peers);
    pthread_cond_destroy(&ctx->opened_changed);
    pthread_mutex_destroy(&ctx->groups_lock);
    pthread_mutex_destroy(&ctx->lock);
    sfab_log_set_name(NULL);
    ctx->magic = 0;
    free(ctx);
}

int sfab_ctx_open(const sfab_attr *attr, const struct sfab_group_class *class,
                  const struct sfab_runtime *rt, struct sfab_ctx **out, struct sfab_err *err)
{
    struct sfab_ctx *ctx = calloc(1, sizeof *ctx);

    if (ctx == NULL)
        return sfab_fail(err, -ENOMEM, "out of memory");
    int rc = sfab_config_load(attr, rt->environment(), &ctx->config, err);
    if (rc == 0 && rt->random(&ctx->incarnation, sizeof ctx->incarnation) != 0)
        rc = sfab_fail(err, -EIO, "getrandom(2) gives no random bytes");
    if (rc != 0) {
        free(ctx);
        return rc;
    }
    pthread_mutex_init(&ctx->lock, NULL);
    pthread_cond_init(&ctx->opened_changed, NULL);
    pthread_mutex_init(&ctx->groups_lock, NULL);
    ctx->rt = rt;
    ctx->magic = SFAB_CTX_MAGIC;
    ctx->rank = (uint32_t)ctx->config.rank;
    ctx->size = (uint32_t)ctx->config.size;
    ctx->ops.prev = ctx->ops.next = &ctx->ops;
    sfab_log_set_level((enum sfab_log_level)ctx->config.log);
    set_names(ctx);
    rc = open_all(ctx, class);
    if (rc != 0) {
        *err = ctx->err;
        dismantle(ctx);
        return rc;
    }
    set_opened(ctx, 1);
    *out = ctx;
    return 0;
}

/* What was posted goes out before the goodbye: a peer may be waiting for the last word. */
static int drain(struct sfab_ctx *ctx, int64_t timeout_ns)
{
    const int64_t patience_ns = timeout_ns < 1000000000 ? timeout_ns : 1000000000;
    uint64_t since = 0, since_list = 0;

    for (uint32_t tp = 0; tp < ctx->tp_count; tp++)
        for (uint32_t rank = 0; rank < ctx->size; rank++) {
            struct sfab_ep *ep = atomic_load_explicit(&ctx->eps[tp][rank], memory_order_acquire);

            while (ep != NULL &&
                   atomic_load_explicit(&ep->state, memory_order_acquire) == SFAB_EP_READY &&
                   ep->ops->flush(ep) == -EAGAIN)
                if (sfab_ctx_pause(ctx, &since, timeout_ns) != 0)
                    return -ETIMEDOUT;
        }
    while (ctx->ops.next != &ctx->ops) { /* cancelled ones that peers still count on */
        if (sfab_ctx_pause(ctx, &since_list, patience_ns) != 0)
            return -ETIMEDOUT;
    }
    return 0;
}

int sfab_ctx_close(struct sfab_ctx *ctx)
{
    int64_t timeout_ns = ctx->config.close_timeout_ms * 1000000;
    int rc = 0;

    for (struct sfab_op *op = ctx->ops.next, *next; op != &ctx->ops; op = next) {
        next = op->next;
        if (op->state == SFAB_OP_LIVE)
            sfab_op_cancel(op);
    }
    drain(ctx, timeout_ns);
    if (ctx->boot != NULL) {
        sfab_groups_farewell(ctx);
        rc = ctx->rt->leave(ctx->boot, sfab_world_episode(ctx), timeout_ns, &ctx->err);
        if (rc != 0)
            sfab_log(SFAB_LOG_WARN, "sfab_close: %s", ctx->err.text);
    }
    if (ctx->server != NULL)
        sfab_boot_server_drain(ctx->server, rc == 0 ? timeout_ns : 0);
    dismantle(ctx);
    return rc;
}
