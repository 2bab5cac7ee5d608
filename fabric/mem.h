/* mem.h - the user's memory, local and remote. */
#ifndef SFAB_FABRIC_MEM_H
#define SFAB_FABRIC_MEM_H

#include "fabric/ctx.h"

#define SFAB_MEM_MAGIC  UINT64_C(0x534641424d454d31)
#define SFAB_RMEM_MAGIC UINT64_C(0x53464142524d4531)

struct sfab_mem {
    uint64_t magic;
    struct sfab_ctx *ctx;
    struct sfab_seg seg;
    unsigned access;
    struct sfab_tp_mem *reg[SFAB_TRANSPORTS_MAX]; /* by place in ctx->tps */
    struct sfab_mem *prev, *next;
};

struct sfab_rmem {
    uint64_t magic;
    struct sfab_ctx *ctx;
    uint32_t rank;
    unsigned access;
    bool words; /* its words can be targets */
    uint8_t tp; /* place of the puts' transport: which local registration to use */
    uint64_t len_bytes;
    struct sfab_ep *ep; /* for puts and gets */
    struct sfab_raddr raddr;
    struct sfab_ep *atomic_ep;
    struct sfab_raddr atomic_raddr;
    struct sfab_rmem *prev, *next;
};

static inline bool sfab_mem_ok(const struct sfab_mem *mem)
{
    return mem != NULL && mem->magic == SFAB_MEM_MAGIC;
}

static inline bool sfab_rmem_ok(const struct sfab_rmem *rmem)
{
    return rmem != NULL && rmem->magic == SFAB_RMEM_MAGIC;
}

#endif
