/* dissemination.c - the barrier in ceil(log_k N) rounds of writes: the pattern on epoch words.
 *
 * Each message is one word (or a few words of payload and then the word, as one put_signal) into a slot
 * that only this sender writes. A peer that is one episode ahead has overwritten its flag with a larger
 * one, which counts as well; its payload went to the other parity. */
#include "collectives/barrier.h"
#include "collectives/pattern/dissem.h"
#include "collectives/reduce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One message of one round: where mine goes, and where the one I wait for comes in. */
struct slot {
    struct sfab_ep *ep;
    struct sfab_raddr to;
    uint64_t flag_at, payload_at; /* in the peer's arena */
    const _Atomic uint64_t *flag;
    const uint64_t *payload;
    uint32_t to_member, from_member;
};

struct round {
    uint32_t first, end; /* its slots */
    uint32_t digit;      /* of N in base k: see dissem.h */
};

struct own {
    uint32_t rounds, round;
    uint32_t next; /* slot to send to or to hear from next */
    bool receiving;
    bool full_is_all;                   /* SUM: which partial sum is the result */
    uint64_t fresh[SFAB_PAYLOAD_WORDS]; /* SUM: the sums of the round under way */
    struct round *plan;
    struct slot *slots;
};

enum { PAYLOAD_BYTES = SFAB_PAYLOAD_WORDS * 8 };

static void fill_round(struct sfab_barrier *b, struct own *own, uint32_t r, uint32_t first)
{
    uint32_t n = b->group->size, me = b->group->me, k = b->radix;

    own->plan[r] = (struct round){.first = first,
                                  .end = first + sfab_dissem_peers(n, k, r),
                                  .digit = sfab_dissem_digit(n, k, r)};
    for (uint32_t s = first; s < own->plan[r].end; s++) {
        struct slot *slot = &own->slots[s];
        size_t flag = b->layout.flags + s * (size_t)SFAB_CACHE_LINE;
        size_t payload = b->layout.payload + s * (size_t)(2 * PAYLOAD_BYTES);

        slot->to_member = sfab_dissem_to(n, k, r, s - first + 1, me);
        slot->from_member = sfab_dissem_from(n, k, r, s - first + 1, me);
        slot->flag_at = sfab_barrier_at(b, flag);
        slot->payload_at = sfab_barrier_at(b, payload);
        slot->flag = sfab_barrier_here(b, flag);
        slot->payload = sfab_barrier_here(b, payload);
    }
}

static int dissem_setup(struct sfab_barrier *b, struct sfab_err *err)
{
    uint32_t n = b->group->size, k = b->radix;
    struct own *own = calloc(1, sizeof *own);
    uint32_t messages = sfab_dissem_messages(n, k);

    if (own == NULL)
        return sfab_fail(err, -ENOMEM, "out of memory for the barrier of %u ranks", n);
    b->own = own;
    own->rounds = sfab_dissem_rounds(n, k);
    own->full_is_all = sfab_dissem_full_is_all(n, k);
    own->plan = calloc(own->rounds + 1, sizeof *own->plan);
    own->slots = calloc(messages + 1, sizeof *own->slots);
    if (own->plan == NULL || own->slots == NULL)
        return sfab_fail(err, -ENOMEM, "out of memory for the barrier of %u ranks", n);
    for (uint32_t r = 0, first = 0; r < own->rounds; first = own->plan[r++].end)
        fill_round(b, own, r, first);
    return 0;
}

static void dissem_teardown(struct sfab_barrier *b)
{
    struct own *own = b->own;

    if (own != NULL) {
        free(own->plan);
        free(own->slots);
        free(own);
    }
}

static int64_t dissem_target(const struct sfab_barrier *b, uint32_t i)
{
    const struct own *own = b->own;

    if (own->rounds == 0 || i >= own->plan[own->rounds - 1].end)
        return -1;
    return own->slots[i].to_member;
}

static int dissem_connected(struct sfab_barrier *b)
{
    struct own *own = b->own;

    for (uint32_t s = 0; own->rounds > 0 && s < own->plan[own->rounds - 1].end; s++) {
        uint32_t member = own->slots[s].to_member;

        own->slots[s].ep = b->group->ctx->peers[sfab_group_member(b->group, member)].ep;
        own->slots[s].to = *sfab_group_reach(b->group, member);
    }
    return 0;
}

static void dissem_begin(struct sfab_barrier *b)
{
    struct own *own = b->own;

    own->round = 0;
    own->next = 0;
    own->receiving = false;
    if (b->count > 0 && b->reduce == SFAB_SUM)
        memset(b->acc + b->count, 0, b->count * sizeof b->acc[0]); /* part: nobody yet */
}

/* Words that a message carries now. */
static inline unsigned payload_words(const struct sfab_barrier *b)
{
    return b->reduce == SFAB_SUM ? 2 * b->count : b->count;
}

__attribute__((noinline)) static int send_payload(struct sfab_barrier *b, const struct slot *slot)
{
    uint64_t at = slot->payload_at + (b->episode & 1) * PAYLOAD_BYTES;
    const void *from = b->poisoned ? (const void *)&b->mismatch : b->acc;
    size_t len = b->poisoned ? sizeof b->mismatch : payload_words(b) * sizeof b->acc[0];

    return slot->ep->ops->put_signal(slot->ep, &slot->to, at, NULL, from, len, &slot->to,
                                     slot->flag_at, b->word);
}

static inline int send(struct sfab_barrier *b, const struct slot *slot)
{
    if (SFAB_LIKELY(sfab_word_tag(b->word) == SFAB_TAG_BARRIER))
        return slot->ep->ops->put_u64(slot->ep, &slot->to, slot->flag_at, b->word);
    return send_payload(b, slot);
}

static void sum_from(struct sfab_barrier *b, struct own *own, uint32_t j, const uint64_t *payload)
{
    uint32_t digit = own->plan[own->round].digit;

    sfab_reduce_words(SFAB_SUM, own->fresh, payload, b->count);
    if (j < digit)
        sfab_reduce_words(SFAB_SUM, own->fresh + b->count, payload, b->count);
    else if (j == digit)
        sfab_reduce_words(SFAB_SUM, own->fresh + b->count, payload + b->count, b->count);
}

/* What a message says besides having come: a value, or that something is wrong. */
__attribute__((noinline)) static void take(struct sfab_barrier *b, const struct slot *slot,
                                           uint64_t word)
{
    struct own *own = b->own;
    const uint64_t *payload = slot->payload + (b->episode & 1) * SFAB_PAYLOAD_WORDS;

    /* A later episode says nothing of what this one was; it could not be begun with this one wrong. */
    if (sfab_word_episode(word) == b->episode) {
        if (sfab_word_tag(word) == SFAB_TAG_POISON) {
            struct sfab_mismatch told;

            memcpy(&told, payload, sizeof told);
            sfab_barrier_poison(b, &told);
        } else if (sfab_word_tag(word) != b->tag) {
            sfab_barrier_mismatch(b, slot->from_member, sfab_word_tag(word));
        }
    }
    if (b->poisoned || b->count == 0)
        return;
    if (b->reduce == SFAB_SUM)
        sum_from(b, own, own->next - own->plan[own->round].first + 1, payload);
    else
        sfab_reduce_words(b->reduce, b->acc, payload, b->count);
}

/* SUM: the sums of the next round start from this member's own. */
static void sum_begin_round(struct sfab_barrier *b, struct own *own)
{
    size_t bytes = b->count * sizeof b->acc[0];
    const uint64_t *part = b->acc + (own->plan[own->round].digit > 0 ? 0 : b->count);

    memcpy(own->fresh, b->acc, bytes);
    memcpy(own->fresh + b->count, part, bytes);
}

static void end_round(struct sfab_barrier *b, struct own *own)
{
    if (b->count > 0 && b->reduce == SFAB_SUM && !b->poisoned) {
        memcpy(b->acc, own->fresh, 2 * b->count * sizeof b->acc[0]);
        if (own->round + 1 == own->rounds && !own->full_is_all)
            memcpy(b->acc, own->fresh + b->count, b->count * sizeof b->acc[0]);
    }
    own->receiving = false;
    own->round++;
}

static int dissem_step(struct sfab_barrier *b)
{
    struct own *own = b->own;

    while (own->round < own->rounds) {
        const struct round *round = &own->plan[own->round];

        if (!own->receiving) {
            for (; own->next < round->end; own->next++) {
                int rc = send(b, &own->slots[own->next]);

                if (SFAB_UNLIKELY(rc != 0)) {
                    b->op.watch = NULL;
                    return rc == -EAGAIN
                               ? SFAB_INPROGRESS
                               : sfab_peer_failed(b->op.ctx, own->slots[own->next].ep, rc);
                }
            }
            if (SFAB_UNLIKELY(b->count > 0) && b->reduce == SFAB_SUM)
                sum_begin_round(b, own);
            own->next = round->first;
            own->receiving = true;
        }
        for (; own->next < round->end; own->next++) {
            const struct slot *slot = &own->slots[own->next];
            /* WORD-ACQ: the payload that came before the word is visible after it. */
            uint64_t word = atomic_load_explicit(slot->flag, memory_order_acquire);

            if (word < sfab_word(b->episode, 0)) {
                b->op.watch = slot->flag;
                b->op.watch_value = sfab_word(b->episode, 0);
                b->op.waits_for = (int32_t)sfab_group_member(b->group, slot->from_member);
                return SFAB_INPROGRESS;
            }
            /* This episode with another tag, or a value to combine. */
            if (SFAB_UNLIKELY((word ^ b->word) - 1 < UINT8_MAX || b->count > 0))
                take(b, slot, word);
        }
        end_round(b, own);
    }
    return 0;
}

/* Leaves the quick way at a slot that it has not got past: step() takes it from there. */
__attribute__((noinline)) static int leave_quick(struct own *own, uint32_t round, uint32_t slot,
                                                 bool receiving)
{
    own->round = round;
    own->next = slot;
    own->receiving = receiving;
    return SFAB_INPROGRESS;
}

static int dissem_quick(struct sfab_barrier *b, uint32_t spins)
{
    struct own *own = b->own;
    const uint64_t word = b->word; /* without a tag: a plain barrier's */
    uint32_t sent = 0, heard = 0;

    for (uint32_t r = 0; r < own->rounds; r++) {
        const uint32_t end = own->plan[r].end;

        for (; sent < end; sent++) {
            const struct slot *slot = &own->slots[sent];

            if (SFAB_UNLIKELY(slot->ep->ops->put_u64(slot->ep, &slot->to, slot->flag_at, word) !=
                              0))
                return leave_quick(own, r, sent, false);
        }
        for (; heard < end; heard++) {
            const _Atomic uint64_t *flag = own->slots[heard].flag;
            uint64_t seen;

            while ((seen = atomic_load_explicit(flag, memory_order_acquire)) <
                   word) { /* WORD-ACQ */
                if (SFAB_UNLIKELY(spins-- == 0))
                    return leave_quick(own, r, heard, true);
                sfab_cpu_relax();
            }
            if (SFAB_UNLIKELY((seen ^ word) - 1 < UINT8_MAX)) /* this episode, another tag */
                return leave_quick(own, r, heard, true);
        }
    }
    return 0;
}

static uint64_t dissem_heard(const struct sfab_barrier *b, uint32_t member)
{
    const struct own *own = b->own;
    uint64_t word = 0;

    for (uint32_t s = 0; own->rounds > 0 && s < own->plan[own->rounds - 1].end; s++) {
        uint64_t flag = atomic_load_explicit(own->slots[s].flag, memory_order_relaxed);

        if (own->slots[s].from_member == member && flag > word)
            word = flag;
    }
    return sfab_word_episode(word);
}

const struct sfab_barrier_algorithm sfab_dissemination = {.name = "dissemination",
                                                          .setup = dissem_setup,
                                                          .teardown = dissem_teardown,
                                                          .target = dissem_target,
                                                          .connected = dissem_connected,
                                                          .begin = dissem_begin,
                                                          .step = dissem_step,
                                                          .quick = dissem_quick,
                                                          .heard = dissem_heard};
