/* suspect.h - finding connections on which nothing is acknowledged any more. */
#ifndef SFAB_FABRIC_SUSPECT_H
#define SFAB_FABRIC_SUSPECT_H

#include "fabric/ctx.h"

#define SFAB_SUSPECT_NS UINT64_C(250000000) /* a wait so long begins to look, and looks so often */

/* Looks at every connection over a network: what was sent on it and is not acknowledged for the
 * heartbeat's timeout is an accusation. first: of this wait, in which nothing more is sent; what was seen in
 * earlier ones does not count. Owner thread, cold: linear in ranks. */
void sfab_suspect_look(struct sfab_ctx *ctx, uint64_t now_ns, bool first);

#endif
