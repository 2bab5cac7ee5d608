/* victim.c - a rank that works until it dies or another does, says what it saw, and goes on with those
 * that are left: `victim NAME=VALUE...`, the names as in victim.h. tests/faults/jobs.py starts it and
 * reads its lines. Ends with 0 when it came to its end in order, whatever it saw. */
#include "tests/faults/victim.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern volatile sig_atomic_t victim_told_to_stop;
volatile sig_atomic_t victim_told_to_stop;

static void on_stop(int signal_number)
{
    (void)signal_number;
    victim_told_to_stop = 1;
}

static bool take(struct victim *v, const char *argument)
{
    const struct {
        const char *name;
        const char **text;
        long *number;
    } options[] = {{"work=", &v->work, NULL},
                   {"dead=", NULL, &v->dead},
                   {"turns=", NULL, &v->turns},
                   {"timeout_ms=", NULL, &v->timeout_ms},
                   {"die_call=", NULL, &v->die_call},
                   {"die_us=", NULL, &v->die_us},
                   {"die_how=", &v->die_how, NULL},
                   {"die_from=", &v->die_from, NULL},
                   {"holder=", NULL, &v->holder},
                   {"compute_turn=", NULL, &v->compute_turn},
                   {"compute_ms=", NULL, &v->compute_ms},
                   {"abort_ms=", NULL, &v->abort_ms},
                   {"linger_ms=", NULL, &v->linger_ms}};

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        size_t len = strlen(options[i].name);

        if (strncmp(argument, options[i].name, len) != 0)
            continue;
        if (options[i].text != NULL)
            *options[i].text = argument + len;
        else
            *options[i].number = strtol(argument + len, NULL, 10);
        return true;
    }
    return false;
}

/* Turns until the end is agreed or something other than a death ends it. */
static void live(struct victim *v)
{
    int (*next)(struct victim * v) = victim_share;

    while (!v->stop) {
        int rc = next(v);

        if (rc == 0)
            next = victim_turn;
        else
            victim_say_code(v, "failed", rc);
        if (rc != 0 && rc != SFAB_ERR_PEER_DEAD)
            return;
        if (v->stop || (rc == 0 && strcmp(v->work, "shrink") != 0))
            continue;
        rc = victim_shrink(v);
        if (rc != 0) {
            victim_say_code(v, "failed", rc);
            return;
        }
    }
}

static void linger(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

int main(int argc, char **argv)
{
    struct victim v = {.work = "barrier",
                       .timeout_ms = -1,
                       .die_us = -1,
                       .die_how = "kill",
                       .die_from = "open",
                       .abort_ms = -1};

    for (int i = 1; i < argc; i++)
        if (!take(&v, argv[i])) {
            fprintf(stderr, "victim: what is \"%s\"?\n", argv[i]);
            return 2;
        }
    signal(SIGUSR2, on_stop);
    victim_arm(&v, "start");
    int rc = CALL(&v, sfab_open(NULL, &v.ctx));
    if (rc != 0) {
        v.ctx = NULL;
        victim_say_code(&v, "not_open", rc);
        return 0;
    }
    v.group = sfab_world(v.ctx);
    victim_say("open");
    victim_arm(&v, "open");
    live(&v);
    linger(v.linger_ms);
    victim_say("closes");
    rc = CALL(&v, sfab_close(v.ctx));
    v.ctx = NULL;
    v.group = NULL;
    victim_say_code(&v, "closed", rc);
    return 0;
}
