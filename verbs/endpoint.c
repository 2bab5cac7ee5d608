/* endpoint.c - the endpoint objects, their addresses and their end. */
#include "verbs/internal.h"

#include "fabric/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t sfab_vb_address(struct sfab_tp *base, uint8_t *addr)
{
    const struct sfab_vb_tp *tp = sfab_vb_tp_of(base);
    struct sfab_vb_address address = {.link_layer = tp->port.link_layer,
                                      .mtu = (uint8_t)tp->port.mtu,
                                      .cm = (uint8_t)tp->env.config->verbs_cm,
                                      .lid = tp->port.lid,
                                      .boot_id = tp->boot_id,
                                      .nonce = tp->nonce};

    memcpy(address.gid, tp->port.gid.raw, sizeof address.gid);
    if (tp->cm != NULL)
        sfab_vb_cm_address(tp, &address);
    return sfab_vb_address_encode(&address, addr, SFAB_TP_ADDRESS_MAX);
}

static const char *link_name(uint8_t link_layer)
{
    return link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet (RoCE)" : "InfiniBand";
}

int sfab_vb_reachable(struct sfab_tp *base, const uint8_t *addr, size_t len, struct sfab_err *err)
{
    const struct sfab_vb_tp *tp = sfab_vb_tp_of(base);
    const struct sfab_vb_port *port = &tp->port;
    struct sfab_vb_address peer;
    union ibv_gid gid;
    char own_text[64], peer_text[64];

    if (!sfab_vb_address_decode(addr, len, &peer))
        return sfab_fail(err, -EINVAL, "its address is not one that the verbs transport made");
    if (peer.link_layer != port->link_layer)
        return sfab_fail(err, -EHOSTUNREACH, "it is on %s, %s here on %s",
                         link_name(peer.link_layer), port->device, link_name(port->link_layer));
    if (peer.cm != tp->env.config->verbs_cm)
        return sfab_fail(err, SFAB_ERR_CONFIG,
                         "SFAB_VERBS_CM differs between the two ranks: set it alike for all");
    memcpy(gid.raw, peer.gid, sizeof gid.raw);
    sfab_vb_gid_text(&gid, peer_text, sizeof peer_text);
    sfab_vb_gid_text(&port->gid, own_text, sizeof own_text);
    if (port->link_layer == IBV_LINK_LAYER_INFINIBAND)
        return 0;
    if (sfab_vb_gid_is_v4(&gid) != sfab_vb_gid_is_v4(&port->gid))
        return sfab_fail(err, -EHOSTUNREACH,
                         "its GID %s and %s here are not of one IP version; SFAB_VERBS_GID_INDEX "
                         "names another",
                         peer_text, own_text);
    if (sfab_vb_gid_is_loopback(&gid) != sfab_vb_gid_is_loopback(&port->gid) ||
        (sfab_vb_gid_is_loopback(&gid) && peer.boot_id != tp->boot_id))
        return sfab_fail(err, -EHOSTUNREACH,
                         "its GID %s and %s here do not lead from one host to the other", peer_text,
                         own_text);
    return 0;
}

int sfab_vb_ep_create(struct sfab_tp *base, uint32_t peer, const uint8_t *addr, size_t len,
                      struct sfab_ep **out)
{
    struct sfab_vb_tp *tp = sfab_vb_tp_of(base);
    struct sfab_vb_ep *ep;

    if (peer >= tp->env.size || sfab_vb_ep_at(tp, peer) != NULL)
        return -EINVAL;
    ep = calloc(1, sizeof *ep);
    if (ep == NULL)
        return -ENOMEM;
    ep->base.ops = base->ops;
    ep->base.tp = base;
    ep->base.peer = peer;
    atomic_init(&ep->base.state, SFAB_EP_IDLE);
    ep->address_good = sfab_vb_address_decode(addr, len, &ep->address);
    pthread_mutex_init(&ep->lock, NULL);
    if (tp->cm != NULL && sfab_vb_cm_ep_init(ep) != 0) {
        pthread_mutex_destroy(&ep->lock);
        free(ep);
        return -ENOMEM;
    }
    atomic_store_explicit(&tp->eps[peer], ep, memory_order_release); /* EPS */
    *out = &ep->base;
    return 0;
}

/* A destroyed queue pair's completions may still lie in the queue. */
static void drain_leftovers(struct sfab_vb_tp *tp)
{
    struct ibv_wc wc[SFAB_VB_POLL_BATCH];

    while (tp->outstanding > 0 && sfab_vb_poll(&tp->base) > 0)
        ;
    while (tp->outstanding == 0 && ibv_poll_cq(tp->cq, SFAB_VB_POLL_BATCH, wc) > 0)
        ;
}

void sfab_vb_ep_destroy(struct sfab_ep *base)
{
    struct sfab_vb_ep *ep = sfab_vb_ep_of(base);
    struct sfab_vb_tp *tp;

    if (base == NULL)
        return;
    tp = sfab_vb_owner(ep);
    if (ep->cm != NULL)
        sfab_vb_cm_ep_end(ep); /* takes it out of the table as well */
    atomic_store_explicit(&tp->eps[base->peer], NULL, memory_order_release);
    sfab_vb_strip(ep);
    tp->outstanding -= ep->posted - ep->retired;
    drain_leftovers(tp);
    pthread_mutex_destroy(&ep->lock);
    free(ep);
}

const char *sfab_vb_peer(const struct sfab_vb_ep *ep, char buf[SFAB_VB_NAME_BYTES])
{
    const struct sfab_tp_env *env = &sfab_vb_owner(ep)->env;

    return env->peer_name(env->arg, ep->base.peer, buf, SFAB_VB_NAME_BYTES);
}

void sfab_vb_wake(struct sfab_vb_tp *tp)
{
    uint64_t one = 1;

    /* Full means that it is readable already. */
    if (write(tp->wake_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        sfab_log(SFAB_LOG_WARN, "verbs: cannot wake the waiting thread: %s",
                 sfab_errno_text(errno));
    tp->env.wake_owner(tp->env.arg);
}

/* What is still under way on a queue pair that works fine has to end too. */
static void stop_queue_pair(struct sfab_vb_ep *ep)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (ep->qp != NULL)
        ibv_modify_qp(ep->qp, &attr, IBV_QP_STATE);
}

void sfab_vb_ep_fail_locked(struct sfab_vb_ep *ep, const struct sfab_err *why)
{
    if (atomic_load_explicit(&ep->base.state, memory_order_relaxed) == SFAB_EP_FAILED)
        return;
    ep->base.err = *why;
    stop_queue_pair(ep);
    /* TP-STATE: the sentence is there for whoever sees FAILED. */
    atomic_store_explicit(&ep->base.state, SFAB_EP_FAILED, memory_order_release);
}

int sfab_vb_ep_fail(struct sfab_vb_ep *ep, int code, const char *format, ...)
{
    struct sfab_err why = {.code = code};
    va_list args;

    va_start(args, format);
    vsnprintf(why.text, sizeof why.text, format, args);
    va_end(args);
    pthread_mutex_lock(&ep->lock);
    sfab_vb_ep_fail_locked(ep, &why);
    code = ep->base.err.code;
    pthread_mutex_unlock(&ep->lock);
    sfab_vb_wake(sfab_vb_owner(ep));
    return code;
}

bool sfab_vb_ep_maybe_ready(struct sfab_vb_ep *ep)
{
    if (!ep->rts || !ep->peer_ready ||
        atomic_load_explicit(&ep->base.state, memory_order_relaxed) != SFAB_EP_CONNECTING)
        return false;
    /* TP-STATE: queue pair and rings are there for the owner who sees READY. */
    atomic_store_explicit(&ep->base.state, SFAB_EP_READY, memory_order_release);
    return true;
}
