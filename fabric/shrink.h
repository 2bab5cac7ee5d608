/* shrink.h - what group.c needs of the making of groups (shrink.c). */
#ifndef SFAB_FABRIC_SHRINK_H
#define SFAB_FABRIC_SHRINK_H

#include "fabric/boot/boot.h"

struct sfab_group;

/* The survey `tag`, perhaps of the group's shrink under way, is complete. CONTROL THREAD, under
 * ctx->groups_lock. The table has an entry for each member of the group. */
void sfab_shrink_surveyed(struct sfab_group *group, uint64_t tag,
                          const struct sfab_boot_blob *table);

/* The group is freed: so is what its shrink under way has. */
void sfab_shrink_forget(struct sfab_group *group);

#endif
