/* heart.c - see heart.h. */
#include "fabric/boot/heart.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

bool sfab_heart_look(int fd, struct sfab_heart *out)
{
    struct tcp_info info;
    socklen_t len = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0) {
        return false;
    }
    *out = (struct sfab_heart){.unacked = info.tcpi_unacked,
                               .last_ack_ns = (uint64_t)info.tcpi_last_ack_recv * 1000000};
    return true;
}

bool sfab_heart_silent(const struct sfab_heart *heart, uint64_t sent_ns, uint64_t timeout_ns)
{
    return heart->unacked > 0 && sent_ns >= timeout_ns && heart->last_ack_ns >= timeout_ns;
}
