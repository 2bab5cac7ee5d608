/* hearing.h - accusations and who is given up on them. The bookkeeping alone, without I/O or a clock: the
 * rendezvous server runs on it, and the simulator.
 *
 * A rank whose own link is down accuses all others, and all others accuse it; so what is said is heard
 * together for SFAB_HEARING_NS, and the one that most speak against is given up.
 * A rank whose own device has failed, or that reaches nobody, accuses itself, and is believed unless it accuses
 * others as well and all of those are known to be silent or gone. */
#ifndef SFAB_FABRIC_BOOT_HEARING_H
#define SFAB_FABRIC_BOOT_HEARING_H

#include "fabric/boot/boot.h"

#include <stdbool.h>

#define SFAB_HEARING_NS      UINT64_C(100000000)
#define SFAB_ACCUSATIONS_MAX 65536
#define SFAB_HEARING_WHY_MAX (SFAB_BOOT_WHY_MAX + 96)

struct sfab_accusation {
    uint32_t by, against;
    char text[SFAB_BOOT_WHY_MAX];
};

struct sfab_hearing {
    struct sfab_accusation *said; /* NULL: no hearing is under way and none has been */
    size_t count, cap;
};

/* What a judge asks of the ranks. */
struct sfab_hearing_court {
    bool (*is_in)(void *arg, uint32_t rank); /* of the job, still */
    /* For equal votes, and to know the dead among the accused: for how long the rank's own control connection has been silent; 0: it is not. */
    uint64_t (*silence_ns)(void *arg, uint32_t rank);
    void *arg;
};

/* Adds an accusation, once for each pair; what there is no memory for is not heard. against may be gone. */
void sfab_hearing_add(struct sfab_hearing *hearing, uint32_t by, uint32_t against,
                      const char *text);

/* Ends the hearing: whether somebody is given up, *rank, and why for the others to read. */
bool sfab_hearing_judge(struct sfab_hearing *hearing, const struct sfab_hearing_court *court,
                        uint32_t *rank, char *why, size_t cap);

void sfab_hearing_free(struct sfab_hearing *hearing);

#endif
