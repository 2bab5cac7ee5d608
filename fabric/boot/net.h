/* net.h - the few things both ends do with sockets, deadlines and times in sentences. */
#ifndef SFAB_FABRIC_BOOT_NET_H
#define SFAB_FABRIC_BOOT_NET_H

#include "fabric/clock.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* now + span without overflow: UINT64_MAX is "never". */
uint64_t sfab_deadline_ns(uint64_t now_ns, uint64_t span_ns);

/* Milliseconds for poll() until deadline_ns, rounded up, -1 for never. */
int sfab_poll_ms(uint64_t now_ns, uint64_t deadline_ns);

/* "2 s", "1.5 s", "250 ms" into buf; returns buf. */
const char *sfab_span_text(char *buf, size_t cap, uint64_t span_ns);

/* No delay for small frames; a silent peer whose host is gone is noticed within a minute. Failures
 * do not matter: these are refinements. */
void sfab_net_tune(int fd);

/* "10.0.0.1" and, with_port, "10.0.0.1:4711" or "[::1]:4711". */
void sfab_net_name(const struct sockaddr *addr, socklen_t addr_bytes, int with_port, char *buf,
                   size_t cap);

#endif
