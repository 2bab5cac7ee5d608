/* barrier.h - what the barrier's files share: its state in a group, its block of words, and what an
 * algorithm is.
 *
 * The block of a member (offsets in bytes; L = 64, a cache line; R rounds, M = messages a member sends
 * in a dissemination, both of radix k among N):
 *     arrived      L            the word of the last episode this member started; read by the curious
 *     release      L            central and star: the episode that is complete
 *     result       2 L          by parity of the episode: what a central or star release carries
 *     flags        M L          dissemination: one word from each peer of each round
 *     payload      M 2 (2 L)    by parity: up to 16 words that a flag carries
 *  and at member 0, for central and star:
 *     counter      L
 *     arrivals     N L          one word from each member
 *     values       N 2 L        by parity: up to 8 words that an arrival carries
 * Parity is enough: nobody starts episode e+2 before all have finished e. docs/memory.md states the
 * sizes; a test holds them to it. */
#ifndef SFAB_COLLECTIVES_BARRIER_H
#define SFAB_COLLECTIVES_BARRIER_H

#include "collectives/word.h"
#include "fabric/cpu.h"
#include "fabric/ctx.h"

#define SFAB_PAYLOAD_WORDS 16 /* a SUM carries two partial sums */

struct sfab_barrier;
struct sfab_agreement;

struct sfab_barrier_algorithm {
    const char *name;
    /* Allocates what it needs; nothing is connected yet. */
    int (*setup)(struct sfab_barrier *b, struct sfab_err *err);
    void (*teardown)(struct sfab_barrier *b);
    /* The members whose memory must be open before the first episode: the i-th, or -1 at the end. */
    int64_t (*target)(const struct sfab_barrier *b, uint32_t i);
    /* All of them are open: resolve addresses. */
    int (*connected)(struct sfab_barrier *b);
    /* An episode begins: b's episode, word, count, words are set. */
    void (*begin)(struct sfab_barrier *b);
    /* As an operation's step. On success the reduction's result is in b->acc. */
    int (*step)(struct sfab_barrier *b);
    /* A whole plain episode in one go, without an operation: b's episode and word are set and announced.
     * 0: done. SFAB_INPROGRESS: not so quickly, or something is wrong; everything is as begin() and some
     * steps would have left it. NULL: always the long way. */
    int (*quick)(struct sfab_barrier *b, uint32_t spins);
    /* The last episode that `member` is known to have started from the words that came in here; 0: none.
     * Any thread. */
    uint64_t (*heard)(const struct sfab_barrier *b, uint32_t member);
};

extern const struct sfab_barrier_algorithm sfab_dissemination, sfab_central, sfab_star;

/* Offsets in a member's block. */
struct sfab_barrier_layout {
    size_t arrived, release, result, flags, payload, counter, arrivals, values, bytes;
};

/* Two members that were found in different collectives. */
struct sfab_mismatch {
    uint64_t side[2]; /* rank << 8 | tag */
};

struct sfab_barrier {
    struct sfab_op op; /* first: an op is its barrier */
    struct sfab_group *group;
    const struct sfab_barrier_algorithm *algorithm;
    void *own; /* the algorithm's state */
    _Atomic uint64_t *arrived;

    /* The last episode that this member has finished with success; and whether there is anything to look
     * at before an episode is begun or after it was finished: set by the control thread, for ever. With
     * `arrived` a Dekker pair: see verdict.c. */
    _Atomic uint64_t done;
    _Atomic uint32_t stop;

    /* The algorithm's quick, while nothing stands against it: targets open, no episode under way, group
     * not broken; else NULL. */
    int (*quick)(struct sfab_barrier *b, uint32_t spins);

    /* the episode under way, or the last one */
    uint64_t episode;
    uint64_t word; /* episode and tag, as sent */
    uint8_t tag;   /* what this member is in */
    bool poisoned;
    bool finished;  /* step has ended with `result`: it stays so */
    bool resumable; /* a blocking call timed out in it */
    bool ready;     /* targets are open */
    bool frozen;    /* finishes by the members' verdict, no more by messages */
    int stalled;    /* a connection failed with this: finishes by the verdict on who is dead */
    int result;
    uint32_t next_target;
    sfab_reduce reduce;
    unsigned count;  /* words reduced; 0: none */
    uint64_t *words; /* the caller's */
    uint64_t acc[SFAB_PAYLOAD_WORDS];
    struct sfab_mismatch mismatch;

    bool
        own_fences; /* nobody else can fence this member's stores: it does so itself, and is never quick */
    uint64_t results[2]
                    [SFAB_REDUCE_WORDS_MAX]; /* of the last reductions, by parity of the episode */
    struct sfab_agreement *verdict;

    int broken; /* a code: the group can run no barrier any more; why: in the text */
    char broken_text[SFAB_ERR_TEXT_BYTES];
    char reason[192]; /* of the choice of algorithm */
    uint32_t radix;
    struct sfab_barrier_layout layout;
};

static inline struct sfab_barrier *sfab_barrier_of(const struct sfab_group *group)
{
    return group->state;
}

/* Byte offset in member 0..N-1's arena of an offset in the block. */
static inline uint64_t sfab_barrier_at(const struct sfab_barrier *b, size_t offset)
{
    return b->group->block_offset + offset;
}

static inline void *sfab_barrier_here(const struct sfab_barrier *b, size_t offset)
{
    return (char *)b->group->block + offset;
}

/* As an algorithm's heard, where member 0 keeps the arrivals. */
uint64_t sfab_barrier_arrival(const struct sfab_barrier *b, uint32_t member);

/* barrier.c: sizes for member `me`. */
struct sfab_barrier_layout sfab_barrier_layout(uint32_t size, uint32_t me, uint32_t radix);

/* Notes that member (of the group) is in `tag` while this one is in b->tag; poisons the episode. */
void sfab_barrier_mismatch(struct sfab_barrier *b, uint32_t member, uint8_t tag);

/* The same, as told by somebody who saw it. */
void sfab_barrier_poison(struct sfab_barrier *b, const struct sfab_mismatch *mismatch);

/* late.c: as the public call, for the timeout's sentence too; patiently: takes the time (0.6 s) to tell a
 * process that is stopped from one that computes. True: all have arrived, and those listed withhold a
 * message or do not run. */
bool sfab_barrier_find_late(struct sfab_barrier *b, bool patiently, struct sfab_late *late, int cap,
                            int *count);

#endif
