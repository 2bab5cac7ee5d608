/* heart.h - whether the other end's host is there at all.
 *
 * Either end has something to acknowledge from time to time (BEAT frames), and asks its own kernel how
 * long the other one has acknowledged nothing (tcp(7), TCP_INFO). It is the host that answers, not the
 * process: one that is stopped, or computes, is alive; a host that lost its power or its cable is not. */
#ifndef SFAB_FABRIC_BOOT_HEART_H
#define SFAB_FABRIC_BOOT_HEART_H

#include <stdbool.h>
#include <stdint.h>

struct sfab_heart {
    uint32_t unacked;     /* segments on their way */
    uint64_t last_ack_ns; /* since the last acknowledgement */
};

/* The kernel's answer; false: there is none (not TCP). */
bool sfab_heart_look(int fd, struct sfab_heart *out);

/* Whether that is a host that is gone: something is on its way, has been since sent_ns ago, and nothing
 * was acknowledged for the timeout. */
bool sfab_heart_silent(const struct sfab_heart *heart, uint64_t sent_ns, uint64_t timeout_ns);

#endif
