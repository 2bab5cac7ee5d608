/* internal.h - what the shm transport's own files share. */
#ifndef SFAB_FABRIC_SHM_INTERNAL_H
#define SFAB_FABRIC_SHM_INTERNAL_H

#include "fabric/doorbell.h"
#include "fabric/transport.h"

struct sfab_shm {
    struct sfab_tp tp;
    const struct sfab_tp_env *env;
    struct sfab_arena_doorbell *bell; /* this rank's own */
    uint32_t ticket;
};

struct sfab_shm_ep {
    struct sfab_ep ep;
    struct sfab_arena_doorbell *bell; /* the peer's; valid when READY */
    void *arena;                      /* the peer's arena as mapped here */
    size_t arena_bytes;
    uint32_t pid;
    int fd;
    uint64_t inode;
};

/* raddr.key of a mapping, and of memory that is reached by copying through the kernel. */
enum { SFAB_SHM_MAPPED = 0, SFAB_SHM_FOREIGN = 1 };

/* The wire form of a key and of an address: both name a piece of memory of a process. */
struct sfab_shm_name {
    uint32_t kind; /* enum sfab_seg_kind */
    uint32_t pid;
    int fd;
    uint64_t inode;
    uint64_t addr;
    uint64_t len_bytes;
};
size_t sfab_shm_name_pack(const struct sfab_shm_name *name, uint8_t *buf);
bool sfab_shm_name_unpack(const uint8_t *buf, size_t len, struct sfab_shm_name *name);

/* copy.c: process_vm_writev(2) and process_vm_readv(2), whole or not at all. 0 or -errno. */
int sfab_shm_copy_out(uint32_t pid, uint64_t remote, const void *local, size_t len);
int sfab_shm_copy_in(uint32_t pid, uint64_t remote, void *local, size_t len);

#endif
