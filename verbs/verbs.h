/* verbs.h - the RDMA transport: reliable connected queue pairs on libibverbs, over InfiniBand and
 * RoCE v2. The table is all that the rest of syncfab knows of it. */
#ifndef SFAB_VERBS_VERBS_H
#define SFAB_VERBS_VERBS_H

#include "fabric/transport.h"

extern const struct sfab_tp_ops sfab_verbs_ops;

#endif
