/* control.c - the control channel and the rendezvous, simulated: each rank's way to the server and back
 * keeps its order and takes its time; what the server does with it is the real one's bookkeeping
 * (survey.h, hearing.h).
 *
 * As on the real one, a rank hears of a death before any table in which the dead one is missing. */
#include "fabric/events.h"
#include "fabric/sim/impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum what {
    /* to the server */
    JOIN,
    GATHER,
    SEND,
    BRING,
    ASK,
    ACCUSE,
    ABORT,
    LEAVE,
    WORDS,
    /* to a rank */
    STARTED,
    REFUSED,
    GATHERED,
    GATHER_FAILED,
    MESSAGE,
    GONE,
    SURVEYED,
    MISSING,
    ABORTED,
};

struct sim_message {
    struct sim_message *next; /* held */
    enum what what;
    uint32_t life; /* of the rank whose connection it is on */
    uint32_t rank; /* whom it is about, or from or for */
    uint64_t tag;  /* or the goodbye */
    int code;
    uint16_t channel;
    uint32_t count; /* members, or entries of a table */
    uint32_t *members;
    size_t len;
    uint8_t *data;
    struct sfab_boot_blob *table;
};

struct sim_exchange {
    struct sim_exchange *next;
    uint64_t tag;
    uint32_t count, here;
    uint32_t *members; /* NULL: all */
    uint8_t **blobs;
    size_t *lens;
};

static void serve(struct sim *s, void *arg, uint64_t value);
static void hear(struct sim *s, void *arg, uint64_t value);

static void free_message(struct sim_message *m)
{
    free(m->members);
    free(m->data);
    free(m->table);
    free(m);
}

static struct sim_message *message(const struct sim_rank *r, enum what what, const void *data,
                                   size_t len)
{
    struct sim_message *m = calloc(1, sizeof *m);

    if (m == NULL || (m->data = malloc(len + 1)) == NULL)
        abort();
    m->what = what;
    m->life = r->life;
    if (len > 0)
        memcpy(m->data, data, len);
    m->data[len] = 0;
    m->len = len;
    return m;
}

/* Later than all before it on the same way. */
static uint64_t in_order(struct sim *s, uint64_t *last_at)
{
    uint64_t at = s->now + 5 * SIM_US + sim_random(s, sim_percent(s, 5) ? 3 * SIM_MS : 60 * SIM_US);

    *last_at = at > *last_at ? at : *last_at + 1;
    return *last_at;
}

/* The rank's event is found by its number: the context may be another one by then. */
static void to_server(struct sfab_boot *boot, struct sim_message *m)
{
    struct sim_rank *r = boot->rank;

    m->rank = m->what == ACCUSE || m->what == SEND ? m->rank : r->rank;
    sim_push(r->sim, in_order(r->sim, &boot->in_at), serve, m, r->rank);
}

static void to_rank(struct sim_rank *r, struct sim_message *m)
{
    if (m->what != REFUSED) /* whoever is on the connection that has joined */
        m->life = r->sim->server.life[r->rank];
    sim_push(r->sim, in_order(r->sim, &r->boot.out_at), hear, m, r->rank);
}

static bool is_in(const struct sim *s, uint32_t rank)
{
    return s->server.in[rank] && !s->server.gone[rank];
}

/* ---- the server -------------------------------------------------------------------------- */

static uint32_t member_of(const uint32_t *members, uint32_t i)
{
    return members != NULL ? members[i] : i;
}

static void refuse(struct sim_rank *r, int code, const char *text)
{
    struct sim_message *m = message(r, REFUSED, text, strlen(text));

    m->code = code;
    to_rank(r, m);
}

static void free_exchange(struct sim_exchange *e)
{
    for (uint32_t i = 0; i < e->count; i++)
        free(e->blobs[i]);
    free(e->blobs);
    free(e->lens);
    free(e->members);
    free(e);
}

static void drop_exchange(struct sim *s, struct sim_exchange *e)
{
    for (struct sim_exchange **at = &s->server.exchanges; *at != NULL; at = &(*at)->next)
        if (*at == e) {
            *at = e->next;
            break;
        }
    free_exchange(e);
}

/* A table in one allocation. */
static struct sfab_boot_blob *table_of(uint32_t count, uint8_t *const *blobs, const size_t *lens)
{
    size_t total = count * sizeof(struct sfab_boot_blob);

    for (uint32_t i = 0; i < count; i++)
        total += blobs[i] != NULL ? lens[i] : 0;
    struct sfab_boot_blob *table = malloc(total + 1);
    if (table == NULL)
        abort();
    uint8_t *at = (uint8_t *)(table + count);
    for (uint32_t i = 0; i < count; i++) {
        table[i] = (struct sfab_boot_blob){.data = blobs[i] != NULL ? at : NULL,
                                           .len_bytes = blobs[i] != NULL ? lens[i] : 0};
        if (blobs[i] != NULL) {
            memcpy(at, blobs[i], lens[i]);
            at += lens[i];
        }
    }
    return table;
}

static void exchange_fails(struct sim *s, struct sim_exchange *e, uint32_t gone)
{
    char text[128];

    snprintf(text, sizeof text, "rank %u died or left before the exchange was complete", gone);
    for (uint32_t i = 0; i < e->count; i++) {
        struct sim_rank *r = &s->ranks[member_of(e->members, i)];

        if (e->blobs[i] == NULL || !is_in(s, r->rank))
            continue;
        struct sim_message *m = message(r, GATHER_FAILED, text, strlen(text));
        m->tag = e->tag;
        m->code = SFAB_ERR_PEER_DEAD;
        to_rank(r, m);
    }
    drop_exchange(s, e);
}

static void serve_gather(struct sim *s, struct sim_rank *r, struct sim_message *m)
{
    struct sim_exchange *e = s->server.exchanges;

    while (e != NULL && e->tag != m->tag)
        e = e->next;
    if (e == NULL) {
        e = calloc(1, sizeof *e);
        if (e == NULL || (e->blobs = calloc(m->count, sizeof *e->blobs)) == NULL ||
            (e->lens = calloc(m->count, sizeof *e->lens)) == NULL)
            abort();
        e->tag = m->tag;
        e->count = m->count;
        e->members = m->members;
        m->members = NULL;
        e->next = s->server.exchanges;
        s->server.exchanges = e;
    }
    for (uint32_t i = 0; i < e->count; i++)
        if (member_of(e->members, i) == r->rank && e->blobs[i] == NULL) {
            e->blobs[i] = m->data;
            e->lens[i] = m->len;
            m->data = NULL;
            e->here++;
        }
    for (uint32_t i = 0; i < e->count; i++)
        if (!is_in(s, member_of(e->members, i)) && e->blobs[i] == NULL) {
            exchange_fails(s, e, member_of(e->members, i));
            return;
        }
    if (e->here < e->count)
        return;
    for (uint32_t i = 0; i < e->count; i++) {
        struct sim_rank *to = &s->ranks[member_of(e->members, i)];
        struct sim_message *out = message(to, GATHERED, NULL, 0);

        out->tag = e->tag;
        out->count = e->count;
        out->table = table_of(e->count, e->blobs, e->lens);
        to_rank(to, out);
    }
    drop_exchange(s, e);
}

static void tell_survey(struct sim_rank *to, const struct sfab_survey *survey)
{
    uint8_t **blobs = calloc(survey->count, sizeof *blobs);
    size_t *lens = calloc(survey->count, sizeof *lens);
    struct sim_message *m = message(to, SURVEYED, NULL, 0);

    if (blobs == NULL || lens == NULL)
        abort();
    for (uint32_t i = 0; i < survey->count; i++)
        if (survey->table[i].here) {
            blobs[i] = survey->table[i].blob;
            lens[i] = survey->table[i].len_bytes;
        }
    m->tag = survey->tag;
    m->count = survey->count;
    m->table = table_of(survey->count, blobs, lens);
    free(blobs);
    free(lens);
    to_rank(to, m);
}

static void survey_complete(void *arg, const struct sfab_survey *survey)
{
    struct sim *s = arg;

    for (uint32_t i = 0; i < survey->count; i++)
        if (survey->table[i].here)
            tell_survey(&s->ranks[sfab_survey_member(survey, i)], survey);
}

static void serve_bring(struct sim *s, struct sim_rank *r, struct sim_message *m)
{
    const struct sfab_survey *survey = NULL;
    bool first = false;
    int rc = sfab_surveys_bring(&s->server.surveys, m->tag, r->rank, m->members, m->count, m->data,
                                m->len, &survey, &first);

    if (rc != 0)
        sim_wrong(s, "rank %u brings to a survey what cannot be brought: %d", r->rank, rc);
    else if (first)
        survey_complete(s, survey);
    else if (survey->complete)
        tell_survey(r, survey);
}

/* For all: rank is of the job no more. */
static void gone(struct sim *s, uint32_t rank, enum sfab_boot_gone how, uint64_t goodbye,
                 const char *why)
{
    if (!is_in(s, rank))
        return;
    s->server.gone[rank] = 1;
    sim_trace(s, "the rendezvous: rank %u has %s: %s", rank,
              how == SFAB_BOOT_LEFT ? "left" : "died", why);
    for (uint32_t i = 0; i < s->world.ranks; i++) {
        struct sim_rank *to = &s->ranks[i];

        if (!s->server.in[i] || (s->server.gone[i] && i != rank))
            continue;
        if (i == rank && how == SFAB_BOOT_LEFT)
            continue;
        struct sim_message *m = message(to, GONE, why, strlen(why));
        m->tag = goodbye;
        m->rank = rank;
        m->code = (int)how;
        to_rank(to, m);
    }
    for (struct sim_exchange *e = s->server.exchanges, *next; e != NULL; e = next) {
        next = e->next;
        for (uint32_t i = 0; i < e->count; i++)
            if (member_of(e->members, i) == rank && e->blobs[i] == NULL) {
                exchange_fails(s, e, rank);
                break;
            }
    }
    sfab_surveys_gone(&s->server.surveys, rank, survey_complete, s);
}

static bool court_is_in(void *arg, uint32_t rank)
{
    return is_in(arg, rank);
}

static uint64_t court_silence_ns(void *arg, uint32_t rank)
{
    const struct sim *s = arg;
    const struct sim_rank *r = &s->ranks[rank];

    /* Links that are down here are the network's: the control channel is another one. */
    return r->killed && s->now - r->killed_at >= SFAB_HEARING_NS ? s->now - r->killed_at : 0;
}

static void judge(struct sim *s, void *arg, uint64_t value)
{
    const struct sfab_hearing_court court = {
        .is_in = court_is_in, .silence_ns = court_silence_ns, .arg = s};
    char why[SFAB_HEARING_WHY_MAX];
    uint32_t rank;

    (void)arg;
    (void)value;
    s->server.hearing_on = false;
    if (sfab_hearing_judge(&s->server.hearing, &court, &rank, why, sizeof why))
        gone(s, rank, SFAB_BOOT_DIED, 0, why);
}

static void serve_join(struct sim *s, struct sim_rank *r)
{
    if (s->server.running || s->server.in[r->rank]) {
        refuse(r, -EEXIST, "the rank is taken");
        return;
    }
    s->server.in[r->rank] = 1;
    s->server.life[r->rank] = r->life;
    if (++s->server.joined < s->world.ranks)
        return;
    s->server.running = true;
    for (uint32_t i = 0; i < s->world.ranks; i++)
        to_rank(&s->ranks[i], message(&s->ranks[i], STARTED, NULL, 0));
}

static void serve_abort(struct sim *s, struct sim_rank *r, const struct sim_message *m)
{
    if (s->server.aborted)
        return;
    s->server.aborted = true;
    for (uint32_t i = 0; i < s->world.ranks; i++)
        if (is_in(s, i)) {
            struct sim_message *out = message(&s->ranks[i], ABORTED, m->data, m->len);

            out->rank = r->rank;
            out->code = m->code;
            to_rank(&s->ranks[i], out);
        }
}

static void serve(struct sim *s, void *arg, uint64_t value)
{
    struct sim_message *m = arg, *out;
    struct sim_rank *r = &s->ranks[value];
    char text[SFAB_BOOT_WHY_MAX + 64];

    /* What a process had sent before it was killed comes all the same, if it comes before its end. */
    if ((m->what != JOIN && !is_in(s, r->rank)) || (m->life != r->life && s->server.gone[value])) {
        free_message(m);
        return;
    }
    switch (m->what) {
    case JOIN:
        serve_join(s, r);
        break;
    case GATHER:
        serve_gather(s, r, m);
        break;
    case SEND:
        if (is_in(s, m->rank)) {
            out = message(&s->ranks[m->rank], MESSAGE, m->data, m->len);
            out->rank = r->rank;
            out->channel = m->channel;
            to_rank(&s->ranks[m->rank], out);
        }
        break;
    case BRING:
        serve_bring(s, r, m);
        break;
    case ASK:
        sfab_surveys_missing(&s->server.surveys, m->tag, text, sizeof text);
        out = message(r, MISSING, text, strlen(text));
        out->tag = m->tag;
        to_rank(r, out);
        break;
    case ACCUSE:
        sim_trace(s, "rank %u accuses rank %u: %s", r->rank, m->rank, (const char *)m->data);
        sfab_hearing_add(&s->server.hearing, r->rank, m->rank, (const char *)m->data);
        if (!s->server.hearing_on) {
            s->server.hearing_on = true;
            sim_push(s, s->now + SFAB_HEARING_NS, judge, NULL, 0);
        }
        break;
    case ABORT:
        serve_abort(s, r, m);
        break;
    case LEAVE:
        gone(s, r->rank, SFAB_BOOT_LEFT, m->tag, s->server.words[r->rank]);
        break;
    case WORDS:
        snprintf(s->server.words[r->rank], SFAB_BOOT_WHY_MAX, "%s", (const char *)m->data);
        break;
    default:
        break;
    }
    free_message(m);
}

static void connection_ends(struct sim *s, void *arg, uint64_t rank)
{
    (void)arg;
    if (s->server.running)
        gone(s, (uint32_t)rank, SFAB_BOOT_DIED, 0, "");
    else
        for (uint32_t i = 0; i < s->world.ranks; i++)
            if (s->server.in[i] && !s->ranks[i].killed)
                refuse(&s->ranks[i], SFAB_ERR_PEER_DEAD, "a rank died while the job was starting");
}

static void drop_held(struct sfab_boot *boot)
{
    while (boot->held != NULL) {
        struct sim_message *m = boot->held;

        boot->held = m->next;
        free_message(m);
    }
    boot->held_last = NULL;
}

/* The server sees the end of the connection soon, or, where the host went with it, by its heartbeats. */
void sim_control_killed(struct sim_rank *r)
{
    struct sim *s = r->sim;
    uint64_t delay = sim_percent(s, 80) ? sim_random(s, 5 * SIM_MS) : SIM_S + sim_random(s, SIM_S);

    /* Not before what it had sent has come: a socket's data comes before its end. */
    uint64_t at = s->now + delay;
    sim_push(s, at > r->boot.in_at ? at : r->boot.in_at + 1, connection_ends, NULL, r->rank);
    drop_held(&r->boot);
}

/* ---- a rank's end: what its control thread does ------------------------------------------- */

static void give(struct sim_rank *r, struct sim_message *m)
{
    struct sfab_boot *boot = &r->boot;
    struct sfab_boot_events *e = &boot->events;

    switch (m->what) {
    case STARTED:
        boot->started = true;
        break;
    case REFUSED:
    case GATHER_FAILED:
        if (m->what == REFUSED || m->tag == boot->waits_tag) {
            boot->failed = m->code;
            snprintf(boot->failed_text, sizeof boot->failed_text, "%s", (const char *)m->data);
        }
        break;
    case GATHERED:
        if (m->tag == boot->waits_tag && boot->table == NULL) {
            boot->table = m->table;
            m->table = NULL;
        }
        break;
    case MESSAGE:
        e->message(e->arg, m->rank, m->channel, m->data, m->len);
        break;
    case GONE:
        sim_trace(r->sim, "rank %u hears that rank %u is gone", r->rank, m->rank);
        e->gone(e->arg, m->rank, (enum sfab_boot_gone)m->code, m->tag, (const char *)m->data);
        break;
    case SURVEYED:
        e->surveyed(e->arg, m->tag, m->table, m->count);
        break;
    case MISSING:
        e->survey_missing(e->arg, m->tag, (const char *)m->data);
        break;
    case ABORTED:
        e->aborted(e->arg, m->rank, m->code, (const char *)m->data);
        break;
    default:
        break;
    }
    free_message(m);
    sim_touch(r);
}

/* A message to a transport waits until endpoints can be made, as the real thread does. */
static bool has_to_wait(const struct sim_rank *r, const struct sim_message *m)
{
    return r->paused || (m->what == MESSAGE && r->ctx != NULL && r->ctx->opened == 0);
}

static void give_held(struct sim_rank *r)
{
    while (r->boot.held != NULL && !has_to_wait(r, r->boot.held)) {
        struct sim_message *m = r->boot.held;

        r->boot.held = m->next;
        if (m->next == NULL)
            r->boot.held_last = NULL;
        give(r, m);
    }
}

static void hear(struct sim *s, void *arg, uint64_t value)
{
    struct sim_rank *r = &s->ranks[value];
    struct sim_message *m = arg;

    if (r->killed || r->ended || m->life != r->life || r->boot.closed) {
        free_message(m);
        return;
    }
    m->next = NULL;
    if (r->boot.held_last != NULL)
        r->boot.held_last->next = m;
    else
        r->boot.held = m;
    r->boot.held_last = m;
    give_held(r);
}

static void tick(struct sim *s, void *arg, uint64_t life)
{
    struct sim_rank *r = arg;

    if (r->killed || r->ended || life != r->life || r->boot.closed)
        return;
    uint64_t next_ns = 150 * SIM_MS;
    if (!r->paused) {
        give_held(r);
        next_ns = r->boot.events.tick(r->boot.events.arg);
    }
    sim_push(s, s->now + next_ns, tick, r, life);
}

void sim_control_resumed(struct sim_rank *r)
{
    give_held(r);
}

/* ---- what a rank calls ------------------------------------------------------------------- */

static struct sim_rank *self(const struct sfab_boot *boot)
{
    return boot->rank;
}

/* Waits in its fiber until something has happened: no longer than timeout_ns in all. */
static bool wait_more(struct sim_rank *r, uint64_t since, int64_t timeout_ns)
{
    uint64_t waited = r->sim->now - since;

    if (timeout_ns >= 0 && waited >= (uint64_t)timeout_ns)
        return false;
    uint64_t left = timeout_ns < 0 ? SIM_S : (uint64_t)timeout_ns - waited;
    sim_sleep(r, left < SIM_S ? left + 1 : SIM_S, false);
    return true;
}

/* A contribution to what these members do together. */
static struct sim_message *message_of(const struct sim_rank *r, enum what what, uint64_t tag,
                                      const uint32_t *members, uint32_t count, const void *blob,
                                      size_t len)
{
    struct sim_message *m = message(r, what, blob, len);

    m->tag = tag;
    m->count = count;
    if (members != NULL) {
        m->members = malloc(count * sizeof *members);
        if (m->members == NULL)
            abort();
        memcpy(m->members, members, count * sizeof *members);
    }
    return m;
}

int sim_join(struct sfab_ctx *ctx)
{
    struct sim_rank *r = sim_now_running->current;
    uint64_t since = r->sim->now;

    r->ctx = ctx;
    r->boot = (struct sfab_boot){.rank = r, .events = *sfab_ctx_events(ctx)};
    ctx->boot = &r->boot;
    to_server(&r->boot, message(r, JOIN, NULL, 0));
    while (!r->boot.started && r->boot.failed == 0)
        if (!wait_more(r, since, ctx->config.boot_timeout_ms * 1000000))
            return sfab_ctx_fail(ctx, -ETIMEDOUT, "not all ranks have joined (simulated)");
    if (r->boot.failed != 0)
        return sfab_ctx_fail(ctx, r->boot.failed, "%s", r->boot.failed_text);
    sim_push(r->sim, r->sim->now, tick, r, r->life);
    return 0;
}

int sim_allgather(struct sfab_boot *boot, uint64_t tag, const uint32_t *members, uint32_t count,
                  const void *blob, size_t len, int64_t timeout_ns, struct sfab_boot_blob **table,
                  struct sfab_err *err)
{
    struct sim_rank *r = self(boot);
    struct sim_message *m = message_of(r, GATHER, tag, members, count, blob, len);
    uint64_t since = r->sim->now;

    boot->waits_tag = tag;
    boot->failed = 0;
    boot->table = NULL;
    to_server(boot, m);
    while (boot->table == NULL && boot->failed == 0 && !r->sim->server.gone[r->rank])
        if (!wait_more(r, since, timeout_ns))
            return sfab_fail(err, -ETIMEDOUT, "not all ranks have come (simulated)");
    boot->waits_tag = 0;
    if (boot->table == NULL)
        return sfab_fail(err, SFAB_ERR_PEER_DEAD, "%s",
                         boot->failed != 0 ? boot->failed_text : "this rank was given up");
    *table = boot->table;
    boot->table = NULL;
    return 0;
}

int sim_send(struct sfab_boot *boot, uint32_t dst, uint16_t channel, const void *data, size_t len)
{
    struct sim_message *m = message(self(boot), SEND, data, len);

    m->rank = dst;
    m->channel = channel;
    to_server(boot, m);
    return 0;
}

int sim_survey(struct sfab_boot *boot, uint64_t tag, const uint32_t *members, uint32_t count,
               const void *blob, size_t len)
{
    struct sim_message *m = message_of(self(boot), BRING, tag, members, count, blob, len);

    sim_trace(self(boot)->sim, "rank %u brings to survey %llx", self(boot)->rank,
              (unsigned long long)tag);
    to_server(boot, m);
    return 0;
}

int sim_survey_ask(struct sfab_boot *boot, uint64_t tag)
{
    struct sim_message *m = message(self(boot), ASK, NULL, 0);

    m->tag = tag;
    to_server(boot, m);
    return 0;
}

int sim_accuse(struct sfab_boot *boot, uint32_t rank, const char *text)
{
    struct sim_message *m = message(self(boot), ACCUSE, text, strnlen(text, SFAB_BOOT_WHY_MAX - 1));

    m->rank = rank;
    to_server(boot, m);
    return 0;
}

int sim_abort(struct sfab_boot *boot, int code, const char *text)
{
    struct sim_message *m = message(self(boot), ABORT, text, strnlen(text, SFAB_BOOT_WHY_MAX - 1));

    m->code = code;
    to_server(boot, m);
    return 0;
}

int sim_watch(struct sfab_boot *boot, uint32_t rank, uint32_t pid)
{
    (void)boot;
    (void)rank;
    (void)pid;
    return 0; /* processes whose end their connection hides: tests/process has them */
}

int sim_last_words(struct sfab_boot *boot, const char *text)
{
    to_server(boot, message(self(boot), WORDS, text, strlen(text)));
    return 0;
}

static bool all_gone(const struct sim_rank *r)
{
    for (uint32_t i = 0; i < r->sim->world.ranks; i++)
        if (i != r->rank &&
            atomic_load_explicit(&r->ctx->peers[i].presence, memory_order_relaxed) == SFAB_PRESENT)
            return false;
    return true;
}

int sim_leave(struct sfab_boot *boot, uint64_t goodbye, int64_t timeout_ns, struct sfab_err *err)
{
    struct sim_rank *r = self(boot);
    struct sim_message *m = message(r, LEAVE, NULL, 0);
    uint64_t since = r->sim->now;

    m->tag = goodbye;
    boot->left = true;
    to_server(boot, m);
    while (!all_gone(r)) {
        if (atomic_load_explicit(&r->ctx->peers[r->rank].presence, memory_order_relaxed) !=
            SFAB_PRESENT)
            return sfab_fail(err, -ECONNRESET, "the others have given this rank up (simulated)");
        if (!wait_more(r, since, timeout_ns))
            return sfab_fail(err, -ETIMEDOUT, "others are still in the job (simulated)");
    }
    return 0;
}

void sim_close(struct sfab_boot *boot)
{
    struct sim *s = boot->rank->sim;

    boot->closed = true;
    if (!boot->left)
        sim_push(s, s->now + SIM_MS, connection_ends, NULL, boot->rank->rank);
    free(boot->table);
    boot->table = NULL;
    drop_held(boot);
}

/* ---- life -------------------------------------------------------------------------------- */

void sim_control_begin(struct sim *s)
{
    uint32_t n = s->world.ranks;

    s->server.in = calloc(n, 1);
    s->server.gone = calloc(n, 1);
    s->server.life = calloc(n, sizeof *s->server.life);
    s->server.words = calloc(n, sizeof *s->server.words);
    if (s->server.in == NULL || s->server.gone == NULL || s->server.life == NULL ||
        s->server.words == NULL || sfab_surveys_begin(&s->server.surveys, n) != 0)
        abort();
}

void sim_control_end(struct sim *s)
{
    for (size_t i = 0; i < s->heap.count; i++)
        if (s->heap.events[i].fn == serve || s->heap.events[i].fn == hear)
            free_message(s->heap.events[i].arg);
    while (s->server.exchanges != NULL)
        drop_exchange(s, s->server.exchanges);
    sfab_surveys_end(&s->server.surveys);
    sfab_hearing_free(&s->server.hearing);
    free(s->server.in);
    free(s->server.gone);
    free(s->server.life);
    free(s->server.words);
}
