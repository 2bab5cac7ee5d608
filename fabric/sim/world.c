/* world.c - virtual time, fibers, randomness, and faults that are not the network's. */
#include "fabric/sim/impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK_BYTES = 256 * 1024, GUARD_BYTES = 4096, STACKS_KEPT = 512 };

struct sim *sim_now_running;

static void *free_stacks[STACKS_KEPT];
static int free_stack_count;

/* ---- randomness and events ------------------------------------------------------------------ */

uint64_t sim_random(struct sim *s, uint64_t below)
{
    return sim_random_next(&s->random) % below;
}

bool sim_percent(struct sim *s, uint32_t pct)
{
    return pct > 0 && sim_random(s, 100) < pct;
}

void sim_push(struct sim *s, uint64_t at, sim_fn *fn, void *arg, uint64_t value)
{
    sim_heap_push(&s->heap, at > s->now ? at : s->now, fn, arg, value);
}

struct later {
    void (*fn)(struct sim *s, void *arg);
    void *arg;
};

static void run_later(struct sim *s, void *arg, uint64_t value)
{
    struct later later = *(struct later *)arg;

    (void)value;
    free(arg);
    later.fn(s, later.arg);
}

void sim_after(struct sim *s, uint64_t delay_ns, void (*fn)(struct sim *s, void *arg), void *arg)
{
    struct later *later = malloc(sizeof *later);

    if (later == NULL)
        abort();
    *later = (struct later){.fn = fn, .arg = arg};
    sim_push(s, s->now + delay_ns, run_later, later, 0);
}

/* ---- telling ----------------------------------------------------------------------------- */

uint64_t sim_now(const struct sim *s)
{
    return s->now;
}

void sim_trace(struct sim *s, const char *format, ...)
{
    va_list args;

    if (!s->world.trace)
        return;
    fprintf(stderr, "%14.3f us  ", (double)s->now / 1e3);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

void sim_wrong(struct sim *s, const char *format, ...)
{
    va_list args;

    if (s->complaint[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(s->complaint, sizeof s->complaint, format, args);
    va_end(args);
    sim_trace(s, "WRONG: %s", s->complaint);
}

const char *sim_complaint(const struct sim *s)
{
    return s->complaint[0] != '\0' ? s->complaint : NULL;
}

/* ---- fibers ------------------------------------------------------------------------------ */

static void *take_stack(void)
{
    if (free_stack_count > 0)
        return free_stacks[--free_stack_count];
    char *stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, GUARD_BYTES, PROT_NONE) != 0)
        abort();
    return stack;
}

static void give_stack(void *stack)
{
    if (free_stack_count < STACKS_KEPT)
        free_stacks[free_stack_count++] = stack;
    else
        munmap(stack, STACK_BYTES);
}

static void back_to_scheduler(struct sim_rank *r)
{
    swapcontext(&r->fiber, &r->sim->main);
}

static void fiber_main(unsigned low, unsigned high)
{
    struct sim_rank *r = (struct sim_rank *)((uintptr_t)low | (uintptr_t)high << 32);

    r->program(r->rank, r->arg);
    r->ended = true;
    r->sim->live--;
    sim_trace(r->sim, "rank %u ends", r->rank);
    back_to_scheduler(r);
}

static void run(struct sim_rank *r)
{
    struct sim *s = r->sim;

    r->sleeping = r->busy = false;
    s->current = r;
    swapcontext(&s->main, &r->fiber);
    s->current = NULL;
}

static void wake(struct sim *s, void *arg, uint64_t turn)
{
    struct sim_rank *r = arg;

    (void)s;
    if (r->killed || r->ended || turn != r->turn)
        return;
    if (r->paused)
        r->run_missed = true;
    else
        run(r);
}

void sim_sleep(struct sim_rank *r, uint64_t ns, bool busy)
{
    r->busy = busy;
    r->sleeping = !busy;
    sim_push(r->sim, r->sim->now + ns, wake, r, ++r->turn);
    back_to_scheduler(r);
}

void sim_touch(struct sim_rank *r)
{
    struct sim *s = r->sim;

    r->dirty = true;
    if (!r->sleeping)
        return;
    r->sleeping = false;
    sim_push(s, s->now + 20 + sim_random(s, 400), wake, r, ++r->turn);
}

void sim_compute(uint64_t ns)
{
    sim_sleep(sim_now_running->current, ns, true);
}

struct sim *sim_current(void)
{
    return sim_now_running;
}

/* ---- life -------------------------------------------------------------------------------- */

struct sim *sim_new(const struct sim_world *world)
{
    struct sim *s = calloc(1, sizeof *s);

    if (s == NULL || (s->ranks = calloc(world->ranks, sizeof *s->ranks)) == NULL ||
        (s->down = calloc(world->ranks, world->ranks)) == NULL)
        abort();
    s->world = *world;
    s->now = SIM_S;
    sim_random_seed(&s->random, world->seed);
    for (uint32_t i = 0; i < world->ranks; i++)
        s->ranks[i] = (struct sim_rank){.sim = s, .rank = i};
    sim_control_begin(s);
    sim_now_running = s;
    return s;
}

void sim_free(struct sim *s)
{
    sim_control_end(s);
    sim_net_free(s);
    for (uint32_t i = 0; i < s->world.ranks; i++)
        if (s->ranks[i].stack != NULL)
            give_stack(s->ranks[i].stack);
    for (size_t i = 0; i < s->seg_count; i++)
        free(s->segs[i].addr);
    for (size_t i = 0; i < s->heap.count; i++)
        if (s->heap.events[i].fn == run_later)
            free(s->heap.events[i].arg);
    free(s->segs);
    free(s->heap.events);
    free(s->down);
    free(s->ranks);
    free(s);
    sim_now_running = NULL;
}

void sim_start(struct sim *s, uint32_t rank, void (*program)(uint32_t rank, void *arg), void *arg)
{
    struct sim_rank *r = &s->ranks[rank];

    if (r->stack == NULL)
        r->stack = take_stack();
    r->program = program;
    r->arg = arg;
    r->running = true;
    getcontext(&r->fiber);
    r->fiber.uc_stack.ss_sp = (char *)r->stack + GUARD_BYTES;
    r->fiber.uc_stack.ss_size = STACK_BYTES - GUARD_BYTES;
    r->fiber.uc_link = NULL;
    uintptr_t at = (uintptr_t)r;
    makecontext(&r->fiber, (void (*)(void))fiber_main, 2, (unsigned)at, (unsigned)(at >> 32));
    s->live++;
    sim_push(s, s->now + sim_random(s, 50 * SIM_US), wake, r, ++r->turn);
}

bool sim_run(struct sim *s, uint64_t until_ns)
{
    while (s->live > 0 && s->heap.count > 0 && s->heap.events[0].at < until_ns &&
           s->complaint[0] == '\0') {
        struct sim_event e = sim_heap_pop(&s->heap);

        s->now = e.at;
        e.fn(s, e.arg, e.value);
    }
    return s->live == 0;
}

bool sim_rank_ended(const struct sim *s, uint32_t rank)
{
    return s->ranks[rank].ended;
}

bool sim_rank_killed(const struct sim *s, uint32_t rank)
{
    return s->ranks[rank].life > 0;
}

const char *sim_rank_state(const struct sim *s, uint32_t rank)
{
    const struct sim_rank *r = &s->ranks[rank];

    return r->killed   ? "killed"
           : r->ended  ? "ended"
           : r->paused ? "stopped"
           : r->busy   ? "computing"
                       : "waiting";
}

/* ---- faults ------------------------------------------------------------------------------ */

static void mark_killed(struct sim_rank *r)
{
    r->killed = true;
    r->killed_at = r->sim->now;
    r->life++;
    r->sim->live--;
    sim_trace(r->sim, "rank %u is killed", r->rank);
    sim_net_killed(r);
    sim_control_killed(r);
}

void sim_kill(struct sim *s, uint32_t rank)
{
    struct sim_rank *r = &s->ranks[rank];

    if (r->running && !r->killed && !r->ended)
        mark_killed(r);
}

void sim_kill_within(struct sim *s, uint32_t rank, uint64_t operations)
{
    s->ranks[rank].kill_in = operations;
}

void sim_dies(struct sim_rank *r)
{
    mark_killed(r);
    back_to_scheduler(r);
    abort(); /* nobody switches to it any more */
}

void sim_restart(struct sim *s, uint32_t rank, void (*program)(uint32_t rank, void *arg), void *arg)
{
    struct sim_rank *r = &s->ranks[rank];

    if (!r->killed || !s->server.running)
        return;
    sim_trace(s, "rank %u is started again", rank);
    r->killed = r->paused = r->run_missed = r->dirty = false;
    r->kill_in = 0;
    r->ctx = NULL;
    r->eps = NULL;
    r->boot = (struct sfab_boot){0};
    sim_start(s, rank, program, arg);
}

void sim_pause(struct sim *s, uint32_t rank, bool paused)
{
    struct sim_rank *r = &s->ranks[rank];

    if (r->paused == paused || r->killed || r->ended)
        return;
    sim_trace(s, "rank %u is %s", rank, paused ? "stopped" : "continued");
    r->paused = paused;
    if (paused)
        return;
    if (r->run_missed)
        sim_push(s, s->now, wake, r, r->turn);
    r->run_missed = false;
    sim_control_resumed(r);
}

void sim_link(struct sim *s, uint32_t a, uint32_t b, bool up)
{
    sim_trace(s, "the link from %u to %u is %s", a, b, up ? "up" : "down");
    s->down[a * s->world.ranks + b] = !up;
}
