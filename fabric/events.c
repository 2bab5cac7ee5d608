/* events.c - the context's side of the control thread: wire-up messages to transports, ranks that
 * are gone, a rendezvous that is lost; and what transports may call back. */
#include "fabric/events.h"
#include "fabric/ctx.h"
#include "fabric/doorbell.h"
#include "fabric/log.h"
#include "fabric/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void wake_owner(struct sfab_ctx *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    bool good = ctx->opened > 0;
    pthread_mutex_unlock(&ctx->lock);
    if (good)
        sfab_doorbell_ring(&((struct sfab_arena_head *)ctx->arena.addr)->doorbell);
}

/* A peer that was quicker through sfab_open may ask before we are through: wait until endpoints can be
 * made. What we wait for needs nothing from this thread: the rendezvous sends us the last exchange
 * before it forwards anything that depends on it. */
static bool wait_opened(struct sfab_ctx *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    while (ctx->opened == 0)
        pthread_cond_wait(&ctx->opened_changed, &ctx->lock);
    bool good = ctx->opened > 0;
    pthread_mutex_unlock(&ctx->lock);
    return good;
}

/* The channel of a wire-up message is the index of the transport, the same everywhere since all open
 * the same list in the same order; the name is checked by what the transport makes of the bytes. */
static void on_message(void *arg, uint32_t src, uint16_t channel, const uint8_t *data, size_t len)
{
    struct sfab_ctx *ctx = arg;
    struct sfab_err err = {0};

    if (!wait_opened(ctx) || channel >= ctx->tp_count || src >= ctx->size)
        return;
    struct sfab_ep *ep = sfab_ep_get(ctx, channel, src, &err);
    if (ep == NULL) {
        sfab_log(SFAB_LOG_ERROR, "%s", err.text);
        return;
    }
    ctx->tps[channel]->ops->control(ctx->tps[channel], ep, data, len);
}

static void on_gone(void *arg, uint32_t rank, enum sfab_boot_gone how, uint64_t goodbye,
                    const char *why)
{
    struct sfab_ctx *ctx = arg;

    if (rank >= ctx->size ||
        atomic_load_explicit(&ctx->peers[rank].presence, memory_order_relaxed) != SFAB_PRESENT)
        return;
    ctx->peers[rank].goodbye = goodbye;
    ctx->peers[rank].why = why[0] != '\0' ? strdup(why) : NULL;
    /* GONE: values first. */
    atomic_store_explicit(&ctx->peers[rank].presence,
                          how == SFAB_BOOT_LEFT ? SFAB_GONE_LEFT : SFAB_GONE_DIED,
                          memory_order_release);
    if (how == SFAB_BOOT_DIED)
        atomic_fetch_add_explicit(&ctx->deaths, 1, memory_order_relaxed);
    if (how == SFAB_BOOT_DIED && rank != ctx->rank)
        sfab_groups_died(ctx, rank);
    else if (rank == ctx->rank)
        sfab_groups_interrupt(ctx);
    sfab_ctx_note_fault(ctx);
    wake_owner(ctx);
}

static void on_surveyed(void *arg, uint64_t tag, const struct sfab_boot_blob *table, uint32_t count)
{
    struct sfab_ctx *ctx = arg;

    sfab_groups_surveyed(ctx, tag, table, count);
    sfab_ctx_note_fault(ctx);
    wake_owner(ctx);
}

static void on_survey_missing(void *arg, uint64_t tag, const char *text)
{
    struct sfab_ctx *ctx = arg;

    pthread_mutex_lock(&ctx->groups_lock);
    if (tag == ctx->missing_tag)
        snprintf(ctx->missing_text, sizeof ctx->missing_text, "%s", text);
    pthread_mutex_unlock(&ctx->groups_lock);
    wake_owner(ctx);
}

static void on_aborted(void *arg, uint32_t by, int code, const char *text)
{
    struct sfab_ctx *ctx = arg;

    if (code >= 0 || (by >= ctx->size && by != UINT32_MAX) ||
        atomic_load_explicit(&ctx->aborted, memory_order_relaxed))
        return;
    ctx->abort_code = code;
    ctx->abort_by = by;
    snprintf(ctx->abort_text, sizeof ctx->abort_text, "%s", text);
    /* ABORT: the rest first. */
    atomic_store_explicit(&ctx->aborted, 1, memory_order_release);
    sfab_groups_interrupt(ctx);
    sfab_ctx_note_fault(ctx);
    wake_owner(ctx);
}

static uint64_t on_tick(void *arg)
{
    return sfab_status_tick(arg);
}

static void on_lost(void *arg, const char *text)
{
    struct sfab_ctx *ctx = arg;

    snprintf(ctx->boot_lost_text, sizeof ctx->boot_lost_text, "%s", text);
    /* LOST: text first. */
    atomic_store_explicit(&ctx->boot_lost, 1, memory_order_release);
    sfab_groups_interrupt(ctx);
    sfab_ctx_note_fault(ctx);
    wake_owner(ctx);
}

const struct sfab_boot_events *sfab_ctx_events(struct sfab_ctx *ctx)
{
    ctx->events = (struct sfab_boot_events){.message = on_message,
                                            .gone = on_gone,
                                            .surveyed = on_surveyed,
                                            .survey_missing = on_survey_missing,
                                            .aborted = on_aborted,
                                            .tick = on_tick,
                                            .lost = on_lost,
                                            .arg = ctx};
    return &ctx->events;
}

static int send_control(void *arg, uint32_t peer, const void *data, size_t len)
{
    struct sfab_tp_link *link = arg;

    if (len > SFAB_TP_CONTROL_MAX || peer == link->ctx->rank || link->ctx->boot == NULL)
        return -EINVAL;
    return link->ctx->rt->send(link->ctx->boot, peer, link->channel, data, len);
}

static void transport_wakes(void *arg)
{
    struct sfab_tp_link *link = arg;

    sfab_ctx_note_fault(link->ctx);
    wake_owner(link->ctx);
}

static const char *peer_name(void *arg, uint32_t peer, char *buf, size_t cap)
{
    struct sfab_tp_link *link = arg;

    return sfab_ctx_peer_name(link->ctx, peer, buf, cap);
}

const struct sfab_tp_env *sfab_ctx_link(struct sfab_ctx *ctx, uint32_t channel)
{
    struct sfab_tp_link *link = &ctx->links[channel];

    link->ctx = ctx;
    link->channel = (uint16_t)channel;
    link->env = (struct sfab_tp_env){.rank = ctx->rank,
                                     .size = ctx->size,
                                     .host = ctx->host,
                                     .config = &ctx->config,
                                     .arena = &ctx->arena,
                                     .send_control = send_control,
                                     .wake_owner = transport_wakes,
                                     .peer_name = peer_name,
                                     .arg = link};
    return &link->env;
}
