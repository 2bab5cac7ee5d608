/* verdict.c - what becomes of an episode that a death interrupts: on all survivors the same.
 *
 * The last messages of a member that died may have reached some and not others, so that some could
 * finish the episode and others never. Therefore each member, once it has heard of the death, brings to a
 * survey (fabric/boot/boot.h: one table, the same for all that are in it) the last episode that it has
 * finished with success, and from then on finishes none by messages; who leaves says it in its last
 * words. C, the largest of them, is what somebody has seen done: all members had entered it, so all do
 * as if they had finished it (a reduction's result comes with it); what is later has failed everywhere.
 *
 * Who brings it? A member that computes cannot be asked to, so its control thread does when no episode
 * is under way here; otherwise the owner does, as soon as it looks. State of `freeze`:
 *     NORMAL -> FROZEN  control thread: a member has died
 *     FROZEN -> HELD    owner, in an episode: brings `done`, waits for the verdict
 *     FROZEN -> GIVEN   whoever finds that no episode is under way: brings `done`
 * Both last ones are for ever: the group runs no barrier any more.
 *
 * Whether one is under way is a Dekker pair: the owner stores `arrived` (or `done`) and then loads
 * `stop`; the control thread stores `stop` and then loads both. The owner's fence between is paid for by
 * the control thread, with membarrier(2): pair STOP. Where there is no such thing the owner pays
 * (own_fences), and takes the long way always.
 *
 * The idea of agreeing on the outcome after the fact is ULFM's (Bland et al., 2013, MPIX_Comm_agree);
 * the coordinator here is the rendezvous, whose own death ends the job. tests/models/verdict.pml is this
 * protocol for SPIN. */
#include "collectives/verdict.h"
#include "fabric/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum freeze { NORMAL, FROZEN, HELD, GIVEN };

enum { DEAD_TOLD = 32 }; /* deaths of which the sentences can tell the last episode */

struct sfab_agreement {
    _Atomic uint32_t freeze; /* enum freeze */
    _Atomic uint32_t over;   /* 1: the group is broken, no episode will ever be under way */

    /* By the control thread, then `known` with release: pair VERDICT. */
    _Atomic uint32_t known;
    uint64_t done;                          /* C */
    uint64_t result[SFAB_REDUCE_WORDS_MAX]; /* of C, where it was a reduction */
    uint32_t *failed;                       /* members, ascending */
    uint64_t *heard; /* by failed: the last episode it is known to have started */
    uint32_t failed_count;
};

int sfab_verdict_setup(struct sfab_barrier *b, struct sfab_err *err)
{
    b->verdict = calloc(1, sizeof *b->verdict);
    if (b->verdict == NULL)
        return sfab_fail(err, -ENOMEM, "out of memory for the barrier");
    b->own_fences = !b->op.ctx->rt->fence_others();
    return 0;
}

void sfab_verdict_teardown(struct sfab_barrier *b)
{
    if (b->verdict == NULL)
        return;
    free(b->verdict->failed);
    free(b->verdict->heard);
    free(b->verdict);
}

uint64_t sfab_verdict_tag(const struct sfab_barrier *b)
{
    return sfab_group_tag(b->group, SFAB_SURVEY_VERDICT, 0);
}

/* ---- bringing ---------------------------------------------------------------------------- */

static bool died(const struct sfab_barrier *b, uint32_t member)
{
    const struct sfab_peer *peer = &b->op.ctx->peers[sfab_group_member(b->group, member)];

    return atomic_load_explicit(&peer->presence, memory_order_acquire) == SFAB_GONE_DIED; /* GONE */
}

/* A contribution: done, its result if it was a reduction, then (member, heard) of the dead known here. */
static void bring(struct sfab_barrier *b, uint64_t done)
{
    struct sfab_ctx *ctx = b->op.ctx;
    uint8_t buf[8 + 8 * SFAB_REDUCE_WORDS_MAX + 2 + DEAD_TOLD * 12];
    struct sfab_writer w = sfab_writer_on(buf, sizeof buf);
    uint32_t dead[DEAD_TOLD], count = 0;

    for (uint32_t i = 0; i < b->group->size && count < DEAD_TOLD; i++)
        if (i != b->group->me && died(b, i))
            dead[count++] = i;
    sfab_write_uint(&w, done, 8);
    for (int i = 0; i < SFAB_REDUCE_WORDS_MAX; i++)
        sfab_write_uint(&w, b->results[done & 1][i], 8);
    sfab_write_uint(&w, count, 2);
    for (uint32_t i = 0; i < count; i++) {
        sfab_write_uint(&w, dead[i], 4);
        sfab_write_uint(&w, b->algorithm->heard(b, dead[i]), 8);
    }
    /* A failure here is the rendezvous' loss: an event of its own ends what waits. */
    ctx->rt->survey(ctx->boot, sfab_verdict_tag(b), b->group->members, b->group->size, buf,
                    (size_t)(w.at - buf));
}

static bool take_over(struct sfab_barrier *b, enum freeze to)
{
    uint32_t frozen = FROZEN;

    return atomic_compare_exchange_strong_explicit(&b->verdict->freeze, &frozen, to,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

/* ---- on the control thread --------------------------------------------------------------- */

static void stop(struct sfab_barrier *b)
{
    /* STOP: the owner's half is in barrier.c. */
    atomic_store_explicit(&b->stop, 1, memory_order_seq_cst);
    if (!b->op.ctx->rt->fence_others())
        atomic_thread_fence(memory_order_seq_cst);
}

void sfab_verdict_interrupt(struct sfab_group *group)
{
    stop(sfab_barrier_of(group));
}

void sfab_verdict_died(struct sfab_group *group, uint32_t member)
{
    struct sfab_barrier *b = sfab_barrier_of(group);
    uint32_t normal = NORMAL;

    (void)member;
    if (!atomic_compare_exchange_strong_explicit(&b->verdict->freeze, &normal, FROZEN,
                                                 memory_order_acq_rel, memory_order_relaxed))
        return;
    stop(b);
    uint64_t arrived = atomic_load_explicit(b->arrived, memory_order_acquire);
    /* DONE: the acquire makes the results of that episode readable. */
    uint64_t done = atomic_load_explicit(&b->done, memory_order_acquire);
    bool idle = sfab_word_episode(arrived) == done ||
                atomic_load_explicit(&b->verdict->over, memory_order_acquire) != 0;
    if (idle && take_over(b, GIVEN))
        bring(b, done);
}

/* One member's contribution into the verdict. */
static void count_in(struct sfab_agreement *v, const struct sfab_boot_blob *blob)
{
    struct sfab_reader r = sfab_reader_on(blob->data, blob->len_bytes);
    uint64_t done = sfab_read_uint(&r, 8);
    uint64_t words[SFAB_REDUCE_WORDS_MAX];

    for (int i = 0; i < SFAB_REDUCE_WORDS_MAX; i++)
        words[i] = sfab_read_uint(&r, 8);
    uint32_t count = (uint32_t)sfab_read_uint(&r, 2);
    if (r.failed)
        return;
    if (done >= v->done) {
        v->done = done;
        memcpy(v->result, words, sizeof words);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t member = (uint32_t)sfab_read_uint(&r, 4);
        uint64_t heard = sfab_read_uint(&r, 8);

        for (uint32_t f = 0; !r.failed && f < v->failed_count; f++)
            if (v->failed[f] == member && v->heard[f] < heard)
                v->heard[f] = heard;
    }
}

/* Who has left in good order brings nothing more, but its last words count: somebody may have relied on
 * what it has seen done. */
static void count_in_leaver(struct sfab_barrier *b, uint32_t member)
{
    struct sfab_agreement *v = b->verdict;
    struct sfab_farewell was;

    sfab_group_goodbye(b->group, member, &was);
    if (was.done < v->done || (was.done == v->done && was.count == 0))
        return;
    v->done = was.done;
    memcpy(v->result, was.words, sizeof v->result);
}

void sfab_verdict_surveyed(struct sfab_group *group, const struct sfab_boot_blob *table,
                           uint32_t count)
{
    struct sfab_barrier *b = sfab_barrier_of(group);
    struct sfab_agreement *v = b->verdict;
    uint32_t absent = 0;

    if (atomic_load_explicit(&v->known, memory_order_relaxed))
        return;
    for (uint32_t i = 0; i < count; i++)
        absent += table[i].data == NULL;
    v->failed = calloc(absent + 1, sizeof *v->failed);
    v->heard = calloc(absent + 1, sizeof *v->heard);
    /* Who left in good order is absent too, but has not failed. */
    for (uint32_t i = 0; v->failed != NULL && v->heard != NULL && i < count; i++)
        if (table[i].data == NULL && died(b, i))
            v->failed[v->failed_count++] = i;
    for (uint32_t i = 0; i < count; i++)
        if (table[i].data != NULL)
            count_in(v, &table[i]);
        else if (i != b->group->me && !died(b, i))
            count_in_leaver(b, i);
    /* VERDICT: everything before. */
    atomic_store_explicit(&v->known, 1, memory_order_release);
}

/* ---- on the owner thread ----------------------------------------------------------------- */

void sfab_verdict_freeze(struct sfab_barrier *b)
{
    if (atomic_load_explicit(&b->verdict->freeze, memory_order_acquire) == NORMAL)
        return; /* another kind of stop, which the wait finds out about */
    b->frozen = true;
    if (take_over(b, HELD))
        bring(b, atomic_load_explicit(&b->done, memory_order_relaxed));
}

void sfab_verdict_idle(struct sfab_barrier *b)
{
    if (b->broken != 0)
        atomic_store_explicit(&b->verdict->over, 1, memory_order_seq_cst);
    if (take_over(b, GIVEN))
        bring(b, atomic_load_explicit(&b->done, memory_order_relaxed));
}

/* What the dead member's own word says, where its memory is still mapped here. */
static uint64_t arrived_at(const struct sfab_barrier *b, uint32_t member)
{
    const struct sfab_raddr *reach = sfab_group_reach(b->group, member);
    struct sfab_ep *ep = b->op.ctx->peers[sfab_group_member(b->group, member)].ep;
    const _Atomic uint64_t *word = NULL;

    if (ep != NULL && reach->base != 0)
        word = ep->ops->map(ep, reach, sfab_barrier_at(b, b->layout.arrived), sizeof *word);
    return word != NULL ? sfab_word_episode(atomic_load_explicit(word, memory_order_relaxed)) : 0;
}

/* "rank 5 (hostB) (was killed by signal 9), last episode 41; ..." */
static void name_failed(const struct sfab_barrier *b, char *text, size_t cap)
{
    enum { SHOWN = 8 };
    const struct sfab_agreement *v = b->verdict;
    char name[96];
    size_t at = 0;

    text[0] = '\0';
    for (uint32_t f = 0; f < v->failed_count && f < SHOWN && at + 1 < cap; f++) {
        uint32_t rank = sfab_group_member(b->group, v->failed[f]);
        const char *why = b->op.ctx->peers[rank].why;
        uint64_t arrived = arrived_at(b, v->failed[f]);

        at +=
            (size_t)snprintf(text + at, cap - at, "%s%s (%s), last episode %llu", f > 0 ? "; " : "",
                             sfab_ctx_peer_name(b->op.ctx, rank, name, sizeof name),
                             why != NULL ? why : "its process ended without sfab_close",
                             (unsigned long long)(arrived > v->heard[f] ? arrived : v->heard[f]));
    }
    if (v->failed_count > SHOWN && at + 1 < cap)
        snprintf(text + at, cap - at, "; and %u more", v->failed_count - SHOWN);
}

int sfab_verdict_step(struct sfab_barrier *b)
{
    const struct sfab_agreement *v = b->verdict;
    struct sfab_ctx *ctx = b->op.ctx;
    char failed[SFAB_ERR_TEXT_BYTES / 2];

    b->op.watch = NULL;
    if (atomic_load_explicit(&v->known, memory_order_acquire) == 0) /* VERDICT */
        return SFAB_INPROGRESS;
    if (b->episode <= v->done) {
        if (b->count > 0)
            memcpy(b->acc, v->result, b->count * sizeof b->acc[0]);
        return 0;
    }
    name_failed(b, failed, sizeof failed);
    return sfab_ctx_fail(
        ctx, SFAB_ERR_PEER_DEAD,
        "rank %u (%s): the barrier cannot finish: %u of the group's %u members ha%s "
        "died: %s; episode %llu has failed on all survivors; look at the output of "
        "the dead, and go on with sfab_group_shrink",
        ctx->rank, ctx->host, v->failed_count, b->group->size, v->failed_count == 1 ? "s" : "ve",
        failed, (unsigned long long)b->episode);
}

int sfab_group_failed(const sfab_group *group, int *ranks, int cap, int *count)
{
    if (!sfab_group_ok(group) || cap < 0 || (ranks == NULL && cap > 0) || count == NULL)
        return -EINVAL;
    const struct sfab_agreement *v = sfab_barrier_of(group)->verdict;
    int n = atomic_load_explicit(&v->known, memory_order_acquire) != 0 ? (int)v->failed_count : 0;

    for (int i = 0; i < n && i < cap; i++)
        ranks[i] = (int)sfab_group_member(group, v->failed[i]);
    *count = n;
    return 0;
}
