/* net.c - the few things both ends do with sockets, deadlines and times in sentences. */
#include "fabric/boot/net.h"

#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>

#define NS_PER_MS 1000000u
#define NS_PER_S  1000000000u

/* A host that has vanished is noticed after KEEP_IDLE_S + KEEP_PROBES * KEEP_INTERVAL_S. A process
 * that is merely stopped is not taken for dead: its kernel answers the probes. */
#define KEEP_IDLE_S     20
#define KEEP_INTERVAL_S 10
#define KEEP_PROBES     4

uint64_t sfab_deadline_ns(uint64_t now_ns, uint64_t span_ns)
{
    return span_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + span_ns;
}

int sfab_poll_ms(uint64_t now_ns, uint64_t deadline_ns)
{
    if (deadline_ns == UINT64_MAX) {
        return -1;
    }
    if (deadline_ns <= now_ns) {
        return 0;
    }
    uint64_t ms = (deadline_ns - now_ns - 1) / NS_PER_MS + 1;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

const char *sfab_span_text(char *buf, size_t cap, uint64_t span_ns)
{
    if (span_ns < NS_PER_S) {
        snprintf(buf, cap, "%u ms", (unsigned)(span_ns / NS_PER_MS));
    } else {
        snprintf(buf, cap, "%.6g s", (double)(span_ns / NS_PER_MS) / 1000.0);
    }
    return buf;
}

static void set_int(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

void sfab_net_tune(int fd)
{
    set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
    set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S);
    set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_PROBES);
}

void sfab_net_name(const struct sockaddr *addr, socklen_t addr_bytes, int with_port, char *buf,
                   size_t cap)
{
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    if (getnameinfo(addr, addr_bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(buf, cap, "(unknown address)");
    } else if (!with_port) {
        snprintf(buf, cap, "%s", host);
    } else {
        snprintf(buf, cap, addr->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    }
}
