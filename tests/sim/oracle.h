/* oracle.h - what the ranks of a simulated job have done, seen from outside, and whether it may be so.
 *
 * One process runs them all, so what no rank can know of another at that moment is known here. Every
 * check is of a promise in docs/: the sentence says which. */
#ifndef SFAB_TESTS_SIM_ORACLE_H
#define SFAB_TESTS_SIM_ORACLE_H

#include "fabric/sim/sim.h"
#include "syncfab/syncfab.h"

struct oracle;

struct oracle *oracle_new(struct sim *s, uint32_t ranks);
void oracle_free(struct oracle *o);

/* A death, a cut or an abort is part of the plan: before the first such thing nothing may fail. */
void oracle_expect_failures(struct oracle *o);
/* Links are cut for good: somebody may be given up that was not killed. */
void oracle_expect_given_up(struct oracle *o);

/* rank is about to enter the group's next episode, with these words to reduce (count 0: none). */
void oracle_enters(struct oracle *o, uint32_t rank, const struct sfab_group *group,
                   sfab_reduce reduce, const uint64_t *words, unsigned count);
/* It came out with rc, and these words. */
void oracle_leaves(struct oracle *o, uint32_t rank, const struct sfab_group *group, int rc,
                   const uint64_t *words, unsigned count);
/* rank has made, or begins with, this group. */
void oracle_group(struct oracle *o, uint32_t rank, const struct sfab_group *group);
/* The group's barrier has failed at rank. */
void oracle_failed(struct oracle *o, uint32_t rank, const struct sfab_group *group);
/* Something else has ended with an error. */
void oracle_error(struct oracle *o, uint32_t rank, int rc, const char *text);
/* rank has given up, since the others have given it up, or the job was aborted. */
void oracle_out(struct oracle *o, uint32_t rank);
/* All words that have been put and flushed in a step, before the barrier after it. */
void oracle_flushed(struct oracle *o, uint32_t rank, uint64_t step);
bool oracle_was_flushed(const struct oracle *o, uint32_t rank, uint64_t step);

/* The job is over: are all survivors of one mind? */
void oracle_end(struct oracle *o);

#endif
