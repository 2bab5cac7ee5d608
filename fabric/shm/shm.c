/* shm.c - the shm transport's cold half: opening, keys, mapping peers, sleeping. */
#include "fabric/shm/shm.h"
#include "fabric/seg.h"
#include "fabric/shm/hot.h"
#include "fabric/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

size_t sfab_shm_name_pack(const struct sfab_shm_name *name, uint8_t *buf)
{
    struct sfab_writer w = sfab_writer_on(buf, SFAB_TP_KEY_MAX);

    sfab_write_uint(&w, name->kind, 4);
    sfab_write_uint(&w, name->pid, 4);
    sfab_write_uint(&w, (uint32_t)name->fd, 4);
    sfab_write_uint(&w, name->inode, 8);
    sfab_write_uint(&w, name->addr, 8);
    sfab_write_uint(&w, name->len_bytes, 8);
    return (size_t)(w.at - buf);
}

bool sfab_shm_name_unpack(const uint8_t *buf, size_t len, struct sfab_shm_name *name)
{
    struct sfab_reader r = sfab_reader_on(buf, len);

    name->kind = (uint32_t)sfab_read_uint(&r, 4);
    name->pid = (uint32_t)sfab_read_uint(&r, 4);
    name->fd = (int)(uint32_t)sfab_read_uint(&r, 4);
    name->inode = sfab_read_uint(&r, 8);
    name->addr = sfab_read_uint(&r, 8);
    name->len_bytes = sfab_read_uint(&r, 8);
    return !r.failed && r.at == r.end && name->fd >= -1 && name->len_bytes > 0 &&
           (name->kind == SFAB_SEG_SHARED || name->kind == SFAB_SEG_FOREIGN) &&
           name->len_bytes <= SIZE_MAX / 2;
}

static size_t pack_seg(const struct sfab_seg *seg, uint8_t *buf)
{
    struct sfab_shm_name name = {.kind = seg->kind,
                                 .pid = (uint32_t)getpid(),
                                 .fd = seg->fd,
                                 .inode = seg->inode,
                                 .addr = (uintptr_t)seg->addr,
                                 .len_bytes = seg->len_bytes};

    return sfab_shm_name_pack(&name, buf);
}

static void shm_probe(const struct sfab_config *config, sfab_probe_visit visit, void *arg)
{
    (void)config;
    sfab_doorbell_setup();
    visit(
        "shm", "memory", 1,
        sfab_doorbell_reliable()
            ? "ranks of one node: loads, stores and CPU atomics on memfd mappings; sleeps on futex"
            : "ranks of one node: loads, stores and CPU atomics on memfd mappings; membarrier(2) "
              "is "
              "missing, so sleeping ranks nap at most 1 ms",
        arg);
}

static int shm_open_transport(const struct sfab_tp_env *env, struct sfab_tp **out,
                              struct sfab_err *err)
{
    struct sfab_shm *shm = calloc(1, sizeof *shm);

    if (shm == NULL)
        return sfab_fail(err, -ENOMEM, "out of memory while opening the shm transport");
    sfab_doorbell_setup();
    shm->env = env;
    shm->bell = &((struct sfab_arena_head *)env->arena->addr)->doorbell;
    shm->tp.caps = (struct sfab_caps){
        .flags = SFAB_CAP_WAW_ORDERED | SFAB_CAP_BUSY_READABLE | SFAB_CAP_ATOMICS_COHERENT |
                 SFAB_CAP_MAP | (sfab_doorbell_reliable() ? SFAB_CAP_WAKES_ON_WRITE : 0),
        .inline_bytes = SIZE_MAX / 2};
    snprintf(shm->tp.describe, sizeof shm->tp.describe, "shm: memfd mappings, futex");
    *out = &shm->tp;
    return 0;
}

static void shm_close(struct sfab_tp *tp)
{
    free(tp);
}

static int shm_reg(struct sfab_tp *tp, const struct sfab_seg *seg, unsigned access,
                   struct sfab_tp_mem **out, struct sfab_err *err)
{
    struct sfab_tp_mem *mem = calloc(1, sizeof *mem);

    (void)tp, (void)access;
    if (mem == NULL)
        return sfab_fail(err, -ENOMEM, "out of memory while registering memory");
    mem->seg = seg;
    *out = mem;
    return 0;
}

static void shm_dereg(struct sfab_tp *tp, struct sfab_tp_mem *mem)
{
    (void)tp;
    free(mem);
}

static size_t shm_pack_key(struct sfab_tp *tp, const struct sfab_tp_mem *mem, uint8_t *key)
{
    (void)tp;
    return pack_seg(mem->seg, key);
}

/* The address of a rank is the name of its arena. */
static size_t shm_address(struct sfab_tp *tp, uint8_t *addr)
{
    return pack_seg(((struct sfab_shm *)tp)->env->arena, addr);
}

static int shm_reachable(struct sfab_tp *tp, const uint8_t *addr, size_t len, struct sfab_err *err)
{
    struct sfab_shm_name name;

    (void)tp;
    if (!sfab_shm_name_unpack(addr, len, &name) || name.kind != SFAB_SEG_SHARED)
        return sfab_fail(err, -EINVAL, "the shm address of the peer is garbled");
    return 0;
}

static int shm_ep_create(struct sfab_tp *tp, uint32_t peer, const uint8_t *addr, size_t len,
                         struct sfab_ep **out)
{
    struct sfab_shm_name name;

    (void)tp, (void)peer;
    if (!sfab_shm_name_unpack(addr, len, &name))
        return -EINVAL;
    struct sfab_shm_ep *ep = calloc(1, sizeof *ep);
    if (ep == NULL)
        return -ENOMEM;
    ep->pid = name.pid;
    ep->fd = name.fd;
    ep->inode = name.inode;
    ep->arena_bytes = (size_t)name.len_bytes;
    if (name.pid == (uint32_t)getpid()) /* a rank of this very process */
        ep->arena = sfab_seg_find(name.inode, ep->arena_bytes);
    *out = &ep->ep;
    return 0;
}

static bool in_this_process(const struct sfab_shm_ep *ep)
{
    return ep->pid == (uint32_t)getpid();
}

static void shm_ep_destroy(struct sfab_ep *ep)
{
    struct sfab_shm_ep *shm = (struct sfab_shm_ep *)ep;

    if (shm->arena != NULL && !in_this_process(shm))
        sfab_seg_unmap(shm->arena, shm->arena_bytes);
    free(shm);
}

static int map_failed(struct sfab_ep *ep, int code)
{
    ep->err.code = code;
    atomic_store_explicit(&ep->state, SFAB_EP_FAILED, memory_order_release);
    return code;
}

int sfab_shm_connect(struct sfab_ep *ep)
{
    struct sfab_shm_ep *shm = (struct sfab_shm_ep *)ep;
    uint32_t state = atomic_load_explicit(&ep->state, memory_order_relaxed);
    int rc = 0;

    if (state == SFAB_EP_READY)
        return 0;
    if (state == SFAB_EP_FAILED)
        return ep->err.code;
    if (shm->arena == NULL)
        rc = sfab_seg_map(shm->pid, shm->fd, shm->inode, shm->arena_bytes, &shm->arena, &ep->err);
    if (rc != 0)
        return map_failed(ep, rc == SFAB_ERR_STALE ? SFAB_ERR_PEER_DEAD : rc);
    struct sfab_arena_head *head = shm->arena;
    if (shm->arena_bytes < sizeof *head || head->id.magic != SFAB_ARENA_MAGIC ||
        head->id.rank != ep->peer)
        return map_failed(ep, sfab_fail(&ep->err, SFAB_ERR_STALE,
                                        "the shared memory of process %u is not rank %u's",
                                        shm->pid, ep->peer));
    shm->bell = &head->doorbell;
    atomic_store_explicit(&ep->state, SFAB_EP_READY, memory_order_release);
    return 0;
}

/* One byte is read to see whether the kernel lets us at all: better refused here, with the reason,
 * than in the middle of a put. */
static int foreign_key(struct sfab_shm_ep *ep, const struct sfab_shm_name *name,
                       struct sfab_raddr *out, struct sfab_err *err)
{
    char byte;
    int rc = sfab_shm_copy_in(ep->pid, name->addr, &byte, 1);

    if (rc == -ESRCH)
        return sfab_fail(err, SFAB_ERR_PEER_DEAD, "process %u has ended", ep->pid);
    if (rc != 0)
        return sfab_fail(
            err, rc,
            "the kernel refuses access to registered memory of process %u (%s): use "
            "sfab_mem_alloc, or allow process_vm_readv(2) (yama ptrace_scope 0, no seccomp "
            "filter against it)",
            ep->pid, sfab_errno_text(-rc));
    *out = (struct sfab_raddr){.base = name->addr,
                               .key = in_this_process(ep) ? SFAB_SHM_MAPPED : SFAB_SHM_FOREIGN,
                               .len_bytes = name->len_bytes};
    return 0;
}

static int shm_unpack_key(struct sfab_ep *ep, const uint8_t *key, size_t len,
                          struct sfab_raddr *out, struct sfab_err *err)
{
    struct sfab_shm_ep *shm = (struct sfab_shm_ep *)ep;
    struct sfab_shm_name name;
    void *at;

    if (!sfab_shm_name_unpack(key, len, &name) || name.pid != shm->pid)
        return sfab_fail(err, -EINVAL, "the key is garbled, or not one of rank %u", ep->peer);
    if (name.kind == SFAB_SEG_FOREIGN)
        return foreign_key(shm, &name, out, err);
    if (in_this_process(shm)) {
        at = sfab_seg_find(name.inode, (size_t)name.len_bytes);
        if (at == NULL)
            return sfab_fail(err, SFAB_ERR_STALE, "the memory that the key names was freed");
    } else if (name.inode == shm->inode) { /* the arena: share the endpoint's own mapping */
        int rc = sfab_shm_connect(ep);

        if (rc != 0)
            return sfab_fail(err, rc, "%s", ep->err.text);
        at = shm->arena;
    } else {
        int rc = sfab_seg_map(name.pid, name.fd, name.inode, (size_t)name.len_bytes, &at, err);

        if (rc != 0)
            return rc;
    }
    *out = (struct sfab_raddr){
        .base = (uintptr_t)at, .key = SFAB_SHM_MAPPED, .len_bytes = name.len_bytes};
    return 0;
}

static void shm_release_key(struct sfab_ep *ep, struct sfab_raddr *raddr)
{
    struct sfab_shm_ep *shm = (struct sfab_shm_ep *)ep;

    if (raddr->key == SFAB_SHM_MAPPED && !in_this_process(shm) &&
        raddr->base != (uintptr_t)shm->arena)
        sfab_seg_unmap((void *)(uintptr_t)raddr->base, (size_t)raddr->len_bytes);
    *raddr = (struct sfab_raddr){0};
}

static void *shm_map(struct sfab_ep *ep, const struct sfab_raddr *raddr, uint64_t offset,
                     size_t len)
{
    (void)ep;
    if (raddr->key != SFAB_SHM_MAPPED || raddr->base == 0 || offset > raddr->len_bytes ||
        len > raddr->len_bytes - offset)
        return NULL;
    return (void *)(uintptr_t)(raddr->base + offset);
}

static int shm_prepare_wait(struct sfab_tp *tp)
{
    struct sfab_shm *shm = (struct sfab_shm *)tp;

    shm->ticket = sfab_doorbell_prepare(shm->bell);
    return 0;
}

static int shm_wait(struct sfab_tp *tp, uint64_t timeout_ns)
{
    struct sfab_shm *shm = (struct sfab_shm *)tp;

    sfab_doorbell_sleep(shm->bell, shm->ticket, timeout_ns);
    sfab_doorbell_done(shm->bell);
    return 0;
}

static void shm_unprepare_wait(struct sfab_tp *tp)
{
    sfab_doorbell_done(((struct sfab_shm *)tp)->bell);
}

static void shm_notify(struct sfab_ep *ep)
{
    sfab_doorbell_ring(((struct sfab_shm_ep *)ep)->bell);
}

#pragma GCC diagnostic ignored "-Woverride-init"
const struct sfab_tp_ops sfab_shm_ops = {SFAB_TP_DEFAULTS,
                                         .name = "shm",
                                         .probe = shm_probe,
                                         .open = shm_open_transport,
                                         .close = shm_close,
                                         .reg = shm_reg,
                                         .dereg = shm_dereg,
                                         .pack_key = shm_pack_key,
                                         .address = shm_address,
                                         .reachable = shm_reachable,
                                         .ep_create = shm_ep_create,
                                         .ep_destroy = shm_ep_destroy,
                                         .connect = sfab_shm_connect,
                                         .unpack_key = shm_unpack_key,
                                         .release_key = shm_release_key,
                                         .map = shm_map,
                                         .put = sfab_shm_put,
                                         .get = sfab_shm_get,
                                         .put_u64 = sfab_shm_put_u64,
                                         .put_signal = sfab_shm_put_signal,
                                         .fetch_add = sfab_shm_fetch_add,
                                         .compare_swap = sfab_shm_compare_swap,
                                         .flush = sfab_shm_flush,
                                         .prepare_wait = shm_prepare_wait,
                                         .wait = shm_wait,
                                         .unprepare_wait = shm_unprepare_wait,
                                         .notify = shm_notify};
