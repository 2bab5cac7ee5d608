/* rdmacm.c - the transport's side of rdma_cm: its address, its listener and the thread that takes
 * its events. For sites where connection data must come from the fabric's own connection manager
 * (path records, partitions, congestion settings that its administrator keeps there); chosen with
 * SFAB_VERBS_CM=rdmacm. How one connection is made is in rdmacm_ep.c. */
#include "verbs/rdmacm.h"

#include "fabric/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define BACKLOG 1024

void sfab_vb_sockaddr(const uint8_t ip[SFAB_VB_GID_BYTES], uint16_t port, uint32_t scope_id,
                      struct sockaddr_storage *out)
{
    struct in6_addr address;

    memset(out, 0, sizeof *out);
    memcpy(&address, ip, sizeof address);
    if (IN6_IS_ADDR_V4MAPPED(&address)) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)out;

        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        memcpy(&v4->sin_addr, ip + 12, sizeof v4->sin_addr);
    } else {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        v6->sin6_addr = address;
        if (IN6_IS_ADDR_LINKLOCAL(&address))
            v6->sin6_scope_id = scope_id;
    }
}

/* The opposite of sfab_vb_sockaddr; false for other families. */
static bool ip_of(const struct sockaddr *from, uint8_t ip[SFAB_VB_GID_BYTES])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (from->sa_family == AF_INET) {
        memcpy(ip, mapped, sizeof mapped);
        memcpy(ip + 12, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
        return true;
    }
    if (from->sa_family == AF_INET6) {
        memcpy(ip, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, 16);
        return true;
    }
    return false;
}

/* Binds an id to an address; whether that belongs to the chosen device and port. */
static bool bind_to(struct sfab_vb_tp *tp, struct rdma_cm_id *id, const struct sockaddr *address)
{
    struct sockaddr_storage copy = {0};

    memcpy(&copy, address,
           address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                         : sizeof(struct sockaddr_in6));
    return rdma_bind_addr(id, (struct sockaddr *)&copy) == 0 && id->verbs != NULL &&
           id->port_num == tp->port.port &&
           strcmp(ibv_get_device_name(id->verbs->device), tp->port.device) == 0;
}

/* InfiniBand: the address is that of an IP interface over it (IPoIB); tries them all. */
static bool bind_to_any(struct sfab_vb_tp *tp)
{
    struct sfab_vb_cm *cm = tp->cm;
    struct ifaddrs *list = NULL;
    bool bound = false;

    if (getifaddrs(&list) != 0)
        return false;
    for (const struct ifaddrs *at = list; at != NULL && !bound; at = at->ifa_next) {
        if (at->ifa_addr == NULL || (at->ifa_flags & IFF_UP) == 0 ||
            (at->ifa_flags & IFF_LOOPBACK) != 0 || !ip_of(at->ifa_addr, cm->ip))
            continue;
        if (rdma_create_id(cm->channel, &cm->listener, NULL, RDMA_PS_TCP) != 0)
            break;
        bound = bind_to(tp, cm->listener, at->ifa_addr);
        if (!bound) {
            rdma_destroy_id(cm->listener);
            cm->listener = NULL;
        }
    }
    freeifaddrs(list);
    return bound;
}

static bool bind_listener(struct sfab_vb_tp *tp)
{
    struct sfab_vb_cm *cm = tp->cm;

    if (tp->port.link_layer == IBV_LINK_LAYER_INFINIBAND)
        return bind_to_any(tp);
    memcpy(cm->ip, tp->port.gid.raw, sizeof cm->ip); /* a RoCE GID is the interface's address */
    sfab_vb_sockaddr(cm->ip, 0, if_nametoindex(tp->port.netdev), &cm->local);
    return rdma_create_id(cm->channel, &cm->listener, NULL, RDMA_PS_TCP) == 0 &&
           bind_to(tp, cm->listener, (struct sockaddr *)&cm->local);
}

static int listen_on_device(struct sfab_vb_tp *tp, struct sfab_err *err)
{
    struct sfab_vb_cm *cm = tp->cm;
    char gid[64];

    errno = 0;
    if (!bind_listener(tp))
        return sfab_fail(err, -EADDRNOTAVAIL,
                         "rdma_cm knows no IP address of %s port %u (GID %s)%s%s: give its "
                         "interface one (the loopback interface cannot be used with rdma_cm), or "
                         "connect with SFAB_VERBS_CM=boot",
                         tp->port.device, tp->port.port,
                         sfab_vb_gid_text(&tp->port.gid, gid, sizeof gid), errno != 0 ? ": " : "",
                         errno != 0 ? sfab_errno_text(errno) : "");
    sfab_vb_sockaddr(cm->ip, 0, if_nametoindex(tp->port.netdev), &cm->local);
    if (rdma_listen(cm->listener, BACKLOG) != 0)
        return sfab_fail(err, SFAB_ERR_PROVIDER, "rdma_cm cannot listen on %s: %s", tp->port.device,
                         sfab_errno_text(errno));
    return 0;
}

/* ---- the event thread ----------------------------------------------------------------------- */

static void take_events(struct sfab_vb_tp *tp)
{
    struct sfab_vb_cm *cm = tp->cm;
    struct rdma_cm_event *event;

    while (rdma_get_cm_event(cm->channel, &event) == 0) {
        struct rdma_cm_id *doomed;

        pthread_mutex_lock(&cm->lock);
        doomed = sfab_vb_cm_event(tp, event);
        pthread_mutex_unlock(&cm->lock);
        rdma_ack_cm_event(event); /* before this, destroying an id waits */
        if (doomed != NULL)
            rdma_destroy_id(doomed);
    }
}

static void *event_thread(void *arg)
{
    struct sfab_vb_tp *tp = arg;
    enum { EVENTS, STOP, FDS };
    struct pollfd fds[FDS] = {
        [EVENTS] = {.fd = tp->cm->channel->fd, .events = POLLIN},
        [STOP] = {.fd = tp->cm->stop_fd, .events = POLLIN},
    };

    for (;;) {
        if (poll(fds, FDS, -1) < 0 && errno != EINTR)
            break;
        if (fds[STOP].revents != 0)
            break;
        if (fds[EVENTS].revents != 0)
            take_events(tp);
    }
    return NULL;
}

static int start_thread(struct sfab_vb_tp *tp)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all); /* the program's signals are for the program's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&tp->cm->thread, NULL, event_thread, tp);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    tp->cm->running = rc == 0;
    return rc;
}

/* ---- opening and closing -------------------------------------------------------------------- */

int sfab_vb_cm_open(struct sfab_vb_tp *tp, struct sfab_err *err)
{
    struct sfab_vb_cm *cm = calloc(1, sizeof *cm);
    int rc;

    if (cm == NULL)
        return sfab_fail(err, -ENOMEM, "out of memory");
    tp->cm = cm;
    pthread_mutex_init(&cm->lock, NULL);
    cm->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    cm->channel = rdma_create_event_channel();
    if (cm->channel == NULL || cm->stop_fd < 0)
        return sfab_fail(err, SFAB_ERR_PROVIDER,
                         "rdma_cm cannot be used: %s (is the module rdma_ucm loaded, and "
                         "/dev/infiniband/rdma_cm open to this user?); or connect with "
                         "SFAB_VERBS_CM=boot",
                         sfab_errno_text(errno));
    rc = fcntl(cm->channel->fd, F_GETFL);
    if (rc < 0 || fcntl(cm->channel->fd, F_SETFL, rc | O_NONBLOCK) < 0)
        return sfab_fail(err, SFAB_ERR_PROVIDER, "rdma_cm: %s", sfab_errno_text(errno));
    rc = listen_on_device(tp, err);
    if (rc != 0)
        return rc;
    rc = start_thread(tp);
    if (rc != 0)
        return sfab_fail(err, -rc, "cannot start a thread for rdma_cm: %s", sfab_errno_text(rc));
    return 0;
}

void sfab_vb_cm_close(struct sfab_vb_tp *tp)
{
    struct sfab_vb_cm *cm = tp->cm;
    uint64_t one = 1;

    if (cm->running) {
        if (write(cm->stop_fd, &one, sizeof one) < 0)
            sfab_log(SFAB_LOG_ERROR, "verbs: cannot stop rdma_cm's thread: %s",
                     sfab_errno_text(errno));
        pthread_join(cm->thread, NULL);
    }
    if (cm->listener != NULL)
        rdma_destroy_id(cm->listener);
    if (cm->channel != NULL)
        rdma_destroy_event_channel(cm->channel);
    if (cm->stop_fd >= 0)
        close(cm->stop_fd);
    pthread_mutex_destroy(&cm->lock);
    free(cm);
    tp->cm = NULL;
}

void sfab_vb_cm_address(const struct sfab_vb_tp *tp, struct sfab_vb_address *address)
{
    memcpy(address->cm_ip, tp->cm->ip, sizeof address->cm_ip);
    address->cm_port = ntohs(rdma_get_src_port(tp->cm->listener));
}
