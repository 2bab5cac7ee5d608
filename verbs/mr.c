/* mr.c - registering memory with the device, and the keys by which peers reach it.
 *
 * Each region gets the rights that were asked for and no more. Relaxed ordering is never allowed:
 * epoch words rely on a peer's writes landing in the order of their posting. */
#include "verbs/internal.h"

#include <errno.h>
#include <stdlib.h>

static unsigned device_access(const struct sfab_vb_tp *tp, unsigned access)
{
    unsigned flags = IBV_ACCESS_LOCAL_WRITE;

    if ((access & SFAB_REMOTE_READ) != 0)
        flags |= IBV_ACCESS_REMOTE_READ;
    if ((access & SFAB_REMOTE_WRITE) != 0)
        flags |= IBV_ACCESS_REMOTE_WRITE;
    if ((access & SFAB_REMOTE_ATOMIC) != 0 && tp->atomics)
        flags |= IBV_ACCESS_REMOTE_ATOMIC;
    return flags;
}

static int explain(const struct sfab_vb_tp *tp, const struct sfab_seg *seg, int errnum,
                   struct sfab_err *err)
{
    if (errnum == ENOMEM || errnum == EPERM || errnum == EAGAIN) {
        int rc = sfab_vb_memlock_check(seg->len_bytes, "registering memory", err);

        if (rc != 0)
            return rc;
    }
    return sfab_fail(err, errnum == ENOMEM ? -ENOMEM : SFAB_ERR_PROVIDER,
                     "%s cannot register %zu bytes at %p: %s%s", tp->port.device, seg->len_bytes,
                     seg->addr, sfab_errno_text(errnum),
                     errnum == EFAULT ? " (not all of it is mapped and writable)" : "");
}

int sfab_vb_reg(struct sfab_tp *base, const struct sfab_seg *seg, unsigned access,
                struct sfab_tp_mem **out, struct sfab_err *err)
{
    struct sfab_vb_tp *tp = sfab_vb_tp_of(base);
    struct sfab_vb_mem *mem = calloc(1, sizeof *mem);

    if (mem == NULL)
        return sfab_fail(err, -ENOMEM, "out of memory while registering %zu bytes", seg->len_bytes);
    mem->base.seg = seg;
    mem->mr = ibv_reg_mr(tp->pd, seg->addr, seg->len_bytes, device_access(tp, access));
    if (mem->mr == NULL) {
        int errnum = errno;

        free(mem);
        return explain(tp, seg, errnum, err);
    }
    mem->lkey = mem->mr->lkey;
    *out = &mem->base;
    return 0;
}

void sfab_vb_dereg(struct sfab_tp *base, struct sfab_tp_mem *mem_base)
{
    struct sfab_vb_mem *mem = (struct sfab_vb_mem *)mem_base;

    (void)base;
    if (mem == NULL)
        return;
    ibv_dereg_mr(mem->mr);
    free(mem);
}

size_t sfab_vb_pack_key(struct sfab_tp *base, const struct sfab_tp_mem *mem_base, uint8_t *key)
{
    const struct sfab_vb_mem *mem = (const struct sfab_vb_mem *)mem_base;
    struct sfab_vb_key plain = {
        .addr = (uintptr_t)mem->mr->addr, .len_bytes = mem->mr->length, .rkey = mem->mr->rkey};

    (void)base;
    return sfab_vb_key_encode(&plain, key, SFAB_TP_KEY_MAX);
}

int sfab_vb_unpack_key(struct sfab_ep *base, const uint8_t *key, size_t len, struct sfab_raddr *out,
                       struct sfab_err *err)
{
    struct sfab_vb_key plain;

    if (!sfab_vb_key_decode(key, len, &plain))
        return sfab_fail(err, -EINVAL,
                         "the key of rank %u's memory is not one that the verbs "
                         "transport made",
                         base->peer);
    *out = (struct sfab_raddr){.base = plain.addr, .key = plain.rkey, .len_bytes = plain.len_bytes};
    return 0;
}
