/* group.h - an ordered set of ranks, and the block of epoch words that each member has for it.
 *
 * The block lies in every member's arena; what is in it is the collectives' affair: a class says how
 * many bytes a member needs and sets itself up on them. */
#ifndef SFAB_FABRIC_GROUP_H
#define SFAB_FABRIC_GROUP_H

#include "fabric/err.h"

#include <stdbool.h>
#include <stdint.h>

struct sfab_ctx;
struct sfab_group;

/* What a collective needs of a group. */
struct sfab_group_class {
    /* Bytes of block that member `me` of `size` needs: known before anything is connected. */
    size_t (*block_bytes)(const struct sfab_ctx *ctx, const struct sfab_group *group);
    /* Allocates the collective's state on the group's block (zeroed). */
    int (*attach)(struct sfab_group *group, struct sfab_err *err);
    void (*detach)(struct sfab_group *group);
    /* The last episode that this member has started. */
    uint64_t (*episode)(const struct sfab_group *group);
};

struct sfab_group {
    uint64_t magic;
    struct sfab_ctx *ctx;
    const struct sfab_group_class *class;
    uint32_t size, me;
    const uint32_t *members; /* their ranks; NULL: member i is rank i */
    uint64_t block_offset;   /* in every member's arena */
    size_t block_bytes;      /* this member's */
    void *block;             /* this member's, as seen here */
    void *state;             /* the class's own */
};

#define SFAB_GROUP_MAGIC UINT64_C(0x5346414247525031)

static inline uint32_t sfab_group_member(const struct sfab_group *group, uint32_t index)
{
    return group->members != NULL ? group->members[index] : index;
}

/* Whether the caller's handle can be used; NULL and freed ones cannot. */
static inline bool sfab_group_ok(const struct sfab_group *group)
{
    return group != NULL && group->magic == SFAB_GROUP_MAGIC;
}

#endif
