/* word.h - the 64-bit epoch word of a barrier: 56 bits of episode, 8 of what the episode is.
 *
 * The word grows with the episode, so ">= my episode" is the whole test; the tag lets both sides see
 * that they are in the same collective. 2^56 episodes at 100 ns each last 228 years. */
#ifndef SFAB_COLLECTIVES_WORD_H
#define SFAB_COLLECTIVES_WORD_H

#include "syncfab/syncfab.h"

#include <stdint.h>

/* A tag: the reduction (0: none) in the high four bits, the words in the low four. */
enum {
    SFAB_TAG_BARRIER = 0,
    SFAB_TAG_POISON = 0xf0 /* the sender has seen that members are in different collectives */
};

static inline uint8_t sfab_tag_reduce(sfab_reduce reduce, unsigned count)
{
    return (uint8_t)(((unsigned)reduce + 1) << 4 | count);
}

static inline uint64_t sfab_word(uint64_t episode, uint8_t tag)
{
    return episode << 8 | tag;
}

static inline uint64_t sfab_word_episode(uint64_t word)
{
    return word >> 8;
}

static inline uint8_t sfab_word_tag(uint64_t word)
{
    return (uint8_t)word;
}

/* "a barrier", "a barrier with SUM of 3 words", into buf; returns buf. */
const char *sfab_tag_name(uint8_t tag, char *buf, size_t cap);

#endif
