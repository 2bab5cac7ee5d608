/* group.c - groups as such: who is in them, how their memory is reached, and what the control thread
 * tells them. */
#include "fabric/group.h"
#include "fabric/card.h"
#include "fabric/ctx.h"
#include "fabric/shrink.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what can be asked ------------------------------------------------------------------- */

sfab_group *sfab_world(sfab_ctx *ctx)
{
    return sfab_ctx_ok(ctx) ? ctx->world : NULL;
}

int sfab_group_rank(const sfab_group *group)
{
    return sfab_group_ok(group) ? (int)group->me : -EINVAL;
}

int sfab_group_size(const sfab_group *group)
{
    return sfab_group_ok(group) ? (int)group->size : -EINVAL;
}

int sfab_group_member_rank(const sfab_group *group, int i)
{
    if (!sfab_group_ok(group) || i < 0 || (uint32_t)i >= group->size)
        return -EINVAL;
    return (int)sfab_group_member(group, (uint32_t)i);
}

/* ---- reaching members -------------------------------------------------------------------- */

const struct sfab_raddr *sfab_group_reach(const struct sfab_group *group, uint32_t member)
{
    return group->reach != NULL ? &group->reach[member]
                                : &group->ctx->peers[sfab_group_member(group, member)].arena;
}

/* The bytes came from the member through the rendezvous: checked as any. */
static int unpack(struct sfab_group *group, uint32_t member, struct sfab_ep *ep)
{
    struct sfab_ctx *ctx = group->ctx;
    struct sfab_key key;
    char name[96];
    const uint8_t *bytes = group->keys + (size_t)member * SFAB_GROUP_KEY_MAX;
    size_t len = (size_t)bytes[0] | (size_t)bytes[1] << 8;

    if (sfab_key_decode(bytes + 2, len, &key))
        for (uint32_t i = 0; i < key.transports; i++)
            if (strcmp(key.transport[i].name, ep->ops->name) == 0)
                return ep->ops->unpack_key(ep, key.transport[i].key, key.transport[i].key_bytes,
                                           &group->reach[member], &ctx->err);
    return sfab_ctx_fail(
        ctx, SFAB_ERR_VERSION,
        "rank %u (%s): %s has sent no usable key of its memory for the group: all "
        "ranks must run the same syncfab (this one is %s)",
        ctx->rank, ctx->host,
        sfab_ctx_peer_name(ctx, sfab_group_member(group, member), name, sizeof name),
        sfab_version());
}

int sfab_group_open(struct sfab_group *group, uint32_t member)
{
    uint32_t rank = sfab_group_member(group, member);
    int rc = sfab_peer_open(group->ctx, rank);

    if (rc != 0 || group->reach == NULL || group->reach[member].base != 0)
        return rc;
    rc = unpack(group, member, group->ctx->peers[rank].ep);
    if (rc == SFAB_ERR_PEER_DEAD || rc == SFAB_ERR_STALE) /* it is kept as long as its context */
        sfab_peer_accuse(group->ctx, rank, group->ctx->err.text);
    return rc;
}

/* ---- life -------------------------------------------------------------------------------- */

/* The finalizer of splitmix64 (Steele et al., 2014): spreads nearby numbers over all. */
static uint64_t spread(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t sfab_group_tag(const struct sfab_group *group, enum sfab_group_survey kind, uint32_t turn)
{
    return spread(spread(group->id + UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)kind) + turn);
}

void sfab_group_enlist(struct sfab_group *group)
{
    struct sfab_ctx *ctx = group->ctx;

    pthread_mutex_lock(&ctx->groups_lock);
    group->next = ctx->groups;
    ctx->groups = group;
    if (atomic_load_explicit(&ctx->aborted, memory_order_acquire))
        group->class->interrupt(group);
    /* Who dies from now on is told by the control thread, which waits for this lock. */
    for (uint32_t i = 0; i < group->size; i++)
        if (atomic_load_explicit(&ctx->peers[sfab_group_member(group, i)].presence,
                                 memory_order_acquire) == SFAB_GONE_DIED)
            group->class->died(group, i);
    pthread_mutex_unlock(&ctx->groups_lock);
}

static void delist(struct sfab_group *group)
{
    struct sfab_ctx *ctx = group->ctx;

    pthread_mutex_lock(&ctx->groups_lock);
    for (struct sfab_group **at = &ctx->groups; *at != NULL; at = &(*at)->next)
        if (*at == group) {
            *at = group->next;
            break;
        }
    pthread_mutex_unlock(&ctx->groups_lock);
}

void sfab_group_dismantle(struct sfab_group *group)
{
    if (group == NULL)
        return;
    struct sfab_ctx *ctx = group->ctx;

    delist(group);
    if (group->state != NULL)
        group->class->detach(group);
    for (uint32_t i = 0; group->reach != NULL && i < group->size; i++) {
        struct sfab_ep *ep = ctx->peers[sfab_group_member(group, i)].ep;

        if (group->reach[i].base != 0)
            ep->ops->release_key(ep, &group->reach[i]);
    }
    sfab_shrink_forget(group);
    free(group->reach);
    free(group->keys);
    free((void *)(uintptr_t)group->members);
    group->magic = 0;
    free(group);
}

int sfab_group_free(sfab_group *group)
{
    if (group == NULL)
        return 0;
    if (!sfab_group_ok(group) || group == group->ctx->world)
        return -EINVAL;
    for (struct sfab_op *op = group->ctx->ops.next; op != &group->ctx->ops; op = op->next)
        if ((void *)op == group->state && op->state != SFAB_OP_FREE)
            return sfab_ctx_fail(
                group->ctx, -EBUSY,
                "rank %u (%s): sfab_group_free: an operation on the group is still "
                "under way: finish or cancel it first",
                group->ctx->rank, group->ctx->host);
    sfab_group_dismantle(group);
    return 0;
}

/* ---- leaving ----------------------------------------------------------------------------- */

/* One group's part of the last words: "ID:STARTED:DONE" and, if it fits, ",WORD" for each; in hexadecimal. */
static size_t put_farewell(uint64_t id, const struct sfab_farewell *is, char *text, size_t cap)
{
    size_t at =
        (size_t)snprintf(text, cap, "%" PRIx64 ":%" PRIx64 ":%" PRIx64, id, is->started, is->done);

    if (at + is->count * 17 + 1 < cap)
        for (uint32_t i = 0; i < is->count; i++)
            at += (size_t)snprintf(text + at, cap - at, ",%" PRIx64, is->words[i]);
    if (at + 1 >= cap)
        return 0;
    text[at] = ' ';
    return at + 1;
}

/* The newest group first, as many as there is room for. Of the world's nothing where its goodbye says all. */
void sfab_groups_farewell(struct sfab_ctx *ctx)
{
    char words[SFAB_BOOT_WHY_MAX] = "";
    size_t at = 0, more = 1;

    for (struct sfab_group *group = ctx->groups; group != NULL && more > 0; group = group->next) {
        struct sfab_farewell is = {0};

        group->class->farewell(group, &is);
        if (group == ctx->world && is.count == 0 && is.started == is.done)
            continue;
        more = put_farewell(group->id, &is, words + at, sizeof words - at);
        at += more;
        words[at] = '\0';
    }
    if (at > 0)
        ctx->rt->last_words(ctx->boot, words);
}

/* What a peer says of itself: taken as far as it can be read. */
static void get_farewell(const char *text, struct sfab_farewell *out)
{
    char *end;

    out->started = strtoull(text, &end, 16);
    out->done = *end == ':' ? strtoull(end + 1, &end, 16) : 0;
    while (*end == ',' && out->count < SFAB_FAREWELL_WORDS)
        out->words[out->count++] = strtoull(end + 1, &end, 16);
}

void sfab_group_goodbye(const struct sfab_group *group, uint32_t member, struct sfab_farewell *out)
{
    const struct sfab_peer *peer = &group->ctx->peers[sfab_group_member(group, member)];
    char id[24];
    size_t len = (size_t)snprintf(id, sizeof id, "%" PRIx64 ":", group->id);
    const char *at = peer->why != NULL ? peer->why : "";

    *out = (struct sfab_farewell){0};
    while (*at != '\0' && strncmp(at, id, len) != 0) {
        at += strcspn(at, " ");
        at += *at == ' ';
    }
    if (*at != '\0')
        get_farewell(at + len, out);
    else if (group == group->ctx->world)
        out->started = out->done = peer->goodbye;
}

/* ---- on the control thread --------------------------------------------------------------- */

void sfab_groups_died(struct sfab_ctx *ctx, uint32_t rank)
{
    pthread_mutex_lock(&ctx->groups_lock);
    for (struct sfab_group *group = ctx->groups; group != NULL; group = group->next)
        for (uint32_t i = 0; i < group->size; i++)
            if (sfab_group_member(group, i) == rank)
                group->class->died(group, i);
    pthread_mutex_unlock(&ctx->groups_lock);
}

void sfab_groups_interrupt(struct sfab_ctx *ctx)
{
    pthread_mutex_lock(&ctx->groups_lock);
    for (struct sfab_group *group = ctx->groups; group != NULL; group = group->next)
        group->class->interrupt(group);
    pthread_mutex_unlock(&ctx->groups_lock);
}

void sfab_groups_surveyed(struct sfab_ctx *ctx, uint64_t tag, const struct sfab_boot_blob *table,
                          uint32_t count)
{
    pthread_mutex_lock(&ctx->groups_lock);
    for (struct sfab_group *group = ctx->groups; group != NULL; group = group->next) {
        if (count != group->size)
            continue;
        if (tag == sfab_group_tag(group, SFAB_SURVEY_VERDICT, 0))
            group->class->surveyed(group, table, count);
        else
            sfab_shrink_surveyed(group, tag, table);
    }
    pthread_mutex_unlock(&ctx->groups_lock);
}

uint64_t sfab_groups_moves(struct sfab_ctx *ctx)
{
    uint64_t moves = 0;

    pthread_mutex_lock(&ctx->groups_lock);
    for (struct sfab_group *group = ctx->groups; group != NULL; group = group->next)
        moves += group->class->moves(group);
    pthread_mutex_unlock(&ctx->groups_lock);
    return moves;
}
