/* late.c - who has not arrived: reads every member's own episode word, one-sided.
 *
 * A cold path that must work just when others do not answer: a stopped process's words can still be
 * read, through a mapping or by an RDMA read; what cannot be read in time is said to be unknown. */
#include "collectives/barrier.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = SFAB_SCRATCH_WORDS };
static const int64_t patience_ns = 250000000;

struct search {
    struct sfab_barrier *b;
    struct sfab_late *late;
    int cap, count;
    int may_connect; /* network connections that may still be made for this search */
    uint64_t since_ns;
};

static void note(struct search *s, uint32_t rank, bool known, uint64_t episode)
{
    if (s->count < s->cap) {
        struct sfab_late *late = &s->late[s->count];

        *late =
            (struct sfab_late){.rank = (int)rank, .episode_known = known, .last_episode = episode};
        snprintf(late->host, sizeof late->host, "%s", s->b->op.ctx->identities[rank].host);
    }
    s->count++;
}

static void judge(struct search *s, uint32_t rank, uint64_t word)
{
    if (sfab_word_episode(word) < s->b->episode)
        note(s, rank, true, sfab_word_episode(word));
}

/* Whether the member's memory is on its way to be open; new connections are rationed, since on a large
 * job all ranks may run out of time at once. */
static bool opening(struct search *s, uint32_t member)
{
    struct sfab_ctx *ctx = s->b->op.ctx;
    uint32_t rank = sfab_group_member(s->b->group, member);
    struct sfab_ep *ep = sfab_peer_ep(ctx, rank);

    if (ep == NULL)
        return false;
    if ((ep->tp->caps.flags & SFAB_CAP_MAP) == 0 &&
        atomic_load_explicit(&ep->state, memory_order_acquire) == SFAB_EP_IDLE &&
        s->may_connect-- <= 0)
        return false;
    return sfab_peer_open(ctx, rank) == -EAGAIN;
}

/* Opens the memory of the members [first, end) as far as patience goes; those that take long are
 * looked at once each time round. */
static void open_batch(struct search *s, uint32_t first, uint32_t end)
{
    struct sfab_ctx *ctx = s->b->op.ctx;
    bool waiting = true;

    while (waiting) {
        waiting = false;
        for (uint32_t i = first; i < end; i++)
            waiting = (i != s->b->group->me && opening(s, i)) || waiting;
        if (waiting && sfab_ctx_pause(ctx, &s->since_ns, patience_ns) != 0)
            return;
    }
}

/* Posts the read of one member's word into its scratch word; false: it cannot be asked. */
static bool ask(struct search *s, uint32_t member, uint64_t *into)
{
    struct sfab_ctx *ctx = s->b->op.ctx;
    struct sfab_peer *peer = &ctx->peers[sfab_group_member(s->b->group, member)];
    int rc = -EAGAIN;

    if (peer->ep == NULL || peer->arena.base == 0)
        return false;
    while (rc == -EAGAIN) {
        rc = peer->ep->ops->get(peer->ep, &peer->arena, sfab_barrier_at(s->b, s->b->layout.arrived),
                                ctx->arena_mem[peer->tp], into, sizeof *into);
        if (rc == -EAGAIN && sfab_ctx_pause(ctx, &s->since_ns, patience_ns) != 0)
            return false;
    }
    return rc == 0;
}

static bool answered(struct search *s, uint32_t member)
{
    struct sfab_ctx *ctx = s->b->op.ctx;
    struct sfab_ep *ep = ctx->peers[sfab_group_member(s->b->group, member)].ep;
    int rc;

    while ((rc = ep->ops->flush(ep)) == -EAGAIN)
        if (sfab_ctx_pause(ctx, &s->since_ns, patience_ns) != 0)
            return false;
    return rc == 0;
}

static void look_at_batch(struct search *s, uint32_t first, uint32_t end)
{
    uint64_t *words = s->b->op.ctx->scratch;
    bool asked[BATCH];

    open_batch(s, first, end);
    for (uint32_t i = first; i < end; i++)
        asked[i - first] = i != s->b->group->me && ask(s, i, &words[i - first]);
    for (uint32_t i = first; i < end; i++) {
        uint32_t rank = sfab_group_member(s->b->group, i);

        if (i == s->b->group->me)
            continue;
        if (asked[i - first] && answered(s, i))
            judge(s, rank, words[i - first]);
        else
            note(s, rank, false, 0);
    }
}

int sfab_barrier_find_late(struct sfab_barrier *b, struct sfab_late *late, int cap, int *count)
{
    struct search s = {.b = b, .late = late, .cap = cap, .may_connect = BATCH};

    for (uint32_t first = 0; first < b->group->size; first += BATCH) {
        uint32_t end = b->group->size - first < BATCH ? b->group->size : first + BATCH;

        look_at_batch(&s, first, end);
    }
    *count = s.count;
    return 0;
}

int sfab_barrier_late(sfab_group *group, sfab_late *late, int cap, int *count)
{
    if (!sfab_group_ok(group) || cap < 0 || (late == NULL && cap > 0) || count == NULL)
        return -EINVAL;
    return sfab_barrier_find_late(sfab_barrier_of(group), late, cap, count);
}
