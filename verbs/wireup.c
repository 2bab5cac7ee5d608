/* wireup.c - connecting two ranks with messages through the bootstrap.
 *
 * The handshake is symmetric: one queue pair a pair of ranks, whoever asks first, or both at once.
 *  - Each side sends CONN (its queue pair) exactly once: when it wants to connect, or in answer to
 * the peer's.
 *  - Whoever has the peer's CONN brings its own queue pair to RTR and RTS at once and then says so:
 *    by the ready flag in its CONN if that had not been sent yet, else by READY.
 *  - An endpoint is READY when its own queue pair is in RTS and the peer has said ready. So no
 * packet is ever sent to a queue pair that is not yet in RTR. The messages may overtake each other;
 * what each says holds on its own. All that happens on receipt runs on the control thread, so a
 * peer that computes can be connected to. The own rank is reached by one queue pair that is
 * connected to itself.
 *
 * No message is sent with the lock held: sending may have to wait for the very thread that is in
 * control(), which may wait for the lock. */
#include "verbs/internal.h"

#include "fabric/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct sfab_vb_conn own_conn(const struct sfab_vb_ep *ep, bool ready)
{
    const struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    struct sfab_vb_conn conn = {.qpn = ep->qp->qp_num,
                                .psn = ep->psn,
                                .lid = tp->port.lid,
                                .mtu = (uint8_t)tp->port.mtu,
                                .rd_atomic = sfab_vb_rd_atomic_in(tp),
                                .ready = ready};

    memcpy(conn.gid, tp->port.gid.raw, sizeof conn.gid);
    return conn;
}

void sfab_vb_send_message(struct sfab_vb_ep *ep, const struct sfab_vb_message *message)
{
    const struct sfab_tp_env *env = &sfab_vb_owner(ep)->env;
    uint8_t buf[SFAB_TP_CONTROL_MAX];
    char name[SFAB_VB_NAME_BYTES];
    size_t len = sfab_vb_message_encode(message, buf, sizeof buf);
    int rc = env->send_control(env->arg, ep->base.peer, buf, len);

    if (rc < 0)
        sfab_vb_ep_fail(ep, SFAB_ERR_PEER_DEAD,
                        "cannot send a connection message to %s through the bootstrap: %s",
                        sfab_vb_peer(ep, name),
                        rc > -1024 ? sfab_errno_text(-rc) : sfab_strerror(rc));
}

void sfab_vb_refuse(struct sfab_vb_ep *ep, const struct sfab_err *why)
{
    struct sfab_vb_message message = {.kind = SFAB_VB_REFUSE};

    snprintf(message.text, sizeof message.text, "%.*s", (int)sizeof message.text - 1, why->text);
    sfab_vb_send_message(ep, &message);
}

/* ---- starting ------------------------------------------------------------------------------- */

static int connect_to_self(struct sfab_vb_ep *ep, struct sfab_err *err)
{
    struct sfab_vb_conn conn;
    int rc = sfab_vb_equip(ep, err);

    if (rc == 0)
        rc = sfab_vb_qp_init(ep, err);
    if (rc != 0)
        return rc;
    conn = own_conn(ep, true);
    rc = sfab_vb_qp_rtr(ep, &conn, err);
    if (rc == 0)
        rc = sfab_vb_qp_rts(ep, conn.rd_atomic, err);
    if (rc == 0)
        ep->rts = ep->peer_ready = true;
    return rc;
}

/* Lock held. Makes the queue pair if there is none yet, up to INIT. */
static int prepare(struct sfab_vb_ep *ep, struct sfab_err *err)
{
    int rc = 0;

    atomic_store_explicit(&ep->base.state, SFAB_EP_CONNECTING, memory_order_relaxed);
    if (ep->qp == NULL) {
        rc = sfab_vb_equip(ep, err);
        if (rc == 0)
            rc = sfab_vb_qp_init(ep, err);
    }
    return rc;
}

/* IDLE: the first use. */
static void start(struct sfab_vb_ep *ep)
{
    struct sfab_vb_message message = {.kind = SFAB_VB_CONN};
    struct sfab_err why = {0};
    bool self = ep->base.peer == sfab_vb_owner(ep)->env.rank;
    bool send = false;
    int rc = 0;

    pthread_mutex_lock(&ep->lock);
    if (atomic_load_explicit(&ep->base.state, memory_order_relaxed) == SFAB_EP_IDLE) {
        if (self) {
            atomic_store_explicit(&ep->base.state, SFAB_EP_CONNECTING, memory_order_relaxed);
            rc = connect_to_self(ep, &why);
        } else {
            rc = prepare(ep, &why);
        }
        if (rc != 0) {
            sfab_vb_ep_fail_locked(ep, &why);
        } else if (self) {
            sfab_vb_ep_maybe_ready(ep);
        } else {
            message.conn = own_conn(ep, false);
            ep->sent_conn = send = true;
        }
    }
    pthread_mutex_unlock(&ep->lock);
    if (send)
        sfab_vb_send_message(ep, &message);
    else if (rc != 0 && !self)
        sfab_vb_refuse(ep, &why);
}

int sfab_vb_connect(struct sfab_ep *base)
{
    struct sfab_vb_ep *ep = sfab_vb_ep_of(base);
    struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    uint32_t state = sfab_vb_state(ep);

    if (state == SFAB_EP_IDLE) {
        if (tp->cm != NULL && base->peer != tp->env.rank)
            sfab_vb_cm_start(ep, false);
        else
            start(ep);
        state = sfab_vb_state(ep);
    } else if (state == SFAB_EP_CONNECTING && tp->cm != NULL) {
        sfab_vb_cm_look(ep);
        state = sfab_vb_state(ep);
    }
    if (state == SFAB_EP_READY)
        return 0;
    return state == SFAB_EP_FAILED ? base->err.code : -EAGAIN;
}

/* ---- answering: control thread -------------------------------------------------------------- */

/* Lock held. The peer's queue pair is known: bring ours to RTS. */
static int join(struct sfab_vb_ep *ep, const struct sfab_vb_conn *peer, struct sfab_err *err)
{
    int rc = prepare(ep, err);

    if (rc == 0)
        rc = sfab_vb_qp_rtr(ep, peer, err);
    if (rc == 0)
        rc = sfab_vb_qp_rts(ep, peer->rd_atomic, err);
    ep->rts = rc == 0;
    return rc;
}

static void on_conn(struct sfab_vb_ep *ep, const struct sfab_vb_conn *peer)
{
    struct sfab_vb_message answer = {.kind = SFAB_VB_READY};
    struct sfab_err why = {0};
    int rc;

    pthread_mutex_lock(&ep->lock);
    if (ep->got_conn ||
        atomic_load_explicit(&ep->base.state, memory_order_relaxed) == SFAB_EP_FAILED) {
        pthread_mutex_unlock(&ep->lock);
        sfab_log(SFAB_LOG_DEBUG, "verbs: a second connection request of rank %u is ignored",
                 ep->base.peer);
        return;
    }
    ep->got_conn = true;
    rc = join(ep, peer, &why);
    if (rc != 0) {
        sfab_vb_ep_fail_locked(ep, &why);
    } else {
        ep->peer_ready = ep->peer_ready || peer->ready;
        if (!ep->sent_conn) {
            answer.kind = SFAB_VB_CONN;
            answer.conn = own_conn(ep, true);
            ep->sent_conn = true;
        }
        sfab_vb_ep_maybe_ready(ep);
    }
    pthread_mutex_unlock(&ep->lock);
    if (rc != 0)
        sfab_vb_refuse(ep, &why);
    else
        sfab_vb_send_message(ep, &answer);
    sfab_vb_wake(sfab_vb_owner(ep));
}

static void on_ready(struct sfab_vb_ep *ep)
{
    pthread_mutex_lock(&ep->lock);
    ep->peer_ready = true;

    bool became = sfab_vb_ep_maybe_ready(ep);

    pthread_mutex_unlock(&ep->lock);
    if (became)
        sfab_vb_wake(sfab_vb_owner(ep));
}

/* Once: they would come in numbers. */
static void complain(struct sfab_vb_tp *tp, uint32_t peer, const char *what)
{
    char name[SFAB_VB_NAME_BYTES];

    if (!tp->complained)
        sfab_log(SFAB_LOG_WARN, "verbs: a connection message of %s was ignored: %s",
                 tp->env.peer_name(tp->env.arg, peer, name, sizeof name), what);
    tp->complained = true;
}

void sfab_vb_control(struct sfab_tp *base, struct sfab_ep *ep_base, const uint8_t *data, size_t len)
{
    struct sfab_vb_tp *tp = sfab_vb_tp_of(base);
    struct sfab_vb_ep *ep = sfab_vb_ep_of(ep_base);
    struct sfab_vb_message message;
    char name[SFAB_VB_NAME_BYTES];
    bool by_cm = tp->cm != NULL;

    if (ep == NULL || ep_base->peer == tp->env.rank)
        return;
    if (!sfab_vb_message_decode(data, len, &message))
        complain(tp, ep_base->peer, "it is malformed");
    else if (message.kind == SFAB_VB_CONN && !by_cm)
        on_conn(ep, &message.conn);
    else if (message.kind == SFAB_VB_READY && !by_cm)
        on_ready(ep);
    else if (message.kind == SFAB_VB_REFUSE)
        sfab_vb_ep_fail(ep, SFAB_ERR_PEER_DEAD, "%s cannot connect to this rank: %s",
                        sfab_vb_peer(ep, name), message.text);
    else if (message.kind == SFAB_VB_ASK && by_cm)
        sfab_vb_cm_start(ep, true);
    else
        complain(tp, ep_base->peer, "SFAB_VERBS_CM is not the same there as here");
}
