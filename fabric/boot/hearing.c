/* hearing.c - see hearing.h. */
#include "fabric/boot/hearing.h"

#include <stdio.h>
#include <stdlib.h>

void sfab_hearing_add(struct sfab_hearing *hearing, uint32_t by, uint32_t against, const char *text)
{
    for (size_t i = 0; i < hearing->count; i++) {
        if (hearing->said[i].by == by && hearing->said[i].against == against) {
            return;
        }
    }
    if (hearing->count == hearing->cap) {
        size_t cap = hearing->cap * 2 + 16;
        struct sfab_accusation *more =
            cap <= SFAB_ACCUSATIONS_MAX ? realloc(hearing->said, cap * sizeof *more) : NULL;
        if (more == NULL) {
            return; /* it is decided without this one */
        }
        hearing->said = more;
        hearing->cap = cap;
    }
    struct sfab_accusation *new = &hearing->said[hearing->count++];
    new->by = by;
    new->against = against;
    snprintf(new->text, sizeof new->text, "%s", text);
}

static size_t votes_against(const struct sfab_hearing *hearing,
                            const struct sfab_hearing_court *court, uint32_t rank)
{
    size_t votes = 0;
    for (size_t i = 0; i < hearing->count; i++) {
        const struct sfab_accusation *a = &hearing->said[i];
        votes += a->against == rank && a->by != rank && court->is_in(court->arg, a->by) ? 1 : 0;
    }
    return votes;
}

/* Whether what the rank says of itself is explained by nothing else. */
static bool is_believed(const struct sfab_hearing *hearing, const struct sfab_hearing_court *court,
                        uint32_t rank)
{
    bool others = false;
    for (size_t i = 0; i < hearing->count; i++) {
        const struct sfab_accusation *a = &hearing->said[i];
        if (a->by != rank || a->against == rank) {
            continue;
        }
        others = true;
        if (court->is_in(court->arg, a->against) &&
            court->silence_ns(court->arg, a->against) == 0) {
            return true;
        }
    }
    return !others;
}

bool sfab_hearing_judge(struct sfab_hearing *hearing, const struct sfab_hearing_court *court,
                        uint32_t *rank, char *why, size_t cap)
{
    const struct sfab_accusation *guilty = NULL;
    size_t most = 0;
    for (size_t i = 0; i < hearing->count; i++) {
        const struct sfab_accusation *a = &hearing->said[i];
        if (!court->is_in(court->arg, a->against)) {
            continue;
        }
        bool of_itself = a->by == a->against;
        size_t votes = !of_itself ? votes_against(hearing, court, a->against)
                       : is_believed(hearing, court, a->by) ? hearing->count + 1
                                                            : 0;
        /* Of a pair whose link is down, one may be off the network altogether. */
        if (votes > most || (votes > 0 && votes == most && a->against != guilty->against &&
                             court->silence_ns(court->arg, a->against) >
                                 court->silence_ns(court->arg, guilty->against))) {
            guilty = a;
            most = votes;
        }
    }
    if (guilty != NULL) {
        *rank = guilty->against;
        if (guilty->by == guilty->against) {
            snprintf(why, cap, "%s", guilty->text);
        } else {
            snprintf(why, cap, "%zu of the others cannot reach it: %s", most, guilty->text);
        }
    }
    hearing->count = 0; /* who cannot reach another one either says so again */
    return guilty != NULL;
}

void sfab_hearing_free(struct sfab_hearing *hearing)
{
    free(hearing->said);
    *hearing = (struct sfab_hearing){0};
}
