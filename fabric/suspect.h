/* suspect.h - finding connections on which nothing is acknowledged any more. */
#ifndef SFAB_FABRIC_SUSPECT_H
#define SFAB_FABRIC_SUSPECT_H

#include "fabric/ctx.h"

#define SFAB_SUSPECT_NS UINT64_C(100000000) /* a wait so long begins to look, and looks so often */

/* Looks at every connection over a network, once in SFAB_SUSPECT_NS of a wait that began at began_ns. The
 * first look of a wait asks for an answer; where the later ones find none, in this wait and those that
 * follow on it, for the heartbeat's timeout, that is an accusation. Owner thread; cold: linear in ranks when
 * it looks. */
void sfab_suspect_look(struct sfab_ctx *ctx, uint64_t began_ns, uint64_t now_ns);

#endif
