/* hot.h - declarations of the shm transport's hot operations, for its table. */
#ifndef SFAB_FABRIC_SHM_HOT_H
#define SFAB_FABRIC_SHM_HOT_H

#include "fabric/shm/internal.h"

int sfab_shm_connect(struct sfab_ep *ep);

int sfab_shm_put(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                 const struct sfab_tp_mem *mem, const void *src, size_t len);
int sfab_shm_get(struct sfab_ep *ep, const struct sfab_raddr *from, uint64_t offset,
                 const struct sfab_tp_mem *mem, void *dst, size_t len);
int sfab_shm_put_u64(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                     uint64_t value);
int sfab_shm_put_signal(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                        const struct sfab_tp_mem *mem, const void *src, size_t len,
                        const struct sfab_raddr *signal_to, uint64_t signal_offset, uint64_t value);
int sfab_shm_fetch_add(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                       uint64_t add, uint64_t *result);
int sfab_shm_compare_swap(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                          uint64_t expected, uint64_t desired, uint64_t *result);
int sfab_shm_flush(struct sfab_ep *ep);

#endif
