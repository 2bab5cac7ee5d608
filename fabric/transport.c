/* transport.c - the default entries of a transport's table: what it answers for what it has not.
 *
 * Capability slots say -EOPNOTSUPP; slots that only give a transport the chance to do something say
 * "nothing to do". */
#include "fabric/transport.h"

#include <errno.h>

void sfab_tp_no_probe(const struct sfab_config *config, sfab_probe_visit visit, void *arg)
{
    (void)config, (void)visit, (void)arg;
}

int sfab_tp_no_open(const struct sfab_tp_env *env, struct sfab_tp **out, struct sfab_err *err)
{
    (void)env, (void)out;
    return sfab_fail(err, -ENODEV, "this transport cannot be opened");
}

void sfab_tp_no_close(struct sfab_tp *tp)
{
    (void)tp;
}

int sfab_tp_no_reg(struct sfab_tp *tp, const struct sfab_seg *seg, unsigned access,
                   struct sfab_tp_mem **out, struct sfab_err *err)
{
    (void)seg, (void)access, (void)out;
    return sfab_fail(err, -EOPNOTSUPP, "transport %s registers no memory", tp->ops->name);
}

void sfab_tp_no_dereg(struct sfab_tp *tp, struct sfab_tp_mem *mem)
{
    (void)tp, (void)mem;
}

size_t sfab_tp_no_pack_key(struct sfab_tp *tp, const struct sfab_tp_mem *mem, uint8_t *key)
{
    (void)tp, (void)mem, (void)key;
    return 0;
}

size_t sfab_tp_no_address(struct sfab_tp *tp, uint8_t *addr)
{
    (void)tp, (void)addr;
    return 0;
}

int sfab_tp_no_reachable(struct sfab_tp *tp, const uint8_t *addr, size_t len, struct sfab_err *err)
{
    (void)addr, (void)len;
    return sfab_fail(err, -EHOSTUNREACH, "transport %s reaches nobody", tp->ops->name);
}

int sfab_tp_no_ep_create(struct sfab_tp *tp, uint32_t peer, const uint8_t *addr, size_t len,
                         struct sfab_ep **out)
{
    (void)tp, (void)peer, (void)addr, (void)len, (void)out;
    return -EOPNOTSUPP;
}

void sfab_tp_no_ep_destroy(struct sfab_ep *ep)
{
    (void)ep;
}

int sfab_tp_no_connect(struct sfab_ep *ep)
{
    (void)ep;
    return -EOPNOTSUPP;
}

int sfab_tp_no_unpack_key(struct sfab_ep *ep, const uint8_t *key, size_t len,
                          struct sfab_raddr *out, struct sfab_err *err)
{
    (void)key, (void)len, (void)out;
    return sfab_fail(err, -EOPNOTSUPP, "transport %s knows no keys", ep->ops->name);
}

void sfab_tp_no_release_key(struct sfab_ep *ep, struct sfab_raddr *raddr)
{
    (void)ep, (void)raddr;
}

void *sfab_tp_no_map(struct sfab_ep *ep, const struct sfab_raddr *raddr, uint64_t offset,
                     size_t len)
{
    (void)ep, (void)raddr, (void)offset, (void)len;
    return NULL;
}

void sfab_tp_no_control(struct sfab_tp *tp, struct sfab_ep *ep, const uint8_t *data, size_t len)
{
    (void)tp, (void)ep, (void)data, (void)len;
}

int sfab_tp_no_put(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                   const struct sfab_tp_mem *mem, const void *src, size_t len)
{
    (void)ep, (void)to, (void)offset, (void)mem, (void)src, (void)len;
    return -EOPNOTSUPP;
}

int sfab_tp_no_get(struct sfab_ep *ep, const struct sfab_raddr *from, uint64_t offset,
                   const struct sfab_tp_mem *mem, void *dst, size_t len)
{
    (void)ep, (void)from, (void)offset, (void)mem, (void)dst, (void)len;
    return -EOPNOTSUPP;
}

int sfab_tp_no_put_u64(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                       uint64_t value)
{
    (void)ep, (void)to, (void)offset, (void)value;
    return -EOPNOTSUPP;
}

int sfab_tp_no_put_signal(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                          const struct sfab_tp_mem *mem, const void *src, size_t len,
                          const struct sfab_raddr *signal_to, uint64_t signal_offset,
                          uint64_t value)
{
    (void)ep, (void)to, (void)offset, (void)mem, (void)src, (void)len;
    (void)signal_to, (void)signal_offset, (void)value;
    return -EOPNOTSUPP;
}

int sfab_tp_no_fetch_add(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                         uint64_t add, uint64_t *result)
{
    (void)ep, (void)to, (void)offset, (void)add, (void)result;
    return -EOPNOTSUPP;
}

int sfab_tp_no_compare_swap(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                            uint64_t expected, uint64_t desired, uint64_t *result)
{
    (void)ep, (void)to, (void)offset, (void)expected, (void)desired, (void)result;
    return -EOPNOTSUPP;
}

int sfab_tp_no_flush(struct sfab_ep *ep)
{
    (void)ep;
    return 0;
}

int sfab_tp_no_poll(struct sfab_tp *tp)
{
    (void)tp;
    return 0;
}

int sfab_tp_no_prepare_wait(struct sfab_tp *tp)
{
    (void)tp;
    return 0;
}

int sfab_tp_no_wait(struct sfab_tp *tp, uint64_t timeout_ns)
{
    (void)tp, (void)timeout_ns;
    return -EOPNOTSUPP;
}

void sfab_tp_no_unprepare_wait(struct sfab_tp *tp)
{
    (void)tp;
}

void sfab_tp_no_notify(struct sfab_ep *ep)
{
    (void)ep;
}
