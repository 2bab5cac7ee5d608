/* central.c - the barrier for ranks of one host that outnumber its CPUs: one shared counter.
 *
 * When ranks take turns on a CPU, what costs is not the cache line but the number of times somebody has
 * to run: here each rank runs once an episode. It adds one to a counter in member 0's memory; whoever
 * comes last combines the values and stores the release word, which all watch. CPU atomics and loads
 * through map(), so shared memory only; star.c is the same idea with words. The counter never goes back:
 * episode e is complete at N*e. */
#include "collectives/barrier.h"
#include "collectives/reduce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_WORDS = SFAB_REDUCE_WORDS_MAX };

struct own {
    char *root; /* member 0's block as mapped here */
    _Atomic uint64_t *counter;
    _Atomic uint64_t *release;
    uint64_t *result; /* 2 x VALUE_WORDS */
    bool arrived;
};

static int central_setup(struct sfab_barrier *b, struct sfab_err *err)
{
    b->own = calloc(1, sizeof(struct own));
    return b->own != NULL ? 0 : sfab_fail(err, -ENOMEM, "out of memory for the barrier");
}

static void central_teardown(struct sfab_barrier *b)
{
    free(b->own);
}

/* Everyone's: the last to arrive wakes those that sleep. */
static int64_t central_target(const struct sfab_barrier *b, uint32_t i)
{
    return i < b->group->size ? (int64_t)i : -1;
}

static int central_connected(struct sfab_barrier *b)
{
    struct own *own = b->own;
    struct sfab_peer *root = &b->group->ctx->peers[sfab_group_member(b->group, 0)];
    struct sfab_barrier_layout at = sfab_barrier_layout(b->group->size, 0, b->radix);

    own->root = root->ep->ops->map(root->ep, sfab_group_reach(b->group, 0), b->group->block_offset,
                                   at.bytes);
    if (own->root == NULL)
        return sfab_ctx_fail(b->op.ctx, -EOPNOTSUPP,
                             "the central barrier needs memory that can be mapped: use "
                             "SFAB_BARRIER=dissemination");
    own->counter = (_Atomic uint64_t *)(void *)(own->root + at.counter);
    own->release = (_Atomic uint64_t *)(void *)(own->root + at.release);
    own->result = (uint64_t *)(void *)(own->root + at.result);
    return 0;
}

static void central_begin(struct sfab_barrier *b)
{
    ((struct own *)b->own)->arrived = false;
}

static _Atomic uint64_t *arrival_of(const struct sfab_barrier *b, uint32_t member)
{
    const struct own *own = b->own;

    return (_Atomic uint64_t *)(void *)(own->root + b->layout.arrivals +
                                        member * (size_t)SFAB_CACHE_LINE);
}

static uint64_t *values_of(const struct sfab_barrier *b, uint32_t member)
{
    const struct own *own = b->own;

    return (uint64_t *)(void *)(own->root + b->layout.values) +
           (2 * (size_t)member + (b->episode & 1)) * VALUE_WORDS;
}

/* The last to arrive: is everybody in the same collective, and what is the result? In member order, so
 * that it is the same whoever comes last. */
static void combine(struct sfab_barrier *b, uint64_t *result)
{
    for (uint32_t member = 0; member < b->group->size; member++) {
        /* Relaxed: the counter's acquire has ordered it. */
        uint64_t word = atomic_load_explicit(arrival_of(b, member), memory_order_relaxed);

        if (sfab_word_tag(word) != b->tag) {
            sfab_barrier_mismatch(b, member, sfab_word_tag(word));
            memcpy(result, &b->mismatch, sizeof b->mismatch);
            return;
        }
    }
    if (b->count == 0)
        return;
    memcpy(result, values_of(b, 0), b->count * sizeof *result);
    for (uint32_t member = 1; member < b->group->size; member++)
        sfab_reduce_words(b->reduce, result, values_of(b, member), b->count);
}

static void wake_all(struct sfab_barrier *b)
{
    for (uint32_t member = 0; member < b->group->size; member++) {
        struct sfab_ep *ep = b->group->ctx->peers[sfab_group_member(b->group, member)].ep;

        if (member != b->group->me)
            ep->ops->notify(ep);
    }
}

static void arrive(struct sfab_barrier *b, struct own *own)
{
    if (b->count > 0)
        memcpy(values_of(b, b->group->me), b->acc, b->count * sizeof b->acc[0]);
    atomic_store_explicit(arrival_of(b, b->group->me), b->word, memory_order_relaxed);
    own->arrived = true;
    /* CENTRAL: release what this member has written; the last acquires what all have. */
    uint64_t before = atomic_fetch_add_explicit(own->counter, 1, memory_order_acq_rel);
    if (before + 1 == b->episode * b->group->size) {
        combine(b, own->result + (b->episode & 1) * VALUE_WORDS);
        /* WORD-REL: the result is visible to whoever sees the word. */
        atomic_store_explicit(own->release, b->word, memory_order_release);
        wake_all(b);
    }
}

static int central_step(struct sfab_barrier *b)
{
    struct own *own = b->own;

    if (!own->arrived)
        arrive(b, own);
    uint64_t word = atomic_load_explicit(own->release, memory_order_acquire); /* WORD-ACQ */
    if (word < sfab_word(b->episode, 0)) {
        b->op.watch = own->release;
        b->op.watch_value = sfab_word(b->episode, 0);
        return SFAB_INPROGRESS;
    }
    const uint64_t *result = own->result + (b->episode & 1) * VALUE_WORDS;
    if (sfab_word_episode(word) == b->episode && sfab_word_tag(word) == SFAB_TAG_POISON) {
        struct sfab_mismatch told;

        memcpy(&told, result, sizeof told);
        sfab_barrier_poison(b, &told);
    } else if (b->count > 0) {
        memcpy(b->acc, result, b->count * sizeof b->acc[0]);
    }
    return 0;
}

const struct sfab_barrier_algorithm sfab_central = {.name = "central",
                                                    .setup = central_setup,
                                                    .teardown = central_teardown,
                                                    .target = central_target,
                                                    .connected = central_connected,
                                                    .begin = central_begin,
                                                    .step = central_step,
                                                    .heard = sfab_barrier_arrival};
