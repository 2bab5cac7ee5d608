/* peer.c - endpoints to peers and their sync memory, made on first use. */
#include "fabric/ctx.h"
#include "fabric/suspect.h"

#include <errno.h>
#include <string.h>

/* The card's entry of a rank for one of our transports; NULL: it has not opened that. */
static const uint8_t *address_of(const struct sfab_ctx *ctx, uint32_t rank, uint32_t tp,
                                 size_t *len, const uint8_t **key, size_t *key_len)
{
    const struct sfab_reach *reach = &ctx->reaches[rank];

    for (uint32_t i = 0; i < reach->transports; i++)
        if (strcmp(reach->transport[i].name, ctx->tps[tp]->ops->name) == 0) {
            *len = reach->transport[i].address_bytes;
            *key = reach->transport[i].arena_key;
            *key_len = reach->transport[i].arena_key_bytes;
            return reach->transport[i].address;
        }
    return NULL;
}

static struct sfab_ep *make_ep(struct sfab_ctx *ctx, uint32_t tp, uint32_t rank,
                               struct sfab_err *err)
{
    size_t len = 0, key_len;
    const uint8_t *key, *address = address_of(ctx, rank, tp, &len, &key, &key_len);
    struct sfab_ep *ep = NULL;
    char name[96];
    int rc = address == NULL ? -EHOSTUNREACH
                             : ctx->tps[tp]->ops->ep_create(ctx->tps[tp], rank, address, len, &ep);

    if (rc != 0)
        sfab_fail(err, rc, "rank %u (%s): cannot make a %s endpoint to %s: %s", ctx->rank,
                  ctx->host, ctx->tps[tp]->ops->name,
                  sfab_ctx_peer_name(ctx, rank, name, sizeof name), sfab_errno_text(-rc));
    else
        ep->ops = ctx->tps[tp]->ops, ep->tp = ctx->tps[tp], ep->peer = rank;
    return ep;
}

struct sfab_ep *sfab_ep_get(struct sfab_ctx *ctx, uint32_t tp, uint32_t rank, struct sfab_err *err)
{
    /* EP */
    struct sfab_ep *ep = atomic_load_explicit(&ctx->eps[tp][rank], memory_order_acquire);

    if (ep != NULL)
        return ep;
    pthread_mutex_lock(&ctx->lock);
    ep = atomic_load_explicit(&ctx->eps[tp][rank], memory_order_relaxed);
    if (ep == NULL)
        ep = make_ep(ctx, tp, rank, err);
    if (ep != NULL)
        atomic_store_explicit(&ctx->eps[tp][rank], ep, memory_order_release);
    pthread_mutex_unlock(&ctx->lock);
    return ep;
}

struct sfab_ep *sfab_peer_ep(struct sfab_ctx *ctx, uint32_t rank)
{
    struct sfab_peer *peer = &ctx->peers[rank];

    if (peer->ep == NULL)
        peer->ep = sfab_ep_get(ctx, peer->tp, rank, &ctx->err);
    return peer->ep;
}

struct sfab_ep *sfab_peer_atomic_ep(struct sfab_ctx *ctx, uint32_t rank)
{
    struct sfab_peer *peer = &ctx->peers[rank];

    if (peer->atomic_ep == NULL)
        peer->atomic_ep = sfab_ep_get(ctx, peer->atomic_tp, rank, &ctx->err);
    return peer->atomic_ep;
}

/* Whether that failure is of the other side, or the way there. What else fails on memory that is mapped is
 * this side's own trouble. */
static bool is_theirs(const struct sfab_ep *ep)
{
    return atomic_load_explicit(&ep->state, memory_order_acquire) == SFAB_EP_FAILED &&
           ((ep->tp->caps.flags & SFAB_CAP_MAP) == 0 || ep->err.code == SFAB_ERR_PEER_DEAD);
}

bool sfab_peer_unreachable(const struct sfab_ctx *ctx, uint32_t rank)
{
    const struct sfab_ep *ep = ctx->peers[rank].ep;

    return ep != NULL && is_theirs(ep);
}

bool sfab_peer_dies(struct sfab_ctx *ctx, uint32_t rank)
{
    static const int64_t news_ns = 250000000;
    static const uint64_t again_ns =
        5000000000; /* who opens many stale keys does not wait for each */
    struct sfab_peer *peer = &ctx->peers[rank];
    uint64_t since_ns = 0, now = ctx->rt->now_ns(ctx);
    bool wait = peer->news_awaited_ns == 0 || now - peer->news_awaited_ns >= again_ns;

    if (wait)
        peer->news_awaited_ns = now;
    /* GONE */
    while (atomic_load_explicit(&peer->presence, memory_order_acquire) == SFAB_PRESENT)
        if (!wait || sfab_ctx_pause(ctx, &since_ns, news_ns) != 0)
            return false;
    return true;
}

/* Once, and once more whenever somebody was given up and it was not this one. */
static uint32_t accused_now(const struct sfab_ctx *ctx)
{
    return 1 + atomic_load_explicit(&ctx->deaths, memory_order_relaxed);
}

bool sfab_peer_accused(const struct sfab_ctx *ctx, uint32_t rank)
{
    return ctx->peers[rank].accused == accused_now(ctx);
}

void sfab_peer_accuse(struct sfab_ctx *ctx, uint32_t rank, const char *text)
{
    if (sfab_peer_accused(ctx, rank) || ctx->boot == NULL)
        return;
    ctx->peers[rank].accused = accused_now(ctx);
    ctx->rt->accuse(ctx->boot, rank, text); /* a lost rendezvous is an event of its own */
}

void sfab_peer_accuse_ep(struct sfab_ctx *ctx, const struct sfab_ep *ep)
{
    if (ep->err.code == -ENETDOWN)
        sfab_peer_accuse(ctx, ctx->rank, "its own network device, port or interface has gone down");
    else
        sfab_suspect(ctx, ep->peer, ep->err.text);
}

int sfab_peer_failed(struct sfab_ctx *ctx, struct sfab_ep *ep, int code)
{
    char name[96];

    sfab_ctx_fail(ctx, code, "rank %u (%s): the %s connection to %s failed: %s", ctx->rank,
                  ctx->host, ep->ops->name, sfab_ctx_peer_name(ctx, ep->peer, name, sizeof name),
                  ep->err.text[0] != '\0' ? ep->err.text : sfab_errno_text(-code));
    if (is_theirs(ep))
        sfab_peer_accuse_ep(ctx, ep);
    return code;
}

int sfab_peer_open(struct sfab_ctx *ctx, uint32_t rank)
{
    struct sfab_peer *peer = &ctx->peers[rank];
    size_t len = 0, key_len = 0;
    const uint8_t *key = NULL;
    struct sfab_ep *ep = sfab_peer_ep(ctx, rank);

    if (ep == NULL)
        return ctx->err.code;
    int rc = ep->ops->connect(ep);
    if (rc == -EAGAIN)
        return rc;
    if (rc != 0)
        return sfab_peer_failed(ctx, ep, rc);
    if (peer->arena.base != 0)
        return 0;
    address_of(ctx, rank, peer->tp, &len, &key, &key_len);
    rc = ep->ops->unpack_key(ep, key, key_len, &peer->arena, &ctx->err);
    return rc;
}
