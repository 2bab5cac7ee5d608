/* verdict.h - what becomes of an episode that a death interrupts: agreed by all survivors (verdict.c). */
#ifndef SFAB_COLLECTIVES_VERDICT_H
#define SFAB_COLLECTIVES_VERDICT_H

#include "collectives/barrier.h"

/* barrier.c's life of a group. */
int sfab_verdict_setup(struct sfab_barrier *b, struct sfab_err *err);
void sfab_verdict_teardown(struct sfab_barrier *b);

/* As struct sfab_group_class. CONTROL THREAD. */
void sfab_verdict_died(struct sfab_group *group, uint32_t member);
void sfab_verdict_interrupt(struct sfab_group *group);
void sfab_verdict_surveyed(struct sfab_group *group, const struct sfab_boot_blob *table,
                           uint32_t count);

/* Owner thread, `stop` was seen. An episode was announced, or is under way and not to be finished by
 * messages for now: from a death on it is frozen, and the verdict finishes it. */
void sfab_verdict_freeze(struct sfab_barrier *b);

/* Owner thread, `stop` was seen: no episode is under way any more. */
void sfab_verdict_idle(struct sfab_barrier *b);

/* Owner thread: the outcome of a frozen episode: SFAB_INPROGRESS, 0 (a reduction's result is in b->acc)
 * or SFAB_ERR_PEER_DEAD with its sentence. */
int sfab_verdict_step(struct sfab_barrier *b);

/* The survey that a frozen episode waits for. */
uint64_t sfab_verdict_tag(const struct sfab_barrier *b);

#endif
