/* ctx.h - the context: one rank's membership in one job, and what every file of the ground floor and
 * the collectives may use of it. */
#ifndef SFAB_FABRIC_CTX_H
#define SFAB_FABRIC_CTX_H

#include "fabric/arena.h"
#include "fabric/boot/boot.h"
#include "fabric/card.h"
#include "fabric/config.h"
#include "fabric/group.h"
#include "fabric/op.h"
#include "fabric/runtime.h"
#include "fabric/transport.h"

#include <pthread.h>

#define SFAB_WITNESSES 8 /* others that are asked before one is accused */

enum sfab_presence { SFAB_PRESENT, SFAB_GONE_LEFT, SFAB_GONE_DIED };

struct sfab_peer {
    struct sfab_ep *ep;        /* for puts and gets; made on first use */
    struct sfab_ep *atomic_ep; /* for atomics: see sfab_peer_atomic_ep */
    struct sfab_raddr arena;   /* its sync memory through ep; base 0 until opened */
    uint8_t tp, atomic_tp;     /* indices into ctx->tps */
    uint64_t news_awaited_ns;  /* when sfab_peer_dies last waited; 0: never */
    uint64_t unanswered_ns; /* since when something sent to it is not acknowledged; 0: nothing is */
    uint64_t unanswered_seen_ns; /* when that was last found */
    uint32_t accused; /* 1 + the deaths at which it was last accused from here; 0: never */
    uint32_t node;    /* index of its node: the lowest rank that lives there */
    uint64_t beat;    /* of its own clock, when it was last looked for among the late (late.c) */
    uint64_t beat_since_ns; /* since when it has been that, by our clock */
    /* GONE: written by the control thread, values first, then presence with release. */
    uint64_t goodbye;          /* world episodes it had started when it left */
    char *why;                 /* what was seen of its death; NULL: nothing but that */
    _Atomic uint32_t presence; /* enum sfab_presence */
};

/* When to spin, yield and sleep. */
struct sfab_wait_policy {
    uint32_t first_spins; /* looks before the slow loop begins */
    uint64_t spin_ns, yield_ns;
    uint64_t nap_ns; /* longest sleep at a time */
};

/* What one transport knows of the context: its way to call back. */
struct sfab_tp_link {
    struct sfab_ctx *ctx;
    uint16_t channel; /* of its wire-up messages: its place in ctx->tps, the same on every rank */
    struct sfab_tp_env env;
};

/* An accusation that is held back until it is known whether this rank reaches anybody (suspect.c). */
struct sfab_doubt {
    uint32_t rank, asked_count; /* 0: there is none */
    uint32_t asked[SFAB_WITNESSES];
    uint64_t since_ns;
    char text[SFAB_BOOT_WHY_MAX];
};

#define SFAB_OP_POOL 64 /* flushes and word waits outstanding at a time */

/* A pooled operation: a flush, or a wait for a word (rma.c, word.c). */
struct sfab_pool_op {
    struct sfab_op op;
    int rank;              /* the one it depends on; SFAB_ALL_RANKS */
    uint32_t next_rank;    /* flush of all: where it is */
    uint64_t offset_bytes; /* word: for sentences */
};

#define SFAB_MISSING_TEXT_BYTES 512

struct sfab_ctx {
    uint64_t magic;
    uint32_t rank, size;
    struct sfab_wait_policy wait;
    _Atomic uint32_t faults; /* grows with each rank that is gone and each endpoint that failed */
    uint32_t all_present_at; /* the value of faults when all were last seen to be there */
    struct sfab_op ops;      /* head of the list of listed operations */
    struct sfab_tp *tps[SFAB_TRANSPORTS_MAX];
    uint32_t tp_count;
    struct sfab_tp *polled[SFAB_TRANSPORTS_MAX]; /* those with something to poll */
    uint32_t polled_count;
    struct sfab_peer *peers;
    sfab_counters counters;

    /* cold */
    const struct sfab_runtime *rt;
    struct sfab_config config;
    struct sfab_err err;
    uint64_t incarnation;
    char host[SFAB_HOST_BYTES];
    char log_name[96];
    struct sfab_boot *boot;
    struct sfab_boot_server *server;
    _Atomic int boot_lost; /* 1: the rendezvous is gone; text below: pair LOST */
    char boot_lost_text[256];
    _Atomic int aborted; /* 1: somebody has called sfab_abort; the rest below: pair ABORT */
    int abort_code;
    uint32_t abort_by; /* UINT32_MAX: the launcher */
    char abort_text[SFAB_BOOT_WHY_MAX];
    pthread_mutex_t groups_lock; /* guards the list of groups and what is said to */
    _Atomic uint32_t deaths;     /* ranks that have died so far */
    struct sfab_group *groups;   /* every group, the world's too */
    uint64_t moves_seen, doing_seen, moved_at_ns; /* status.c's, on the control thread */
    uint64_t suspect_began_ns, suspect_next_ns;   /* suspect.c's */
    struct sfab_doubt doubt;
    uint64_t missing_tag; /* missing.c's question; under groups_lock, as is the answer */
    char missing_text[SFAB_MISSING_TEXT_BYTES];
    struct sfab_identity *identities; /* of every rank */
    struct sfab_reach *reaches;       /* of every rank */
    pthread_mutex_t lock;             /* guards `opened` and the making of endpoints */
    pthread_cond_t opened_changed;
    int opened; /* 0: opening, 1: wire-up messages can be served, -1: failed */
    /* Endpoints by transport and rank; NULL until used from here or asked for by the peer. Set under
     * the lock with release, read with acquire: pair EP. */
    _Atomic(struct sfab_ep *) *eps[SFAB_TRANSPORTS_MAX];
    struct sfab_tp_link links[SFAB_TRANSPORTS_MAX]; /* by place in tps */
    struct sfab_boot_events events;
    char unopened_why[256]; /* why a transport that auto would take is not there */
    struct sfab_seg arena;
    struct sfab_tp_mem *arena_mem[SFAB_TRANSPORTS_MAX];
    uint64_t *scratch; /* words in the arena that gets of the library's own land in */
    struct sfab_group *world;
    bool crowded; /* ranks of this node outnumber its CPUs */
    uint32_t local_ranks, local_cpus_fit, nodes;
    struct sfab_mem *mems;   /* list of the user's memory */
    struct sfab_rmem *rmems; /* list of opened remote memory */
    struct sfab_pool_op pool[SFAB_OP_POOL];
    uint64_t share_sequence; /* of sfab_mem_share, for its exchange tags */
};

#define SFAB_CTX_MAGIC     UINT64_C(0x5346414243545831)
#define SFAB_SCRATCH_WORDS 64
#define SFAB_SCRATCH_PROBE 63 /* the word that suspect.c's probes land in: nobody looks at it */

static inline bool sfab_ctx_ok(const struct sfab_ctx *ctx)
{
    return ctx != NULL && ctx->magic == SFAB_CTX_MAGIC;
}

/* open.c: joins the job and attaches `class` to the world group. What the public sfab_open is made
 * of. */
int sfab_ctx_open(const sfab_attr *attr, const struct sfab_group_class *class,
                  const struct sfab_runtime *rt, struct sfab_ctx **out, struct sfab_err *err);
int sfab_ctx_close(struct sfab_ctx *ctx);

/* "rank 3 (hostB)" into buf; returns buf. Any thread once all have joined. */
const char *sfab_ctx_peer_name(const struct sfab_ctx *ctx, uint32_t rank, char *buf, size_t cap);

/* Sets the context's last error; returns code. */
#define sfab_ctx_fail(ctx, code, ...) sfab_fail(&(ctx)->err, code, __VA_ARGS__)

/* 0 while this rank is of the job and nobody has ended it: else the failure (an abort, the rendezvous is
 * lost, the others have given this rank up), in which `doing` tells what cannot be finished. */
int sfab_ctx_ended(struct sfab_ctx *ctx, const char *doing);

/* 0 while rank is there, and sfab_ctx_ended is 0. Else SFAB_ERR_PEER_DEAD with the sentence, in which `doing` tells what cannot
 * be finished. */
int sfab_ctx_check_present(struct sfab_ctx *ctx, uint32_t rank, const char *doing);

/* Whether nobody is gone and no connection has failed. Remembers it for the operations to come, which
 * then need not look. Linear in ranks; only called when something has changed. */
bool sfab_ctx_all_present(struct sfab_ctx *ctx);

/* Episodes of the world's barrier that this rank has started (by the group's class). */
uint64_t sfab_world_episode(const struct sfab_ctx *ctx);

/* Marks something as changed in who is there (an endpoint failed); wakes nobody. */
void sfab_ctx_note_fault(struct sfab_ctx *ctx);

/* peer.c: the endpoint of transport tp to rank, made if need be. Any thread. NULL with *err. */
struct sfab_ep *sfab_ep_get(struct sfab_ctx *ctx, uint32_t tp, uint32_t rank, struct sfab_err *err);

/* The endpoint for puts and gets to rank, made if need be (not connected). NULL: out of
 * memory, sentence in ctx->err. */
struct sfab_ep *sfab_peer_ep(struct sfab_ctx *ctx, uint32_t rank);

/* The endpoint for atomics on rank's words. Every rank of the job must use the same way to one rank's
 * words, because NIC atomics and CPU atomics are not atomic against each other (unless the device
 * says so): in a job that spans nodes, those of a node use the network for it too, and so does the
 * owner itself. */
struct sfab_ep *sfab_peer_atomic_ep(struct sfab_ctx *ctx, uint32_t rank);

/* Connects to rank and opens its sync memory: 0, then peers[rank].arena is good; -EAGAIN: progress and
 * call again; else failed, with the sentence in ctx->err. */
int sfab_peer_open(struct sfab_ctx *ctx, uint32_t rank);

/* The failure of an endpoint's operation, told as the context's, and to the rendezvous, which finds out
 * whether that rank is lost for all: returns its code. */
int sfab_peer_failed(struct sfab_ctx *ctx, struct sfab_ep *ep, int code);

/* progress.c: polls transports, steps listed operations but `except`. 0 or a fatal code. */
int sfab_ctx_progress(struct sfab_ctx *ctx, const struct sfab_op *except);

/* wait.c: one pause of the waiting ladder for loops that are not operations; *since_ns is 0 at first.
 * -ETIMEDOUT when timeout_ns is over. */
int sfab_ctx_pause(struct sfab_ctx *ctx, uint64_t *since_ns, int64_t timeout_ns);

/* Waits a moment for the news that rank is gone, since what it had here has vanished: whether it came. */
bool sfab_peer_dies(struct sfab_ctx *ctx, uint32_t rank);

/* Whether the connection to rank has failed, and not by a fault of this side's. */
bool sfab_peer_unreachable(const struct sfab_ctx *ctx, uint32_t rank);

/* peer.c: tells the rendezvous, once, that rank cannot be reached and how that was seen. */
void sfab_peer_accuse(struct sfab_ctx *ctx, uint32_t rank, const char *text);

/* Whether it has, and nobody was given up since. */
bool sfab_peer_accused(const struct sfab_ctx *ctx, uint32_t rank);

/* A connection has failed: accuses the peer, or, where this side's own device did (-ENETDOWN), this rank
 * itself, so that nobody else is given up for it; by way of sfab_suspect (suspect.h). */
void sfab_peer_accuse_ep(struct sfab_ctx *ctx, const struct sfab_ep *ep);

/* missing.c: whom the survey `tag` waits for, into text; returns text. Waits a moment for the answer. */
const char *sfab_ctx_missing(struct sfab_ctx *ctx, uint64_t tag, char *text, size_t cap);

/* The transport of that name among the opened; -1: not opened. */
int sfab_ctx_transport(const struct sfab_ctx *ctx, const char *name);

/* registry.c: every transport of this build, in order of preference; NULL at the end. */
extern const struct sfab_tp_ops *const sfab_transports[];

/* The error of the calling thread's last sfab_open or look at the settings (ctx.c). */
struct sfab_err *sfab_open_error(void);

/* open.c's helpers in their own files. */
int sfab_node_identity(struct sfab_ctx *ctx, struct sfab_identity *out); /* node.c */
void sfab_node_layout(struct sfab_ctx *ctx);                             /* node.c */
int sfab_wait_policy_set(struct sfab_ctx *ctx);                          /* ladder.c */

/* ladder.c: as struct sfab_runtime's relax, for a real process. */
int sfab_ladder(struct sfab_ctx *ctx, struct sfab_op *op, uint64_t waited_ns, uint64_t left_ns);

/* mem.c: what close frees. */
void sfab_mem_release_all(struct sfab_ctx *ctx);

#endif
