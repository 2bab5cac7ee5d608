/* events.h - what reaches a context on its control thread. */
#ifndef SFAB_FABRIC_EVENTS_H
#define SFAB_FABRIC_EVENTS_H

#include "fabric/boot/boot.h"
#include "fabric/transport.h"

struct sfab_ctx;

/* The handlers for the rendezvous, valid as long as ctx. */
const struct sfab_boot_events *sfab_ctx_events(struct sfab_ctx *ctx);

/* The environment for the transport that will be ctx->tps[channel]; valid as long as ctx. */
const struct sfab_tp_env *sfab_ctx_link(struct sfab_ctx *ctx, uint32_t channel);

#endif
