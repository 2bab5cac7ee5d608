/* end.c - the ways the victim ends, or seems to: killed at a call or a moment, gone without sfab_close,
 * dead while a child holds its descriptors, lost in a computation, aborting the job. */
#include "tests/faults/victim.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void victim_compute(int64_t ms)
{
    int64_t until = victim_now_ns() + ms * 1000000;

    while (victim_now_ns() < until)
        ;
}

void victim_count(struct victim *v)
{
    if (++v->calls != v->die_call)
        return;
    victim_say("dies");
    if (strcmp(v->die_how, "exit") == 0)
        exit(0);
    if (strcmp(v->die_how, "_exit") == 0)
        _exit(0);
    raise(SIGKILL);
}

/* The kernel's timer, so that the moment is any: in the library, in a system call, between two. */
static void kill_in_us(long us)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec when = {
        .it_value = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 + 1}};
    timer_t timer;

    victim_say("armed");
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, 0, &when, NULL) != 0) {
        perror("victim: timer");
        _exit(97);
    }
}

static void hold_descriptors(void)
{
    pid_t child = fork();

    if (child == 0)
        for (;;)
            pause();
    victim_say_pid("holder", child);
}

static void *abort_later(void *arg)
{
    struct victim *v = arg;
    struct timespec t = {.tv_sec = v->abort_ms / 1000, .tv_nsec = v->abort_ms % 1000 * 1000000};

    nanosleep(&t, NULL);
    victim_say("aborts");
    int rc = sfab_abort(v->ctx, -ECANCELED, "the pump is \"on fire\"");
    if (rc != 0)
        fprintf(stderr, "sfab_abort: %d\n", rc);
    return NULL;
}

void victim_arm(struct victim *v, const char *from)
{
    pthread_t thread;

    if (v->die_us >= 0 && strcmp(v->die_from, from) == 0)
        kill_in_us(v->die_us);
    if (strcmp(from, "open") != 0)
        return;
    if (v->holder)
        hold_descriptors();
    if (v->abort_ms >= 0 && pthread_create(&thread, NULL, abort_later, v) == 0)
        pthread_detach(thread);
}
