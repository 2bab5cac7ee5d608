/* suspect.h - finding connections on which nothing is acknowledged any more, and whose fault that is. */
#ifndef SFAB_FABRIC_SUSPECT_H
#define SFAB_FABRIC_SUSPECT_H

#include "fabric/ctx.h"

#define SFAB_SUSPECT_NS UINT64_C(50000000) /* a wait so long begins to look, and looks so often */

/* Looks at every connection over a network, once in SFAB_SUSPECT_NS of a wait that began at began_ns. The
 * first look of a wait asks for an answer; where the later ones find none, in this wait and those that
 * follow on it, for three fifths of the heartbeat's timeout, that is an accusation: what is left of the
 * timeout goes to the witnesses, the hearing (boot/hearing.h) and the telling. Owner thread; cold: linear in
 * ranks when it looks. */
void sfab_suspect_look(struct sfab_ctx *ctx, uint64_t began_ns, uint64_t now_ns);

/* rank cannot be reached from here, and text says how that was seen. Accuses it, but not before one of the
 * others that this rank is connected to over a network has answered it: when none does, within
 * a fraction of the heartbeat's timeout, it is this rank that is cut off, and it accuses itself. The answer is looked for
 * in sfab_suspect_look. Once for each rank until somebody is given up. Owner thread; never blocks. */
void sfab_suspect(struct sfab_ctx *ctx, uint32_t rank, const char *text);

#endif
