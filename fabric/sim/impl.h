/* impl.h - what the simulator's files share. */
#ifndef SFAB_FABRIC_SIM_IMPL_H
#define SFAB_FABRIC_SIM_IMPL_H

#include "fabric/boot/hearing.h"
#include "fabric/boot/survey.h"
#include "fabric/ctx.h"
#include "fabric/sim/heap.h"
#include "fabric/sim/random.h"
#include "fabric/sim/sim.h"

#include <ucontext.h>

#define SIM_US UINT64_C(1000)
#define SIM_MS UINT64_C(1000000)
#define SIM_S  UINT64_C(1000000000)

struct packet;
struct sim_ep;

/* A rank's end of the control channel. */
struct sfab_boot {
    struct sim_rank *rank;
    struct sfab_boot_events events;
    bool started; /* all have joined */
    int failed;   /* joining, or the exchange under way, has failed with this */
    char failed_text[256];
    uint64_t waits_tag; /* of the exchange under way; the table when it has come */
    struct sfab_boot_blob *table;
    uint64_t in_at; /* when the latest message to the server arrives there; nothing overtakes */
    uint64_t out_at;
    bool left, closed;
    struct sim_message *held, *held_last; /* come, and not yet to be delivered */
};

struct sim_rank {
    struct sim *sim;
    uint32_t rank;
    ucontext_t fiber;
    void *stack;
    void (*program)(uint32_t rank, void *arg);
    void *arg;
    struct sfab_ctx *ctx; /* from joining on */
    bool running, ended, killed;
    bool paused, run_missed; /* what was to run while it was */
    bool sleeping;           /* in relax(): what happens wakes it */
    bool busy;
    bool dirty;    /* something has happened since it last looked */
    uint32_t life; /* grows with each kill */
    uint64_t killed_at;
    uint64_t turn;               /* of its wake-ups: earlier ones no longer count */
    uint64_t kill_in;            /* operations; 0: never */
    struct packet *rx, *rx_last; /* come in, and waiting for the target to look */
    struct sim_ep *eps;
    struct sfab_boot boot;
    char *env[16];
    char env_text[16][48];
};

struct sim_seg {
    void *addr;
    size_t len_bytes;
    bool gone;
};

struct sim_exchange;

struct sim_server {
    uint32_t joined;
    bool running, aborted;
    uint8_t *in, *gone; /* by rank */
    uint32_t *life;     /* by rank: of the process that has joined */
    char (*words)[SFAB_BOOT_WHY_MAX];
    struct sfab_surveys surveys;
    struct sfab_hearing hearing;
    bool hearing_on;
    struct sim_exchange *exchanges;
};

struct sim {
    struct sim_world world;
    uint64_t now;
    struct sim_random random;
    struct sim_heap heap;
    struct sim_rank *ranks;
    uint32_t live; /* started, neither ended nor killed */
    ucontext_t main;
    struct sim_rank *current; /* NULL: the scheduler */
    struct sim_seg *segs;
    size_t seg_count, seg_cap;
    uint8_t *down; /* links: from * ranks + to */
    struct sim_server server;
    char complaint[768];
};

extern struct sim *sim_now_running; /* runtime functions that get no context find it here */

/* world.c */
void sim_push(struct sim *s, uint64_t at, sim_fn *fn, void *arg, uint64_t value);
void sim_sleep(struct sim_rank *r, uint64_t ns, bool busy); /* within its fiber */
void sim_touch(struct sim_rank *r);                         /* something has happened to it */
void sim_dies(struct sim_rank *r); /* within its fiber: killed here; does not return */

/* net.c */
extern const struct sfab_tp_ops sim_net_ops, sim_shm_ops;
void sim_net_killed(struct sim_rank *r);
void sim_net_free(struct sim *s);
void sim_point(struct sim_rank *r); /* where others may run, and a rank may die */

/* control.c */
void sim_control_begin(struct sim *s);
void sim_control_killed(struct sim_rank *r);
void sim_control_resumed(struct sim_rank *r);
void sim_control_end(struct sim *s);
int sim_join(struct sfab_ctx *ctx);
int sim_allgather(struct sfab_boot *boot, uint64_t tag, const uint32_t *members, uint32_t count,
                  const void *blob, size_t len, int64_t timeout_ns, struct sfab_boot_blob **table,
                  struct sfab_err *err);
int sim_send(struct sfab_boot *boot, uint32_t dst, uint16_t channel, const void *data, size_t len);
int sim_survey(struct sfab_boot *boot, uint64_t tag, const uint32_t *members, uint32_t count,
               const void *blob, size_t len);
int sim_survey_ask(struct sfab_boot *boot, uint64_t tag);
int sim_accuse(struct sfab_boot *boot, uint32_t rank, const char *text);
int sim_abort(struct sfab_boot *boot, int code, const char *text);
int sim_watch(struct sfab_boot *boot, uint32_t rank, uint32_t pid);
int sim_last_words(struct sfab_boot *boot, const char *text);
int sim_leave(struct sfab_boot *boot, uint64_t goodbye, int64_t timeout_ns, struct sfab_err *err);
void sim_close(struct sfab_boot *boot);

#endif
