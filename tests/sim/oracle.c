/* oracle.c - see oracle.h. */
#include "tests/sim/oracle.h"
#include "collectives/barrier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = SFAB_REDUCE_WORDS_MAX };

struct visit { /* of one rank to one episode */
    bool entered, left, ok;
    unsigned count;
    sfab_reduce reduce;
    uint64_t words[WORDS];
};

struct episode {
    uint64_t number;
    uint32_t entered;
    struct visit *visits; /* by member */
};

struct known_group {
    struct known_group *next;
    uint64_t id;
    uint32_t size;
    uint32_t *members;
    struct episode *episodes;
    size_t episode_count;
    int failed_count; /* -1: nobody has said */
    int *failed;
    uint32_t failed_by;
};

struct oracle {
    struct sim *sim;
    struct known_group *groups;
    bool failures_expected, given_up_expected;
    bool *out;
    uint64_t *flushed;
};

struct oracle *oracle_new(struct sim *s, uint32_t ranks)
{
    struct oracle *o = calloc(1, sizeof *o);

    if (o == NULL || (o->out = calloc(ranks, sizeof *o->out)) == NULL ||
        (o->flushed = calloc(ranks, sizeof *o->flushed)) == NULL)
        abort();
    o->sim = s;
    return o;
}

void oracle_free(struct oracle *o)
{
    for (struct known_group *g = o->groups, *next; g != NULL; g = next) {
        next = g->next;
        for (size_t i = 0; i < g->episode_count; i++)
            free(g->episodes[i].visits);
        free(g->episodes);
        free(g->members);
        free(g->failed);
        free(g);
    }
    free(o->out);
    free(o->flushed);
    free(o);
}

void oracle_expect_failures(struct oracle *o)
{
    o->failures_expected = true;
}

void oracle_expect_given_up(struct oracle *o)
{
    o->failures_expected = o->given_up_expected = true;
}

void oracle_out(struct oracle *o, uint32_t rank)
{
    o->out[rank] = true;
}

void oracle_flushed(struct oracle *o, uint32_t rank, uint64_t step)
{
    o->flushed[rank] = step;
}

bool oracle_was_flushed(const struct oracle *o, uint32_t rank, uint64_t step)
{
    return o->flushed[rank] >= step;
}

static bool survivor(const struct oracle *o, uint32_t rank)
{
    return sim_rank_ended(o->sim, rank) && !sim_rank_killed(o->sim, rank) && !o->out[rank];
}

static struct known_group *find(struct oracle *o, const struct sfab_group *group)
{
    struct known_group *g = o->groups;

    while (g != NULL && g->id != group->id)
        g = g->next;
    if (g != NULL)
        return g;
    g = calloc(1, sizeof *g);
    if (g == NULL || (g->members = calloc(group->size, sizeof *g->members)) == NULL)
        abort();
    g->id = group->id;
    g->size = group->size;
    g->failed_count = -1;
    for (uint32_t i = 0; i < group->size; i++)
        g->members[i] = sfab_group_member(group, i);
    g->next = o->groups;
    o->groups = g;
    return g;
}

void oracle_group(struct oracle *o, uint32_t rank, const struct sfab_group *group)
{
    struct known_group *g = find(o, group);
    bool same = g->size == group->size;

    for (uint32_t i = 0; same && i < g->size; i++)
        same = g->members[i] == sfab_group_member(group, i);
    if (!same)
        sim_wrong(o->sim, "rank %u has a group of %u members that another has with %u, or others",
                  rank, group->size, g->size);
}

static struct episode *episode_of(struct known_group *g, uint64_t number)
{
    for (size_t i = g->episode_count; i > 0; i--)
        if (g->episodes[i - 1].number == number)
            return &g->episodes[i - 1];
    g->episodes = realloc(g->episodes, (g->episode_count + 1) * sizeof *g->episodes);
    if (g->episodes == NULL)
        abort();
    struct episode *e = &g->episodes[g->episode_count++];
    *e = (struct episode){.number = number, .visits = calloc(g->size, sizeof *e->visits)};
    if (e->visits == NULL)
        abort();
    return e;
}

void oracle_enters(struct oracle *o, uint32_t rank, const struct sfab_group *group,
                   sfab_reduce reduce, const uint64_t *words, unsigned count)
{
    struct known_group *g = find(o, group);
    struct episode *e = episode_of(g, sfab_barrier_episode(group) + 1);
    struct visit *v = &e->visits[group->me];

    (void)rank;
    if (v->entered)
        return; /* comes back to it after a timeout */
    v->entered = true;
    v->reduce = reduce;
    v->count = count;
    if (count > 0)
        memcpy(v->words, words, count * sizeof *words);
    e->entered++;
}

/* Not the library's own: that is what is on trial. */
static uint64_t combine(sfab_reduce reduce, uint64_t a, uint64_t b)
{
    switch (reduce) {
    case SFAB_AND:
        return a & b;
    case SFAB_OR:
        return a | b;
    case SFAB_MIN:
        return a < b ? a : b;
    case SFAB_MAX:
        return a > b ? a : b;
    case SFAB_SUM:
        return a + b;
    }
    return 0;
}

static void check_result(struct oracle *o, uint32_t rank, const struct known_group *g,
                         const struct episode *e, const uint64_t *words, unsigned count)
{
    for (unsigned w = 0; w < count; w++) {
        uint64_t right = e->visits[0].words[w];

        for (uint32_t i = 1; i < g->size; i++)
            right = combine(e->visits[i].reduce, right, e->visits[i].words[w]);
        if (words[w] != right)
            sim_wrong(o->sim,
                      "a reduction is the same everywhere: rank %u has %llx in word %u of episode "
                      "%llu, and %llx is right",
                      rank, (unsigned long long)words[w], w, (unsigned long long)e->number,
                      (unsigned long long)right);
    }
}

void oracle_leaves(struct oracle *o, uint32_t rank, const struct sfab_group *group, int rc,
                   const uint64_t *words, unsigned count)
{
    struct known_group *g = find(o, group);
    struct episode *e = episode_of(g, sfab_barrier_episode(group));
    struct visit *v = &e->visits[group->me];

    if (!v->entered || v->left)
        return; /* the episode was never begun */
    v->left = true;
    v->ok = rc == 0;
    if (rc == 0 && e->entered < g->size) {
        uint32_t missing = 0;

        while (missing + 1 < g->size && e->visits[missing].entered)
            missing++;
        sim_wrong(o->sim,
                  "nobody leaves before all have entered: rank %u has left episode %llu, which "
                  "rank %u has not entered",
                  rank, (unsigned long long)e->number, g->members[missing]);
    } else if (rc == 0) {
        check_result(o, rank, g, e, words, count);
    }
}

void oracle_failed(struct oracle *o, uint32_t rank, const struct sfab_group *group)
{
    struct known_group *g = find(o, group);
    int count = 0;
    int *failed = calloc(g->size, sizeof *failed);

    if (failed == NULL)
        abort();
    sfab_group_failed(group, failed, (int)g->size, &count);
    for (int i = 0; i < count; i++)
        if (!sim_rank_killed(o->sim, (uint32_t)failed[i]) && !o->given_up_expected)
            sim_wrong(o->sim, "rank %u takes rank %d for dead, which it is not", rank, failed[i]);
    if (g->failed_count < 0) {
        g->failed_count = count;
        g->failed = failed;
        g->failed_by = rank;
        return;
    }
    if (count != g->failed_count || memcmp(failed, g->failed, (size_t)count * sizeof *failed) != 0)
        sim_wrong(
            o->sim,
            "all survivors agree on who has failed: rank %u says %d members, rank %u says %d, "
            "or others",
            rank, count, g->failed_by, g->failed_count);
    free(failed);
}

void oracle_error(struct oracle *o, uint32_t rank, int rc, const char *text)
{
    if (!o->failures_expected)
        sim_wrong(o->sim, "nothing fails where nothing is wrong: rank %u: %d, %s", rank, rc, text);
}

void oracle_end(struct oracle *o)
{
    for (struct known_group *g = o->groups; g != NULL; g = g->next)
        for (size_t n = 0; n < g->episode_count; n++) {
            const struct episode *e = &g->episodes[n];
            int64_t first = -1;

            for (uint32_t i = 0; i < g->size; i++) {
                if (!survivor(o, g->members[i]) || !e->visits[i].left)
                    continue;
                if (first >= 0 && e->visits[i].ok != e->visits[first].ok)
                    sim_wrong(o->sim,
                              "an episode has one outcome: episode %llu is %s at rank %u and %s at "
                              "rank %u",
                              (unsigned long long)e->number, e->visits[i].ok ? "done" : "failed",
                              g->members[i], e->visits[first].ok ? "done" : "failed",
                              g->members[first]);
                first = first < 0 ? (int64_t)i : first;
            }
        }
}
