/* internal.h - what the files of the verbs transport share. Nobody else includes it.
 *
 * Threads. The owner thread runs everything but what is listed here. The control thread runs
 * sfab_vb_control and may make endpoints; with SFAB_VERBS_CM=rdmacm one more thread runs the events
 * of rdma_cm. What they share of an endpoint is guarded by its `lock` and becomes the owner's with
 * state READY (pair TP-STATE): before READY the owner touches nothing but `lock` and `state`, after
 * it the others touch nothing of the hot part.
 *
 * Completions. All queue pairs share one completion queue. A work request's wr_id is the peer's
 * rank and the request's sequence number on that endpoint; RC completes in order, so one completion
 * retires everything up to its number. All but one in `signal_every` requests are unsignalled. In
 * an error every request makes a completion, so what is outstanding, not what is signalled, is held
 * below the queue's capacity. */
#ifndef SFAB_VERBS_INTERNAL_H
#define SFAB_VERBS_INTERNAL_H

#include "fabric/config.h"
#include "fabric/cpu.h"
#include "fabric/transport.h"
#include "verbs/message.h"

#include <infiniband/verbs.h>
#include <net/if.h>
#include <pthread.h>

#define SFAB_VB_SIGNAL_EVERY 64u /* at most so many requests from one signalled to the next */
#define SFAB_VB_ATOMICS      64u /* atomics under way per endpoint; not below SFAB_VB_SIGNAL_EVERY */
#define SFAB_VB_STAGE_BYTES                                                                        \
    128u /* puts without registered memory, where the device inlines less                          \
          */
#define SFAB_VB_POLL_BATCH    32
#define SFAB_VB_POLLS_TO_LOOK 8192u /* between looks at the events of the device itself */
#define SFAB_VB_RD_ATOMIC     16u   /* reads and atomics in flight per queue pair, at most */
#define SFAB_VB_MIN_RNR_TIMER 12    /* 0.64 ms; 0 would mean 655 ms */
#define SFAB_VB_NAME_BYTES    96    /* "rank 3 (hostB)" */

/* ---- the device, as chosen (device.c, gid.c) ------------------------------------------------ */

struct sfab_vb_port {
    char device[IBV_SYSFS_NAME_MAX];
    char netdev[IF_NAMESIZE]; /* "" on InfiniBand */
    uint8_t port;
    uint8_t link_layer; /* IBV_LINK_LAYER_ */
    uint16_t lid;
    uint8_t gid_index;
    uint32_t gid_type; /* enum ibv_gid_type */
    union ibv_gid gid;
    enum ibv_mtu mtu;
    uint32_t max_msg_bytes;
    uint64_t rate_mbps;
    uint64_t node_guid;
    bool software; /* packets are made by host CPUs (rxe, siw) */
    struct ibv_device_attr attr;
};

/* One port found on this machine. ctx is NULL where the device could not be opened. refusal->code
 * is 0 where it can be used, and then *port is filled in. */
typedef void (*sfab_vb_port_visit)(struct ibv_context *ctx, const char *device,
                                   unsigned port_number, const struct sfab_vb_port *port,
                                   const struct sfab_err *refusal, void *arg);

/* Visits every port that the configuration allows. 0, or why there is nothing to visit. */
int sfab_vb_each_port(const struct sfab_config *config, sfab_vb_port_visit visit, void *arg,
                      struct sfab_err *err);
/* Opens the device that the configuration names or that looks best. */
int sfab_vb_choose(const struct sfab_config *config, struct sfab_vb_port *out,
                   struct ibv_context **ctx, struct sfab_err *err);
unsigned sfab_vb_mtu_bytes(enum ibv_mtu mtu);

/* Fills in the GID part of *port (device, port and link_layer are set). */
int sfab_vb_gid_choose(struct ibv_context *ctx, const struct sfab_config *config,
                       struct sfab_vb_port *port, struct sfab_err *err);
/* "0 (fe80::1, RoCE v2, eth0), ..." of one port, into buf; returns buf. */
const char *sfab_vb_gid_list(struct ibv_context *ctx, unsigned port, char *buf, size_t cap);
const char *sfab_vb_gid_text(const union ibv_gid *gid, char *buf, size_t cap);
const char *sfab_vb_gid_type_text(uint32_t gid_type);
bool sfab_vb_gid_is_v4(const union ibv_gid *gid);
bool sfab_vb_gid_is_loopback(const union ibv_gid *gid);

/* ---- locked memory (limits.c) --------------------------------------------------------------- */

/* What this process may lock: bytes, UINT64_MAX for no limit. */
uint64_t sfab_vb_memlock_limit(void);
/* What is registered with devices now. */
uint64_t sfab_vb_memlock_used(void);
/* -ENOMEM with the whole sentence where `more_bytes` on top of that will not go. */
int sfab_vb_memlock_check(uint64_t more_bytes, const char *what, struct sfab_err *err);

/* ---- objects -------------------------------------------------------------------------------- */

struct sfab_vb_mem {
    struct sfab_tp_mem base;
    struct ibv_mr *mr;
    uint32_t lkey;
};

/* Registered memory of one endpoint that the device reads from and writes to. */
struct sfab_vb_rings {
    uint64_t value[SFAB_VB_ATOMICS]; /* where the device puts the results of atomics */
    struct {
        uint64_t *result; /* where the caller wants it */
        uint32_t seq;
    } atomic[SFAB_VB_ATOMICS];
    uint8_t stage[]; /* SFAB_VB_STAGE_BYTES for each request of the send queue, or none */
};

/* A put or get of more pieces than the send queue takes at once, on its way. */
struct sfab_vb_partial {
    uint64_t remote, local, len_bytes, done_bytes;
    uint32_t posted; /* ep->posted when it was left: nothing else was posted since */
    uint32_t opcode;
};

struct sfab_vb_cm_ep;

struct sfab_vb_ep {
    struct sfab_ep base;

    /* hot: the owner's once READY */
    struct ibv_qp *qp;
    struct sfab_vb_rings *rings;
    uint32_t rings_lkey;
    uint32_t posted;    /* sequence number of the last request posted */
    uint32_t retired;   /* everything up to this one is complete */
    uint32_t signalled; /* the last one posted that makes a completion */
    uint32_t atomics_posted, atomics_retired;

    /* cold */
    struct sfab_vb_partial partial;
    struct sfab_vb_address address; /* of the peer */
    bool address_good;
    pthread_mutex_t lock; /* guards what follows, and all of this before READY */
    struct ibv_mr *rings_mr;
    size_t rings_bytes;
    uint32_t psn;
    bool sent_conn, got_conn, rts, peer_ready;
    struct sfab_vb_cm_ep *cm; /* with rdma_cm only */
};

struct sfab_vb_cm;

struct sfab_vb_tp {
    struct sfab_tp base;

    /* hot: the owner's */
    struct ibv_cq *cq;
    /* By rank; NULL where none. Endpoints are made on the control thread too: pair EPS. */
    struct sfab_vb_ep *_Atomic *eps;
    uint32_t outstanding; /* requests of all endpoints whose completion is still open */
    uint32_t cq_room;     /* how many there may be */
    uint32_t sq_depth;    /* a power of two */
    uint32_t signal_every;
    uint32_t inline_bytes;  /* what a queue pair really inlines */
    uint32_t polls_to_look; /* until the next look at the device's own events */
    uint32_t max_msg_bytes;
    bool staged;     /* endpoints have a staging ring */
    bool complained; /* of a message that made no sense: control thread */

    _Atomic uint64_t qps;

    /* cold */
    struct sfab_tp_env env;
    struct sfab_vb_port port;
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    int wake_fd;
    uint32_t inline_ask; /* what queue pairs are asked to inline */
    bool atomics;        /* the device has them */
    uint64_t nonce;      /* new in every open; goes to the peers in address() */
    uint64_t boot_id;    /* of this running kernel */
    struct sfab_vb_cm *cm;
};

static inline struct sfab_vb_tp *sfab_vb_tp_of(struct sfab_tp *tp)
{
    return (struct sfab_vb_tp *)tp;
}

static inline struct sfab_vb_ep *sfab_vb_ep_of(struct sfab_ep *ep)
{
    return (struct sfab_vb_ep *)ep;
}

static inline struct sfab_vb_tp *sfab_vb_owner(const struct sfab_vb_ep *ep)
{
    return (struct sfab_vb_tp *)ep->base.tp;
}

/* The endpoint of a rank, or NULL. */
static inline struct sfab_vb_ep *sfab_vb_ep_at(const struct sfab_vb_tp *tp, uint64_t peer)
{
    if (peer >= tp->env.size)
        return NULL;
    return atomic_load_explicit(&tp->eps[peer], memory_order_acquire); /* EPS */
}

static inline uint32_t sfab_vb_state(struct sfab_vb_ep *ep)
{
    return atomic_load_explicit(&ep->base.state, memory_order_acquire); /* TP-STATE */
}

/* ---- slots of the table, by file ------------------------------------------------------------ */

void sfab_vb_probe(const struct sfab_config *config, sfab_probe_visit visit, void *arg);

int sfab_vb_open(const struct sfab_tp_env *env, struct sfab_tp **out, struct sfab_err *err);
void sfab_vb_close(struct sfab_tp *base);

int sfab_vb_reg(struct sfab_tp *base, const struct sfab_seg *seg, unsigned access,
                struct sfab_tp_mem **out, struct sfab_err *err);
void sfab_vb_dereg(struct sfab_tp *base, struct sfab_tp_mem *mem);
size_t sfab_vb_pack_key(struct sfab_tp *base, const struct sfab_tp_mem *mem, uint8_t *key);
int sfab_vb_unpack_key(struct sfab_ep *base, const uint8_t *key, size_t len, struct sfab_raddr *out,
                       struct sfab_err *err);

size_t sfab_vb_address(struct sfab_tp *base, uint8_t *addr);
int sfab_vb_reachable(struct sfab_tp *base, const uint8_t *addr, size_t len, struct sfab_err *err);

int sfab_vb_ep_create(struct sfab_tp *base, uint32_t peer, const uint8_t *addr, size_t len,
                      struct sfab_ep **out);
void sfab_vb_ep_destroy(struct sfab_ep *base);
int sfab_vb_connect(struct sfab_ep *base);
void sfab_vb_control(struct sfab_tp *base, struct sfab_ep *ep, const uint8_t *data, size_t len);

int sfab_vb_put(struct sfab_ep *base, const struct sfab_raddr *to, uint64_t offset,
                const struct sfab_tp_mem *mem, const void *src, size_t len);
int sfab_vb_get(struct sfab_ep *base, const struct sfab_raddr *from, uint64_t offset,
                const struct sfab_tp_mem *mem, void *dst, size_t len);
int sfab_vb_put_u64(struct sfab_ep *base, const struct sfab_raddr *to, uint64_t offset,
                    uint64_t value);
int sfab_vb_put_signal(struct sfab_ep *base, const struct sfab_raddr *to, uint64_t offset,
                       const struct sfab_tp_mem *mem, const void *src, size_t len,
                       const struct sfab_raddr *signal_to, uint64_t signal_offset, uint64_t value);
int sfab_vb_fetch_add(struct sfab_ep *base, const struct sfab_raddr *to, uint64_t offset,
                      uint64_t add, uint64_t *result);
int sfab_vb_compare_swap(struct sfab_ep *base, const struct sfab_raddr *to, uint64_t offset,
                         uint64_t expected, uint64_t desired, uint64_t *result);
int sfab_vb_flush(struct sfab_ep *base);
int sfab_vb_poll(struct sfab_tp *base);

int sfab_vb_prepare_wait(struct sfab_tp *base);
int sfab_vb_wait(struct sfab_tp *base, uint64_t timeout_ns);

/* ---- queue pairs (qp.c) --------------------------------------------------------------------- */

/* Finds out what queue pairs get here: sets sq_depth, inline_ask and inline_bytes. */
int sfab_vb_qp_measure(struct sfab_vb_tp *tp, struct sfab_err *err);
/* Makes the endpoint's queue pair (in RESET) and its rings. Lock held. */
int sfab_vb_equip(struct sfab_vb_ep *ep, struct sfab_err *err);
/* Gives back what equip made; the opposite of it in any state. */
void sfab_vb_strip(struct sfab_vb_ep *ep);
int sfab_vb_qp_init(struct sfab_vb_ep *ep, struct sfab_err *err);
int sfab_vb_qp_rtr(struct sfab_vb_ep *ep, const struct sfab_vb_conn *peer, struct sfab_err *err);
int sfab_vb_qp_rts(struct sfab_vb_ep *ep, uint8_t peer_rd_atomic, struct sfab_err *err);
/* The attributes that both connection managers set alike. */
void sfab_vb_qp_timers(const struct sfab_vb_tp *tp, struct ibv_qp_attr *attr);
unsigned sfab_vb_qp_access(const struct sfab_vb_tp *tp);
uint8_t sfab_vb_rd_atomic_in(const struct sfab_vb_tp *tp);
uint8_t sfab_vb_rd_atomic_out(const struct sfab_vb_tp *tp, uint8_t peer_in);

/* ---- endpoints (endpoint.c) ----------------------------------------------------------------- */

/* Ends the endpoint with a sentence, unless it has failed before. Any thread; takes the lock. */
int sfab_vb_ep_fail(struct sfab_vb_ep *ep, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, lock held; `why` is copied. */
void sfab_vb_ep_fail_locked(struct sfab_vb_ep *ep, const struct sfab_err *why);
/* Lock held: READY if both sides are. Returns whether it became so. */
bool sfab_vb_ep_maybe_ready(struct sfab_vb_ep *ep);
const char *sfab_vb_peer(const struct sfab_vb_ep *ep, char buf[SFAB_VB_NAME_BYTES]);
/* Lets the owner know that an endpoint's state has changed. Any thread. */
void sfab_vb_wake(struct sfab_vb_tp *tp);

/* Sends one wire-up message; the endpoint fails if that fails. Lock not held. (wireup.c) */
void sfab_vb_send_message(struct sfab_vb_ep *ep, const struct sfab_vb_message *message);
/* Tells the peer that connecting has failed here, so that it does not wait. Lock not held. */
void sfab_vb_refuse(struct sfab_vb_ep *ep, const struct sfab_err *why);

/* ---- rdma_cm (rdmacm.c, rdmacm_ep.c) -------------------------------------------------------- */

int sfab_vb_cm_open(struct sfab_vb_tp *tp, struct sfab_err *err);
void sfab_vb_cm_close(struct sfab_vb_tp *tp);
/* Writes the listening address into *address. */
void sfab_vb_cm_address(const struct sfab_vb_tp *tp, struct sfab_vb_address *address);
int sfab_vb_cm_ep_init(struct sfab_vb_ep *ep);
void sfab_vb_cm_ep_end(struct sfab_vb_ep *ep);
/* Starts connecting, on first use or because the peer has asked. Lock not held. */
void sfab_vb_cm_start(struct sfab_vb_ep *ep, bool asked);
/* Ends an attempt that has taken too long. */
void sfab_vb_cm_look(struct sfab_vb_ep *ep);

/* ---- completions and events (poll.c, async.c) ----------------------------------------------- */

/* Ends what a completion of an endpoint says has failed. */
void sfab_vb_fail_completion(struct sfab_vb_ep *ep, const struct ibv_wc *wc);
/* Reads the device's own events. 0 or the code of a device that is lost. */
int sfab_vb_look_at_device(struct sfab_vb_tp *tp);

#endif
