/* rdmacm.h - what the two files about rdma_cm share. */
#ifndef SFAB_VERBS_RDMACM_H
#define SFAB_VERBS_RDMACM_H

#include "verbs/internal.h"

#include <rdma/rdma_cma.h>
#include <sys/socket.h>

struct sfab_vb_cm {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener;
    struct sockaddr_storage local; /* this rank's address, port 0 */
    uint8_t ip[SFAB_VB_GID_BYTES]; /* the same as IPv6, or IPv4 mapped into it */
    pthread_t thread;
    bool running;
    bool complained; /* of a stranger: event thread */
    int stop_fd;
    /* Held while an event is handled; endpoints leave the table under it. Taken before an
     * endpoint's lock. */
    pthread_mutex_t lock;
};

/* One endpoint's part; guarded by the endpoint's lock. */
struct sfab_vb_cm_ep {
    struct rdma_cm_id *id; /* made here by the lower rank, come with the request at the higher */
    bool asked_peer;
    uint64_t deadline_ns;
    const char *doing; /* for sentences */
};

/* IPv6, or IPv4 mapped into it, as a socket address; scope_id matters to link-local ones. */
void sfab_vb_sockaddr(const uint8_t ip[SFAB_VB_GID_BYTES], uint16_t port, uint32_t scope_id,
                      struct sockaddr_storage *out);

/* Handles one event of an endpoint's connection, or of the listener. Event thread, cm->lock held.
 * Returns an id that is to be destroyed once the event is acknowledged, or NULL. */
struct rdma_cm_id *sfab_vb_cm_event(struct sfab_vb_tp *tp, const struct rdma_cm_event *event);

#endif
