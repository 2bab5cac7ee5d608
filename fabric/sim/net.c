/* net.c - the simulated network, as weak as fabric/transport.h allows, and mapped memory beside it.
 *
 * A message becomes visible at its target at a time of its own; nothing keeps two of them in order but
 * what the seam promises: a put_signal's word comes after all earlier puts to that peer; words of one
 * endpoint to one address come in the order of their calls; with CAP_WAW_ORDERED all puts do. Data is
 * taken from its source when it arrives (unless it was taken at the call), and may arrive in two parts.
 * A get reads at a time of its own, so a later write may overtake it. Acknowledgements travel back: a
 * write can be visible long before its sender knows, and a link that is down one way leaves it so for
 * ever. After a while without an answer the endpoint fails, or does not: both are seen on real devices
 * (facts: retries take from milliseconds to minutes). */
#include "fabric/sim/impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { PUT, WORD, GET, ADD, SWAP };

enum { INLINE_BYTES = 192, DEPTH = 8 };

struct sim_tp {
    struct sfab_tp base;
    struct sim_rank *rank;
    const struct sfab_tp_env *env;
    bool mapped;
};

struct sim_ep {
    struct sfab_ep base;
    struct sim_tp *owner;
    struct sim_rank *rank;
    struct sim_ep *next;
    struct packet *first, *last; /* in the order of their posting */
    uint32_t outstanding;
    uint32_t again; /* answers of -EAGAIN that are still to come */
    uint64_t connect_patience_ns;
    uint64_t patience_ns; /* without an answer; then it fails */
    uint64_t posted;
    uint64_t cut; /* of a killed rank: what it posted from this on never left */
    bool break_next;
};

struct packet {
    struct packet *prev, *next; /* in its endpoint's */
    struct packet *rx_next;
    struct sim_ep *ep; /* NULL: it is gone */
    struct sim_rank *from, *to;
    enum kind kind;
    bool arrived, parked, after_all, half;
    uint32_t life; /* of its sender, in which it was posted */
    uint64_t number, posted_at;
    char *at; /* there */
    size_t len;
    void *local; /* source or destination here; NULL: it is in bytes */
    uint64_t word, compare;
    uint64_t *result;
    uint64_t out;
    uint8_t *bytes;
};

struct sim_net_mem {
    struct sfab_tp_mem base;
    uint64_t seg; /* 1 + its place among the world's; 0: the user's own */
};

static bool link_down(const struct sim_rank *from, const struct sim_rank *to)
{
    const struct sim *s = from->sim;

    return from != to && s->down[from->rank * s->world.ranks + to->rank] != 0;
}

/* Whether its sender was killed since. */
static bool orphan(const struct packet *p)
{
    return p->from->killed || p->life != p->from->life;
}

/* Tried again after what a lost message costs. */
static void try_again(struct packet *p, sim_fn *fn)
{
    struct sim *s = p->from->sim;

    sim_push(s, s->now + 60 * SIM_MS + sim_random(s, 40 * SIM_MS), fn, p, 0);
}

/* Most messages take about as long; some are late, and a few very. */
static uint64_t delay_ns(struct sim *s)
{
    uint64_t base = s->world.latency_ns / 2 + 1;
    uint64_t luck = sim_random(s, 1000);

    if (luck < 4)
        return base + sim_random(s, 400 * base);
    if (luck < 100)
        return base + sim_random(s, 20 * base);
    return base + sim_random(s, 2 * base);
}

void sim_point(struct sim_rank *r)
{
    struct sim *s = r->sim;

    if (r->kill_in > 0 && --r->kill_in == 0)
        sim_dies(r);
    if (sim_percent(s, s->world.yield_pct))
        sim_sleep(r, sim_random(s, s->world.latency_ns + 1), true);
}

/* ---- packets ----------------------------------------------------------------------------- */

static void arrive(struct sim *s, void *arg, uint64_t value);

static void unlink_packet(struct packet *p)
{
    struct sim_ep *ep = p->ep;

    if (ep == NULL)
        return;
    if (p->prev != NULL)
        p->prev->next = p->next;
    else
        ep->first = p->next;
    if (p->next != NULL)
        p->next->prev = p->prev;
    else
        ep->last = p->prev;
    ep->outstanding--;
    p->ep = NULL;
}

static void free_packet(struct packet *p)
{
    unlink_packet(p);
    free(p->bytes);
    free(p);
}

/* What waited for another to arrive first looks again. */
static void unpark(struct packet *p)
{
    if (!p->parked)
        return;
    p->parked = false;
    sim_push(p->from->sim, p->from->sim->now, arrive, p, 0);
}

static void unpark_all(struct sim_ep *ep)
{
    for (struct packet *p = ep->first; p != NULL; p = p->next)
        unpark(p);
}

/* Nobody hears any more of what is under way: data may arrive all the same. */
static void abandon(struct sim_ep *ep)
{
    for (struct packet *p = ep->first, *next; p != NULL; p = next) {
        next = p->next;
        unlink_packet(p);
        unpark(p);
    }
}

/* The endpoint is not to be used any more; what is under way is not heard of again. */
static void fail_ep(struct sim_ep *ep, const char *why)
{
    char name[96];

    if (atomic_load_explicit(&ep->base.state, memory_order_relaxed) == SFAB_EP_FAILED)
        return;
    ep->owner->env->peer_name(ep->owner->env->arg, ep->base.peer, name, sizeof name);
    sfab_fail(&ep->base.err, SFAB_ERR_PROVIDER, "%s: %s", name, why);
    atomic_store_explicit(&ep->base.state, SFAB_EP_FAILED, memory_order_release); /* TP-STATE */
    sim_trace(ep->rank->sim, "rank %u: the connection to rank %u fails: %s", ep->rank->rank,
              ep->base.peer, why);
    abandon(ep);
    ep->owner->env->wake_owner(ep->owner->env->arg);
    sim_touch(ep->rank);
}

/* True: nobody waits for it any longer. */
static bool too_late(struct packet *p)
{
    struct sim *s = p->from->sim;

    if (p->ep == NULL || orphan(p))
        return true;
    if (s->now - p->posted_at > p->ep->patience_ns) {
        fail_ep(p->ep, "no answer after all retries (simulated)");
        return true;
    }
    return false;
}

static void complete(struct sim *s, void *arg, uint64_t value)
{
    struct packet *p = arg;

    (void)s;
    (void)value;
    if (p->ep == NULL || orphan(p)) {
        free_packet(p);
        return;
    }
    if (link_down(p->to, p->from)) { /* the acknowledgement is lost, and asked for again */
        if (too_late(p))
            free_packet(p);
        else
            try_again(p, complete);
        return;
    }
    if (p->kind == GET)
        memcpy(p->local, p->bytes, p->len);
    if ((p->kind == ADD || p->kind == SWAP) && p->result != NULL)
        *p->result = p->out;
    sim_touch(p->from);
    free_packet(p);
}

/* An epoch word, or a user's: nothing here is written by two, and so nothing goes back. */
static void store_word(struct sim *s, uint32_t from, uint32_t to, void *at, uint64_t word)
{
    _Atomic uint64_t *there = (_Atomic uint64_t *)at;
    uint64_t was = atomic_load_explicit(there, memory_order_relaxed);

    sim_trace(s, "rank %u sees %llx from rank %u (was %llx)", to, (unsigned long long)word, from,
              (unsigned long long)was);
    if (word < was)
        sim_wrong(s, "an epoch went down at rank %u: from %llx to %llx, written by rank %u", to,
                  (unsigned long long)was, (unsigned long long)word, from);
    atomic_store_explicit(there, word, memory_order_release);
}

/* What the message does there. True: all of it is done. */
static bool act(struct packet *p)
{
    _Atomic uint64_t *word = (_Atomic uint64_t *)(void *)p->at;
    const uint8_t *source = p->local != NULL ? p->local : p->bytes;
    size_t first = p->len / 2 / 8 * 8;

    switch (p->kind) {
    case PUT:
        if (p->half) {
            memcpy(p->at + first, source + first, p->len - first);
        } else if (first > 0 && sim_percent(p->from->sim, 25)) {
            memcpy(p->at, source, first);
            p->half = true;
            return false;
        } else {
            memcpy(p->at, source, p->len);
        }
        break;
    case WORD:
        store_word(p->from->sim, p->from->rank, p->to->rank, p->at, p->word);
        break;
    case GET:
        memcpy(p->bytes, p->at, p->len);
        break;
    case ADD:
        p->out = atomic_fetch_add_explicit(word, p->word, memory_order_acq_rel);
        break;
    case SWAP:
        p->out = p->compare;
        atomic_compare_exchange_strong_explicit(word, &p->out, p->word, memory_order_acq_rel,
                                                memory_order_acquire);
        break;
    }
    return true;
}

/* Whether something that was posted before it has to arrive first. */
static bool is_behind(const struct packet *p)
{
    bool ordered = p->from->sim->world.ordered && (p->kind == PUT || p->kind == WORD);

    for (const struct packet *q = p->ep != NULL ? p->ep->first : NULL; q != NULL && q != p;
         q = q->next) {
        bool put = q->kind == PUT || q->kind == WORD;

        if (!q->arrived && ((put && (ordered || p->after_all)) ||
                            (q->kind == WORD && p->kind == WORD && q->at == p->at)))
            return true;
    }
    return false;
}

static void deliver(struct packet *p)
{
    struct sim *s = p->from->sim;

    if (!act(p)) {
        sim_push(s, s->now + delay_ns(s), arrive, p, 1);
        return;
    }
    p->arrived = true;
    sim_touch(p->to);
    if (p->ep != NULL)
        unpark_all(p->ep);
    sim_push(s, s->now + delay_ns(s), complete, p, 0);
}

static void arrive(struct sim *s, void *arg, uint64_t value)
{
    struct packet *p = arg;

    (void)value;
    /* What a killed rank had posted: the first of it went out, the rest did not. */
    if (orphan(p) && (p->ep == NULL || p->number >= p->ep->cut)) {
        free_packet(p);
        return;
    }
    if (p->ep == NULL && p->kind != PUT) { /* what it was to come after may be lost */
        free_packet(p);
        return;
    }
    if (p->to->killed || link_down(p->from, p->to)) {
        if (too_late(p))
            free_packet(p);
        else
            try_again(p, arrive);
        return;
    }
    if (is_behind(p)) {
        p->parked = true;
        return;
    }
    if (s->world.needs_progress && !p->to->ended && p->to != p->from) {
        p->rx_next = NULL;
        if (p->to->rx_last != NULL)
            p->to->rx_last->rx_next = p;
        else
            p->to->rx = p;
        p->to->rx_last = p;
        sim_touch(p->to);
        return;
    }
    deliver(p);
}

static int poll(struct sfab_tp *base)
{
    struct sim_rank *r = ((struct sim_tp *)base)->rank;
    int n = 0;

    for (; r->rx != NULL; n++) {
        struct packet *p = r->rx;

        r->rx = p->rx_next;
        if (r->rx == NULL)
            r->rx_last = NULL;
        deliver(p);
    }
    return n;
}

static struct packet *post(struct sim_ep *ep, enum kind kind, const struct sfab_raddr *to,
                           uint64_t offset, const void *copy, size_t len)
{
    struct sim *s = ep->rank->sim;
    struct packet *p = calloc(1, sizeof *p);

    if (p == NULL || (len > 0 && (p->bytes = malloc(len)) == NULL))
        abort();
    if (copy != NULL)
        memcpy(p->bytes, copy, len);
    p->ep = ep;
    p->from = ep->rank;
    p->life = ep->rank->life;
    p->to = &s->ranks[ep->base.peer];
    p->kind = kind;
    p->number = ep->posted++;
    p->posted_at = s->now;
    p->at = (char *)(uintptr_t)(to->base + offset);
    p->len = len;
    p->prev = ep->last;
    if (ep->last != NULL)
        ep->last->next = p;
    else
        ep->first = p;
    ep->last = p;
    ep->outstanding++;
    sim_push(s, s->now + delay_ns(s), arrive, p, 0);
    return p;
}

/* ---- operations -------------------------------------------------------------------------- */

static int net_connect(struct sfab_ep *base);

/* 0: the operation can be posted. */
static int may_post(struct sim_ep *ep)
{
    struct sim *s = ep->rank->sim;

    sim_point(ep->rank);
    int rc = net_connect(&ep->base);
    if (rc != 0)
        return rc;
    if (ep->break_next) {
        ep->break_next = false;
        fail_ep(ep, "a completion with an error (simulated)");
        return ep->base.err.code;
    }
    if (ep->again == 0 && sim_percent(s, s->world.again_pct))
        ep->again = 1 + (uint32_t)sim_random(s, 12);
    if (ep->again > 0) {
        ep->again--;
        sim_touch(ep->rank);
        return -EAGAIN;
    }
    return ep->outstanding >= DEPTH ? -EAGAIN : 0;
}

static int net_put(struct sfab_ep *base, const struct sfab_raddr *to, uint64_t offset,
                   const struct sfab_tp_mem *mem, const void *src, size_t len)
{
    struct sim_ep *ep = (struct sim_ep *)base;
    int rc = may_post(ep);

    if (rc == 0)
        post(ep, PUT, to, offset, mem == NULL ? src : NULL, len)->local =
            mem == NULL ? NULL : (void *)(uintptr_t)src;
    return rc;
}

static int net_get(struct sfab_ep *base, const struct sfab_raddr *from, uint64_t offset,
                   const struct sfab_tp_mem *mem, void *dst, size_t len)
{
    struct sim_ep *ep = (struct sim_ep *)base;
    int rc = may_post(ep);

    (void)mem;
    if (rc == 0)
        post(ep, GET, from, offset, NULL, len)->local = dst;
    return rc;
}

static int net_put_u64(struct sfab_ep *base, const struct sfab_raddr *to, uint64_t offset,
                       uint64_t value)
{
    struct sim_ep *ep = (struct sim_ep *)base;
    int rc = may_post(ep);

    if (rc == 0)
        post(ep, WORD, to, offset, NULL, 0)->word = value;
    return rc;
}

static int net_put_signal(struct sfab_ep *base, const struct sfab_raddr *to, uint64_t offset,
                          const struct sfab_tp_mem *mem, const void *src, size_t len,
                          const struct sfab_raddr *signal_to, uint64_t signal_offset,
                          uint64_t value)
{
    struct sim_ep *ep = (struct sim_ep *)base;
    int rc = may_post(ep);

    if (rc != 0)
        return rc;
    if (len > 0)
        post(ep, PUT, to, offset, mem == NULL ? src : NULL, len)->local =
            mem == NULL ? NULL : (void *)(uintptr_t)src;
    struct packet *signal = post(ep, WORD, signal_to, signal_offset, NULL, 0);
    signal->word = value;
    signal->after_all = true;
    return 0;
}

static int net_fetch_add(struct sfab_ep *base, const struct sfab_raddr *to, uint64_t offset,
                         uint64_t add, uint64_t *result)
{
    struct sim_ep *ep = (struct sim_ep *)base;
    int rc = may_post(ep);

    if (rc == 0) {
        struct packet *p = post(ep, ADD, to, offset, NULL, 0);
        p->word = add;
        p->result = result;
    }
    return rc;
}

static int net_compare_swap(struct sfab_ep *base, const struct sfab_raddr *to, uint64_t offset,
                            uint64_t expected, uint64_t desired, uint64_t *result)
{
    struct sim_ep *ep = (struct sim_ep *)base;
    int rc = may_post(ep);

    if (rc == 0) {
        struct packet *p = post(ep, SWAP, to, offset, NULL, 0);
        p->compare = expected;
        p->word = desired;
        p->result = result;
    }
    return rc;
}

static int net_flush(struct sfab_ep *base)
{
    struct sim_ep *ep = (struct sim_ep *)base;

    if (atomic_load_explicit(&base->state, memory_order_acquire) == SFAB_EP_FAILED)
        return base->err.code;
    return ep->outstanding == 0 ? 0 : -EAGAIN;
}

/* ---- connections ------------------------------------------------------------------------- */

struct connecting {
    struct sim_rank *from, *to;
    struct sim_ep *ep;
    uint64_t since;
};

static void connected(struct sim *s, void *arg, uint64_t value)
{
    struct connecting *c = arg;

    (void)value;
    bool there = false; /* an endpoint may have ended before its connection was made */
    for (struct sim_ep *ep = c->from->eps; ep != NULL; ep = ep->next)
        there = there || ep == c->ep;
    if (!there || c->from->killed || c->from->ended) {
        free(c);
    } else if (c->to->killed || link_down(c->from, c->to) || link_down(c->to, c->from)) {
        if (s->now - c->since > c->ep->connect_patience_ns) {
            fail_ep(c->ep, "it does not answer (simulated)");
            free(c);
        } else {
            sim_push(s, s->now + 100 * SIM_MS, connected, c, 0);
        }
    } else {
        atomic_store_explicit(&c->ep->base.state, SFAB_EP_READY, memory_order_release);
        c->ep->owner->base.connections_now++;
        c->ep->owner->env->wake_owner(c->ep->owner->env->arg);
        sim_touch(c->from);
        free(c);
    }
}

static int net_connect(struct sfab_ep *base)
{
    struct sim_ep *ep = (struct sim_ep *)base;
    struct sim *s = ep->rank->sim;
    struct connecting *c;

    switch ((enum sfab_ep_state)atomic_load_explicit(&base->state, memory_order_acquire)) {
    case SFAB_EP_READY:
        return 0;
    case SFAB_EP_FAILED:
        return base->err.code;
    case SFAB_EP_CONNECTING:
        return -EAGAIN;
    case SFAB_EP_IDLE:
        break;
    }
    if ((c = malloc(sizeof *c)) == NULL)
        abort();
    *c = (struct connecting){
        .from = ep->rank, .to = &s->ranks[base->peer], .ep = ep, .since = s->now};
    atomic_store_explicit(&base->state, SFAB_EP_CONNECTING, memory_order_relaxed);
    sim_push(s, s->now + 2 * delay_ns(s), connected, c, 0);
    return -EAGAIN;
}

static int ep_create(struct sfab_tp *base, uint32_t peer, const uint8_t *addr, size_t len,
                     struct sfab_ep **out)
{
    struct sim_tp *tp = (struct sim_tp *)base;
    struct sim *s = tp->rank->sim;
    struct sim_ep *ep = calloc(1, sizeof *ep);

    (void)peer;
    (void)addr;
    (void)len;
    if (ep == NULL)
        return -ENOMEM;
    ep->owner = tp;
    ep->rank = tp->rank;
    ep->next = tp->rank->eps;
    tp->rank->eps = ep;
    /* Some devices give up soon, some late, and some never say so; where a computing peer does not answer,
     * nothing else can tell that one never will. */
    ep->connect_patience_ns = 500 * SIM_MS + sim_random(s, 5000) * SIM_MS;
    ep->patience_ns =
        !s->world.needs_progress && sim_percent(s, 30) ? UINT64_MAX : ep->connect_patience_ns;
    if (tp->mapped)
        atomic_store_explicit(&ep->base.state, SFAB_EP_READY, memory_order_relaxed);
    *out = &ep->base;
    return 0;
}

static void ep_destroy(struct sfab_ep *base)
{
    struct sim_ep *ep = (struct sim_ep *)base;

    abandon(ep);
    for (struct sim_ep **at = &ep->rank->eps; *at != NULL; at = &(*at)->next)
        if (*at == ep) {
            *at = ep->next;
            break;
        }
    free(ep);
}

void sim_net_killed(struct sim_rank *r)
{
    for (struct sim_ep *ep = r->eps; ep != NULL; ep = ep->next) {
        uint64_t first = ep->first != NULL ? ep->first->number : ep->posted;

        ep->cut = first + sim_random(r->sim, ep->posted - first + 1);
        unpark_all(ep); /* those behind what is lost are lost */
    }
    while (r->rx != NULL) { /* nobody will look at it */
        struct packet *p = r->rx;

        r->rx = p->rx_next;
        sim_push(r->sim, r->sim->now, arrive, p, 0);
    }
    r->rx_last = NULL;
}

void sim_break_next(struct sim *s, uint32_t a, uint32_t b)
{
    for (struct sim_ep *ep = s->ranks[a].eps; ep != NULL; ep = ep->next)
        if (ep->base.peer == b && !ep->owner->mapped && !s->ranks[a].ended && !s->ranks[a].killed) {
            sim_trace(s, "the next operation from rank %u to rank %u will fail", a, b);
            ep->break_next = true;
        }
}

void sim_net_free(struct sim *s)
{
    for (size_t i = 0; i < s->heap.count; i++) {
        struct sim_event *e = &s->heap.events[i];

        if (e->fn == connected)
            free(e->arg);
        else if ((e->fn == arrive || e->fn == complete)) {
            struct packet *p = e->arg;

            p->ep = NULL;
            free(p->bytes);
            free(p);
        }
    }
}

/* ---- opening, memory --------------------------------------------------------------------- */

static int open_tp(const struct sfab_tp_env *env, bool mapped, struct sfab_tp **out)
{
    struct sim *s = sim_now_running;
    struct sim_tp *tp = calloc(1, sizeof *tp);

    if (tp == NULL)
        return -ENOMEM;
    tp->rank = s->current;
    tp->env = env;
    tp->mapped = mapped;
    tp->base.caps.inline_bytes = INLINE_BYTES;
    tp->base.caps.flags = SFAB_CAP_WAKES_ON_WRITE;
    if (mapped)
        tp->base.caps.flags |= SFAB_CAP_MAP | SFAB_CAP_WAW_ORDERED | SFAB_CAP_BUSY_READABLE |
                               SFAB_CAP_ATOMICS_COHERENT;
    if (s->world.ordered)
        tp->base.caps.flags |= SFAB_CAP_WAW_ORDERED;
    if (!s->world.needs_progress)
        tp->base.caps.flags |= SFAB_CAP_BUSY_READABLE;
    snprintf(tp->base.describe, sizeof tp->base.describe, "%s: simulated", mapped ? "shm" : "sim");
    *out = &tp->base;
    return 0;
}

static int net_open(const struct sfab_tp_env *env, struct sfab_tp **out, struct sfab_err *err)
{
    (void)err;
    return open_tp(env, false, out);
}

static int shm_open_tp(const struct sfab_tp_env *env, struct sfab_tp **out, struct sfab_err *err)
{
    (void)err;
    return open_tp(env, true, out);
}

static void close_tp(struct sfab_tp *tp)
{
    free(tp);
}

static int reg(struct sfab_tp *tp, const struct sfab_seg *seg, unsigned access,
               struct sfab_tp_mem **out, struct sfab_err *err)
{
    struct sim_net_mem *mem = calloc(1, sizeof *mem);

    (void)tp;
    (void)access;
    if (mem == NULL)
        return sfab_fail(err, -ENOMEM, "out of memory");
    mem->base.seg = seg;
    mem->seg = seg->inode;
    *out = &mem->base;
    return 0;
}

static void dereg(struct sfab_tp *tp, struct sfab_tp_mem *mem)
{
    (void)tp;
    free(mem);
}

static size_t pack_key(struct sfab_tp *tp, const struct sfab_tp_mem *mem, uint8_t *key)
{
    (void)tp;
    memcpy(key, &((const struct sim_net_mem *)mem)->seg, sizeof(uint64_t));
    return sizeof(uint64_t);
}

static size_t address(struct sfab_tp *base, uint8_t *addr)
{
    memcpy(addr, &((struct sim_tp *)base)->rank->rank, sizeof(uint32_t));
    return sizeof(uint32_t);
}

static int reachable(struct sfab_tp *tp, const uint8_t *addr, size_t len, struct sfab_err *err)
{
    (void)tp;
    (void)addr;
    (void)len;
    (void)err;
    return 0;
}

static int unpack_key(struct sfab_ep *base, const uint8_t *key, size_t len, struct sfab_raddr *out,
                      struct sfab_err *err)
{
    struct sim_ep *ep = (struct sim_ep *)base;
    struct sim *s = ep->rank->sim;
    uint64_t seg = 0;

    if (len == sizeof seg)
        memcpy(&seg, key, sizeof seg);
    if (seg == 0 || seg > s->seg_count)
        return sfab_fail(err, -EINVAL, "the key is garbled");
    if (ep->owner->mapped && (s->segs[seg - 1].gone || s->ranks[base->peer].killed))
        return sfab_fail(err, SFAB_ERR_STALE, "the memory is no longer there");
    *out = (struct sfab_raddr){.base = (uint64_t)(uintptr_t)s->segs[seg - 1].addr,
                               .key = seg,
                               .len_bytes = s->segs[seg - 1].len_bytes};
    return 0;
}

static void release_key(struct sfab_ep *ep, struct sfab_raddr *raddr)
{
    (void)ep;
    *raddr = (struct sfab_raddr){0};
}

/* ---- mapped memory: everything at once, and every operation a point where others may run ---- */

static char *there(struct sfab_ep *base, const struct sfab_raddr *to, uint64_t offset)
{
    sim_point(((struct sim_ep *)base)->rank);
    return (char *)(uintptr_t)(to->base + offset);
}

static void stored(struct sfab_ep *base)
{
    struct sim_ep *ep = (struct sim_ep *)base;

    sim_touch(&ep->rank->sim->ranks[base->peer]);
}

static int shm_put(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                   const struct sfab_tp_mem *mem, const void *src, size_t len)
{
    (void)mem;
    memcpy(there(ep, to, offset), src, len);
    stored(ep);
    return 0;
}

static int shm_get(struct sfab_ep *ep, const struct sfab_raddr *from, uint64_t offset,
                   const struct sfab_tp_mem *mem, void *dst, size_t len)
{
    (void)mem;
    memcpy(dst, there(ep, from, offset), len);
    return 0;
}

static int shm_put_u64(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                       uint64_t value)
{
    const struct sim_rank *r = ((struct sim_ep *)ep)->rank;
    char *at = there(ep, to, offset);

    store_word(r->sim, r->rank, ep->peer, at, value);
    stored(ep);
    return 0;
}

static int shm_put_signal(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                          const struct sfab_tp_mem *mem, const void *src, size_t len,
                          const struct sfab_raddr *signal_to, uint64_t signal_offset,
                          uint64_t value)
{
    if (len > 0)
        shm_put(ep, to, offset, mem, src, len);
    return shm_put_u64(ep, signal_to, signal_offset, value);
}

static int shm_fetch_add(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                         uint64_t add, uint64_t *result)
{
    _Atomic uint64_t *at = (_Atomic uint64_t *)(void *)there(ep, to, offset);
    uint64_t was = atomic_fetch_add_explicit(at, add, memory_order_acq_rel);

    if (result != NULL)
        *result = was;
    stored(ep);
    return 0;
}

static int shm_compare_swap(struct sfab_ep *ep, const struct sfab_raddr *to, uint64_t offset,
                            uint64_t expected, uint64_t desired, uint64_t *result)
{
    _Atomic uint64_t *at = (_Atomic uint64_t *)(void *)there(ep, to, offset);

    atomic_compare_exchange_strong_explicit(at, &expected, desired, memory_order_acq_rel,
                                            memory_order_acquire);
    if (result != NULL)
        *result = expected;
    stored(ep);
    return 0;
}

static int shm_flush(struct sfab_ep *ep)
{
    (void)ep;
    return 0;
}

static int shm_connect(struct sfab_ep *ep)
{
    (void)ep;
    return 0;
}

static void *shm_map(struct sfab_ep *ep, const struct sfab_raddr *raddr, uint64_t offset,
                     size_t len)
{
    (void)ep;
    return offset <= raddr->len_bytes && raddr->len_bytes - offset >= len
               ? (void *)(uintptr_t)(raddr->base + offset)
               : NULL;
}

#pragma GCC diagnostic ignored "-Woverride-init" /* SFAB_TP_DEFAULTS first, then ours */

/* What both share: opening aside, they differ in how bytes move. */
#define SIM_TP_COMMON                                                                              \
    SFAB_TP_DEFAULTS, .close = close_tp, .reg = reg, .dereg = dereg, .pack_key = pack_key,         \
                      .address = address, .reachable = reachable, .ep_create = ep_create,          \
                      .ep_destroy = ep_destroy, .unpack_key = unpack_key,                          \
                      .release_key = release_key

const struct sfab_tp_ops sim_net_ops = {SIM_TP_COMMON,
                                        .name = "sim",
                                        .open = net_open,
                                        .connect = net_connect,
                                        .put = net_put,
                                        .get = net_get,
                                        .put_u64 = net_put_u64,
                                        .put_signal = net_put_signal,
                                        .fetch_add = net_fetch_add,
                                        .compare_swap = net_compare_swap,
                                        .flush = net_flush,
                                        .poll = poll};

const struct sfab_tp_ops sim_shm_ops = {SIM_TP_COMMON,
                                        .name = "shm",
                                        .open = shm_open_tp,
                                        .connect = shm_connect,
                                        .map = shm_map,
                                        .put = shm_put,
                                        .get = shm_get,
                                        .put_u64 = shm_put_u64,
                                        .put_signal = shm_put_signal,
                                        .fetch_add = shm_fetch_add,
                                        .compare_swap = shm_compare_swap,
                                        .flush = shm_flush,
                                        .notify = stored};
