/* barrier.c - the barrier as the user sees it: starting, finishing, telling what went wrong. The rounds
 * are in dissemination.c, central.c and star.c; the choice among them in choose.c. */
#include "collectives/barrier.h"
#include "collectives/choose.h"
#include "collectives/pattern/dissem.h"
#include "collectives/verdict.h"
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

uint64_t sfab_barrier_arrival(const struct sfab_barrier *b, uint32_t member)
{
    if (b->group->me != 0)
        return 0;
    const _Atomic uint64_t *word =
        sfab_barrier_here(b, b->layout.arrivals + member * (size_t)SFAB_CACHE_LINE);

    return sfab_word_episode(atomic_load_explicit(word, memory_order_relaxed));
}

/* ---- in a group -------------------------------------------------------------------------- */

static size_t block_bytes(const struct sfab_ctx *ctx, uint32_t size, uint32_t me)
{
    return sfab_barrier_layout(size, me, sfab_choose_radix(ctx, size)).bytes;
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
    int rc = sfab_verdict_setup(b, err);
    return rc == 0 ? b->algorithm->setup(b, err) : rc;
}

static void detach(struct sfab_group *group)
{
    struct sfab_barrier *b = sfab_barrier_of(group);

    b->algorithm->teardown(b);
    sfab_verdict_teardown(b);
    free(b);
    group->state = NULL;
}

static uint64_t episode(const struct sfab_group *group)
{
    return group->state != NULL ? sfab_barrier_of(group)->episode : 0;
}

_Static_assert(SFAB_FAREWELL_WORDS == SFAB_REDUCE_WORDS_MAX, "a result fits");

static void farewell(const struct sfab_group *group, struct sfab_farewell *out)
{
    const struct sfab_barrier *b = sfab_barrier_of(group);

    *out = (struct sfab_farewell){.started = b->episode,
                                  .done = atomic_load_explicit(&b->done, memory_order_relaxed)};
    /* Of an episode before the one under way it is not remembered whether it was a reduction. */
    if (out->done > 0 && (b->count > 0 || out->done != out->started)) {
        out->count = SFAB_REDUCE_WORDS_MAX;
        memcpy(out->words, b->results[out->done & 1], sizeof out->words);
    }
}

/* CONTROL THREAD */
static uint64_t moves(const struct sfab_group *group)
{
    const struct sfab_barrier *b = sfab_barrier_of(group);

    return sfab_word_episode(atomic_load_explicit(b->arrived, memory_order_relaxed)) +
           atomic_load_explicit(&b->done, memory_order_relaxed);
}

const struct sfab_group_class sfab_barrier_group_class = {.block_bytes = block_bytes,
                                                          .attach = attach,
                                                          .detach = detach,
                                                          .episode = episode,
                                                          .farewell = farewell,
                                                          .died = sfab_verdict_died,
                                                          .interrupt = sfab_verdict_interrupt,
                                                          .surveyed = sfab_verdict_surveyed,
                                                          .moves = moves};

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
    snprintf(b->broken_text, sizeof b->broken_text, "%s", b->op.ctx->err.text);
    sfab_verdict_idle(b);
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
        int rc = sfab_group_open(b->group, (uint32_t)target);

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

/* Whether there is anything to look at before going on. STOP: the near half of the pair; the compiler may
 * not turn the load and the store before it round, and the CPU's part is paid for by the other side. */
static inline bool stopped(const struct sfab_barrier *b)
{
    atomic_signal_fence(memory_order_seq_cst);
    return SFAB_UNLIKELY(atomic_load_explicit(&b->stop, memory_order_relaxed) != 0);
}

/* The same where it may cost something. */
static bool stopped_slowly(const struct sfab_barrier *b)
{
    if (b->own_fences)
        atomic_thread_fence(memory_order_seq_cst);
    return stopped(b);
}

/* The episode is done, for all to see. DONE: with what it has brought. */
static inline void note_done(struct sfab_barrier *b)
{
    atomic_store_explicit(&b->done, b->episode, memory_order_release);
}

__attribute__((noinline)) static int finish(struct sfab_barrier *b, int rc)
{
    if (rc == 0 && b->poisoned)
        rc = mismatch_failed(b);
    else if (rc != 0)
        break_group(b, rc);
    if (rc == 0 && b->count > 0) {
        memcpy(b->results[b->episode & 1], b->acc, b->count * sizeof b->acc[0]);
        if (b->op.state == SFAB_OP_LIVE)
            memcpy(b->words, b->acc, b->count * sizeof b->words[0]);
    }
    if (rc == 0) {
        note_done(b);
        if (stopped_slowly(b))
            sfab_verdict_idle(b);
    }
    b->op.ctx->counters.barriers += rc == 0;
    b->finished = true;
    b->result = rc;
    return rc;
}

/* A connection failed, or a member's memory has vanished: the rendezvous has been told, and finds out who
 * is lost; this episode ends by what it says. Other failures are the caller's at once. */
static int stall(struct sfab_barrier *b, int rc)
{
    struct sfab_ctx *ctx = b->op.ctx;

    /* Memory of a group is kept as long as its context: what has vanished went with that. */
    bool theirs = rc == SFAB_ERR_PEER_DEAD || rc == SFAB_ERR_STALE;

    for (uint32_t i = 0; !theirs && i < b->group->size; i++)
        theirs = sfab_peer_unreachable(ctx, sfab_group_member(b->group, i));
    if (!theirs)
        return rc;
    b->stalled = rc;
    b->op.watch = NULL;
    return SFAB_INPROGRESS;
}

static int step_by_messages(struct sfab_barrier *b)
{
    int rc = 0;

    if (SFAB_UNLIKELY(b->stalled != 0))
        return SFAB_INPROGRESS;
    if (SFAB_UNLIKELY(!b->ready))
        rc = connect_targets(b);
    if (SFAB_LIKELY(rc == 0))
        rc = b->algorithm->step(b);
    return SFAB_UNLIKELY(rc < 0) ? stall(b, rc) : rc;
}

static int barrier_step(struct sfab_op *op)
{
    struct sfab_barrier *b = (struct sfab_barrier *)op;

    if (SFAB_UNLIKELY(b->finished))
        return b->result == 0 ? 0 : sfab_ctx_fail(op->ctx, b->result, "%s", b->broken_text);
    int rc = SFAB_UNLIKELY(b->frozen) ? sfab_verdict_step(b) : step_by_messages(b);
    if (rc != SFAB_INPROGRESS)
        return finish(b, rc);
    if (!b->frozen && stopped_slowly(b))
        sfab_verdict_freeze(b);
    return rc;
}

/* Who has left in good order may have done its part of this episode first: *was says how far it had come. */
static bool left_in_time(const struct sfab_barrier *b, uint32_t member, struct sfab_farewell *was)
{
    const struct sfab_peer *peer = &b->op.ctx->peers[sfab_group_member(b->group, member)];

    if (atomic_load_explicit(&peer->presence, memory_order_acquire) != SFAB_GONE_LEFT) /* GONE */
        return false;
    sfab_group_goodbye(b->group, member, was);
    return was->started >= b->episode;
}

/* A member has left after it had entered the episode. If it has seen it done, it is done, whether or not all
 * messages come here. If not, what it had sent was there before it left: what is still awaited of it was
 * lost on the way. 0: others are waited for. */
static int after_leaver(struct sfab_barrier *b, uint32_t rank, const struct sfab_farewell *was,
                        bool *done)
{
    bool awaited = b->op.watch != NULL && b->op.waits_for == (int32_t)rank;
    bool lost =
        b->stalled != 0 && (sfab_peer_unreachable(b->op.ctx, rank) ||
                            b->stalled == SFAB_ERR_STALE || b->stalled == SFAB_ERR_PEER_DEAD);

    if (was->done >= b->episode && (b->count == 0 || was->count > 0)) {
        if (b->count > 0)
            memcpy(b->acc, was->words, b->count * sizeof b->acc[0]);
        *done = true;
        return 0;
    }
    return awaited || lost ? sfab_ctx_check_present(b->op.ctx, rank, "the barrier") : 0;
}

/* Something has changed. A death is not the end here: what it means, the verdict says. */
static int barrier_fault(struct sfab_op *op)
{
    struct sfab_barrier *b = (struct sfab_barrier *)op;
    struct sfab_ctx *ctx = op->ctx;
    struct sfab_farewell was;
    bool done = false;
    int rc = sfab_ctx_ended(ctx, "the barrier");

    for (uint32_t i = 0; rc == 0 && !done && i < b->group->size; i++) {
        uint32_t rank = sfab_group_member(b->group, i);
        struct sfab_peer *peer = &ctx->peers[rank];

        if (i == b->group->me ||
            atomic_load_explicit(&peer->presence, memory_order_acquire) == SFAB_GONE_DIED)
            continue;
        if (left_in_time(b, i, &was))
            rc = b->frozen ? 0 : after_leaver(b, rank, &was, &done);
        else if (sfab_peer_unreachable(ctx, rank))
            sfab_peer_accuse_ep(ctx, peer->ep);
        else
            rc = sfab_ctx_check_present(ctx, rank, "the barrier");
    }
    if (rc != 0)
        return finish(b, rc);
    if (done)
        finish(b, 0);
    return 0;
}

/* "rank 3 (hostB), last episode 6, last moved 12.3 s ago, computing" */
static size_t tell_late(const struct sfab_late *late, char *text, size_t cap)
{
    char doing[48] = "";
    int n;

    if (!late->episode_known) {
        n = snprintf(text, cap, " rank %d (%s), which does not answer", late->rank, late->host);
        return n > 0 ? (size_t)n : 0;
    }
    switch (late->doing) {
    case SFAB_DOING_UNKNOWN:
        break;
    case SFAB_DOING_COMPUTING:
        snprintf(doing, sizeof doing, ", computing");
        break;
    case SFAB_DOING_WAITING:
        snprintf(doing, sizeof doing, ", waiting");
        if (late->waits_for >= 0)
            snprintf(doing, sizeof doing, ", waiting for rank %d", late->waits_for);
        break;
    case SFAB_DOING_STOPPED:
        snprintf(doing, sizeof doing, ", its process is stopped");
        break;
    }
    n = snprintf(text, cap, " rank %d (%s), last episode %llu, last moved %.1f s ago%s", late->rank,
                 late->host, (unsigned long long)late->last_episode, (double)late->still_ns / 1e9,
                 doing);
    return n > 0 ? (size_t)n : 0;
}

/* While the members agree on who has died, that is what is waited for. */
static void explain_frozen(struct sfab_barrier *b, char *text, size_t cap)
{
    char missing[SFAB_MISSING_TEXT_BYTES];

    snprintf(
        text, cap,
        "episode %llu: a member has died, and the others are to agree on what has become of the "
        "episode: %.300s",
        (unsigned long long)b->episode,
        sfab_ctx_missing(b->op.ctx, sfab_verdict_tag(b), missing, sizeof missing));
}

/* "2 of 8 ranks have not arrived: rank 3 (hostB), last episode 6, ...; ..." */
static void barrier_explain(struct sfab_op *op, char *text, size_t cap)
{
    enum { SHOWN = 8 };
    struct sfab_barrier *b = (struct sfab_barrier *)op;
    struct sfab_late late[SHOWN];
    int count = 0;
    size_t at = 0;

    if (b->frozen) {
        explain_frozen(b, text, cap);
        return;
    }
    bool arrived = sfab_barrier_find_late(b, op->timeout_ns >= 1000000000, late, SHOWN, &count);
    at = (size_t)snprintf(text, cap, "episode %llu: ", (unsigned long long)b->episode);
    if (arrived)
        at += (size_t)snprintf(text + at, cap - at, "all %u ranks have arrived, %s", b->group->size,
                               count > 0 ? "but messages are missing; look at"
                                         : "the last messages are on their way");
    else if (count > 0)
        at += (size_t)snprintf(text + at, cap - at, "%d of %u ranks ha%s not arrived:", count,
                               b->group->size, count == 1 ? "s" : "ve");
    else
        at += (size_t)snprintf(text + at, cap - at, "it has finished meanwhile");
    for (int i = 0; i < count && i < SHOWN && at + 1 < cap; i++) {
        if (i > 0)
            at += (size_t)snprintf(text + at, cap - at, ";");
        if (at + 1 < cap)
            at += tell_late(&late[i], text + at, cap - at);
    }
    if (count > SHOWN && at + 1 < cap)
        snprintf(text + at, cap - at, "; and %d more", count - SHOWN);
}

/* The group is idle again: the next episode may be a quick one, if the policy of waiting lets it spin. */
static void barrier_release(struct sfab_op *op)
{
    struct sfab_barrier *b = (struct sfab_barrier *)op;

    b->quick = b->ready && b->broken == 0 && !b->own_fences && op->ctx->wait.first_spins > 0
                   ? b->algorithm->quick
                   : NULL;
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
    b->frozen = false;
    b->stalled = 0;
    b->resumable = false;
    sfab_op_begin(&b->op, listed);
}

static int begin(struct sfab_barrier *b, uint8_t tag, unsigned count, bool listed)
{
    if (SFAB_UNLIKELY(b->op.state != SFAB_OP_FREE || b->broken != 0))
        return refuse_start(b);
    if (stopped(b)) {
        int rc = sfab_ctx_ended(b->op.ctx, "the barrier");
        if (rc != 0)
            return rc;
    }
    announce(b, tag);
    make_op(b, tag, count, listed);
    b->algorithm->begin(b);
    if (stopped_slowly(b))
        sfab_verdict_freeze(b);
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

/* The quick way was left at its beginning (`stop`) or somewhere in it. */
__attribute__((noinline)) static int unquick(struct sfab_barrier *b, int64_t timeout_ns,
                                             bool stop_seen)
{
    make_op(b, SFAB_TAG_BARRIER, 0, false);
    if (stop_seen) {
        b->algorithm->begin(b);
        sfab_verdict_freeze(b);
        int rc = sfab_ctx_ended(b->op.ctx, "the barrier");
        if (rc != 0) {
            finish(b, rc);
            sfab_op_end(&b->op);
            return rc;
        }
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
    bool stop_seen = stopped(b);
    if (SFAB_UNLIKELY(stop_seen || b->quick(b, group->ctx->wait.first_spins) != 0))
        return unquick(b, timeout_ns, stop_seen);
    note_done(b);
    group->ctx->counters.barriers++;
    if (stopped(b))
        sfab_verdict_idle(b);
    return 0;
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
