/* survey.c - see survey.h. */
#include "fabric/boot/survey.h"
#include "fabric/boot/ranges.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sfab_surveys_begin(struct sfab_surveys *surveys, uint32_t size)
{
    *surveys = (struct sfab_surveys){.size = size, .gone = calloc(size, 1)};
    return surveys->gone != NULL ? 0 : -ENOMEM;
}

static void survey_free(struct sfab_survey *s)
{
    for (uint32_t i = 0; s->table != NULL && i < s->count; i++) {
        free(s->table[i].blob);
    }
    free(s->table);
    free(s->members);
    free(s);
}

void sfab_surveys_end(struct sfab_surveys *surveys)
{
    while (surveys->first != NULL) {
        struct sfab_survey *s = surveys->first;
        surveys->first = s->next;
        survey_free(s);
    }
    free(surveys->gone);
    surveys->gone = NULL;
}

static struct sfab_survey *find(const struct sfab_surveys *surveys, uint64_t tag)
{
    struct sfab_survey *s = surveys->first;
    while (s != NULL && s->tag != tag) {
        s = s->next;
    }
    return s;
}

const struct sfab_survey *sfab_surveys_find(const struct sfab_surveys *surveys, uint64_t tag)
{
    return find(surveys, tag);
}

/* The member's index; -1: none. */
static int64_t place_among(const uint32_t *members, uint32_t count, uint32_t rank)
{
    if (members == NULL) {
        return rank < count ? (int64_t)rank : -1;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (members[i] == rank) {
            return i;
        }
    }
    return -1;
}

static int64_t place_of(const struct sfab_survey *s, uint32_t rank)
{
    return place_among(s->members, s->count, rank);
}

/* ---- beginning --------------------------------------------------------------------------- */

static int check_members(const struct sfab_surveys *surveys, const uint32_t *members,
                         uint32_t count)
{
    if (members == NULL) {
        return count == surveys->size ? 0 : -EINVAL;
    }
    uint8_t *named = calloc(surveys->size, 1);
    if (named == NULL) {
        return -ENOMEM;
    }
    int status = count == 0 || count > surveys->size ? -EINVAL : 0;
    for (uint32_t i = 0; status == 0 && i < count; i++) {
        if (members[i] >= surveys->size || named[members[i]] != 0) {
            status = -EINVAL;
        } else {
            named[members[i]] = 1;
        }
    }
    free(named);
    return status;
}

static int survey_new(struct sfab_surveys *surveys, uint64_t tag, const uint32_t *members,
                      uint32_t count, struct sfab_survey **out)
{
    int status = check_members(surveys, members, count);
    if (status != 0) {
        return status;
    }
    if (surveys->under_way == SFAB_SURVEYS_MAX) {
        return -ENOBUFS;
    }
    struct sfab_survey *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return -ENOMEM;
    }
    s->tag = tag;
    s->count = count;
    s->table = calloc(count, sizeof(*s->table));
    s->members = members != NULL ? malloc(count * sizeof(*s->members)) : NULL;
    if (s->table == NULL || (members != NULL && s->members == NULL)) {
        survey_free(s);
        return -ENOMEM;
    }
    if (members != NULL) {
        memcpy(s->members, members, count * sizeof(*s->members));
    }
    for (uint32_t i = 0; i < count; i++) {
        s->open += surveys->gone[sfab_survey_member(s, i)] == 0 ? 1 : 0;
    }
    s->next = surveys->first;
    surveys->first = s;
    surveys->under_way++;
    *out = s;
    return 0;
}

static bool same_members(const struct sfab_survey *s, const uint32_t *members, uint32_t count)
{
    if (s->count != count || (s->members == NULL) != (members == NULL)) {
        return false;
    }
    return members == NULL || memcmp(s->members, members, count * sizeof(*members)) == 0;
}

/* ---- completing -------------------------------------------------------------------------- */

/* The oldest complete one is last in the list. */
static void forget_oldest(struct sfab_surveys *surveys)
{
    struct sfab_survey **oldest = NULL;
    for (struct sfab_survey **at = &surveys->first; *at != NULL; at = &(*at)->next) {
        if ((*at)->complete) {
            oldest = at;
        }
    }
    if (oldest != NULL) {
        struct sfab_survey *s = *oldest;
        *oldest = s->next;
        surveys->kept--;
        survey_free(s);
    }
}

/* Who is gone by now is not in it, even if it came before. */
static void settle(struct sfab_surveys *surveys, struct sfab_survey *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (surveys->gone[sfab_survey_member(s, i)] != 0) {
            free(s->table[i].blob);
            s->table[i] = (struct sfab_survey_entry){0};
        }
    }
    if (surveys->kept == SFAB_SURVEYS_KEPT) {
        forget_oldest(surveys);
    }
    s->complete = true;
    surveys->under_way--;
    surveys->kept++;
}

int sfab_surveys_bring(struct sfab_surveys *surveys, uint64_t tag, uint32_t rank,
                       const uint32_t *members, uint32_t count, const void *blob, size_t len,
                       const struct sfab_survey **out, bool *first)
{
    struct sfab_survey *s = find(surveys, tag);
    int64_t place = place_among(members, count, rank);
    if (place < 0) {
        return -EINVAL; /* before anything is begun */
    }
    if (s != NULL && !same_members(s, members, count)) {
        return -EEXIST;
    }
    int status = s == NULL ? survey_new(surveys, tag, members, count, &s) : 0;
    if (status != 0) {
        return status;
    }
    *out = s;
    *first = false;
    struct sfab_survey_entry *entry = &s->table[place];
    if (s->complete || entry->here || surveys->gone[rank] != 0) {
        return 0;
    }
    entry->blob = malloc(len > 0 ? len : 1);
    if (entry->blob == NULL) {
        return -ENOMEM;
    }
    if (len > 0) {
        memcpy(entry->blob, blob, len);
    }
    entry->len_bytes = (uint32_t)len;
    entry->here = true;
    if (--s->open == 0) {
        *first = true;
        settle(surveys, s);
    }
    return 0;
}

static struct sfab_survey *find_filled(const struct sfab_surveys *surveys)
{
    struct sfab_survey *s = surveys->first;
    while (s != NULL && (s->complete || s->open > 0)) {
        s = s->next;
    }
    return s;
}

void sfab_surveys_gone(struct sfab_surveys *surveys, uint32_t rank,
                       void (*complete)(void *arg, const struct sfab_survey *survey), void *arg)
{
    if (rank >= surveys->size || surveys->gone[rank] != 0) {
        return;
    }
    surveys->gone[rank] = 1;
    for (struct sfab_survey *s = surveys->first; s != NULL; s = s->next) {
        int64_t place = s->complete ? -1 : place_of(s, rank);
        if (place >= 0 && !s->table[place].here) {
            s->open--;
        }
    }
    for (struct sfab_survey *s; (s = find_filled(surveys)) != NULL;) {
        settle(surveys, s);
        complete(arg, s);
    }
}

/* ---- asking ------------------------------------------------------------------------------ */

struct asked {
    const struct sfab_surveys *surveys;
    const struct sfab_survey *survey;
};

static bool is_missing(const void *arg, uint32_t rank)
{
    const struct asked *asked = arg;
    int64_t place = place_of(asked->survey, rank);
    return place >= 0 && !asked->survey->table[place].here && asked->surveys->gone[rank] == 0;
}

const char *sfab_surveys_missing(const struct sfab_surveys *surveys, uint64_t tag, char *text,
                                 size_t cap)
{
    const struct sfab_survey *s = find(surveys, tag);
    struct asked asked = {surveys, s};
    char who[300];
    if (s == NULL) {
        snprintf(text, cap, "nobody has come to it");
    } else if (s->complete) {
        snprintf(text, cap, "all have come to it");
    } else {
        uint32_t count = sfab_ranges_text(who, sizeof who, surveys->size, is_missing, &asked);
        snprintf(text, cap, "%s %s not come to it", who, count == 1 ? "has" : "have");
    }
    return text;
}
