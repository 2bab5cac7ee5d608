/* rma.c - the public one-sided operations: checks, then the seam.
 *
 * The checks are what makes the offsets safe for every transport: nothing below looks at bounds or
 * rights again. When a transport answers "again" (full, or connecting) the call pauses on the waiting
 * ladder; that is the only way it can take long, and the end of the peer ends it. */
#include "fabric/cpu.h"
#include "fabric/mem.h"

#include <errno.h>

/* ---- checks ------------------------------------------------------------------------------ */

static int refuse_range(struct sfab_ctx *ctx, const char *what, const char *whose, uint64_t offset,
                        uint64_t len, uint64_t have)
{
    return sfab_ctx_fail(
        ctx, -ERANGE,
        "rank %u (%s): %s of %llu bytes at offset %llu does not lie in the %s memory of "
        "%llu bytes",
        ctx->rank, ctx->host, what, (unsigned long long)len, (unsigned long long)offset, whose,
        (unsigned long long)have);
}

static int refuse_access(struct sfab_rmem *rmem, const char *what)
{
    char name[96];

    return sfab_ctx_fail(
        rmem->ctx, -EACCES,
        "rank %u (%s): %s is not allowed on this memory of %s: it was made with access "
        "0x%x",
        rmem->ctx->rank, rmem->ctx->host, what,
        sfab_ctx_peer_name(rmem->ctx, rmem->rank, name, sizeof name), rmem->access);
}

static inline bool outside(uint64_t offset, uint64_t len, uint64_t have)
{
    return offset > have || len > have - offset;
}

static int check_remote(struct sfab_rmem *rmem, const char *what, unsigned access, uint64_t offset,
                        uint64_t len)
{
    if (SFAB_UNLIKELY(!sfab_rmem_ok(rmem)))
        return -EINVAL;
    if (SFAB_UNLIKELY((rmem->access & access) == 0))
        return refuse_access(rmem, what);
    if (SFAB_UNLIKELY(outside(offset, len, rmem->len_bytes)))
        return refuse_range(rmem->ctx, what, "remote", offset, len, rmem->len_bytes);
    return 0;
}

static int check_local(const struct sfab_mem *mem, const struct sfab_rmem *rmem, const char *what,
                       uint64_t offset, uint64_t len)
{
    if (SFAB_UNLIKELY(!sfab_mem_ok(mem) || mem->ctx != rmem->ctx))
        return -EINVAL;
    if (SFAB_UNLIKELY(outside(offset, len, mem->seg.len_bytes)))
        return refuse_range(mem->ctx, what, "local", offset, len, mem->seg.len_bytes);
    return 0;
}

static int check_word(struct sfab_rmem *rmem, const char *what, unsigned access, uint64_t offset)
{
    int rc = check_remote(rmem, what, access, offset, sizeof(uint64_t));

    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    if (SFAB_UNLIKELY(offset % sizeof(uint64_t) != 0))
        return sfab_ctx_fail(rmem->ctx, -EINVAL,
                             "rank %u (%s): %s at offset %llu is not aligned to 8 bytes",
                             rmem->ctx->rank, rmem->ctx->host, what, (unsigned long long)offset);
    if (SFAB_UNLIKELY(!rmem->words))
        return sfab_ctx_fail(
            rmem->ctx, -EOPNOTSUPP,
            "rank %u (%s): %s needs memory of sfab_mem_alloc at its target; this was "
            "registered with sfab_mem_register",
            rmem->ctx->rank, rmem->ctx->host, what);
    return 0;
}

/* ---- again ------------------------------------------------------------------------------- */

/* After an answer of a transport: 0 passes through, -EAGAIN pauses (and asks the caller to try again
 * by returning it), all else becomes the context's failure. */
__attribute__((noinline)) static int settle(struct sfab_ctx *ctx, struct sfab_ep *ep, int rc,
                                            uint64_t *since, const char *what)
{
    if (rc != -EAGAIN)
        return sfab_peer_failed(ctx, ep, rc);
    ctx->counters.again++;
    int gone = sfab_ctx_check_present(ctx, ep->peer, what);
    if (gone != 0)
        return gone;
    rc = sfab_ctx_pause(ctx, since, -1);
    return rc == 0 ? -EAGAIN : rc;
}

#define POST(ctx, ep, what, call)                                                                  \
    do {                                                                                           \
        uint64_t since_ = 0;                                                                       \
        while (SFAB_UNLIKELY((rc = (call)) != 0)) {                                                \
            rc = settle((ctx), (ep), rc, &since_, (what));                                         \
            if (rc != -EAGAIN)                                                                     \
                return rc;                                                                         \
        }                                                                                          \
    } while (0)

/* ---- operations -------------------------------------------------------------------------- */

static inline const char *local_at(const struct sfab_mem *mem, uint64_t offset)
{
    return (const char *)mem->seg.addr + offset;
}

int sfab_put(sfab_rmem *dst, uint64_t dst_offset_bytes, sfab_mem *src, uint64_t src_offset_bytes,
             size_t len_bytes)
{
    int rc = check_remote(dst, "a put", SFAB_REMOTE_WRITE, dst_offset_bytes, len_bytes);

    if (rc == 0)
        rc = check_local(src, dst, "a put", src_offset_bytes, len_bytes);
    if (SFAB_UNLIKELY(rc != 0) || len_bytes == 0)
        return rc;
    POST(dst->ctx, dst->ep, "sfab_put",
         dst->ep->ops->put(dst->ep, &dst->raddr, dst_offset_bytes, src->reg[dst->tp],
                           local_at(src, src_offset_bytes), len_bytes));
    dst->ctx->counters.puts++;
    dst->ctx->counters.put_bytes += len_bytes;
    return 0;
}

int sfab_get(sfab_mem *dst, uint64_t dst_offset_bytes, sfab_rmem *src, uint64_t src_offset_bytes,
             size_t len_bytes)
{
    int rc = check_remote(src, "a get", SFAB_REMOTE_READ, src_offset_bytes, len_bytes);

    if (rc == 0)
        rc = check_local(dst, src, "a get", dst_offset_bytes, len_bytes);
    if (SFAB_UNLIKELY(rc != 0) || len_bytes == 0)
        return rc;
    POST(src->ctx, src->ep, "sfab_get",
         src->ep->ops->get(src->ep, &src->raddr, src_offset_bytes, dst->reg[src->tp],
                           (char *)dst->seg.addr + dst_offset_bytes, len_bytes));
    src->ctx->counters.gets++;
    src->ctx->counters.get_bytes += len_bytes;
    return 0;
}

int sfab_put_u64(sfab_rmem *dst, uint64_t dst_offset_bytes, uint64_t value)
{
    int rc = check_word(dst, "put_u64", SFAB_REMOTE_WRITE, dst_offset_bytes);

    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    POST(dst->ctx, dst->ep, "sfab_put_u64",
         dst->ep->ops->put_u64(dst->ep, &dst->raddr, dst_offset_bytes, value));
    dst->ctx->counters.puts++;
    dst->ctx->counters.put_bytes += sizeof value;
    return 0;
}

int sfab_put_signal(sfab_rmem *dst, uint64_t dst_offset_bytes, sfab_mem *src,
                    uint64_t src_offset_bytes, size_t len_bytes, sfab_rmem *sig,
                    uint64_t sig_offset_bytes, uint64_t value)
{
    int rc = check_word(sig, "a signal", SFAB_REMOTE_WRITE, sig_offset_bytes);

    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    if (len_bytes == 0)
        dst = sig; /* no data: only the signal, which has the same order */
    else
        rc = check_remote(dst, "a put", SFAB_REMOTE_WRITE, dst_offset_bytes, len_bytes);
    if (rc == 0 && len_bytes > 0)
        rc = check_local(src, dst, "a put", src_offset_bytes, len_bytes);
    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    if (dst->ctx != sig->ctx || dst->rank != sig->rank)
        return sfab_ctx_fail(
            sig->ctx, -EINVAL,
            "put_signal: the data goes to rank %u, the signal to rank %u: both must go "
            "to one rank",
            dst->rank, sig->rank);
    POST(dst->ctx, dst->ep, "sfab_put_signal",
         dst->ep->ops->put_signal(dst->ep, &dst->raddr, dst_offset_bytes,
                                  len_bytes > 0 ? src->reg[dst->tp] : NULL,
                                  len_bytes > 0 ? local_at(src, src_offset_bytes) : NULL, len_bytes,
                                  &sig->raddr, sig_offset_bytes, value));
    dst->ctx->counters.puts++;
    dst->ctx->counters.put_bytes += len_bytes + sizeof value;
    return 0;
}

int sfab_fetch_add(sfab_rmem *dst, uint64_t dst_offset_bytes, uint64_t add, uint64_t *result)
{
    int rc = check_word(dst, "fetch_add", SFAB_REMOTE_ATOMIC, dst_offset_bytes);

    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    POST(dst->ctx, dst->atomic_ep, "sfab_fetch_add",
         dst->atomic_ep->ops->fetch_add(dst->atomic_ep, &dst->atomic_raddr, dst_offset_bytes, add,
                                        result));
    dst->ctx->counters.atomics++;
    return 0;
}

int sfab_compare_swap(sfab_rmem *dst, uint64_t dst_offset_bytes, uint64_t expected,
                      uint64_t desired, uint64_t *result)
{
    int rc = check_word(dst, "compare_swap", SFAB_REMOTE_ATOMIC, dst_offset_bytes);

    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    POST(dst->ctx, dst->atomic_ep, "sfab_compare_swap",
         dst->atomic_ep->ops->compare_swap(dst->atomic_ep, &dst->atomic_raddr, dst_offset_bytes,
                                           expected, desired, result));
    dst->ctx->counters.atomics++;
    return 0;
}
