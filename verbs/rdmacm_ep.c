/* rdmacm_ep.c - how one pair of ranks connects through rdma_cm.
 *
 * The lower rank is the active side, so that two who want each other at once do not make two
 * connections. It must not knock before the other has its endpoint, and a higher rank cannot begin;
 * so both say ASK through the bootstrap once, when they want to connect or in answer to the
 * other's, and the lower starts when it has the other's:
 *
 *   lower:  resolve address, resolve route, INIT, connect  ->  response: RTR, RTS, establish, READY
 *   higher: request: INIT, RTR, RTS, accept                ->  established: READY
 *
 * The request carries the nonces of both, which ranks know from each other's addresses, exchanged
 * over the authenticated bootstrap; one without them is a stranger's and is rejected. The queue
 * pair is our own, made on our own device context; rdma_cm gives the attributes for its states. */
#include "verbs/rdmacm.h"

#include "fabric/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RESOLVE_TIMEOUT_MS 5000

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int sfab_vb_cm_ep_init(struct sfab_vb_ep *ep)
{
    ep->cm = calloc(1, sizeof *ep->cm);
    return ep->cm != NULL ? 0 : -ENOMEM;
}

void sfab_vb_cm_ep_end(struct sfab_vb_ep *ep)
{
    struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    struct rdma_cm_id *id;

    pthread_mutex_lock(&tp->cm->lock);
    atomic_store_explicit(&tp->eps[ep->base.peer], NULL, memory_order_release);
    id = ep->cm->id;
    ep->cm->id = NULL;
    pthread_mutex_unlock(&tp->cm->lock);
    if (id != NULL)
        rdma_destroy_id(id); /* waits for an event of it that is being handled */
    free(ep->cm);
    ep->cm = NULL;
}

/* An id's context is the peer's rank plus one (the listener's is NULL), not a pointer: the endpoint
 * may be gone when an event of it is handled. */
static void *context_of(const struct sfab_vb_ep *ep)
{
    return (void *)((uintptr_t)ep->base.peer + 1);
}

static struct sfab_vb_ep *endpoint_of(const struct sfab_vb_tp *tp, const struct rdma_cm_id *id)
{
    return id->context == NULL ? NULL : sfab_vb_ep_at(tp, (uintptr_t)id->context - 1);
}

static int cm_fail(struct sfab_vb_ep *ep, int code, const char *seen, struct sfab_err *err)
{
    char name[SFAB_VB_NAME_BYTES], ip[64];
    union ibv_gid gid;

    memcpy(gid.raw, ep->address.cm_ip, sizeof gid.raw);
    return sfab_fail(err, code, "rdma_cm failed to connect to %s at %s port %u while %s: %s",
                     sfab_vb_peer(ep, name), sfab_vb_gid_text(&gid, ip, sizeof ip),
                     ep->address.cm_port, ep->cm->doing, seen);
}

static int cm_errno(struct sfab_vb_ep *ep, struct sfab_err *err)
{
    return cm_fail(ep, SFAB_ERR_PROVIDER, sfab_errno_text(errno), err);
}

/* ---- starting: owner or control thread ------------------------------------------------------ */

/* Lock held, lower rank. */
static int resolve(struct sfab_vb_ep *ep, struct sfab_err *err)
{
    struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    struct sockaddr_storage local = tp->cm->local, peer;
    uint32_t scope =
        local.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&local)->sin6_scope_id : 0;

    ep->cm->doing = "resolving its address";
    if (!ep->address_good)
        return cm_fail(ep, -EINVAL, "its address is malformed", err);
    sfab_vb_sockaddr(ep->address.cm_ip, ep->address.cm_port, scope, &peer);
    if (rdma_create_id(tp->cm->channel, &ep->cm->id, context_of(ep), RDMA_PS_TCP) != 0) {
        ep->cm->id = NULL;
        return cm_errno(ep, err);
    }
    if (rdma_resolve_addr(ep->cm->id, (struct sockaddr *)&local, (struct sockaddr *)&peer,
                          RESOLVE_TIMEOUT_MS) != 0)
        return cm_errno(ep, err);
    return 0;
}

void sfab_vb_cm_start(struct sfab_vb_ep *ep, bool asked)
{
    struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    struct sfab_vb_message ask = {.kind = SFAB_VB_ASK};
    struct sfab_err why = {0};
    bool send = false;
    int rc = 0;

    pthread_mutex_lock(&ep->lock);
    if (atomic_load_explicit(&ep->base.state, memory_order_relaxed) == SFAB_EP_IDLE) {
        ep->cm->deadline_ns =
            now_ns() + (uint64_t)tp->env.config->boot_timeout_ms * UINT64_C(1000000);
        ep->cm->doing = "waiting for its answer through the bootstrap";
        atomic_store_explicit(&ep->base.state, SFAB_EP_CONNECTING, memory_order_relaxed);
    }
    if (atomic_load_explicit(&ep->base.state, memory_order_relaxed) == SFAB_EP_CONNECTING) {
        send = !ep->cm->asked_peer;
        ep->cm->asked_peer = true;
        if (asked && tp->env.rank < ep->base.peer && ep->cm->id == NULL)
            rc = resolve(ep, &why);
        if (rc != 0)
            sfab_vb_ep_fail_locked(ep, &why);
    }
    pthread_mutex_unlock(&ep->lock);
    if (rc != 0) {
        sfab_vb_refuse(ep, &why);
        sfab_vb_wake(tp);
    } else if (send) {
        sfab_vb_send_message(ep, &ask);
    }
}

void sfab_vb_cm_look(struct sfab_vb_ep *ep)
{
    struct sfab_err why = {0};
    char seen[96];
    bool over;

    if (pthread_mutex_trylock(&ep->lock) != 0)
        return; /* it is getting on, and the owner must not wait */
    over = atomic_load_explicit(&ep->base.state, memory_order_relaxed) == SFAB_EP_CONNECTING &&
           now_ns() > ep->cm->deadline_ns;
    if (over) {
        snprintf(seen, sizeof seen, "no answer in %lld ms (SFAB_BOOT_TIMEOUT_MS)",
                 (long long)sfab_vb_owner(ep)->env.config->boot_timeout_ms);
        cm_fail(ep, SFAB_ERR_PEER_DEAD, seen, &why);
        sfab_vb_ep_fail_locked(ep, &why);
    }
    pthread_mutex_unlock(&ep->lock);
    if (over)
        sfab_vb_refuse(ep, &why);
}

/* ---- queue pair states ---------------------------------------------------------------------- */

static int to_state(struct sfab_vb_ep *ep, enum ibv_qp_state state, struct sfab_err *err)
{
    const struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask = 0, rc;

    if (rdma_init_qp_attr(ep->cm->id, &attr, &mask) != 0)
        return cm_errno(ep, err);
    if (state == IBV_QPS_INIT) {
        attr.qp_access_flags = sfab_vb_qp_access(tp);
        mask |= IBV_QP_ACCESS_FLAGS;
    } else if (state == IBV_QPS_RTR) {
        attr.path_mtu =
            ep->address.mtu < tp->port.mtu ? (enum ibv_mtu)ep->address.mtu : tp->port.mtu;
        attr.min_rnr_timer = SFAB_VB_MIN_RNR_TIMER;
    } else {
        sfab_vb_qp_timers(tp, &attr);
    }
    rc = ibv_modify_qp(ep->qp, &attr, mask);
    if (rc == 0)
        return 0;
    errno = rc;
    return cm_errno(ep, err);
}

/* The way of both to the point where the peer's queue pair is not yet known. */
static int make_queue_pair(struct sfab_vb_ep *ep, struct sfab_err *err)
{
    int rc = sfab_vb_equip(ep, err);

    return rc != 0 ? rc : to_state(ep, IBV_QPS_INIT, err);
}

static int to_rts(struct sfab_vb_ep *ep, struct sfab_err *err)
{
    int rc = to_state(ep, IBV_QPS_RTR, err);

    if (rc == 0)
        rc = to_state(ep, IBV_QPS_RTS, err);
    ep->rts = rc == 0;
    return rc;
}

/* ---- the lower rank's events: lock held ----------------------------------------------------- */

static int on_address(struct sfab_vb_ep *ep, struct sfab_err *err)
{
    const struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    const struct rdma_cm_id *id = ep->cm->id;

    ep->cm->doing = "resolving the route";
    if (id->verbs == NULL || id->port_num != tp->port.port ||
        strcmp(ibv_get_device_name(id->verbs->device), tp->port.device) != 0)
        return cm_fail(ep, SFAB_ERR_PROVIDER, "the route to it leads over another device", err);
    return rdma_resolve_route(ep->cm->id, RESOLVE_TIMEOUT_MS) == 0 ? 0 : cm_errno(ep, err);
}

static int on_route(struct sfab_vb_ep *ep, struct sfab_err *err)
{
    const struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    struct sfab_vb_hello hello = {
        .rank = tp->env.rank, .nonce = tp->nonce, .peer_nonce = ep->address.nonce};
    uint8_t data[56]; /* what rdma_cm carries at most */
    struct rdma_conn_param param = {.private_data = data,
                                    .responder_resources = sfab_vb_rd_atomic_in(tp),
                                    .initiator_depth = sfab_vb_rd_atomic_out(tp, UINT8_MAX),
                                    .retry_count = (uint8_t)tp->env.config->verbs_retry,
                                    .rnr_retry_count = (uint8_t)tp->env.config->verbs_rnr_retry};
    int rc = make_queue_pair(ep, err);

    ep->cm->doing = "asking for the connection";
    if (rc != 0)
        return rc;
    param.private_data_len = (uint8_t)sfab_vb_hello_encode(&hello, data, sizeof data);
    param.qp_num = ep->qp->qp_num;
    return rdma_connect(ep->cm->id, &param) == 0 ? 0 : cm_errno(ep, err);
}

static int on_response(struct sfab_vb_ep *ep, struct sfab_err *err)
{
    int rc;

    ep->cm->doing = "completing the connection";
    rc = to_rts(ep, err);
    if (rc != 0)
        return rc;
    if (rdma_establish(ep->cm->id) != 0)
        return cm_errno(ep, err);
    ep->peer_ready = true;
    return 0;
}

/* ---- the higher rank's: lock held ----------------------------------------------------------- */

static int accept_request(struct sfab_vb_ep *ep, struct rdma_cm_id *id,
                          const struct rdma_conn_param *wanted, struct sfab_err *err)
{
    const struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    uint8_t in = sfab_vb_rd_atomic_in(tp);
    struct rdma_conn_param param = {
        .responder_resources = wanted->responder_resources < in ? wanted->responder_resources : in,
        .initiator_depth = sfab_vb_rd_atomic_out(tp, wanted->initiator_depth),
        .rnr_retry_count = (uint8_t)tp->env.config->verbs_rnr_retry};
    int rc;

    ep->cm->id = id;
    ep->cm->doing = "answering its request";
    id->context = context_of(ep);
    rc = make_queue_pair(ep, err);
    if (rc == 0)
        rc = to_rts(ep, err);
    if (rc != 0)
        return rc;
    param.qp_num = ep->qp->qp_num;
    return rdma_accept(id, &param) == 0 ? 0 : cm_errno(ep, err);
}

/* The endpoint that a request is for; NULL: a stranger. */
static struct sfab_vb_ep *recognise(const struct sfab_vb_tp *tp, const struct rdma_conn_param *conn)
{
    struct sfab_vb_hello hello;
    struct sfab_vb_ep *ep;

    if (conn->private_data == NULL ||
        !sfab_vb_hello_decode(conn->private_data, conn->private_data_len, &hello) ||
        hello.peer_nonce != tp->nonce || hello.rank >= tp->env.rank)
        return NULL;
    ep = sfab_vb_ep_at(tp, hello.rank);
    return ep != NULL && ep->address_good && ep->address.nonce == hello.nonce ? ep : NULL;
}

static struct rdma_cm_id *on_request(struct sfab_vb_tp *tp, const struct rdma_cm_event *event)
{
    struct sfab_vb_ep *ep = recognise(tp, &event->param.conn);
    struct sfab_err why = {0};
    bool wanted = false;
    int rc = 0;

    if (ep != NULL) {
        pthread_mutex_lock(&ep->lock);
        wanted = ep->cm->id == NULL &&
                 atomic_load_explicit(&ep->base.state, memory_order_relaxed) == SFAB_EP_CONNECTING;
        if (wanted)
            rc = accept_request(ep, event->id, &event->param.conn, &why);
        if (rc != 0)
            sfab_vb_ep_fail_locked(ep, &why);
        pthread_mutex_unlock(&ep->lock);
    }
    if (!wanted) {
        if (!tp->cm->complained)
            sfab_log(SFAB_LOG_WARN, "verbs: an rdma_cm connection request that belongs to no rank "
                                    "of this job was rejected");
        tp->cm->complained = true;
        rdma_reject(event->id, NULL, 0);
        return event->id;
    }
    if (rc != 0) {
        rdma_reject(event->id, NULL, 0); /* the id goes with the endpoint */
        sfab_vb_refuse(ep, &why);
        sfab_vb_wake(tp);
    }
    return NULL;
}

/* ---- all events ----------------------------------------------------------------------------- */

static int on_trouble(struct sfab_vb_ep *ep, const struct rdma_cm_event *event,
                      struct sfab_err *err)
{
    char seen[160], name[SFAB_VB_NAME_BYTES];

    switch (event->event) {
    case RDMA_CM_EVENT_DISCONNECTED:
        return sfab_fail(err, SFAB_ERR_PEER_DEAD,
                         "%s has ended the connection (rdma_cm): its process has closed or died",
                         sfab_vb_peer(ep, name));
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        return sfab_fail(err, SFAB_ERR_PROVIDER, "%s was removed", sfab_vb_owner(ep)->port.device);
    case RDMA_CM_EVENT_REJECTED:
        snprintf(seen, sizeof seen, "it rejected the connection (reason %d)", event->status);
        return cm_fail(ep, SFAB_ERR_PEER_DEAD, seen, err);
    default:
        snprintf(seen, sizeof seen, "%s (%s)", rdma_event_str(event->event),
                 event->status < 0 ? sfab_errno_text(-event->status) : "no status");
        return cm_fail(ep, SFAB_ERR_PEER_DEAD, seen, err);
    }
}

/* Lock held. */
static int on_event(struct sfab_vb_ep *ep, const struct rdma_cm_event *event, struct sfab_err *err)
{
    switch (event->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        return on_address(ep, err);
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        return on_route(ep, err);
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        return on_response(ep, err);
    case RDMA_CM_EVENT_ESTABLISHED:
        ep->peer_ready = true;
        return 0;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        return on_trouble(ep, event, err);
    default:
        return 0; /* changes of address, the end of the time-wait state */
    }
}

struct rdma_cm_id *sfab_vb_cm_event(struct sfab_vb_tp *tp, const struct rdma_cm_event *event)
{
    struct sfab_vb_ep *ep = endpoint_of(tp, event->id);
    struct sfab_err why = {0};
    bool failed_now = false, became = false;

    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
        return on_request(tp, event);
    if (ep == NULL)
        return NULL; /* the listener's, or of an endpoint that is gone */
    pthread_mutex_lock(&ep->lock);
    if (ep->cm != NULL && ep->cm->id == event->id &&
        atomic_load_explicit(&ep->base.state, memory_order_relaxed) != SFAB_EP_FAILED) {
        failed_now = on_event(ep, event, &why) != 0;
        if (failed_now)
            sfab_vb_ep_fail_locked(ep, &why);
        else
            became = sfab_vb_ep_maybe_ready(ep);
    }
    pthread_mutex_unlock(&ep->lock);
    if (failed_now && event->event != RDMA_CM_EVENT_DISCONNECTED)
        sfab_vb_refuse(ep, &why);
    if (failed_now || became)
        sfab_vb_wake(tp);
    return NULL;
}
