/* star.c - the barrier with the fewest messages: all tell member 0, member 0 tells all.
 *
 * What SFAB_BARRIER=central means where memory cannot be mapped: 2(N-1) messages instead of N*ceil(log_k
 * N) rounds' worth. Never chosen by itself: on SoftRoCE with 4 and 8 ranks on two CPUs, where it was
 * hoped to win, a dissemination of radix 2 was 5 to 25 % quicker, because its messages do not all go
 * through the one CPU that member 0 waits for (docs/results.md). Only words and put_signal, so any
 * transport. */
#include "collectives/barrier.h"
#include "collectives/reduce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_WORDS = SFAB_REDUCE_WORDS_MAX };

struct own {
    uint32_t next; /* member to hear from, or to tell, next */
    bool telling;
    struct sfab_barrier_layout root; /* member 0's layout */
};

static int star_setup(struct sfab_barrier *b, struct sfab_err *err)
{
    struct own *own = calloc(1, sizeof *own);

    if (own == NULL)
        return sfab_fail(err, -ENOMEM, "out of memory for the barrier");
    own->root = sfab_barrier_layout(b->group->size, 0, b->radix);
    b->own = own;
    return 0;
}

static void star_teardown(struct sfab_barrier *b)
{
    free(b->own);
}

static int64_t star_target(const struct sfab_barrier *b, uint32_t i)
{
    if (b->group->me != 0)
        return i == 0 ? 0 : -1;
    return i + 1 < b->group->size ? (int64_t)i + 1 : -1;
}

static int star_connected(struct sfab_barrier *b)
{
    (void)b;
    return 0;
}

static void star_begin(struct sfab_barrier *b)
{
    struct own *own = b->own;

    own->next = 1;
    own->telling = false;
}

/* `words` of payload and the word, to a place and a payload place in the member's block. */
static int tell(struct sfab_barrier *b, uint32_t member, size_t word_at, size_t payload_at,
                const void *payload, size_t words)
{
    struct sfab_ep *ep = b->group->ctx->peers[sfab_group_member(b->group, member)].ep;
    const struct sfab_raddr *to = sfab_group_reach(b->group, member);
    int rc;

    payload_at += (b->episode & 1) * VALUE_WORDS * sizeof(uint64_t);
    if (words == 0)
        rc = ep->ops->put_u64(ep, to, sfab_barrier_at(b, word_at), b->word);
    else
        rc =
            ep->ops->put_signal(ep, to, sfab_barrier_at(b, payload_at), NULL, payload,
                                words * sizeof(uint64_t), to, sfab_barrier_at(b, word_at), b->word);
    b->op.watch = NULL;
    return rc == 0 || rc == -EAGAIN ? rc : sfab_peer_failed(b->op.ctx, ep, rc);
}

/* Whether the word has come; if not, it is what to watch. */
static bool has_come(struct sfab_barrier *b, uint32_t member, size_t word_at, uint64_t *word)
{
    const _Atomic uint64_t *at = sfab_barrier_here(b, word_at);

    *word = atomic_load_explicit(at, memory_order_acquire); /* WORD-ACQ */
    if (*word >= sfab_word(b->episode, 0))
        return true;
    b->op.watch = at;
    b->op.watch_value = sfab_word(b->episode, 0);
    b->op.waits_for = (int32_t)sfab_group_member(b->group, member);
    return false;
}

/* Member 0, about one arrival. */
static void take(struct sfab_barrier *b, uint32_t member, uint64_t word)
{
    const uint64_t *values = (const uint64_t *)sfab_barrier_here(b, b->layout.values) +
                             (2 * (size_t)member + (b->episode & 1)) * VALUE_WORDS;

    if (sfab_word_tag(word) != b->tag)
        sfab_barrier_mismatch(b, member, sfab_word_tag(word));
    if (!b->poisoned)
        sfab_reduce_words(b->reduce, b->acc, values, b->count);
}

static int root_step(struct sfab_barrier *b, struct own *own)
{
    uint64_t word;

    if (!own->telling) {
        for (; own->next < b->group->size; own->next++) {
            if (!has_come(b, own->next, b->layout.arrivals + own->next * (size_t)SFAB_CACHE_LINE,
                          &word))
                return SFAB_INPROGRESS;
            take(b, own->next, word);
        }
        own->next = 1;
        own->telling = true;
    }
    for (; own->next < b->group->size; own->next++) {
        const void *payload = b->poisoned ? (const void *)&b->mismatch : b->acc;
        size_t words = b->poisoned ? sizeof b->mismatch / sizeof(uint64_t) : b->count;
        int rc = tell(b, own->next, b->layout.release, b->layout.result, payload, words);

        if (rc != 0)
            return rc == -EAGAIN ? SFAB_INPROGRESS : rc;
    }
    return 0;
}

static int leaf_step(struct sfab_barrier *b, struct own *own)
{
    const uint64_t *result =
        (const uint64_t *)sfab_barrier_here(b, b->layout.result) + (b->episode & 1) * VALUE_WORDS;
    uint32_t me = b->group->me;
    uint64_t word;

    if (!own->telling) {
        int rc = tell(b, 0, own->root.arrivals + me * (size_t)SFAB_CACHE_LINE,
                      own->root.values + me * (size_t)(2 * VALUE_WORDS * sizeof(uint64_t)), b->acc,
                      b->count);
        if (rc != 0)
            return rc == -EAGAIN ? SFAB_INPROGRESS : rc;
        own->telling = true;
    }
    if (!has_come(b, 0, b->layout.release, &word))
        return SFAB_INPROGRESS;
    if (sfab_word_tag(word) == SFAB_TAG_POISON) {
        struct sfab_mismatch told;

        memcpy(&told, result, sizeof told);
        sfab_barrier_poison(b, &told);
    } else {
        memcpy(b->acc, result, b->count * sizeof b->acc[0]);
    }
    return 0;
}

static int star_step(struct sfab_barrier *b)
{
    struct own *own = b->own;

    return b->group->me == 0 ? root_step(b, own) : leaf_step(b, own);
}

const struct sfab_barrier_algorithm sfab_star = {.name = "star",
                                                 .setup = star_setup,
                                                 .teardown = star_teardown,
                                                 .target = star_target,
                                                 .connected = star_connected,
                                                 .begin = star_begin,
                                                 .step = star_step,
                                                 .heard = sfab_barrier_arrival};
