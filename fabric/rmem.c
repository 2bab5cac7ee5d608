/* rmem.c - memory of other ranks, opened by its key; and the collective that exchanges keys. */
#include "fabric/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Opens the key for one transport of ours. */
static int open_way(struct sfab_ctx *ctx, const struct sfab_key *card, uint32_t tp,
                    struct sfab_ep *ep, struct sfab_raddr *out)
{
    for (uint32_t i = 0; i < card->transports; i++) {
        if (strcmp(card->transport[i].name, ctx->tps[tp]->ops->name) != 0)
            continue;
        int rc = ep->ops->unpack_key(ep, card->transport[i].key, card->transport[i].key_bytes, out,
                                     &ctx->err);
        if (rc == 0 && out->len_bytes < card->len_bytes) {
            ep->ops->release_key(ep, out);
            rc = sfab_ctx_fail(ctx, -EINVAL,
                               "the key is garbled: it names less memory than it claims");
        }
        return rc;
    }
    return sfab_ctx_fail(ctx, -EINVAL, "the key has no entry for transport %s",
                         ctx->tps[tp]->ops->name);
}

static int open_ways(struct sfab_rmem *rmem, const struct sfab_key *card)
{
    struct sfab_ctx *ctx = rmem->ctx;
    struct sfab_peer *peer = &ctx->peers[rmem->rank];

    rmem->ep = sfab_peer_ep(ctx, rmem->rank);
    rmem->atomic_ep = sfab_peer_atomic_ep(ctx, rmem->rank);
    rmem->tp = peer->tp;
    if (rmem->ep == NULL || rmem->atomic_ep == NULL)
        return ctx->err.code;
    int rc = open_way(ctx, card, peer->tp, rmem->ep, &rmem->raddr);
    if (rc != 0)
        return rc;
    rmem->atomic_raddr = rmem->raddr;
    if (rmem->atomic_ep != rmem->ep) {
        rc = open_way(ctx, card, peer->atomic_tp, rmem->atomic_ep, &rmem->atomic_raddr);
        if (rc != 0)
            rmem->ep->ops->release_key(rmem->ep, &rmem->raddr);
    }
    return rc;
}

static int check_card(struct sfab_ctx *ctx, int rank, const void *key, size_t key_bytes,
                      struct sfab_key *card)
{
    char name[96];

    if (rank < 0 || (uint32_t)rank >= ctx->size)
        return sfab_ctx_fail(ctx, -EINVAL, "there is no rank %d in a job of %u", rank, ctx->size);
    if (!sfab_key_decode(key, key_bytes, card) || card->len_bytes == 0)
        return sfab_ctx_fail(ctx, -EINVAL, "these %zu bytes are not a key of sfab_mem_key",
                             key_bytes);
    sfab_ctx_peer_name(ctx, (uint32_t)rank, name, sizeof name);
    if (card->rank != (uint32_t)rank)
        return sfab_ctx_fail(ctx, -EINVAL, "this key belongs to rank %u, not to %s", card->rank,
                             name);
    if (card->incarnation != ctx->reaches[rank].incarnation)
        return sfab_ctx_fail(ctx, SFAB_ERR_STALE,
                             "this key belongs to an earlier incarnation of %s", name);
    return 0;
}

/* What has vanished went with its owner, or its owner has freed it. */
static int cannot_open(struct sfab_ctx *ctx, uint32_t rank, int code)
{
    char name[96], text[SFAB_ERR_TEXT_BYTES / 2];

    if ((code == SFAB_ERR_PEER_DEAD || code == SFAB_ERR_STALE) && sfab_peer_dies(ctx, rank))
        return sfab_ctx_check_present(ctx, rank, "sfab_rmem_open");
    snprintf(text, sizeof text, "%.500s", ctx->err.text);
    return sfab_ctx_fail(ctx, code, "rank %u (%s): sfab_rmem_open: memory of %s: %s", ctx->rank,
                         ctx->host, sfab_ctx_peer_name(ctx, rank, name, sizeof name), text);
}

int sfab_rmem_open(sfab_ctx *ctx, int rank, const void *key, size_t key_bytes, sfab_rmem **out)
{
    struct sfab_key card;

    if (!sfab_ctx_ok(ctx) || key == NULL || out == NULL)
        return -EINVAL;
    int rc = check_card(ctx, rank, key, key_bytes, &card);
    if (rc == 0)
        rc = sfab_ctx_check_present(ctx, (uint32_t)rank, "sfab_rmem_open");
    if (rc != 0)
        return rc;
    struct sfab_rmem *rmem = calloc(1, sizeof *rmem);
    if (rmem == NULL)
        return sfab_ctx_fail(ctx, -ENOMEM, "out of memory");
    rmem->ctx = ctx;
    rmem->rank = (uint32_t)rank;
    rmem->access = card.access;
    rmem->words = card.words;
    rmem->len_bytes = card.len_bytes;
    rc = open_ways(rmem, &card);
    if (rc != 0) {
        free(rmem);
        return cannot_open(ctx, (uint32_t)rank, rc);
    }
    rmem->magic = SFAB_RMEM_MAGIC;
    rmem->next = ctx->rmems;
    if (ctx->rmems != NULL)
        ctx->rmems->prev = rmem;
    ctx->rmems = rmem;
    *out = rmem;
    return 0;
}

int sfab_rmem_close(sfab_rmem *rmem)
{
    if (!sfab_rmem_ok(rmem))
        return -EINVAL;
    if (rmem->atomic_ep != rmem->ep)
        rmem->atomic_ep->ops->release_key(rmem->atomic_ep, &rmem->atomic_raddr);
    rmem->ep->ops->release_key(rmem->ep, &rmem->raddr);
    if (rmem->prev != NULL)
        rmem->prev->next = rmem->next;
    else
        rmem->ctx->rmems = rmem->next;
    if (rmem->next != NULL)
        rmem->next->prev = rmem->prev;
    rmem->magic = 0;
    free(rmem);
    return 0;
}

size_t sfab_rmem_len(const sfab_rmem *rmem)
{
    return sfab_rmem_ok(rmem) ? (size_t)rmem->len_bytes : 0;
}

/* Every member's key, by way of the rendezvous; alone in the job, its own. */
static int exchange_keys(struct sfab_group *group, const uint8_t *key, size_t key_bytes,
                         int64_t timeout_ns, struct sfab_boot_blob **table)
{
    struct sfab_ctx *ctx = group->ctx;
    /* Distinct from the tags of opening; the same on all members, who share in the same order. */
    uint64_t tag = (UINT64_C(1) << 32) + ctx->share_sequence++;

    if (ctx->size > 1)
        return ctx->rt->allgather(ctx->boot, tag, group->members, group->size, key, key_bytes,
                                  timeout_ns, table, &ctx->err);
    *table = calloc(1, sizeof **table);
    if (*table == NULL)
        return sfab_ctx_fail(ctx, -ENOMEM, "out of memory");
    (*table)[0] = (struct sfab_boot_blob){.data = key, .len_bytes = key_bytes};
    return 0;
}

int sfab_mem_share(sfab_mem *mem, sfab_group *group, sfab_rmem **table, int64_t timeout_ns)
{
    uint8_t key[SFAB_KEY_MAX_BYTES];
    size_t key_bytes = 0;
    struct sfab_boot_blob *blobs = NULL;

    if (!sfab_mem_ok(mem) || !sfab_group_ok(group) || table == NULL || mem->ctx != group->ctx)
        return -EINVAL;
    int rc = sfab_mem_key(mem, key, sizeof key, &key_bytes);
    if (rc != 0)
        return sfab_ctx_fail(mem->ctx, rc, "the key of %zu bytes of memory is too long",
                             mem->seg.len_bytes);
    rc = exchange_keys(group, key, key_bytes, timeout_ns, &blobs);
    for (uint32_t i = 0; rc == 0 && i < group->size; i++) {
        rc = sfab_rmem_open(group->ctx, (int)sfab_group_member(group, i), blobs[i].data,
                            blobs[i].len_bytes, &table[i]);
        for (uint32_t done = i; rc != 0 && done > 0; done--)
            sfab_rmem_close(table[done - 1]);
    }
    free(blobs);
    return rc;
}
