/* ctx.c - what can be asked of a context, and who is still there. */
#include "fabric/ctx.h"
#include "fabric/doorbell.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void sfab_attr_init(sfab_attr *attr)
{
    if (attr != NULL)
        *attr = (sfab_attr){.struct_bytes = sizeof *attr, .rank = -1, .size = -1};
}

int sfab_rank(const sfab_ctx *ctx)
{
    return sfab_ctx_ok(ctx) ? (int)ctx->rank : -EINVAL;
}

int sfab_size(const sfab_ctx *ctx)
{
    return sfab_ctx_ok(ctx) ? (int)ctx->size : -EINVAL;
}

const char *sfab_ctx_peer_name(const struct sfab_ctx *ctx, uint32_t rank, char *buf, size_t cap)
{
    if (rank < ctx->size && ctx->identities != NULL)
        snprintf(buf, cap, "rank %u (%s)", rank, ctx->identities[rank].host);
    else
        snprintf(buf, cap, "rank %u", rank);
    return buf;
}

static int aborted(struct sfab_ctx *ctx, const char *doing)
{
    char name[96] = "the launcher";

    if (ctx->abort_by != UINT32_MAX)
        sfab_ctx_peer_name(ctx, ctx->abort_by, name, sizeof name);
    return sfab_ctx_fail(ctx, ctx->abort_code,
                         "rank %u (%s): %s cannot finish: %s has aborted the job: %s", ctx->rank,
                         ctx->host, doing, name, ctx->abort_text);
}

int sfab_ctx_ended(struct sfab_ctx *ctx, const char *doing)
{
    const struct sfab_peer *self = &ctx->peers[ctx->rank];

    if (atomic_load_explicit(&ctx->aborted, memory_order_acquire)) /* ABORT */
        return aborted(ctx, doing);
    if (atomic_load_explicit(&self->presence, memory_order_acquire) != SFAB_PRESENT) /* GONE */
        return sfab_ctx_fail(
            ctx, SFAB_ERR_PEER_DEAD,
            "rank %u (%s): %s cannot finish: the other ranks have given this one up: %s", ctx->rank,
            ctx->host, doing, self->why != NULL ? self->why : "they could not reach it");
    if (atomic_load_explicit(&ctx->boot_lost, memory_order_acquire)) /* LOST */
        return sfab_ctx_fail(
            ctx, SFAB_ERR_PEER_DEAD,
            "rank %u (%s): %s cannot finish: the rendezvous of the job is lost (the "
            "launcher or rank 0, which served it, has ended): %s",
            ctx->rank, ctx->host, doing, ctx->boot_lost_text);
    return 0;
}

int sfab_ctx_check_present(struct sfab_ctx *ctx, uint32_t rank, const char *doing)
{
    struct sfab_peer *peer = &ctx->peers[rank];
    char name[96];

    int rc = sfab_ctx_ended(ctx, doing);

    if (rc != 0)
        return rc;
    /* GONE: pairs with the release in events.c. */
    switch ((enum sfab_presence)atomic_load_explicit(&peer->presence, memory_order_acquire)) {
    case SFAB_PRESENT:
        break;
    case SFAB_GONE_LEFT:
        return sfab_ctx_fail(ctx, SFAB_ERR_PEER_DEAD,
                             "rank %u (%s): %s cannot finish: %s has left the job (it called "
                             "sfab_close after %llu barriers of the world group)",
                             ctx->rank, ctx->host, doing,
                             sfab_ctx_peer_name(ctx, rank, name, sizeof name),
                             (unsigned long long)peer->goodbye);
    case SFAB_GONE_DIED:
        return sfab_ctx_fail(
            ctx, SFAB_ERR_PEER_DEAD,
            "rank %u (%s): %s cannot finish: %s has died (%s); look at its output for the cause",
            ctx->rank, ctx->host, doing, sfab_ctx_peer_name(ctx, rank, name, sizeof name),
            peer->why != NULL ? peer->why : "its process ended without sfab_close");
    }
    if (peer->ep != NULL &&
        atomic_load_explicit(&peer->ep->state, memory_order_acquire) == SFAB_EP_FAILED)
        return sfab_peer_failed(ctx, peer->ep, peer->ep->err.code);
    return 0;
}

bool sfab_ctx_all_present(struct sfab_ctx *ctx)
{
    uint32_t faults = atomic_load_explicit(&ctx->faults, memory_order_acquire); /* FAULT */

    if (atomic_load_explicit(&ctx->boot_lost, memory_order_acquire) ||
        atomic_load_explicit(&ctx->aborted, memory_order_acquire))
        return false;
    for (uint32_t rank = 0; rank < ctx->size; rank++) {
        struct sfab_peer *peer = &ctx->peers[rank];

        if (atomic_load_explicit(&peer->presence, memory_order_acquire) != SFAB_PRESENT)
            return false;
        for (uint32_t tp = 0; tp < ctx->tp_count; tp++) {
            struct sfab_ep *ep = atomic_load_explicit(&ctx->eps[tp][rank], memory_order_acquire);

            if (ep != NULL &&
                atomic_load_explicit(&ep->state, memory_order_acquire) == SFAB_EP_FAILED)
                return false;
        }
    }
    ctx->all_present_at = faults;
    return true;
}

uint64_t sfab_world_episode(const struct sfab_ctx *ctx)
{
    return ctx->world->class->episode(ctx->world);
}

void sfab_ctx_note_fault(struct sfab_ctx *ctx)
{
    /* FAULT */
    atomic_fetch_add_explicit(&ctx->faults, 1, memory_order_release);
}

int sfab_ctx_transport(const struct sfab_ctx *ctx, const char *name)
{
    for (uint32_t i = 0; i < ctx->tp_count; i++)
        if (strcmp(ctx->tps[i]->ops->name, name) == 0)
            return (int)i;
    return -1;
}

int sfab_counters_get(const sfab_ctx *ctx, sfab_counters *out)
{
    if (!sfab_ctx_ok(ctx) || out == NULL)
        return -EINVAL;
    *out = ctx->counters;
    out->connections_now = 0;
    for (uint32_t i = 0; i < ctx->tp_count; i++)
        out->connections_now += ctx->tps[i]->connections_now;
    return 0;
}

int sfab_layout_get(const sfab_ctx *ctx, sfab_layout *out)
{
    sfab_layout layout = {0};

    if (!sfab_ctx_ok(ctx) || out == NULL)
        return -EINVAL;
    layout.nodes = (int)ctx->nodes;
    layout.machine_ranks = (int)ctx->local_ranks;
    layout.machine_cpus = (int)ctx->local_cpus_fit;
    for (uint32_t tp = 0; tp < ctx->tp_count; tp++) {
        size_t at = strlen(layout.transports);
        bool used = false;

        for (uint32_t rank = 0; !used && rank < ctx->size; rank++)
            used = ctx->peers[rank].tp == tp && (rank != ctx->rank || ctx->size == 1);
        if (used)
            snprintf(layout.transports + at, sizeof layout.transports - at, "%s%s",
                     at > 0 ? "+" : "", ctx->tps[tp]->ops->name);
    }
    *out = layout;
    return 0;
}

int sfab_settings(const sfab_ctx *ctx, sfab_setting_visit visit, void *arg)
{
    struct sfab_config config;

    if (visit == NULL || (ctx != NULL && !sfab_ctx_ok(ctx)))
        return -EINVAL;
    if (ctx != NULL) {
        sfab_config_visit(&ctx->config, visit, arg);
        return 0;
    }
    int rc = sfab_config_load(NULL, NULL, &config, sfab_open_error());
    if (rc == 0)
        sfab_config_visit(&config, visit, arg);
    return rc;
}

int sfab_probe(sfab_probe_visit visit, void *arg)
{
    struct sfab_config config;

    if (visit == NULL)
        return -EINVAL;
    int rc = sfab_config_load(NULL, NULL, &config, sfab_open_error());
    for (uint32_t i = 0; rc == 0 && sfab_transports[i] != NULL; i++)
        sfab_transports[i]->probe(&config, visit, arg);
    return rc;
}

/* The failure of the calling thread's last sfab_open: there is no context to keep it in. */
struct sfab_err *sfab_open_error(void)
{
    static _Thread_local struct sfab_err err;

    return &err;
}

int sfab_last_error(const sfab_ctx *ctx, char *buf, size_t buf_bytes)
{
    if (buf == NULL || buf_bytes == 0 || (ctx != NULL && !sfab_ctx_ok(ctx)))
        return -EINVAL;
    const struct sfab_err *err = ctx != NULL ? &ctx->err : sfab_open_error();
    snprintf(buf, buf_bytes, "%s", err->text);
    return err->code;
}
