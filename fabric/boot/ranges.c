/* ranges.c - sets of ranks as people write them. Pure. */
#include "fabric/boot/ranges.h"

#include <stdio.h>
#include <string.h>

/* Room that is kept for ", and 4294967295 more". */
#define TAIL_BYTES 24

static uint32_t count_members(uint32_t from, uint32_t size, sfab_ranges_member member,
                              const void *arg)
{
    uint32_t count = 0;
    for (uint32_t r = from; r < size; r++) {
        count += member(arg, r) ? 1u : 0u;
    }
    return count;
}

/* One past the last rank of the run that begins at first. */
static uint32_t run_end(uint32_t first, uint32_t size, sfab_ranges_member member, const void *arg)
{
    uint32_t end = first + 1;
    while (end < size && member(arg, end)) {
        end++;
    }
    return end;
}

static int item_text(char *item, size_t cap, uint32_t first, uint32_t end, const char *before)
{
    if (end - first == 1) {
        return snprintf(item, cap, "%s%u", before, first);
    }
    return snprintf(item, cap, "%s%u%s%u", before, first, end - first == 2 ? ", " : "-", end - 1);
}

uint32_t sfab_ranges_text(char *buf, size_t cap, uint32_t size, sfab_ranges_member member,
                          const void *arg)
{
    uint32_t total = count_members(0, size, member, arg);
    if (cap == 0) {
        return total;
    }
    if (total == 0) {
        snprintf(buf, cap, "no rank");
        return 0;
    }
    int used = snprintf(buf, cap, total == 1 ? "rank " : "ranks ");
    size_t at = (size_t)used < cap ? (size_t)used : cap - 1;
    const char *before = "";
    for (uint32_t r = 0; r < size;) {
        if (!member(arg, r)) {
            r++;
            continue;
        }
        uint32_t end = run_end(r, size, member, arg);
        char item[32];
        size_t len = (size_t)item_text(item, sizeof item, r, end, before);
        bool last = count_members(end, size, member, arg) == 0;
        if (at + len + (last ? 1 : TAIL_BYTES) > cap) {
            snprintf(buf + at, cap - at, "%sand %u more", before[0] != '\0' ? " " : "",
                     count_members(r, size, member, arg));
            break;
        }
        memcpy(buf + at, item, len + 1);
        at += len;
        before = ", ";
        r = end;
    }
    return total;
}
