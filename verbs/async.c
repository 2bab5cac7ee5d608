/* async.c - the events that a device raises on its own: ports going down and up, queue pairs broken
 * by the peer, a device that is lost. Read from a non-blocking descriptor, now and then. */
#include "verbs/internal.h"

#include "fabric/log.h"

/* The queue pair of an event broke without a completion here: an access of the peer's was refused.
 */
static void queue_pair_broke(struct sfab_vb_tp *tp, const struct ibv_async_event *event)
{
    char name[SFAB_VB_NAME_BYTES];

    for (uint32_t peer = 0; peer < tp->env.size; peer++) {
        struct sfab_vb_ep *ep = sfab_vb_ep_at(tp, peer);
        bool match;

        if (ep == NULL)
            continue;
        pthread_mutex_lock(&ep->lock);
        match = ep->qp != NULL && ep->qp == event->element.qp;
        pthread_mutex_unlock(&ep->lock);
        if (match)
            sfab_vb_ep_fail(ep, SFAB_ERR_PROVIDER,
                            "the connection to %s is broken: %s reports \"%s\" (an access of the "
                            "peer to memory here was refused, as a rule: freed memory or a key "
                            "without that right)",
                            sfab_vb_peer(ep, name), tp->port.device,
                            ibv_event_type_str(event->event_type));
    }
}

static void handle(struct sfab_vb_tp *tp, const struct ibv_async_event *event)
{
    const char *what = ibv_event_type_str(event->event_type);

    switch (event->event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        queue_pair_broke(tp, event);
        break;
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_DEVICE_FATAL:
        sfab_fail_first(&tp->base.err, SFAB_ERR_PROVIDER,
                        "%s is lost to this process: it reports \"%s\"; nothing more can be sent "
                        "through it (the kernel log may say why)",
                        tp->port.device, what);
        break;
    case IBV_EVENT_PORT_ERR:
        if (event->element.port_num == tp->port.port)
            sfab_log(SFAB_LOG_WARN,
                     "verbs: %s port %u went down; what is under way is retried "
                     "for a while",
                     tp->port.device, tp->port.port);
        break;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_LID_CHANGE:
        sfab_log(SFAB_LOG_INFO, "verbs: %s reports \"%s\"", tp->port.device, what);
        break;
    default:
        sfab_log(SFAB_LOG_DEBUG, "verbs: %s reports \"%s\"", tp->port.device, what);
        break;
    }
}

int sfab_vb_look_at_device(struct sfab_vb_tp *tp)
{
    struct ibv_async_event event;

    while (ibv_get_async_event(tp->ctx, &event) == 0) {
        handle(tp, &event);
        ibv_ack_async_event(&event);
    }
    return tp->base.err.code;
}
