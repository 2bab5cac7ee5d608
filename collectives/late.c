/* late.c - who has not arrived: reads every member's own episode word, one-sided.
 *
 * A cold path that must work just when others do not answer: a stopped process's words can still be
 * read, through a mapping or by an RDMA read; what cannot be read in time is said to be unknown. */
#include "collectives/barrier.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

enum { WORDS = 4, BATCH = SFAB_SCRATCH_WORDS / WORDS, STATUS_BYTES = 3 * 8 };

/* What is read of a member: its episode word, and its status line (fabric/arena.h). */
struct seen {
    uint64_t arrived, beat, still_ns, doing;
};

_Static_assert(sizeof(struct seen) == WORDS * sizeof(uint64_t), "as in the scratch words");

static const int64_t patience_ns = 250000000;
/* A process whose beat is so old does not run. */
static const uint64_t beats_ns = 5 * SFAB_BEAT_NS / 2;

struct search {
    struct sfab_barrier *b;
    struct sfab_late *late;
    int cap, count;
    int may_connect; /* network connections that may still be made for this search */
    uint64_t since_ns;
    uint64_t beats[BATCH]; /* of the first late ones */
    bool abroad;           /* one of them is on another host, whose clock is not ours */
};

static bool on_this_host(const struct sfab_ctx *ctx, uint32_t rank)
{
    return ctx->peers[rank].node == ctx->peers[ctx->rank].node;
}

static void note(struct search *s, uint32_t rank, const struct seen *seen)
{
    struct sfab_ctx *ctx = s->b->op.ctx;
    bool here = on_this_host(ctx, rank);
    uint64_t now = ctx->rt->now_ns(ctx);
    uint64_t age_ns = seen != NULL && here && now > seen->beat ? now - seen->beat : 0;

    s->abroad = s->abroad || !here;
    if (s->count < s->cap) {
        struct sfab_late *late = &s->late[s->count];

        *late = (struct sfab_late){.rank = (int)rank, .still_ns = -1, .waits_for = -1};
        if (seen != NULL) {
            late->episode_known = 1;
            late->last_episode = sfab_word_episode(seen->arrived);
            late->still_ns = (int64_t)(seen->still_ns + age_ns);
            late->doing = seen->doing >= SFAB_AT_WAIT ? SFAB_DOING_WAITING : SFAB_DOING_COMPUTING;
            if (seen->doing > SFAB_AT_WAIT)
                late->waits_for = (int)(seen->doing - SFAB_AT_WAIT) - 1;
            if (age_ns >= beats_ns)
                late->doing = SFAB_DOING_STOPPED;
        }
        snprintf(late->host, sizeof late->host, "%s", s->b->op.ctx->identities[rank].host);
    }
    if (s->count < BATCH)
        s->beats[s->count] = seen != NULL ? seen->beat : 0;
    s->count++;
}

static void judge(struct search *s, uint32_t rank, const struct seen *seen)
{
    if (sfab_word_episode(seen->arrived) < s->b->episode)
        note(s, rank, seen);
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
    return sfab_group_open(s->b->group, member) == -EAGAIN;
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

static int get(struct search *s, struct sfab_peer *peer, const struct sfab_raddr *from,
               uint64_t offset, void *into, size_t len)
{
    struct sfab_ctx *ctx = s->b->op.ctx;
    int rc;

    while ((rc = peer->ep->ops->get(peer->ep, from, offset, ctx->arena_mem[peer->tp], into, len)) ==
           -EAGAIN)
        if (sfab_ctx_pause(ctx, &s->since_ns, patience_ns) != 0)
            return rc;
    return rc;
}

static int get_status(struct search *s, struct sfab_peer *peer, struct seen *into)
{
    return get(s, peer, &peer->arena, offsetof(struct sfab_arena_head, status), &into->beat,
               STATUS_BYTES);
}

/* Posts the reads of one member's words into its scratch words; false: it cannot be asked. */
static bool ask(struct search *s, uint32_t member, struct seen *into)
{
    struct sfab_peer *peer = &s->b->op.ctx->peers[sfab_group_member(s->b->group, member)];
    const struct sfab_raddr *reach = sfab_group_reach(s->b->group, member);

    if (peer->ep == NULL || reach->base == 0)
        return false;
    return get(s, peer, reach, sfab_barrier_at(s->b, s->b->layout.arrived), &into->arrived,
               sizeof into->arrived) == 0 &&
           get_status(s, peer, into) == 0;
}

static bool answered(struct search *s, uint32_t rank)
{
    struct sfab_ctx *ctx = s->b->op.ctx;
    struct sfab_ep *ep = ctx->peers[rank].ep;
    int rc;

    while ((rc = ep->ops->flush(ep)) == -EAGAIN)
        if (sfab_ctx_pause(ctx, &s->since_ns, patience_ns) != 0)
            return false;
    return rc == 0;
}

static void look_at_batch(struct search *s, uint32_t first, uint32_t end)
{
    struct seen *seen = (struct seen *)(void *)s->b->op.ctx->scratch;
    bool asked[BATCH];

    open_batch(s, first, end);
    for (uint32_t i = first; i < end; i++)
        asked[i - first] = i != s->b->group->me && ask(s, i, &seen[i - first]);
    for (uint32_t i = first; i < end; i++) {
        uint32_t rank = sfab_group_member(s->b->group, i);

        if (i == s->b->group->me)
            continue;
        if (asked[i - first] && answered(s, rank))
            judge(s, rank, &seen[i - first]);
        else
            note(s, rank, NULL);
    }
}

/* A second look at the first late ones of other hosts, some beats later: a process that does not run has
 * had none. */
static void find_stopped(struct search *s)
{
    struct sfab_ctx *ctx = s->b->op.ctx;
    struct seen *seen = (struct seen *)(void *)ctx->scratch;
    int shown = s->count < s->cap ? s->count : s->cap;
    bool asked[BATCH];

    while (sfab_ctx_pause(ctx, &s->since_ns, (int64_t)beats_ns) == 0)
        ;
    shown = shown < BATCH ? shown : BATCH;
    s->since_ns = 0;
    for (int i = 0; i < shown; i++)
        asked[i] = s->late[i].episode_known != 0 && !on_this_host(ctx, (uint32_t)s->late[i].rank) &&
                   get_status(s, &ctx->peers[s->late[i].rank], &seen[i]) == 0;
    for (int i = 0; i < shown; i++)
        if (asked[i] && answered(s, (uint32_t)s->late[i].rank) && seen[i].beat == s->beats[i]) {
            s->late[i].doing = SFAB_DOING_STOPPED;
            s->late[i].still_ns += (int64_t)beats_ns;
        }
}

int sfab_barrier_find_late(struct sfab_barrier *b, bool patiently, struct sfab_late *late, int cap,
                           int *count)
{
    struct search s = {.b = b, .late = late, .cap = cap, .may_connect = BATCH};

    for (uint32_t first = 0; first < b->group->size; first += BATCH) {
        uint32_t end = b->group->size - first < BATCH ? b->group->size : first + BATCH;

        look_at_batch(&s, first, end);
    }
    if (patiently && s.abroad)
        find_stopped(&s);
    *count = s.count;
    return 0;
}

int sfab_barrier_late(sfab_group *group, sfab_late *late, int cap, int *count)
{
    if (!sfab_group_ok(group) || cap < 0 || (late == NULL && cap > 0) || count == NULL)
        return -EINVAL;
    return sfab_barrier_find_late(sfab_barrier_of(group), true, late, cap, count);
}
