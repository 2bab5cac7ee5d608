/* reduce.c - combining words, and naming collectives. */
#include "collectives/reduce.h"
#include "collectives/word.h"

#include <stdio.h>

static uint64_t combine(sfab_reduce reduce, uint64_t a, uint64_t b)
{
    switch (reduce) {
    case SFAB_AND:
        return a & b;
    case SFAB_OR:
        return a | b;
    case SFAB_MIN:
        return a < b ? a : b;
    case SFAB_MAX:
        return a > b ? a : b;
    case SFAB_SUM:
        return a + b;
    }
    return a;
}

void sfab_reduce_words(sfab_reduce reduce, uint64_t *into, const uint64_t *from, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        into[i] = combine(reduce, into[i], from[i]);
}

const char *sfab_tag_name(uint8_t tag, char *buf, size_t cap)
{
    static const char *const names[] = {"AND", "OR", "MIN", "MAX", "SUM"};
    unsigned reduce = tag >> 4;

    if (tag == SFAB_TAG_BARRIER)
        snprintf(buf, cap, "a barrier");
    else if (reduce >= 1 && reduce <= sizeof names / sizeof names[0])
        snprintf(buf, cap, "a barrier with %s of %u word%s", names[reduce - 1], tag & 15u,
                 (tag & 15) == 1 ? "" : "s");
    else
        snprintf(buf, cap, "an unknown collective (tag 0x%02x)", tag);
    return buf;
}
