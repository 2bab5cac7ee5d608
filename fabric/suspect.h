/* suspect.h - finding connections on which nothing is acknowledged any more. */
#ifndef SFAB_FABRIC_SUSPECT_H
#define SFAB_FABRIC_SUSPECT_H

#include "fabric/ctx.h"

#define SFAB_SUSPECT_NS UINT64_C(250000000) /* a wait so long begins to look, and looks so often */

/* Looks at every connection over a network, once in SFAB_SUSPECT_NS of a wait that began at began_ns: what
 * was sent before it and is not acknowledged for the heartbeat's timeout is an accusation. What was seen in
 * earlier waits does not count. Owner thread; cold: linear in ranks when it looks. */
void sfab_suspect_look(struct sfab_ctx *ctx, uint64_t began_ns, uint64_t now_ns);

#endif
