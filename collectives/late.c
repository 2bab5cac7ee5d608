/* late.c - who has not arrived: reads every member's own episode word, one-sided.
 *
 * A cold path that must work just when others do not answer: a stopped process's words can still be
 * read, through a mapping or by an RDMA read; what cannot be read in time is said to be unknown. */
#include "collectives/barrier.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

enum { WORDS = 4, BATCH = SFAB_SCRATCH_PROBE / WORDS, STATUS_BYTES = 3 * 8 };

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
    bool abroad;      /* a late one is on another host, whose clock is not ours */
    bool all_arrived; /* looks for who withholds a message instead */
};

/* For how long its process has not run, as far as its beat tells. On another host a beat must have been seen
 * before to have an age. */
static uint64_t beat_age_ns(struct sfab_ctx *ctx, uint32_t rank, uint64_t beat)
{
    struct sfab_peer *peer = &ctx->peers[rank];
    uint64_t now = ctx->rt->now_ns(ctx);

    if (peer->node == ctx->peers[ctx->rank].node)
        return now > beat ? now - beat : 0;
    if (peer->beat != beat) {
        peer->beat = beat;
        peer->beat_since_ns = now;
    }
    return now - peer->beat_since_ns;
}

static void tell(struct sfab_late *late, const struct seen *seen, uint64_t age_ns)
{
    late->episode_known = 1;
    late->last_episode = sfab_word_episode(seen->arrived);
    late->still_ns = (int64_t)(seen->still_ns + age_ns);
    late->doing = seen->doing >= SFAB_AT_WAIT ? SFAB_DOING_WAITING : SFAB_DOING_COMPUTING;
    if (seen->doing > SFAB_AT_WAIT)
        late->waits_for = (int)(seen->doing - SFAB_AT_WAIT) - 1;
    if (age_ns >= beats_ns)
        late->doing = SFAB_DOING_STOPPED;
}

/* seen NULL: it could not be asked. */
static void note(struct search *s, uint32_t rank, const struct seen *seen, uint64_t age_ns)
{
    struct sfab_ctx *ctx = s->b->op.ctx;

    s->abroad = s->abroad || ctx->peers[rank].node != ctx->peers[ctx->rank].node;
    if (s->count < s->cap) {
        struct sfab_late *late = &s->late[s->count];

        *late = (struct sfab_late){.rank = (int)rank, .still_ns = -1, .waits_for = -1};
        if (seen != NULL)
            tell(late, seen, age_ns);
        snprintf(late->host, sizeof late->host, "%s", ctx->identities[rank].host);
    }
    s->count++;
}

/* Once all have arrived, it is held up by who does not run, or by the one whose message is awaited here. */
static void judge(struct search *s, uint32_t rank, const struct seen *seen)
{
    uint64_t age_ns = beat_age_ns(s->b->op.ctx, rank, seen->beat);
    bool here = s->all_arrived ? age_ns >= beats_ns || s->b->op.waits_for == (int32_t)rank
                               : sfab_word_episode(seen->arrived) < s->b->episode;

    if (here)
        note(s, rank, seen, age_ns);
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
        else if (!s->all_arrived || s->b->op.waits_for == (int32_t)rank)
            note(s, rank, NULL, 0);
    }
}

static void look_at_all(struct search *s)
{
    uint32_t size = s->b->group->size;

    for (uint32_t first = 0; first < size; first += BATCH)
        look_at_batch(s, first, size - first < BATCH ? size : first + BATCH);
}

/* Some beats later: a process that does not run has had none. */
static void let_beat(struct search *s)
{
    s->since_ns = 0;
    while (sfab_ctx_pause(s->b->op.ctx, &s->since_ns, (int64_t)beats_ns) == 0)
        ;
    s->since_ns = 0;
}

/* A second look at the first late ones of other hosts. */
static void find_stopped(struct search *s)
{
    struct sfab_ctx *ctx = s->b->op.ctx;
    struct seen *seen = (struct seen *)(void *)ctx->scratch;
    int shown = s->count < s->cap ? s->count : s->cap;
    bool asked[BATCH];

    shown = shown < BATCH ? shown : BATCH;
    let_beat(s);
    for (int i = 0; i < shown; i++) {
        struct sfab_peer *peer = &ctx->peers[s->late[i].rank];

        seen[i].arrived = s->late[i].last_episode << 8;
        asked[i] = s->late[i].episode_known != 0 && peer->node != ctx->peers[ctx->rank].node &&
                   get_status(s, peer, &seen[i]) == 0;
    }
    for (int i = 0; i < shown; i++) {
        uint32_t rank = (uint32_t)s->late[i].rank;

        if (asked[i] && answered(s, rank))
            tell(&s->late[i], &seen[i], beat_age_ns(ctx, rank, seen[i].beat));
    }
}

static bool any_abroad(const struct search *s)
{
    const struct sfab_ctx *ctx = s->b->op.ctx;

    for (uint32_t i = 0; i < s->b->group->size; i++)
        if (ctx->peers[sfab_group_member(s->b->group, i)].node != ctx->peers[ctx->rank].node)
            return true;
    return false;
}

bool sfab_barrier_find_late(struct sfab_barrier *b, bool patiently, struct sfab_late *late, int cap,
                            int *count)
{
    struct search s = {.b = b, .late = late, .cap = cap, .may_connect = BATCH};

    look_at_all(&s);
    if (s.count == 0 && b->op.state != SFAB_OP_FREE && !b->finished) {
        s.all_arrived = true;
        if (patiently && any_abroad(&s))
            let_beat(&s);
        s.since_ns = 0;
        look_at_all(&s);
    } else if (patiently && s.abroad) {
        find_stopped(&s);
    }
    *count = s.count;
    return s.all_arrived;
}

int sfab_barrier_late(sfab_group *group, sfab_late *late, int cap, int *count)
{
    if (!sfab_group_ok(group) || cap < 0 || (late == NULL && cap > 0) || count == NULL)
        return -EINVAL;
    sfab_barrier_find_late(sfab_barrier_of(group), true, late, cap, count);
    return 0;
}
