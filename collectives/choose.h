/* choose.h - which barrier fits a group. Every member must come to the same answer, so the choice rests
 * only on what all know: settings (compared when the job started) and the layout of nodes. */
#ifndef SFAB_COLLECTIVES_CHOOSE_H
#define SFAB_COLLECTIVES_CHOOSE_H

#include "collectives/barrier.h"

/* The radix for a group of that size: SFAB_RADIX, else 4 (fewer rounds beat fewer messages on real
 * networks: 4.06 us against 4.98 us for radix 2 at 8 nodes, openucx/ucc pull request 915; 8 gains
 * another 20 % there but takes 7 queue pairs a round), but 2 where ranks share CPUs, since there the
 * CPU time of each message counts. Never above the size, never below 2. */
uint32_t sfab_choose_radix(const struct sfab_ctx *ctx, uint32_t size);

/* The algorithm, and the reason in words. */
const struct sfab_barrier_algorithm *sfab_choose_algorithm(const struct sfab_group *group,
                                                           char *reason, size_t cap);

#endif
