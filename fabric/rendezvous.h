/* rendezvous.h - joining the job that the settings name. */
#ifndef SFAB_FABRIC_RENDEZVOUS_H
#define SFAB_FABRIC_RENDEZVOUS_H

struct sfab_ctx;

/* As struct sfab_runtime's join. */
int sfab_rendezvous_join(struct sfab_ctx *ctx);

#endif
