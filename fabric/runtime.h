/* runtime.h - what a context takes from the world around it: time, randomness, memory to share, the
 * control channel, the transports there are.
 *
 * One const table. The process's own is sfab_runtime_process (runtime.c); the simulator brings another,
 * and so runs the very same core and collectives on virtual time. Used on cold paths only: nothing of
 * it is between a rank and a barrier that is on time. */
#ifndef SFAB_FABRIC_RUNTIME_H
#define SFAB_FABRIC_RUNTIME_H

#include "fabric/boot/boot.h"
#include "fabric/transport.h"

struct sfab_ctx;
struct sfab_op;
struct sfab_identity;

struct sfab_runtime {
    /* Nanoseconds of a clock that never goes back. */
    uint64_t (*now_ns)(const struct sfab_ctx *ctx);

    /* Gives way once while waiting: op (may be NULL) is not finished after waited_ns; at most left_ns
     * are left. Returns SFAB_INPROGRESS, or op's result when a last look before sleeping found it. */
    int (*relax)(struct sfab_ctx *ctx, struct sfab_op *op, uint64_t waited_ns, uint64_t left_ns);

    /* Fills buf with random bytes: 0 or -EIO. */
    int (*random)(void *buf, size_t len);

    /* The environment for settings; NULL: the process's own. */
    char *const *(*environment)(void);

    /* Who this rank is, for the others (incarnation, host and settings are in ctx already). */
    int (*identity)(struct sfab_ctx *ctx, struct sfab_identity *out);

    /* As fabric/seg.h. */
    int (*seg_create)(size_t len_bytes, struct sfab_seg *out, struct sfab_err *err);
    void (*seg_destroy)(struct sfab_seg *seg);

    /* Every transport there is, in order of preference; NULL at the end. */
    const struct sfab_tp_ops *const *transports;

    /* Makes the stores that every thread of this process has made so far visible to the caller, and
     * the caller's to them (membarrier(2)): the far half of a fence whose near half the barrier's hot
     * path does not pay. False: there is no such thing here. */
    bool (*fence_others)(void);

    /* ---- the control channel: as fabric/boot/boot.h ---- */

    /* Joins the job that ctx's settings name: sets ctx->boot (before the first event), and ctx->server
     * where this rank serves the rendezvous. Events come to sfab_ctx_events(ctx). */
    int (*join)(struct sfab_ctx *ctx);
    int (*allgather)(struct sfab_boot *boot, uint64_t tag, const uint32_t *members, uint32_t count,
                     const void *blob, size_t len, int64_t timeout_ns,
                     struct sfab_boot_blob **table, struct sfab_err *err);
    int (*send)(struct sfab_boot *boot, uint32_t dst, uint16_t channel, const void *data,
                size_t len);
    int (*survey)(struct sfab_boot *boot, uint64_t tag, const uint32_t *members, uint32_t count,
                  const void *blob, size_t len);
    int (*survey_ask)(struct sfab_boot *boot, uint64_t tag);
    int (*accuse)(struct sfab_boot *boot, uint32_t rank, const char *text);
    int (*abort)(struct sfab_boot *boot, int code, const char *text);
    int (*watch)(struct sfab_boot *boot, uint32_t rank, uint32_t pid);
    int (*last_words)(struct sfab_boot *boot, const char *text);
    int (*leave)(struct sfab_boot *boot, uint64_t goodbye, int64_t timeout_ns,
                 struct sfab_err *err);
    void (*close)(struct sfab_boot *boot);
};

extern const struct sfab_runtime sfab_runtime_process;

#endif
