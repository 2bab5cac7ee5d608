/* ranges.h - sets of ranks as people write them: "rank 3", "ranks 3, 7-9". */
#ifndef SFAB_FABRIC_BOOT_RANGES_H
#define SFAB_FABRIC_BOOT_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether rank is in the set. */
typedef bool (*sfab_ranges_member)(const void *arg, uint32_t rank);

/* Writes the members among 0 .. size-1 into buf, always terminated, and returns how many there are.
 * What does not fit becomes "and 17 more". An empty set is "no rank". */
uint32_t sfab_ranges_text(char *buf, size_t cap, uint32_t size, sfab_ranges_member member,
                          const void *arg);

#endif
