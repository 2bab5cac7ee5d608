/* hot.c - the shm transport's data operations: loads, stores and CPU atomics on mapped memory.
 *
 * Each ends by looking whether the peer sleeps. A put to memory that is not shared goes through the
 * kernel (copy.c); the words of such memory are no targets, which the core has checked. */
#include "fabric/shm/hot.h"

#include <errno.h>
#include <string.h>

/* The first use of an endpoint maps the peer's arena; on shared memory that is done at once. */
static inline int ready(struct sfab_ep *ep)
{
    /* TP-STATE: the owner thread set it itself. */
    if (SFAB_LIKELY(atomic_load_explicit(&ep->state, memory_order_relaxed) == SFAB_EP_READY))
        return 0;
    return sfab_shm_connect(ep);
}

static inline struct sfab_shm_ep *shm_ep(struct sfab_ep *ep)
{
    return (struct sfab_shm_ep *)ep;
}

static inline void *byte_at(const struct sfab_raddr *raddr, uint64_t offset)
{
    return (void *)(uintptr_t)(raddr->base + offset);
}

static inline _Atomic uint64_t *word_at(const struct sfab_raddr *raddr, uint64_t offset)
{
    return byte_at(raddr, offset);
}

__attribute__((noinline)) static int foreign_failed(struct sfab_ep *ep, int code, const char *what)
{
    char name[96];
    const struct sfab_tp_env *env = ((struct sfab_shm *)ep->tp)->env;

    code = code == -ESRCH ? SFAB_ERR_PEER_DEAD : code;
    sfab_fail(&ep->err, code, "%s registered memory of %s failed: %s", what,
              env->peer_name(env->arg, ep->peer, name, sizeof name),
              code == SFAB_ERR_PEER_DEAD ? "its process has ended"
                                         : "it is no longer mapped, or the kernel forbids it");
    atomic_store_explicit(&ep->state, SFAB_EP_FAILED, memory_order_release);
    return code;
}

static int move_out(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                    const void *src, size_t len)
{
    if (SFAB_LIKELY(to->key == SFAB_SHM_MAPPED)) {
        memcpy(byte_at(to, offset), src, len);
        return 0;
    }
    int rc = sfab_shm_copy_out(shm_ep(ep)->pid, to->base + offset, src, len);
    return rc == 0 ? 0 : foreign_failed(ep, rc, "writing to");
}

/* Aligned words are read one by one and each whole: they may be epoch words that their owner is just
 * advancing. Acquire (WORD-ACQ): what the owner released before is visible after. */
enum { WORDWISE_BYTES = 256 };

static void read_words(uint64_t *dst, const _Atomic uint64_t *from, size_t words)
{
    for (size_t i = 0; i < words; i++)
        dst[i] = atomic_load_explicit(&from[i], memory_order_acquire);
}

int sfab_shm_put(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                 const struct sfab_tp_mem *mem, const void *src, size_t len)
{
    int rc = ready(ep);

    (void)mem;
    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    rc = move_out(ep, to, offset, src, len);
    sfab_doorbell_ring(shm_ep(ep)->bell);
    return rc;
}

int sfab_shm_get(struct sfab_ep *ep, const struct sfab_raddr *from, uint64_t offset,
                 const struct sfab_tp_mem *mem, void *dst, size_t len)
{
    int rc = ready(ep);

    (void)mem;
    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    if (SFAB_LIKELY(from->key == SFAB_SHM_MAPPED)) {
        if (len <= WORDWISE_BYTES && ((from->base + offset) | (uintptr_t)dst | len) % 8 == 0)
            read_words(dst, word_at(from, offset), len / 8);
        else
            memcpy(dst, byte_at(from, offset), len);
        return 0;
    }
    rc = sfab_shm_copy_in(shm_ep(ep)->pid, from->base + offset, dst, len);
    return rc == 0 ? 0 : foreign_failed(ep, rc, "reading from");
}

int sfab_shm_put_u64(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                     uint64_t value)
{
    int rc = ready(ep);

    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    /* WORD-REL: pairs with the acquire load of whoever waits for this word (WORD-ACQ). */
    atomic_store_explicit(word_at(to, offset), value, memory_order_release);
    sfab_doorbell_ring(shm_ep(ep)->bell);
    return 0;
}

int sfab_shm_put_signal(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                        const struct sfab_tp_mem *mem, const void *src, size_t len,
                        const struct sfab_raddr *signal_to, uint64_t signal_offset, uint64_t value)
{
    int rc = ready(ep);

    (void)mem;
    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    if (len > 0)
        rc = move_out(ep, to, offset, src, len);
    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    /* WORD-REL */
    atomic_store_explicit(word_at(signal_to, signal_offset), value, memory_order_release);
    sfab_doorbell_ring(shm_ep(ep)->bell);
    return 0;
}

int sfab_shm_fetch_add(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                       uint64_t add, uint64_t *result)
{
    int rc = ready(ep);

    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    /* Acquire and release: an atomic may be used as a lock or a ticket. */
    uint64_t before = atomic_fetch_add_explicit(word_at(to, offset), add, memory_order_acq_rel);
    if (result != NULL)
        *result = before;
    sfab_doorbell_ring(shm_ep(ep)->bell);
    return 0;
}

int sfab_shm_compare_swap(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                          uint64_t expected, uint64_t desired, uint64_t *result)
{
    int rc = ready(ep);

    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    atomic_compare_exchange_strong_explicit(word_at(to, offset), &expected, desired,
                                            memory_order_acq_rel, memory_order_acquire);
    if (result != NULL)
        *result = expected;
    sfab_doorbell_ring(shm_ep(ep)->bell);
    return 0;
}

int sfab_shm_flush(struct sfab_ep *ep)
{
    if (atomic_load_explicit(&ep->state, memory_order_relaxed) == SFAB_EP_FAILED)
        return ep->err.code;
    /* Stores are done when they are made; this orders them before whatever comes next. */
    atomic_thread_fence(memory_order_seq_cst);
    return 0;
}
