/* barrier.c - the barrier as the user sees it: starting, finishing, telling what went wrong. The rounds
 * are in dissemination.c, central.c and star.c; the choice among them in choose.c. */
#include "collectives/barrier.h"
#include "collectives/choose.h"
#include "collectives/pattern/dissem.h"
#include "collectives/world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sfab_barrier_layout sfab_barrier_layout(uint32_t size, uint32_t me, uint32_t radix)
{
    const size_t line = SFAB_CACHE_LINE;
    size_t messages = sfab_dissem_messages(size, radix);
    struct sfab_barrier_layout at = {.arrived = 0, .release = line, .result = 2 * line};

    at.flags = 4 * line;
    at.payload = at.flags + messages * line;
    at.counter = at.payload + messages * 4 * line;
    at.bytes = at.counter;
    at.arrivals = at.counter + line;
    at.values = at.arrivals + size * line;
    if (me == 0)
        at.bytes = at.values + size * 2 * line;
    return at;
}

/* ---- in a group -------------------------------------------------------------------------- */

static size_t block_bytes(const struct sfab_ctx *ctx, const struct sfab_group *group)
{
    return sfab_barrier_layout(group->size, group->me, sfab_choose_radix(ctx, group->size)).bytes;
}

static const struct sfab_op_class barrier_class;

static int attach(struct sfab_group *group, struct sfab_err *err)
{
    struct sfab_barrier *b = calloc(1, sizeof *b);

    if (b == NULL)
        return sfab_fail(err, -ENOMEM, "out of memory for the barrier");
    b->op.class = &barrier_class;
    b->op.ctx = group->ctx;
    b->group = group;
    b->radix = sfab_choose_radix(group->ctx, group->size);
    b->layout = sfab_barrier_layout(group->size, group->me, b->radix);
    b->algorithm = sfab_choose_algorithm(group, b->reason, sizeof b->reason);
    b->arrived = sfab_barrier_here(b, b->layout.arrived);
    group->state = b;
    return b->algorithm->setup(b, err);
}

static void detach(struct sfab_group *group)
{
    struct sfab_barrier *b = sfab_barrier_of(group);

    b->algorithm->teardown(b);
    free(b);
    group->state = NULL;
}

static uint64_t episode(const struct sfab_group *group)
{
    return group->state != NULL ? sfab_barrier_of(group)->episode : 0;
}

const struct sfab_group_class sfab_barrier_group_class = {
    .block_bytes = block_bytes, .attach = attach, .detach = detach, .episode = episode};

/* ---- what can go wrong ------------------------------------------------------------------- */

void sfab_barrier_poison(struct sfab_barrier *b, const struct sfab_mismatch *mismatch)
{
    if (b->poisoned)
        return;
    b->poisoned = true;
    b->mismatch = *mismatch;
    b->word = sfab_word(b->episode, SFAB_TAG_POISON);
}

void sfab_barrier_mismatch(struct sfab_barrier *b, uint32_t member, uint8_t tag)
{
    uint64_t other = sfab_group_member(b->group, member);
    struct sfab_mismatch mismatch = {
        {(uint64_t)b->group->ctx->rank << 8 | b->tag, other << 8 | tag}};

    sfab_barrier_poison(b, &mismatch);
}

/* After this the group runs no barrier any more: its members are not in step. */
static int break_group(struct sfab_barrier *b, int code)
{
    b->broken = code;
    snprintf(b->broken_text, sizeof b->broken_text, "%.511s", b->op.ctx->err.text);
    return code;
}

static int mismatch_failed(struct sfab_barrier *b)
{
    struct sfab_ctx *ctx = b->op.ctx;
    char names[2][96], tags[2][64];
    uint32_t ranks[2];

    for (int i = 0; i < 2; i++) {
        ranks[i] = (uint32_t)(b->mismatch.side[i] >> 8);
        sfab_ctx_peer_name(ctx, ranks[i], names[i], sizeof names[i]);
        sfab_tag_name((uint8_t)b->mismatch.side[i], tags[i], sizeof tags[i]);
    }
    sfab_ctx_fail(ctx, SFAB_ERR_MISMATCH,
                  "rank %u (%s): the members of the group are in different collectives in episode "
                  "%llu: %s is in %s, %s in %s; the program must call the same on all",
                  ctx->rank, ctx->host, (unsigned long long)b->episode, names[0], tags[0], names[1],
                  tags[1]);
    return break_group(b, SFAB_ERR_MISMATCH);
}

/* ---- the operation ----------------------------------------------------------------------- */

/* The first episode opens the memory of those this member writes to, all at once. */
__attribute__((noinline)) static int connect_targets(struct sfab_barrier *b)
{
    bool waiting = false;
    int64_t target;

    for (uint32_t i = 0; (target = b->algorithm->target(b, i)) >= 0; i++) {
        uint32_t rank = sfab_group_member(b->group, (uint32_t)target);
        int rc = sfab_peer_open(b->op.ctx, rank);

        if (rc != 0 && rc != -EAGAIN)
            return rc;
        waiting = waiting || rc == -EAGAIN;
    }
    b->op.watch = NULL;
    if (waiting)
        return SFAB_INPROGRESS;
    int rc = b->algorithm->connected(b);
    b->ready = rc == 0;
    return rc;
}

__attribute__((noinline)) static int finish(struct sfab_barrier *b, int rc)
{
    if (rc == 0 && b->poisoned)
        rc = mismatch_failed(b);
    else if (rc == 0 && b->count > 0 && b->op.state == SFAB_OP_LIVE)
        memcpy(b->words, b->acc, b->count * sizeof b->words[0]);
    else if (rc != 0)
        break_group(b, rc);
    b->finished = true;
    b->result = rc;
    return rc;
}

static int barrier_step(struct sfab_op *op)
{
    struct sfab_barrier *b = (struct sfab_barrier *)op;
    int rc = 0;

    if (SFAB_UNLIKELY(b->finished))
        return b->result;
    if (SFAB_UNLIKELY(!b->ready))
        rc = connect_targets(b);
    if (SFAB_LIKELY(rc == 0))
        rc = b->algorithm->step(b);
    if (rc == SFAB_INPROGRESS)
        return rc;
    op->ctx->counters.barriers += rc == 0;
    if (SFAB_LIKELY(rc == 0 && b->tag == SFAB_TAG_BARRIER && !b->poisoned)) {
        b->finished = true;
        b->result = 0;
        return 0;
    }
    return finish(b, rc);
}

/* Somebody is gone. One that left in good order may have done its part of this episode first. */
static int barrier_fault(struct sfab_op *op)
{
    struct sfab_barrier *b = (struct sfab_barrier *)op;

    for (uint32_t i = 0; i < b->group->size; i++) {
        uint32_t rank = sfab_group_member(b->group, i);
        struct sfab_peer *peer = &op->ctx->peers[rank];

        if (rank == op->ctx->rank ||
            (atomic_load_explicit(&peer->presence, memory_order_acquire) == SFAB_GONE_LEFT &&
             peer->goodbye >= b->episode))
            continue;
        int rc = sfab_ctx_check_present(op->ctx, rank, "the barrier");
        if (rc != 0)
            return finish(b, rc);
    }
    return 0;
}

/* "2 of 8 ranks have not arrived: rank 3 (hostB), last episode 6; ..." */
static void barrier_explain(struct sfab_op *op, char *text, size_t cap)
{
    enum { SHOWN = 16 };
    struct sfab_barrier *b = (struct sfab_barrier *)op;
    struct sfab_late late[SHOWN];
    int count = 0;
    size_t at = 0;

    sfab_barrier_find_late(b, late, SHOWN, &count);
    if (count == 0) {
        snprintf(text, cap,
                 "episode %llu: all %u ranks have arrived, the last messages are on their way",
                 (unsigned long long)b->episode, b->group->size);
        return;
    }
    at += (size_t)snprintf(
        text, cap, "episode %llu: %d of %u ranks ha%s not arrived:", (unsigned long long)b->episode,
        count, b->group->size, count == 1 ? "s" : "ve");
    for (int i = 0; i < count && i < SHOWN && at + 1 < cap; i++) {
        int n = late[i].episode_known
                    ? snprintf(text + at, cap - at, "%s rank %d (%s), last episode %llu",
                               i > 0 ? ";" : "", late[i].rank, late[i].host,
                               (unsigned long long)late[i].last_episode)
                    : snprintf(text + at, cap - at, "%s rank %d (%s), which does not answer",
                               i > 0 ? ";" : "", late[i].rank, late[i].host);
        at += (size_t)n;
    }
    if (count > SHOWN && at + 1 < cap)
        snprintf(text + at, cap - at, "; and %d more", count - SHOWN);
}

/* The group is idle again: the next episode may be a quick one, if the policy of waiting lets it spin. */
static void barrier_release(struct sfab_op *op)
{
    struct sfab_barrier *b = (struct sfab_barrier *)op;

    b->quick =
        b->ready && b->broken == 0 && op->ctx->wait.first_spins > 0 ? b->algorithm->quick : NULL;
}

static const struct sfab_op_class barrier_class = {.name = "barrier",
                                                   .step = barrier_step,
                                                   .fault = barrier_fault,
                                                   .explain = barrier_explain,
                                                   .release = barrier_release,
                                                   .finishes_detached = true};

/* ---- the public calls -------------------------------------------------------------------- */

__attribute__((noinline)) static int refuse_start(struct sfab_barrier *b)
{
    struct sfab_ctx *ctx = b->op.ctx;

    if (b->broken != 0)
        return sfab_ctx_fail(ctx, b->broken,
                             "rank %u (%s): this group runs no barrier any more since episode %llu "
                             "failed: %s",
                             ctx->rank, ctx->host, (unsigned long long)b->episode, b->broken_text);
    return sfab_ctx_fail(
        ctx, -EBUSY,
        "rank %u (%s): episode %llu of this group's barrier is still under way: finish "
        "it with sfab_op_wait first",
        ctx->rank, ctx->host, (unsigned long long)b->episode);
}

/* The next episode's number and word, for all to see. */
static inline void announce(struct sfab_barrier *b, uint8_t tag)
{
    b->episode++;
    b->word = sfab_word(b->episode, tag);
    /* Release: who sees that this member has come sees what it did before. */
    atomic_store_explicit(b->arrived, b->word, memory_order_release);
}

/* The announced episode becomes an operation under way. */
static void make_op(struct sfab_barrier *b, uint8_t tag, unsigned count, bool listed)
{
    b->quick = NULL;
    b->tag = tag;
    b->count = count;
    b->poisoned = false;
    b->finished = false;
    b->resumable = false;
    sfab_op_begin(&b->op, listed);
}

static int begin(struct sfab_barrier *b, uint8_t tag, unsigned count, bool listed)
{
    if (SFAB_UNLIKELY(b->op.state != SFAB_OP_FREE || b->broken != 0))
        return refuse_start(b);
    announce(b, tag);
    make_op(b, tag, count, listed);
    b->algorithm->begin(b);
    return 0;
}

/* After a blocking call's wait: what it began goes on in the background if its time was over. */
static inline int blocked(struct sfab_barrier *b, int rc)
{
    if (SFAB_UNLIKELY(rc == -ETIMEDOUT)) {
        b->resumable = true;
        sfab_op_list(&b->op);
    }
    return rc;
}

/* All that is not the quick way: the first episode, sharing a CPU, a late member, a timeout of 0. */
__attribute__((noinline)) static int barrier_slowly(struct sfab_barrier *b, int64_t timeout_ns)
{
    if (!b->resumable || b->op.state != SFAB_OP_LIVE) {
        int rc = begin(b, SFAB_TAG_BARRIER, 0, false);
        if (SFAB_UNLIKELY(rc != 0))
            return rc;
    }
    return blocked(b, sfab_op_drive(&b->op, timeout_ns));
}

int sfab_barrier(sfab_group *group, int64_t timeout_ns)
{
    if (SFAB_UNLIKELY(!sfab_group_ok(group)))
        return -EINVAL;
    struct sfab_barrier *b = sfab_barrier_of(group);
    if (SFAB_UNLIKELY(b->quick == NULL || timeout_ns == 0))
        return barrier_slowly(b, timeout_ns);
    announce(b, SFAB_TAG_BARRIER);
    if (SFAB_LIKELY(b->quick(b, group->ctx->wait.first_spins) == 0)) {
        group->ctx->counters.barriers++;
        return 0;
    }
    make_op(b, SFAB_TAG_BARRIER, 0, false);
    return blocked(b, sfab_op_drive(&b->op, timeout_ns));
}

int sfab_barrier_start(sfab_group *group, sfab_op **op)
{
    if (!sfab_group_ok(group) || op == NULL)
        return -EINVAL;
    struct sfab_barrier *b = sfab_barrier_of(group);
    int rc = begin(b, SFAB_TAG_BARRIER, 0, true);
    if (rc != 0)
        return rc;
    barrier_step(&b->op); /* what it finds, the first test tells */
    *op = &b->op;
    return 0;
}

static int reduce_begin(struct sfab_group *group, sfab_reduce reduce, uint64_t *words,
                        unsigned count, bool listed)
{
    if (!sfab_group_ok(group))
        return -EINVAL;
    struct sfab_barrier *b = sfab_barrier_of(group);
    if (words == NULL || count == 0 || count > SFAB_REDUCE_WORDS_MAX || (unsigned)reduce > SFAB_SUM)
        return sfab_ctx_fail(
            group->ctx, -EINVAL,
            "a barrier with a reduction takes 1 to %d words and AND, OR, MIN, MAX or "
            "SUM; it was given %u words and reduction %d",
            SFAB_REDUCE_WORDS_MAX, count, (int)reduce);
    if (b->op.state != SFAB_OP_FREE || b->broken != 0)
        return refuse_start(b);
    b->reduce = reduce;
    b->words = words;
    memcpy(b->acc, words, count * sizeof words[0]);
    return begin(b, sfab_tag_reduce(reduce, count), count, listed);
}

int sfab_barrier_reduce(sfab_group *group, sfab_reduce reduce, uint64_t *words, unsigned count,
                        int64_t timeout_ns)
{
    struct sfab_barrier *b = sfab_group_ok(group) ? sfab_barrier_of(group) : NULL;
    bool resume = b != NULL && b->resumable && b->op.state == SFAB_OP_LIVE && b->words == words &&
                  b->tag == sfab_tag_reduce(reduce, count);

    if (!resume) {
        int rc = reduce_begin(group, reduce, words, count, false);
        if (rc != 0)
            return rc;
    }
    return blocked(sfab_barrier_of(group), sfab_op_drive(&sfab_barrier_of(group)->op, timeout_ns));
}

int sfab_barrier_reduce_start(sfab_group *group, sfab_reduce reduce, uint64_t *words,
                              unsigned count, sfab_op **op)
{
    int rc = op != NULL ? reduce_begin(group, reduce, words, count, true) : -EINVAL;

    if (rc != 0)
        return rc;
    struct sfab_barrier *b = sfab_barrier_of(group);
    barrier_step(&b->op);
    *op = &b->op;
    return 0;
}

uint64_t sfab_barrier_episode(const sfab_group *group)
{
    return sfab_group_ok(group) ? sfab_barrier_of(group)->episode : 0;
}

int sfab_barrier_describe(const sfab_group *group, char *buf, size_t buf_bytes)
{
    if (!sfab_group_ok(group) || buf == NULL || buf_bytes == 0)
        return -EINVAL;
    const struct sfab_barrier *b = sfab_barrier_of(group);
    if (b->algorithm == &sfab_dissemination)
        snprintf(buf, buf_bytes, "dissemination, radix %u, %u rounds, %u messages a rank: %s",
                 b->radix, sfab_dissem_rounds(group->size, b->radix),
                 sfab_dissem_messages(group->size, b->radix), b->reason);
    else
        snprintf(buf, buf_bytes, "%s: %s", b->algorithm->name, b->reason);
    return 0;
}
