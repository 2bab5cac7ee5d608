/* transport.h - THE SEAM: what a transport must offer, and nothing else.
 *
 * A transport moves bytes between this rank and its peers without the peers' CPUs (as far as the
 * hardware allows). It is one const table of operations. Everything above (the core, collectives)
 * states intent through this table; how the intent is met is the transport's affair, from its own
 * capabilities. A transport fills the slots it has and starts from sfab_tp_defaults for the others, so
 * that no caller ever checks for NULL. tests/conformance is the executable form of this contract.
 *
 * Objects
 *  - sfab_tp   one open transport in one context
 *  - sfab_ep   the path to one peer; the transport's own struct begins with it
 *  - sfab_seg  local memory, as the core made it; sfab_tp_mem: its registration with one transport
 *  - sfab_raddr one peer's memory as one endpoint reaches it; plain values, copied freely
 *
 * Three answers are three different things
 *  - 0: done, or posted; -EAGAIN: nothing happened, progress and call again (full, or connecting);
 *  - any other negative code: fatal, for the peer (from an endpoint's operation) or for the
 *    transport (from poll and wait). The sentence is in ep->err or tp->err, written once.
 *
 * Threads: "owner" below is the context's thread. "Control" is the context's control thread, which
 * only ever calls control(); a transport protects what the two share.
 */
#ifndef SFAB_FABRIC_TRANSPORT_H
#define SFAB_FABRIC_TRANSPORT_H

#include "fabric/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sfab_tp;
struct sfab_ep;
struct sfab_tp_mem;
struct sfab_config;
struct sfab_arena_head;

/* ---- capabilities ------------------------------------------------------------------------ */

enum sfab_cap {
    SFAB_CAP_WAW_ORDERED = 1 << 0,      /* two puts to a peer land in the order of their calls */
    SFAB_CAP_BUSY_READABLE = 1 << 1,    /* a peer that computes is read and written all the same */
    SFAB_CAP_ATOMICS_COHERENT = 1 << 2, /* its atomics are atomic against CPU atomics as well */
    SFAB_CAP_MAP = 1 << 3,            /* map() gives pointers: peers' memory can be loaded/stored */
    SFAB_CAP_WAKES_ON_WRITE = 1 << 4, /* a peer's put ends this rank's wait() */
    SFAB_CAP_HOST_DRIVEN = 1 << 5,    /* data moves on host CPUs: spinning ranks slow it down */
};

struct sfab_caps {
    unsigned flags;      /* of enum sfab_cap */
    size_t inline_bytes; /* puts up to this length may come from unregistered memory (mem NULL) */
};

/* ---- memory ------------------------------------------------------------------------------ */

enum sfab_seg_kind {
    SFAB_SEG_SHARED, /* a memfd mapping made by the core: peers of the host can map it by fd */
    SFAB_SEG_FOREIGN /* the user's own memory: fd is -1 */
};

struct sfab_seg {
    enum sfab_seg_kind kind;
    void *addr;
    size_t len_bytes;
    int fd;
    uint64_t inode; /* of the memfd: tells a reused descriptor number from the right one */
};

/* A registration; the transport's own struct begins with it. */
struct sfab_tp_mem {
    const struct sfab_seg *seg;
};

/* A peer's memory as reached through one endpoint. base and key mean what the transport likes; base
 * + offset is the address of a byte. */
struct sfab_raddr {
    uint64_t base;
    uint64_t key;
    uint64_t len_bytes;
};

/* ---- endpoints --------------------------------------------------------------------------- */

enum sfab_ep_state {
    SFAB_EP_IDLE,       /* never used */
    SFAB_EP_CONNECTING, /* connect() was called, or the peer asked first */
    SFAB_EP_READY,      /* operations can be posted */
    SFAB_EP_FAILED      /* fatal: ep->err says why; every operation returns its code */
};

struct sfab_ep {
    const struct sfab_tp_ops *ops; /* these three are set by the core after ep_create */
    struct sfab_tp *tp;
    uint32_t peer;          /* its rank */
    _Atomic uint32_t state; /* enum sfab_ep_state; READY and FAILED are stored with release, after
                                what they announce: pair TP-STATE */
    struct sfab_err err;    /* set before FAILED; code -ENETDOWN: by this side's own device */
};

/* ---- a transport ------------------------------------------------------------------------- */

/* What the core gives a transport at open; pointers stay valid until close. */
struct sfab_tp_env {
    uint32_t rank, size;
    const char *host; /* for sentences */
    const struct sfab_config *config;
    const struct sfab_seg *arena; /* this rank's sync memory; begins with a sfab_arena_head */
    /* Sends one wire-up message to the peer's transport of the same name: arrives at its control().
     * Any thread. 0 or negative. len up to SFAB_TP_CONTROL_MAX. */
    int (*send_control)(void *arg, uint32_t peer, const void *data, size_t len);
    /* To be called whenever an endpoint has become READY or FAILED, on any thread: whoever waits looks
     * at it then, and a sleeping owner wakes. */
    void (*wake_owner)(void *arg);
    /* "rank 3 (hostB)" for sentences, into buf; returns buf. */
    const char *(*peer_name)(void *arg, uint32_t peer, char *buf, size_t cap);
    void *arg;
};
#define SFAB_TP_CONTROL_MAX 256
#define SFAB_TP_ADDRESS_MAX 128
#define SFAB_TP_KEY_MAX     64

struct sfab_tp {
    const struct sfab_tp_ops *ops; /* set by the core after open */
    struct sfab_caps caps;
    struct sfab_err err;
    uint64_t connections_now; /* network connections open: for the counters */
    char describe[256];       /* "verbs: mlx5_0 port 1, GID 3 (::ffff:10.0.0.1, RoCE v2) ..." */
};

struct sfab_tp_ops {
    const char *name; /* as in SFAB_TRANSPORT; also tags keys and addresses */

    /* -- cold: owner thread, may block briefly, may allocate ------------------------------- */

    /* Tells visit() about every device and whether it would be used. Without a context. */
    void (*probe)(const struct sfab_config *config, sfab_probe_visit visit, void *arg);

    /* Opens with the device that the configuration names or that looks best. -ENODEV: nothing usable
     * (sentence in *err); any other negative code: usable but failed. */
    int (*open)(const struct sfab_tp_env *env, struct sfab_tp **out, struct sfab_err *err);

    /* Ends everything; endpoints and registrations were released before. No peer uses them now. */
    void (*close)(struct sfab_tp *tp);

    /* Registers seg for the access rights given (SFAB_REMOTE_*; 0: local use only), never more. */
    int (*reg)(struct sfab_tp *tp, const struct sfab_seg *seg, unsigned access,
               struct sfab_tp_mem **out, struct sfab_err *err);
    void (*dereg)(struct sfab_tp *tp, struct sfab_tp_mem *mem);

    /* Writes the bytes by which peers reach mem (at most SFAB_TP_KEY_MAX): returns their number. */
    size_t (*pack_key)(struct sfab_tp *tp, const struct sfab_tp_mem *mem, uint8_t *key);

    /* Writes the bytes that peers need to connect (at most SFAB_TP_ADDRESS_MAX): their number. */
    size_t (*address)(struct sfab_tp *tp, uint8_t *addr);

    /* Whether this rank can reach a peer with that address: 0, or a code with the reason in *err.
     * No network traffic. */
    int (*reachable)(struct sfab_tp *tp, const uint8_t *addr, size_t len, struct sfab_err *err);

    /* Makes the endpoint object: no connection, no traffic, a few hundred bytes at most. addr stays
     * valid as long as the context. */
    int (*ep_create)(struct sfab_tp *tp, uint32_t peer, const uint8_t *addr, size_t len,
                     struct sfab_ep **out);
    void (*ep_destroy)(struct sfab_ep *ep);

    /* Starts connecting, or looks how far it is: 0 READY, -EAGAIN not yet, else failed. Needs no
     * action of the peer's owner thread, and ends in some seconds, READY or failed. Operations on
     * an endpoint that is not READY call it themselves and return -EAGAIN; so connections are made
     * on first use. */
    int (*connect)(struct sfab_ep *ep);

    /* Gives the peer's key a meaning here; release_key undoes it (unmaps). The bytes come from
     * outside: check them. SFAB_ERR_STALE: no longer there. */
    int (*unpack_key)(struct sfab_ep *ep, const uint8_t *key, size_t len, struct sfab_raddr *out,
                      struct sfab_err *err);
    void (*release_key)(struct sfab_ep *ep, struct sfab_raddr *raddr);

    /* A pointer to [offset, +len) of the peer's memory for direct loads and stores, or NULL. Whoever
     * stores through it calls notify afterwards. */
    void *(*map)(struct sfab_ep *ep, const struct sfab_raddr *raddr, uint64_t offset, size_t len);

    /* A wire-up message from src. CONTROL THREAD. The bytes come from outside: check them. */
    void (*control)(struct sfab_tp *tp, struct sfab_ep *ep, const uint8_t *data, size_t len);

    /* -- hot: owner thread, never block, never allocate ------------------------------------ */
    /* Bounds and access were checked by the core. mem is the registration of the local buffer; it may
     * be NULL when len <= caps.inline_bytes, the bytes are then taken at the call. */

    /* Without order against other puts unless CAP_WAW_ORDERED. The source is free after a flush. */
    int (*put)(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
               const struct sfab_tp_mem *mem, const void *src, size_t len);
    /* The data is there after a flush. */
    int (*get)(struct sfab_ep *ep, const struct sfab_raddr *from, uint64_t offset,
               const struct sfab_tp_mem *mem, void *dst, size_t len);
    /* One aligned word, seen whole. Release: on CAP_WAW_ORDERED transports whoever sees it sees the
     * earlier puts to that peer; the others meet that in put_signal only. */
    int (*put_u64)(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                   uint64_t value);
    /* Data, then the word; the word becomes visible after the data and after all earlier puts from
     * here to that peer, whatever the network does. All or nothing: -EAGAIN means neither went. */
    int (*put_signal)(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                      const struct sfab_tp_mem *mem, const void *src, size_t len,
                      const struct sfab_raddr *signal_to, uint64_t signal_offset, uint64_t value);
    /* *result (may be NULL) is written here at the latest when a flush has returned 0. */
    int (*fetch_add)(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset, uint64_t add,
                     uint64_t *result);
    int (*compare_swap)(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                        uint64_t expected, uint64_t desired, uint64_t *result);
    /* 0: everything posted on ep so far is complete here and visible at the peer. -EAGAIN: not yet
     * (what is needed to find out has been set going): progress and call again. */
    int (*flush)(struct sfab_ep *ep);

    /* Looks for completions, checks the status of every one. Number handled, or a fatal code of the
     * whole transport. A peer's failure is set on its endpoint and is not returned here. */
    int (*poll)(struct sfab_tp *tp);

    /* -- waiting: owner thread ---------------------------------------------------------------- */

    /* Gets ready to sleep: after it returns 0, anything that happens makes wait() return at once.
     * The caller then looks at its conditions a last time and calls wait() or unprepare().
     * -EAGAIN: something happened already. */
    int (*prepare_wait)(struct sfab_tp *tp);
    /* Sleeps until something may have happened or timeout_ns is over; spurious returns are fine. */
    int (*wait)(struct sfab_tp *tp, uint64_t timeout_ns);
    void (*unprepare_wait)(struct sfab_tp *tp);

    /* Wakes the peer if it sleeps in wait(); for stores made through map(). No-op elsewhere. */
    void (*notify)(struct sfab_ep *ep);
};

/* Entries that answer "this transport has no such thing" (-EOPNOTSUPP), find nothing to do, or do
 * nothing, as fits the slot. Written as designated initialisers first in a table:
 *     const struct sfab_tp_ops my_ops = { SFAB_TP_DEFAULTS, .name = "mine", .put = my_put, ... };
 * (-Woverride-init is off for that reason in transports' tables.) */
#define SFAB_TP_DEFAULTS                                                                           \
    .probe = sfab_tp_no_probe, .open = sfab_tp_no_open, .close = sfab_tp_no_close,                 \
    .reg = sfab_tp_no_reg, .dereg = sfab_tp_no_dereg, .pack_key = sfab_tp_no_pack_key,             \
    .address = sfab_tp_no_address, .reachable = sfab_tp_no_reachable,                              \
    .ep_create = sfab_tp_no_ep_create, .ep_destroy = sfab_tp_no_ep_destroy,                        \
    .connect = sfab_tp_no_connect, .unpack_key = sfab_tp_no_unpack_key,                            \
    .release_key = sfab_tp_no_release_key, .map = sfab_tp_no_map, .control = sfab_tp_no_control,   \
    .put = sfab_tp_no_put, .get = sfab_tp_no_get, .put_u64 = sfab_tp_no_put_u64,                   \
    .put_signal = sfab_tp_no_put_signal, .fetch_add = sfab_tp_no_fetch_add,                        \
    .compare_swap = sfab_tp_no_compare_swap, .flush = sfab_tp_no_flush, .poll = sfab_tp_no_poll,   \
    .prepare_wait = sfab_tp_no_prepare_wait, .wait = sfab_tp_no_wait,                              \
    .unprepare_wait = sfab_tp_no_unprepare_wait, .notify = sfab_tp_no_notify

void sfab_tp_no_probe(const struct sfab_config *config, sfab_probe_visit visit, void *arg);
int sfab_tp_no_open(const struct sfab_tp_env *env, struct sfab_tp **out, struct sfab_err *err);
void sfab_tp_no_close(struct sfab_tp *tp);
int sfab_tp_no_reg(struct sfab_tp *tp, const struct sfab_seg *seg, unsigned access,
                   struct sfab_tp_mem **out, struct sfab_err *err);
void sfab_tp_no_dereg(struct sfab_tp *tp, struct sfab_tp_mem *mem);
size_t sfab_tp_no_pack_key(struct sfab_tp *tp, const struct sfab_tp_mem *mem, uint8_t *key);
size_t sfab_tp_no_address(struct sfab_tp *tp, uint8_t *addr);
int sfab_tp_no_reachable(struct sfab_tp *tp, const uint8_t *addr, size_t len, struct sfab_err *err);
int sfab_tp_no_ep_create(struct sfab_tp *tp, uint32_t peer, const uint8_t *addr, size_t len,
                         struct sfab_ep **out);
void sfab_tp_no_ep_destroy(struct sfab_ep *ep);
int sfab_tp_no_connect(struct sfab_ep *ep);
int sfab_tp_no_unpack_key(struct sfab_ep *ep, const uint8_t *key, size_t len,
                          struct sfab_raddr *out, struct sfab_err *err);
void sfab_tp_no_release_key(struct sfab_ep *ep, struct sfab_raddr *raddr);
void *sfab_tp_no_map(struct sfab_ep *ep, const struct sfab_raddr *raddr, uint64_t offset,
                     size_t len);
void sfab_tp_no_control(struct sfab_tp *tp, struct sfab_ep *ep, const uint8_t *data, size_t len);
int sfab_tp_no_put(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                   const struct sfab_tp_mem *mem, const void *src, size_t len);
int sfab_tp_no_get(struct sfab_ep *ep, const struct sfab_raddr *from, uint64_t offset,
                   const struct sfab_tp_mem *mem, void *dst, size_t len);
int sfab_tp_no_put_u64(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                       uint64_t value);
int sfab_tp_no_put_signal(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                          const struct sfab_tp_mem *mem, const void *src, size_t len,
                          const struct sfab_raddr *signal_to, uint64_t signal_offset,
                          uint64_t value);
int sfab_tp_no_fetch_add(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                         uint64_t add, uint64_t *result);
int sfab_tp_no_compare_swap(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                            uint64_t expected, uint64_t desired, uint64_t *result);
int sfab_tp_no_flush(struct sfab_ep *ep);
int sfab_tp_no_poll(struct sfab_tp *tp);
int sfab_tp_no_prepare_wait(struct sfab_tp *tp);
int sfab_tp_no_wait(struct sfab_tp *tp, uint64_t timeout_ns);
void sfab_tp_no_unprepare_wait(struct sfab_tp *tp);
void sfab_tp_no_notify(struct sfab_ep *ep);

#endif
