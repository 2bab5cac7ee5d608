/* survey.h - surveys: exchanges that deaths do not stop. The bookkeeping alone, without I/O: the
 * rendezvous server runs on it, and the simulator.
 *
 * A survey is known by its tag, which is used once. It is complete when every member has brought its
 * blob or is gone; from then on its table stands: a member is in it unless it was gone by then. The
 * last SFAB_SURVEYS_KEPT complete ones are remembered, for members that bring something late. */
#ifndef SFAB_FABRIC_BOOT_SURVEY_H
#define SFAB_FABRIC_BOOT_SURVEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SFAB_SURVEYS_KEPT 256
#define SFAB_SURVEYS_MAX  4096 /* under way at a time */

struct sfab_survey_entry {
    bool here;
    uint32_t len_bytes;
    uint8_t *blob;
};

struct sfab_survey {
    struct sfab_survey *next;
    uint64_t tag;
    bool complete;
    uint32_t count;                  /* members */
    uint32_t open;                   /* members that are neither here nor gone */
    uint32_t *members;               /* their ranks; NULL: all */
    struct sfab_survey_entry *table; /* by member; complete: here means in the table */
};

struct sfab_surveys {
    uint32_t size; /* ranks of the job */
    uint8_t *gone; /* by rank */
    struct sfab_survey *first;
    uint32_t under_way, kept;
};

/* 0 or -ENOMEM. */
int sfab_surveys_begin(struct sfab_surveys *surveys, uint32_t size);
void sfab_surveys_end(struct sfab_surveys *surveys);

/* rank brings a blob (copied). members: NULL, or count of them, in the same order from everybody. 0:
 * *out is the survey; when it is complete now, and was not before (*first), all who are in it are to
 * be told, else rank alone. A second blob of a rank changes nothing.
 * -EINVAL: rank is no member, or a member is out of range or named twice; -EEXIST: others named other
 * members; -ENOMEM; -ENOBUFS: too many under way. */
int sfab_surveys_bring(struct sfab_surveys *surveys, uint64_t tag, uint32_t rank,
                       const uint32_t *members, uint32_t count, const void *blob, size_t len,
                       const struct sfab_survey **out, bool *first);

/* rank is gone: calls complete() for each survey that this completes. */
void sfab_surveys_gone(struct sfab_surveys *surveys, uint32_t rank,
                       void (*complete)(void *arg, const struct sfab_survey *survey), void *arg);

/* The survey of that tag; NULL: nobody has brought anything, or it is forgotten. */
const struct sfab_survey *sfab_surveys_find(const struct sfab_surveys *surveys, uint64_t tag);

/* "ranks 3, 7-9 have not come to it" and the like, into text; returns text. */
const char *sfab_surveys_missing(const struct sfab_surveys *surveys, uint64_t tag, char *text,
                                 size_t cap);

static inline uint32_t sfab_survey_member(const struct sfab_survey *survey, uint32_t index)
{
    return survey->members != NULL ? survey->members[index] : index;
}

#endif
