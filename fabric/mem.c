/* mem.c - local memory that peers may reach: allocation, registration, keys. */
#include "fabric/mem.h"
#include "fabric/seg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ACCESS_ALL = SFAB_REMOTE_READ | SFAB_REMOTE_WRITE | SFAB_REMOTE_ATOMIC };

static int check(struct sfab_ctx *ctx, size_t len_bytes, unsigned access, struct sfab_mem **out)
{
    if (!sfab_ctx_ok(ctx))
        return -EINVAL;
    if (out == NULL || len_bytes == 0 || len_bytes > SIZE_MAX / 4 ||
        (access & ~(unsigned)ACCESS_ALL) != 0)
        return sfab_ctx_fail(
            ctx, -EINVAL,
            "memory of %zu bytes with access 0x%x cannot be made: it takes at least one "
            "byte, the SFAB_REMOTE_ rights, and a place for the handle",
            len_bytes, access);
    return 0;
}

static void unregister(struct sfab_mem *mem)
{
    for (uint32_t i = 0; i < mem->ctx->tp_count; i++)
        if (mem->reg[i] != NULL)
            mem->ctx->tps[i]->ops->dereg(mem->ctx->tps[i], mem->reg[i]);
}

/* Registers with every transport of the context and puts mem in its list; frees it on failure. */
static int adopt(struct sfab_mem *mem, struct sfab_mem **out)
{
    struct sfab_ctx *ctx = mem->ctx;

    for (uint32_t i = 0; i < ctx->tp_count; i++) {
        int rc =
            ctx->tps[i]->ops->reg(ctx->tps[i], &mem->seg, mem->access, &mem->reg[i], &ctx->err);

        if (rc != 0) {
            unregister(mem);
            mem->ctx->rt->seg_destroy(&mem->seg);
            free(mem);
            return rc;
        }
    }
    mem->magic = SFAB_MEM_MAGIC;
    mem->next = ctx->mems;
    if (ctx->mems != NULL)
        ctx->mems->prev = mem;
    ctx->mems = mem;
    ctx->counters.registered_bytes_now += mem->seg.len_bytes;
    *out = mem;
    return 0;
}

static struct sfab_mem *new_mem(struct sfab_ctx *ctx, unsigned access)
{
    struct sfab_mem *mem = calloc(1, sizeof *mem);

    if (mem == NULL) {
        sfab_ctx_fail(ctx, -ENOMEM, "rank %u (%s): out of memory", ctx->rank, ctx->host);
        return NULL;
    }
    mem->ctx = ctx;
    mem->access = access;
    return mem;
}

int sfab_mem_alloc(sfab_ctx *ctx, size_t len_bytes, unsigned access, sfab_mem **out)
{
    int rc = check(ctx, len_bytes, access, out);

    if (rc != 0)
        return rc;
    struct sfab_mem *mem = new_mem(ctx, access);
    if (mem == NULL)
        return -ENOMEM;
    rc = ctx->rt->seg_create(len_bytes, &mem->seg, &ctx->err);
    if (rc != 0) {
        free(mem);
        return rc;
    }
    return adopt(mem, out);
}

int sfab_mem_register(sfab_ctx *ctx, void *addr, size_t len_bytes, unsigned access, sfab_mem **out)
{
    int rc = check(ctx, len_bytes, access, out);

    if (rc != 0)
        return rc;
    if (addr == NULL || (access & SFAB_REMOTE_ATOMIC) != 0)
        return sfab_ctx_fail(ctx, addr == NULL ? -EINVAL : -EOPNOTSUPP,
                             addr == NULL ? "cannot register memory at NULL"
                                          : "registered memory cannot be a target of atomics: use "
                                            "sfab_mem_alloc");
    struct sfab_mem *mem = new_mem(ctx, access);
    if (mem == NULL)
        return -ENOMEM;
    sfab_seg_foreign(addr, len_bytes, &mem->seg);
    return adopt(mem, out);
}

int sfab_mem_free(sfab_mem *mem)
{
    if (!sfab_mem_ok(mem))
        return -EINVAL;
    unregister(mem);
    if (mem->prev != NULL)
        mem->prev->next = mem->next;
    else
        mem->ctx->mems = mem->next;
    if (mem->next != NULL)
        mem->next->prev = mem->prev;
    mem->ctx->counters.registered_bytes_now -= mem->seg.len_bytes;
    mem->ctx->rt->seg_destroy(&mem->seg);
    mem->magic = 0;
    free(mem);
    return 0;
}

void *sfab_mem_addr(const sfab_mem *mem)
{
    return sfab_mem_ok(mem) ? mem->seg.addr : NULL;
}

size_t sfab_mem_len(const sfab_mem *mem)
{
    return sfab_mem_ok(mem) ? mem->seg.len_bytes : 0;
}

int sfab_mem_key(const sfab_mem *mem, void *key, size_t cap_bytes, size_t *key_bytes)
{
    struct sfab_key card = {0};

    if (!sfab_mem_ok(mem) || key == NULL || key_bytes == NULL)
        return -EINVAL;
    card.rank = mem->ctx->rank;
    card.incarnation = mem->ctx->incarnation;
    card.len_bytes = mem->seg.len_bytes;
    card.access = mem->access;
    card.words = mem->seg.kind == SFAB_SEG_SHARED;
    card.transports = mem->ctx->tp_count;
    for (uint32_t i = 0; i < mem->ctx->tp_count; i++) {
        struct sfab_tp *tp = mem->ctx->tps[i];

        strncpy(card.transport[i].name, tp->ops->name, sizeof card.transport[i].name - 1);
        card.transport[i].key_bytes =
            (uint32_t)tp->ops->pack_key(tp, mem->reg[i], card.transport[i].key);
    }
    size_t len = sfab_key_encode(&card, key, cap_bytes);
    if (len == 0)
        return -ENOSPC;
    *key_bytes = len;
    return 0;
}

void sfab_mem_release_all(struct sfab_ctx *ctx)
{
    while (ctx->rmems != NULL)
        sfab_rmem_close(ctx->rmems);
    while (ctx->mems != NULL)
        sfab_mem_free(ctx->mems);
}
