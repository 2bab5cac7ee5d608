/* open.c - opening and closing the transport: device, protection domain, completion queue. */
#include "verbs/internal.h"

#include "fabric/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#define CQ_MIN           256u
#define CQ_MAX           32768u
#define OWN_LOCKED_BYTES 65536u /* queues and rings of the first few connections */

/* A child of fork() must not take pages from under the device. Kernels since 5.12 copy them at
 * fork; before that libibverbs has to be told, before anything is registered. */
static void guard_against_fork(void)
{
    if (ibv_is_fork_initialized() != IBV_FORK_DISABLED)
        return;
    if (ibv_fork_init() != 0)
        sfab_log(SFAB_LOG_WARN, "verbs: memory was registered before syncfab could make it safe "
                                "against fork(); set RDMAV_FORK_SAFE=1 if the program forks");
}

static uint64_t read_boot_id(void)
{
    char text[64] = "", digits[17];
    size_t n = 0;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (file != NULL) {
        if (fgets(text, sizeof text, file) == NULL)
            text[0] = '\0';
        fclose(file);
    }
    for (const char *at = text; *at != '\0' && n < 16; at++)
        if (*at != '-' && *at != '\n')
            digits[n++] = *at;
    digits[n] = '\0';
    return strtoull(digits, NULL, 16);
}

static int set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static int make_queue(struct sfab_vb_tp *tp, struct sfab_err *err)
{
    const struct sfab_tp_env *env = &tp->env;
    uint64_t wanted = (uint64_t)env->size * (uint64_t)env->config->verbs_sq_depth;
    int vector =
        tp->ctx->num_comp_vectors > 0 ? (int)(env->rank % (uint32_t)tp->ctx->num_comp_vectors) : 0;

    wanted = wanted < CQ_MIN ? CQ_MIN : wanted > CQ_MAX ? CQ_MAX : wanted;
    if (wanted > (uint64_t)tp->port.attr.max_cqe)
        wanted = (uint64_t)tp->port.attr.max_cqe;
    tp->channel = ibv_create_comp_channel(tp->ctx);
    if (tp->channel == NULL)
        return sfab_fail(err, SFAB_ERR_PROVIDER, "%s cannot make a completion channel: %s",
                         tp->port.device, sfab_errno_text(errno));
    tp->cq = ibv_create_cq(tp->ctx, (int)wanted, NULL, tp->channel, vector);
    if (tp->cq == NULL)
        return sfab_fail(err, SFAB_ERR_PROVIDER,
                         "%s cannot make a completion queue of %llu entries: %s", tp->port.device,
                         (unsigned long long)wanted, sfab_errno_text(errno));
    tp->cq_room = (uint32_t)wanted;
    return 0;
}

static int make_objects(struct sfab_vb_tp *tp, struct sfab_err *err)
{
    int rc;

    tp->pd = ibv_alloc_pd(tp->ctx);
    if (tp->pd == NULL)
        return sfab_fail(err, SFAB_ERR_PROVIDER, "%s cannot make a protection domain: %s",
                         tp->port.device, sfab_errno_text(errno));
    rc = make_queue(tp, err);
    if (rc != 0)
        return rc;
    tp->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (tp->wake_fd < 0 || set_nonblocking(tp->channel->fd) != 0 ||
        set_nonblocking(tp->ctx->async_fd) != 0)
        return sfab_fail(err, -errno, "verbs: cannot set up its file descriptors: %s",
                         sfab_errno_text(errno));
    return sfab_vb_qp_measure(tp, err);
}

static void settle(struct sfab_vb_tp *tp)
{
    const struct sfab_vb_port *port = &tp->port;
    char gid[64];

    tp->atomics = port->attr.atomic_cap != IBV_ATOMIC_NONE;
    tp->staged = tp->inline_bytes < SFAB_VB_STAGE_BYTES;
    tp->signal_every =
        tp->sq_depth / 4 < SFAB_VB_SIGNAL_EVERY ? tp->sq_depth / 4 : SFAB_VB_SIGNAL_EVERY;
    /* Whole pages, so that pieces stay aligned; no device says less than one. */
    tp->max_msg_bytes = port->max_msg_bytes > 4096 ? port->max_msg_bytes & ~UINT32_C(4095) : 4096;
    tp->polls_to_look = SFAB_VB_POLLS_TO_LOOK;
    tp->base.caps.flags = SFAB_CAP_WAW_ORDERED | SFAB_CAP_BUSY_READABLE;
    if (port->attr.atomic_cap == IBV_ATOMIC_GLOB)
        tp->base.caps.flags |= SFAB_CAP_ATOMICS_COHERENT;
    if (port->software)
        tp->base.caps.flags |= SFAB_CAP_HOST_DRIVEN;
    tp->base.caps.inline_bytes = tp->staged ? SFAB_VB_STAGE_BYTES : tp->inline_bytes;
    snprintf(tp->base.describe, sizeof tp->base.describe,
             "verbs: %s port %u, GID %u (%s, %s), MTU %u, %u entries a queue pair, inline %u, "
             "connected by %s%s",
             port->device, port->port, port->gid_index,
             sfab_vb_gid_text(&port->gid, gid, sizeof gid), sfab_vb_gid_type_text(port->gid_type),
             sfab_vb_mtu_bytes(port->mtu), tp->sq_depth, tp->inline_bytes,
             tp->cm != NULL ? "rdma_cm" : "bootstrap", port->software ? ", software device" : "");
}

static void warn_of_endless_retries(const struct sfab_vb_tp *tp)
{
    if (tp->port.software && tp->env.config->verbs_retry == 7)
        sfab_log(SFAB_LOG_WARN,
                 "verbs: SFAB_VERBS_RETRY=7 is for ever on rxe devices such as %s: a rank that has "
                 "died may go unnoticed; use 6 or less",
                 tp->port.device);
}

static int open_into(struct sfab_vb_tp *tp, struct sfab_err *err)
{
    int rc = sfab_vb_choose(tp->env.config, &tp->port, &tp->ctx, err);

    if (rc != 0)
        return rc;
    rc = sfab_vb_memlock_check(tp->env.arena->len_bytes + OWN_LOCKED_BYTES, "RDMA", err);
    if (rc != 0)
        return rc;
    guard_against_fork();
    tp->eps = calloc(tp->env.size, sizeof *tp->eps);
    if (tp->eps == NULL)
        return sfab_fail(err, -ENOMEM, "out of memory for %u endpoints", tp->env.size);
    if (getrandom(&tp->nonce, sizeof tp->nonce, 0) != (ssize_t)sizeof tp->nonce)
        return sfab_fail(err, SFAB_ERR_PROVIDER, "no random numbers: %s", sfab_errno_text(errno));
    tp->boot_id = read_boot_id();
    rc = make_objects(tp, err);
    if (rc == 0 && tp->env.config->verbs_cm == SFAB_VERBS_CM_RDMACM)
        rc = sfab_vb_cm_open(tp, err);
    return rc;
}

int sfab_vb_open(const struct sfab_tp_env *env, struct sfab_tp **out, struct sfab_err *err)
{
    struct sfab_vb_tp *tp = calloc(1, sizeof *tp);
    int rc;

    if (tp == NULL)
        return sfab_fail(err, -ENOMEM, "out of memory");
    tp->env = *env;
    tp->wake_fd = -1;
    rc = open_into(tp, err);
    if (rc != 0) {
        sfab_vb_close(&tp->base);
        return rc;
    }
    settle(tp);
    warn_of_endless_retries(tp);
    *out = &tp->base;
    return 0;
}

void sfab_vb_close(struct sfab_tp *base)
{
    struct sfab_vb_tp *tp = sfab_vb_tp_of(base);

    if (base == NULL)
        return;
    if (tp->cm != NULL)
        sfab_vb_cm_close(tp);
    if (tp->eps != NULL)
        for (uint32_t peer = 0; peer < tp->env.size; peer++)
            if (sfab_vb_ep_at(tp, peer) != NULL)
                sfab_vb_ep_destroy(&sfab_vb_ep_at(tp, peer)->base);
    free((void *)tp->eps);
    if (tp->cq != NULL)
        ibv_destroy_cq(tp->cq); /* every event was acknowledged when it was read */
    if (tp->channel != NULL)
        ibv_destroy_comp_channel(tp->channel);
    if (tp->wake_fd >= 0)
        close(tp->wake_fd);
    if (tp->pd != NULL && ibv_dealloc_pd(tp->pd) != 0)
        sfab_log(SFAB_LOG_WARN, "verbs: memory is still registered with %s at close",
                 tp->port.device);
    if (tp->ctx != NULL)
        ibv_close_device(tp->ctx);
    free(tp);
}
