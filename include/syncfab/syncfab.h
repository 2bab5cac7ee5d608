/* syncfab.h - synchronisation for parallel jobs over RDMA and shared memory.
 *
 * The one header a program includes: contexts, memory, one-sided operations and the barrier.
 * It stands alone in C11 and C++17.
 *
 * Conventions, valid for every function unless its comment says otherwise
 *  - Return value: 0 for success, SFAB_INPROGRESS (+1) for "not yet", a negative errno or one of the
 *    SFAB_ERR_ codes for failure. sfab_last_error() then gives the whole sentence: what failed, on
 *    which rank and host, what was seen, what to do.
 *  - Outputs are set only on success.
 *  - Times are nanoseconds; a timeout_ns of -1 waits for ever, 0 only looks. Lengths and offsets are
 *    bytes. Ranks count from 0.
 *  - Threads: a context and everything made from it belongs to one thread at a time. Contexts are
 *    independent of each other; several may live in one process.
 *  - A wait ends early with SFAB_ERR_PEER_DEAD when a rank that it depends on dies or leaves.
 */
#ifndef SYNCFAB_SYNCFAB_H
#define SYNCFAB_SYNCFAB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SFAB_API __attribute__((visibility("default")))
#else
#define SFAB_API
#endif

#define SFAB_VERSION_MAJOR 0
#define SFAB_VERSION_MINOR 1
#define SFAB_VERSION_PATCH 0

/* ---- codes ------------------------------------------------------------------------------- */

#define SFAB_INPROGRESS 1 /* not finished: call again */

/* Failures that errno has no word for. The first group reaches as far as one peer, the second as
 * far as the whole context. */
#define SFAB_ERR_PEER_DEAD (-1024) /* a rank this depends on died, was cut off or left */
#define SFAB_ERR_MISMATCH  (-1025) /* ranks called different collectives for one episode */
#define SFAB_ERR_STALE     (-1026) /* a key or message of an earlier incarnation */
#define SFAB_ERR_VERSION   (-1027) /* ranks run syncfab versions that do not work together */
#define SFAB_ERR_PROVIDER  (-1028) /* the network device or its driver failed */
#define SFAB_ERR_AUTH      (-1029) /* the job secret is missing or does not match */
#define SFAB_ERR_CONFIG    (-1030) /* a setting cannot be used: the sentence names it */
#define SFAB_ERR_CANCELLED (-1031) /* the operation was cancelled */

/* A few words for a code. Never NULL; the text is static. Any thread; no cost. */
SFAB_API const char *sfab_strerror(int code);

/* "0.1.0". Static text. Any thread. */
SFAB_API const char *sfab_version(void);

/* ---- contexts ---------------------------------------------------------------------------- */

typedef struct sfab_ctx sfab_ctx;     /* one rank's membership in one job */
typedef struct sfab_group sfab_group; /* an ordered set of ranks with its own episodes */
typedef struct sfab_op sfab_op;       /* an operation that was started and may be unfinished */
typedef struct sfab_mem sfab_mem;     /* local memory that peers may reach */
typedef struct sfab_rmem sfab_rmem;   /* one rank's memory, as reached from here */

/* How to open a context. Set it up with sfab_attr_init and change what is to differ. What is left
 * alone comes from the environment (the SFAB_ variables that `sfab info` lists), else from the
 * built-in default. Strings are copied. */
typedef struct sfab_attr {
    size_t struct_bytes; /* set by sfab_attr_init; lets the struct grow */
    int rank;            /* this rank, or -1: SFAB_RANK */
    int size;            /* ranks in the job, or -1: SFAB_SIZE; 1 where neither says */
    const char *root;    /* "host:port" of the rendezvous, or NULL: SFAB_ROOT */
    const char *secret;  /* the job's secret, or NULL: SFAB_SECRET or SFAB_SECRET_FILE */
    /* Any other variable by name: "SFAB_RADIX=4", ..., NULL at the end; or NULL. These win over the
     * environment. */
    const char *const *settings;
} sfab_attr;

/* Fills *attr with "everything from the environment". Any thread; no cost. */
SFAB_API void sfab_attr_init(sfab_attr *attr);

/* Joins the job and returns its context in *out. attr may be NULL: all from the environment.
 * Collective: blocks until all `size` ranks have joined or SFAB_BOOT_TIMEOUT_MS has passed; the
 * error then names the ranks that are missing.
 * Cost: one TCP connection to the rendezvous, one exchange of some 300 bytes a rank, one thread that
 * sleeps on that connection, the sync memory of the world group (docs/memory.md has the formula).
 * No connection to a peer is made before it is used.
 * Errors: SFAB_ERR_CONFIG (a setting is wrong), SFAB_ERR_AUTH, SFAB_ERR_VERSION, -ETIMEDOUT (a
 * rank is missing, or nobody serves the rendezvous), -EEXIST (rank taken), SFAB_ERR_PEER_DEAD (a rank
 * died meanwhile), -EPROTO (no syncfab at that port), -EHOSTUNREACH (no transport leads to a rank),
 * -ENODEV (no usable transport), -ENOMEM. The sentence is in sfab_last_error(NULL, ...) of the same
 * thread. */
SFAB_API int sfab_open(const sfab_attr *attr, sfab_ctx **out);

/* Leaves the job and frees everything made from ctx. Collective like MPI_Finalize: completes what
 * was started, then waits until every other rank has closed or died, at most SFAB_CLOSE_TIMEOUT_MS
 * (then -ETIMEDOUT, with a line on stderr that names those still in; the context is freed all the
 * same). NULL is allowed and does nothing. */
SFAB_API int sfab_close(sfab_ctx *ctx);

/* This rank, and the number of ranks; -EINVAL for NULL. No cost. */
SFAB_API int sfab_rank(const sfab_ctx *ctx);
SFAB_API int sfab_size(const sfab_ctx *ctx);

/* The group of all ranks, member i being rank i. Lives as long as the context. NULL for NULL. */
SFAB_API sfab_group *sfab_world(sfab_ctx *ctx);

/* This rank's place in the group, and the number of members; -EINVAL for NULL. */
SFAB_API int sfab_group_rank(const sfab_group *group);
SFAB_API int sfab_group_size(const sfab_group *group);

/* The rank in the job of the group's member i; -EINVAL for NULL or an i that is none. No cost. */
SFAB_API int sfab_group_member_rank(const sfab_group *group, int i);

/* ---- failures ---------------------------------------------------------------------------- */

/* Ends the job's waits: every operation of every rank that waits, or begins later, ends with `code`
 * (negative; one of this header's or a negated errno) and a sentence with `text` (UTF-8, cut after 199
 * bytes) and the caller's rank and host. The first abort of a job counts. The ranks stay connected and
 * can sfab_close. Does not block beyond one socket write. Errors: -EINVAL (code not negative, text
 * NULL), -ECONNRESET (the rendezvous is lost). Any thread. As MPI_Abort, but nobody is killed. */
SFAB_API int sfab_abort(sfab_ctx *ctx, int code, const char *text);

/* Makes a group of those members of `group` that are alive, in the same order: collective over them.
 * The way on after SFAB_ERR_PEER_DEAD: `group` itself runs no barrier any more once a member has died.
 * All get the same members, also when more of them die while it runs; who dies later is found by the
 * new group's own operations. The new group has its own epoch words and starts at episode 0; free it
 * with sfab_group_free. Blocks until every living member has called it, at most timeout_ns (negative:
 * for ever): -ETIMEDOUT names those that have not come; calling again goes on waiting in the same one.
 * Errors: -EINVAL, -ENOMEM, SFAB_ERR_PEER_DEAD (the rendezvous is lost, or this rank itself was given
 * up by the others), an abort's code. Cost: a control message each way, and memory as for the world's
 * group; connections are reused. After "shrink" of ULFM (Bland et al., 2013). */
SFAB_API int sfab_group_shrink(sfab_group *group, int64_t timeout_ns, sfab_group **out);

/* Frees a group that sfab_group_shrink made; local. Members that still run operations on it then see
 * this rank as one that does not come. NULL does nothing; -EINVAL for the world's group; -EBUSY while
 * an operation on it is under way. */
SFAB_API int sfab_group_free(sfab_group *group);

/* The ranks of the group's members that died, as the members agreed when an operation of the group
 * ended with SFAB_ERR_PEER_DEAD: the same on all survivors. Writes up to cap of them, ascending, and
 * the full count to *count; 0 before that. Errors: -EINVAL. No cost. */
SFAB_API int sfab_group_failed(const sfab_group *group, int *ranks, int cap, int *count);

/* Copies the sentence of the last failure on this context (of the last failed sfab_open of this
 * thread when ctx is NULL) into buf, always terminated, and returns its code; 0 and an empty text
 * where nothing has failed. */
SFAB_API int sfab_last_error(const sfab_ctx *ctx, char *buf, size_t buf_bytes);

/* Drives everything this context has under way by one small step. Never blocks. Only needed by
 * programs that test operations rarely; every test and wait calls it too.
 * Errors: those of the transports (SFAB_ERR_PROVIDER). */
SFAB_API int sfab_progress(sfab_ctx *ctx);

/* ---- operations -------------------------------------------------------------------------- */
/* An operation's storage belongs to the library. A handle is good until test, wait or cancel has
 * ended it; after that it is refused with -EINVAL where that can be seen. */

/* Drives op a step. 0: done; SFAB_INPROGRESS: not yet; else it has failed. Never blocks. */
SFAB_API int sfab_op_test(sfab_op *op);

/* Waits for op. A timeout (-ETIMEDOUT) does not end it: it can be waited on again. While it waits,
 * everything else in the context moves on too. It spins first, then yields, then sleeps: SFAB_WAIT,
 * SFAB_SPIN_US and SFAB_YIELD_US say when. */
SFAB_API int sfab_op_wait(sfab_op *op, int64_t timeout_ns);

/* Gives op up: the handle ends here and its outputs are not written. What peers need from this rank
 * for it is still sent as the context moves on, so cancelling never leaves a peer behind; a barrier's
 * group answers -EBUSY until then. */
SFAB_API int sfab_op_cancel(sfab_op *op);

/* ---- barrier ----------------------------------------------------------------------------- */

typedef enum sfab_reduce { SFAB_AND, SFAB_OR, SFAB_MIN, SFAB_MAX, SFAB_SUM } sfab_reduce;
#define SFAB_REDUCE_WORDS_MAX 8

/* Returns when every member has started the same episode. It orders no data by itself: use
 * sfab_put_signal, or sfab_flush before it.
 * -ETIMEDOUT: some have not come; the sentence names each with the last episode seen of it, and
 * sfab_barrier_late gives the same as data. The episode stays under way: calling sfab_barrier again
 * goes on waiting for it.
 * Errors: SFAB_ERR_PEER_DEAD, SFAB_ERR_MISMATCH (both operations are named), -EBUSY (a started
 * episode is outstanding), -EINVAL.
 * Algorithm: dissemination (Hensgen, Finkel, Manber 1988) of radix k ("n-way", Hoefler et al. 2006),
 * or, where ranks of one host outnumber its CPUs, a central counter. Cost: (k-1)*ceil(log_k N)
 * 8-byte writes a rank at most; no allocation; no system call on shared memory unless it blocks. */
SFAB_API int sfab_barrier(sfab_group *group, int64_t timeout_ns);

/* Split phase: announces the episode and returns at once; finish it with sfab_op_test or
 * sfab_op_wait. One outstanding episode a group: a second start answers -EBUSY. */
SFAB_API int sfab_barrier_start(sfab_group *group, sfab_op **op);

/* A barrier that combines `count` (1 to SFAB_REDUCE_WORDS_MAX) 64-bit words of every member, each
 * with each, into the same bits on all of them. words is input, and output on success; with the
 * split form it must stay alive until the operation ends. Arithmetic is unsigned; SUM is modulo 2^64
 * and counts each member once. All members must give the same reduce and count, else
 * SFAB_ERR_MISMATCH. Cost: the barrier's rounds; SUM carries twice the words. */
SFAB_API int sfab_barrier_reduce(sfab_group *group, sfab_reduce reduce, uint64_t *words,
                                 unsigned count, int64_t timeout_ns);
SFAB_API int sfab_barrier_reduce_start(sfab_group *group, sfab_reduce reduce, uint64_t *words,
                                       unsigned count, sfab_op **op);

/* What a member was seen to be at. */
typedef enum sfab_doing {
    SFAB_DOING_UNKNOWN,
    SFAB_DOING_COMPUTING, /* in the program, outside this library */
    SFAB_DOING_WAITING,   /* in an operation of ours */
    SFAB_DOING_STOPPED /* its process does not run (stopped by a signal or a debugger, or its host
                             is out of CPU): its own heartbeat word stands still */
} sfab_doing;

/* One member that has not arrived, or holds the barrier up after it has. */
typedef struct sfab_late {
    int rank;              /* in the job */
    int episode_known;     /* 0: it could not be asked (no connection, or it does not answer) */
    uint64_t last_episode; /* the last episode it has started; 0: none */
    char host[64];
    int64_t still_ns; /* since it last started or finished anything of ours, by its own clock;
                              -1: not known */
    sfab_doing doing;
    int waits_for; /* SFAB_DOING_WAITING: the rank it waits for; -1: none in particular */
} sfab_late;

/* Who has not arrived at the episode that is under way (or, with none under way, at the last one
 * finished: nobody). Once all have, those that may withhold a message: the one this rank waits for, and
 * any whose process does not run. Reads the members' own episode words, one-sided; their CPUs take no part.
 * Writes up to cap entries and the full count to *count. Blocks up to a quarter of a second where
 * members are only reachable over a network; may connect to up to 15 more of them. */
SFAB_API int sfab_barrier_late(sfab_group *group, sfab_late *late, int cap, int *count);

/* The number of the last episode that this member has started. No cost. */
SFAB_API uint64_t sfab_barrier_episode(const sfab_group *group);

/* ---- memory ------------------------------------------------------------------------------ */

#define SFAB_REMOTE_READ   1u /* peers may get */
#define SFAB_REMOTE_WRITE  2u /* peers may put */
#define SFAB_REMOTE_ATOMIC 4u /* peers may fetch_add and compare_swap */

/* Allocates zeroed, page-aligned memory that peers can reach in every way `access` allows. This is
 * the memory to use: peers of one host load and store it directly. access 0: a local buffer, good
 * as source or destination of this rank's own operations.
 * Errors: -EINVAL (length 0, unknown access), -ENOMEM; memlock too low (the sentence says the limit
 * found and the one needed). Cost: a few system calls and page faults. */
SFAB_API int sfab_mem_alloc(sfab_ctx *ctx, size_t len_bytes, unsigned access, sfab_mem **out);

/* Registers memory the caller has, which must outlive the registration. Peers may put and get it;
 * words in it cannot be targets of put_u64, signals or atomics (-EOPNOTSUPP; peers of one host reach
 * it by copying through the kernel, which has no such operations). */
SFAB_API int sfab_mem_register(sfab_ctx *ctx, void *addr, size_t len_bytes, unsigned access,
                               sfab_mem **out);

/* Ends a registration; frees what sfab_mem_alloc gave. Peers must no longer use it: an access of
 * theirs afterwards is an error there, or reads memory that is no longer shared. */
SFAB_API int sfab_mem_free(sfab_mem *mem);

/* First byte (NULL for NULL) and length (0 for NULL). */
SFAB_API void *sfab_mem_addr(const sfab_mem *mem);
SFAB_API size_t sfab_mem_len(const sfab_mem *mem);

/* The key that lets another rank of the job reach mem: up to SFAB_KEY_MAX_BYTES opaque bytes, which
 * go to the peer by any way that is not public (a key is a capability).
 * Errors: -ENOSPC (cap too small), -EINVAL. */
#define SFAB_KEY_MAX_BYTES 256
SFAB_API int sfab_mem_key(const sfab_mem *mem, void *key, size_t cap_bytes, size_t *key_bytes);

/* Makes rank's memory reachable from here by its key. Maps it where both share a host. Connects
 * nothing. Errors: -EINVAL (garbage), SFAB_ERR_STALE (of another incarnation or already freed),
 * SFAB_ERR_PEER_DEAD. */
SFAB_API int sfab_rmem_open(sfab_ctx *ctx, int rank, const void *key, size_t key_bytes,
                            sfab_rmem **out);
SFAB_API int sfab_rmem_close(sfab_rmem *rmem);
SFAB_API size_t sfab_rmem_len(const sfab_rmem *rmem);

/* Collective over the group: every member brings one mem (lengths may differ) and gets
 * table[0 .. group size - 1], member i's memory at [i]. Exchanges the keys through the rendezvous.
 * Blocks up to timeout_ns; the error names who is missing. The caller closes each entry. */
SFAB_API int sfab_mem_share(sfab_mem *mem, sfab_group *group, sfab_rmem **table,
                            int64_t timeout_ns);

/* ---- one-sided operations ---------------------------------------------------------------- */
/* None waits for the target and none disturbs its CPU. Each returns once the operation is handed to
 * the transport; it waits only while the transport is full or (first use) being connected, and while
 * it does so everything else in the context moves on; a target that is gone ends it with
 * SFAB_ERR_PEER_DEAD. Offsets and lengths are checked against both memories: -ERANGE; missing access
 * rights: -EACCES. What is promised about order is in docs/memory-model.md; in short:
 *  - two puts (put, put_u64, put_signal) from here to one rank land in any order, but a put_signal's
 *    signal is visible only after its own data and after every earlier put from here to that rank;
 *  - gets and atomics are ordered with nothing until a flush;
 *  - after sfab_flush the target sees everything sent before it, and results are in place. */

/* Copies src[src_offset, +len) to dst[dst_offset, +len). The source must stay unchanged until a
 * flush. len 0 is legal and does nothing. */
SFAB_API int sfab_put(sfab_rmem *dst, uint64_t dst_offset_bytes, sfab_mem *src,
                      uint64_t src_offset_bytes, size_t len_bytes);

/* Copies src[src_offset, +len) to dst[dst_offset, +len). The data is there after a flush. Aligned 64-bit
 * words are each seen whole in gets of up to 256 aligned bytes: epoch words can be read like that. */
SFAB_API int sfab_get(sfab_mem *dst, uint64_t dst_offset_bytes, sfab_rmem *src,
                      uint64_t src_offset_bytes, size_t len_bytes);

/* Writes one aligned 64-bit word, seen whole. The value is taken at the call. */
SFAB_API int sfab_put_u64(sfab_rmem *dst, uint64_t dst_offset_bytes, uint64_t value);

/* sfab_put, then sig[sig_offset] = value, visible only after the data. dst and sig belong to one
 * rank (-EINVAL otherwise) and may be the same memory. len 0: only the signal. */
SFAB_API int sfab_put_signal(sfab_rmem *dst, uint64_t dst_offset_bytes, sfab_mem *src,
                             uint64_t src_offset_bytes, size_t len_bytes, sfab_rmem *sig,
                             uint64_t sig_offset_bytes, uint64_t value);

/* Atomically adds to, or compares and swaps, one aligned 64-bit word; *result (may be NULL) gets the
 * value before, and is valid after a flush of that rank; it must stay alive until then. Atomic
 * against all ranks' sfab atomics on that word, not against put_u64 or the owner's own stores. */
SFAB_API int sfab_fetch_add(sfab_rmem *dst, uint64_t dst_offset_bytes, uint64_t add,
                            uint64_t *result);
SFAB_API int sfab_compare_swap(sfab_rmem *dst, uint64_t dst_offset_bytes, uint64_t expected,
                               uint64_t desired, uint64_t *result);

#define SFAB_ALL_RANKS (-1)

/* Waits until everything this context has sent to `rank` (SFAB_ALL_RANKS: to anyone) is visible
 * there and results and gets are in place here. Cost: one round trip where something was outstanding;
 * a fence on shared memory. -ETIMEDOUT: call again. */
SFAB_API int sfab_flush(sfab_ctx *ctx, int rank, int64_t timeout_ns);
SFAB_API int sfab_flush_start(sfab_ctx *ctx, int rank, sfab_op **op);

/* Waits until the local aligned word at mem[offset] is >= value, as written by peers. What the
 * writer put before (put_signal) is then visible. `from` is the rank that is expected to write, so
 * that its death ends the wait; SFAB_ALL_RANKS: any death does. */
SFAB_API int sfab_wait_u64(sfab_mem *mem, uint64_t offset_bytes, uint64_t value, int from,
                           int64_t timeout_ns);
SFAB_API int sfab_wait_u64_start(sfab_mem *mem, uint64_t offset_bytes, uint64_t value, int from,
                                 sfab_op **op);

/* Looks at such a word once (acquire order), into *value. */
SFAB_API int sfab_load_u64(const sfab_mem *mem, uint64_t offset_bytes, uint64_t *value);

/* ---- what is going on -------------------------------------------------------------------- */

/* Counts since sfab_open; they only grow (the *_now fields: as of this moment). */
typedef struct sfab_counters {
    uint64_t barriers;             /* episodes finished */
    uint64_t puts, put_bytes;      /* public puts, of all kinds */
    uint64_t gets, get_bytes;      /* public gets */
    uint64_t atomics;              /* public atomics */
    uint64_t flushes;              /* public flushes */
    uint64_t again;                /* times a transport was full or not yet connected */
    uint64_t slow_waits;           /* waits that outlasted the first spin */
    uint64_t wait_ns;              /* time in those, from the end of the first spin */
    uint64_t yields, blocks;       /* steps of the waiting ladder */
    uint64_t connections_now;      /* network connections (queue pairs) open */
    uint64_t registered_bytes_now; /* memory registered, user's and sync */
    uint64_t sync_bytes_now;       /* of which epoch words and their payload */
} sfab_counters;

SFAB_API int sfab_counters_get(const sfab_ctx *ctx, sfab_counters *out);

/* What sfab_open found out about the job. */
typedef struct sfab_layout {
    int nodes;           /* groups of ranks that share memory */
    int machine_ranks;   /* ranks under this kernel, whatever nodes they pretend */
    int machine_cpus;    /* how many of those can have a CPU of their own */
    char transports[64]; /* those that lead from here to any rank: "shm", "verbs", "shm+verbs" */
} sfab_layout;

SFAB_API int sfab_layout_get(const sfab_ctx *ctx, sfab_layout *out);

/* How `group`'s barrier works here: "dissemination, radix 2, 3 rounds ..." with the reason for the
 * choice. Copies into buf, terminated. */
SFAB_API int sfab_barrier_describe(const sfab_group *group, char *buf, size_t buf_bytes);

/* Calls visit(name, value, origin, help, arg) for every SFAB_ variable: origin is "default",
 * "environment" or "program". ctx NULL: as sfab_open would find them now. Secrets are shown as
 * "(set)". Errors: SFAB_ERR_CONFIG when one cannot be parsed. */
typedef void (*sfab_setting_visit)(const char *name, const char *value, const char *origin,
                                   const char *help, void *arg);
SFAB_API int sfab_settings(const sfab_ctx *ctx, sfab_setting_visit visit, void *arg);

/* Calls visit(transport, device, usable, text, arg) for every transport and device found on this
 * machine: why it would be used or not, and what to do about it. Opens devices briefly. */
typedef void (*sfab_probe_visit)(const char *transport, const char *device, int usable,
                                 const char *text, void *arg);
SFAB_API int sfab_probe(sfab_probe_visit visit, void *arg);

#ifdef __cplusplus
}
#endif

#endif
