/* group.h - an ordered set of ranks, and the block of epoch words that each member has for it.
 *
 * The world group's block lies in every member's arena, that of a later group in a piece of memory of
 * its own; what is in it is the collectives' affair: a class says how many bytes a member needs, sets
 * itself up on them, and hears of the members' failures. */
#ifndef SFAB_FABRIC_GROUP_H
#define SFAB_FABRIC_GROUP_H

#include "fabric/boot/boot.h"
#include "fabric/err.h"
#include "fabric/transport.h"

#include <stdbool.h>
#include <stdint.h>

struct sfab_ctx;
struct sfab_group;

#define SFAB_FAREWELL_WORDS 8

/* How far a member has come, for those that stay when it leaves. */
struct sfab_farewell {
    uint64_t started, done; /* the last episode of each */
    uint32_t count;         /* words that `done` has brought; 0: none */
    uint64_t words[SFAB_FAREWELL_WORDS];
};

/* What a collective needs of a group. */
struct sfab_group_class {
    /* Bytes of block that member `me` of `size` needs: known before anything is connected. */
    size_t (*block_bytes)(const struct sfab_ctx *ctx, uint32_t size, uint32_t me);
    /* Allocates the collective's state on the group's block (zeroed). On failure detach undoes it. */
    int (*attach)(struct sfab_group *group, struct sfab_err *err);
    void (*detach)(struct sfab_group *group);
    /* The last episode that this member has started. */
    uint64_t (*episode)(const struct sfab_group *group);

    /* This member leaves: how far it has come. */
    void (*farewell)(const struct sfab_group *group, struct sfab_farewell *out);

    /* ---- CONTROL THREAD, under ctx->groups_lock: short, and no waiting ---- */

    /* A member has died: agree with the others what becomes of the episode under way. May be called
     * more than once. */
    void (*died)(struct sfab_group *group, uint32_t member);
    /* The job's waits end (an abort): no episode may be done without a look at the context. */
    void (*interrupt)(struct sfab_group *group);
    /* The survey of that kind is complete. */
    void (*surveyed)(struct sfab_group *group, const struct sfab_boot_blob *table, uint32_t count);
    /* Grows whenever this member starts or finishes an episode. */
    uint64_t (*moves)(const struct sfab_group *group);
};

/* Which survey of a group. */
enum sfab_group_survey { SFAB_SURVEY_VERDICT = 1, SFAB_SURVEY_SHRINK = 2 };

struct sfab_shrink;

struct sfab_group {
    uint64_t magic;
    struct sfab_ctx *ctx;
    const struct sfab_group_class *class;
    uint32_t size, me;
    const uint32_t *members; /* their ranks; NULL: member i is rank i */
    uint64_t block_offset;   /* in every member's memory for the group */
    size_t block_bytes;      /* this member's */
    void *block;             /* this member's, as seen here */
    void *state;             /* the class's own */

    /* cold */
    struct sfab_group *next; /* in the context's list */
    uint64_t id;             /* the same on all members, and no other group's */
    struct sfab_raddr
        *reach;       /* by member: its memory for the group, once opened; NULL: the world */
    uint8_t *keys;    /* by member, SFAB_GROUP_KEY_MAX bytes each: what is opened */
    uint32_t shrinks; /* groups made of this one so far */
    struct sfab_shrink *shrink; /* the making of one, under way; under ctx->groups_lock */
};

#define SFAB_GROUP_MAGIC   UINT64_C(0x5346414247525031)
#define SFAB_GROUP_KEY_MAX 512

static inline uint32_t sfab_group_member(const struct sfab_group *group, uint32_t index)
{
    return group->members != NULL ? group->members[index] : index;
}

/* Whether the caller's handle can be used; NULL and freed ones cannot. */
static inline bool sfab_group_ok(const struct sfab_group *group)
{
    return group != NULL && group->magic == SFAB_GROUP_MAGIC;
}

/* ---- group.c ------------------------------------------------------------------------------ */

/* Connects to the member and opens its memory for the group: as sfab_peer_open. Owner thread. */
int sfab_group_open(struct sfab_group *group, uint32_t member);

/* The member's memory for the group; base 0: not open. */
const struct sfab_raddr *sfab_group_reach(const struct sfab_group *group, uint32_t member);

/* The tag of the group's survey; turn: which one of that kind, from 0. */
uint64_t sfab_group_tag(const struct sfab_group *group, enum sfab_group_survey kind, uint32_t turn);

/* Puts the group (its class attached) where the control thread finds it, and tells it of the members
 * that are dead already. */
void sfab_group_enlist(struct sfab_group *group);

/* Detaches and frees; NULL is allowed. What peers may still write to stays until the context is closed. */
void sfab_group_dismantle(struct sfab_group *group);

/* Tells the others, for when this rank leaves, how far it has come in its groups. */
void sfab_groups_farewell(struct sfab_ctx *ctx);

/* How far a member that has left in good order had come in the group: zeros where that is not known. */
void sfab_group_goodbye(const struct sfab_group *group, uint32_t member, struct sfab_farewell *out);

/* ---- for events.c: CONTROL THREAD --------------------------------------------------------- */

void sfab_groups_died(struct sfab_ctx *ctx, uint32_t rank);
void sfab_groups_interrupt(struct sfab_ctx *ctx);
void sfab_groups_surveyed(struct sfab_ctx *ctx, uint64_t tag, const struct sfab_boot_blob *table,
                          uint32_t count);
uint64_t sfab_groups_moves(struct sfab_ctx *ctx);

#endif
