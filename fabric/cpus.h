/* cpus.h - can every rank of a node have a CPU of its own?
 *
 * Decides whether waiting may spin. Not a matter of counting alone: four ranks on a machine of eight
 * CPUs are crowded if all are bound to the same one. */
#ifndef SFAB_FABRIC_CPUS_H
#define SFAB_FABRIC_CPUS_H

#include "fabric/card.h"

/* The largest number of the `count` ranks that can each be given a CPU that nobody else has, out of
 * the CPUs each may run on (maximum bipartite matching; Kuhn's augmenting paths). Pure. */
uint32_t sfab_cpus_fit(const struct sfab_cpu_mask *const *masks, uint32_t count);

/* The CPUs that the calling process may run on. */
void sfab_cpus_mine(struct sfab_cpu_mask *mask);

#endif
