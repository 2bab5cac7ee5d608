/* world.h - what a group gets: today, a barrier. */
#ifndef SFAB_COLLECTIVES_WORLD_H
#define SFAB_COLLECTIVES_WORLD_H

#include "fabric/group.h"

extern const struct sfab_group_class sfab_barrier_group_class;

#endif
