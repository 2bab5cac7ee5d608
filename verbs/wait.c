/* wait.c - sleeping until a completion, a device event or a finished connection.
 *
 * A peer's write into this rank's memory makes no event here (no CAP_WAKES_ON_WRITE): whoever waits
 * for that sleeps in short naps. */
#include "verbs/internal.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

int sfab_vb_prepare_wait(struct sfab_tp *base)
{
    struct sfab_vb_tp *tp = sfab_vb_tp_of(base);
    int rc;

    if (tp->outstanding == 0) /* no completion can come while the owner sleeps */
        return tp->base.err.code;
    rc = ibv_req_notify_cq(tp->cq, 0);
    if (rc != 0)
        return sfab_fail_first(&tp->base.err, SFAB_ERR_PROVIDER,
                               "%s cannot arm its completion queue: %s", tp->port.device,
                               sfab_errno_text(rc));
    /* Only completions from here on make an event: look once more. */
    rc = sfab_vb_poll(base);
    return rc > 0 ? -EAGAIN : rc;
}

static void take_completion_events(struct sfab_vb_tp *tp)
{
    struct ibv_cq *cq;
    void *context;

    while (ibv_get_cq_event(tp->channel, &cq, &context) == 0)
        ibv_ack_cq_events(cq, 1);
}

int sfab_vb_wait(struct sfab_tp *base, uint64_t timeout_ns)
{
    struct sfab_vb_tp *tp = sfab_vb_tp_of(base);
    enum { CHANNEL, WAKE, DEVICE, FDS };
    struct pollfd fds[FDS] = {
        [CHANNEL] = {.fd = tp->channel->fd, .events = POLLIN},
        [WAKE] = {.fd = tp->wake_fd, .events = POLLIN},
        [DEVICE] = {.fd = tp->ctx->async_fd, .events = POLLIN},
    };
    struct timespec limit = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                             .tv_nsec = (long)(timeout_ns % 1000000000u)};
    uint64_t rings;

    if (ppoll(fds, FDS, &limit, NULL) <= 0)
        return 0; /* nothing, or a signal */
    if (fds[CHANNEL].revents != 0)
        take_completion_events(tp);
    if (fds[WAKE].revents != 0 && read(tp->wake_fd, &rings, sizeof rings) < 0 && errno != EAGAIN)
        return sfab_fail_first(&tp->base.err, SFAB_ERR_PROVIDER,
                               "verbs: cannot read its eventfd: %s", sfab_errno_text(errno));
    return fds[DEVICE].revents != 0 ? sfab_vb_look_at_device(tp) : 0;
}
