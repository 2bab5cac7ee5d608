/* seg.c - shareable memory on memfd. */
#include "fabric/seg.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The segments of this process, so that a key for one of them is checked against what there is. */
struct living {
    uint64_t inode;
    void *addr;
    size_t len_bytes;
    struct living *next;
};
static struct living *living;
static pthread_mutex_t living_lock = PTHREAD_MUTEX_INITIALIZER;

static bool remember(const struct sfab_seg *seg)
{
    struct living *entry = malloc(sizeof *entry);

    if (entry == NULL)
        return false;
    *entry = (struct living){.inode = seg->inode, .addr = seg->addr, .len_bytes = seg->len_bytes};
    pthread_mutex_lock(&living_lock);
    entry->next = living;
    living = entry;
    pthread_mutex_unlock(&living_lock);
    return true;
}

static void forget(uint64_t inode)
{
    struct living *found = NULL;

    pthread_mutex_lock(&living_lock);
    for (struct living **at = &living; *at != NULL && found == NULL;)
        if ((*at)->inode == inode) {
            found = *at;
            *at = found->next;
        } else {
            at = &(*at)->next;
        }
    pthread_mutex_unlock(&living_lock);
    free(found);
}

void *sfab_seg_find(uint64_t inode, size_t len_bytes)
{
    void *addr = NULL;

    pthread_mutex_lock(&living_lock);
    for (struct living *at = living; at != NULL && addr == NULL; at = at->next)
        if (at->inode == inode && at->len_bytes == len_bytes)
            addr = at->addr;
    pthread_mutex_unlock(&living_lock);
    return addr;
}

static int create_failed(struct sfab_err *err, const char *what, size_t len_bytes, int fd)
{
    int code = errno;

    if (fd >= 0)
        close(fd);
    return sfab_fail(
        err, -code,
        "cannot make %zu bytes of shared memory: %s: %s; check free memory, the memory "
        "limit of the control group and `ulimit -n`",
        len_bytes, what, sfab_errno_text(code));
}

int sfab_seg_create(size_t len_bytes, struct sfab_seg *out, struct sfab_err *err)
{
    struct stat stat;
    int fd = memfd_create("syncfab", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return create_failed(err, "memfd_create", len_bytes, fd);
    if (ftruncate(fd, (off_t)len_bytes) != 0)
        return create_failed(err, "ftruncate", len_bytes, fd);
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return create_failed(err, "sealing", len_bytes, fd);
    if (fstat(fd, &stat) != 0)
        return create_failed(err, "fstat", len_bytes, fd);
    void *addr = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (addr == MAP_FAILED)
        return create_failed(err, "mmap", len_bytes, fd);
    *out = (struct sfab_seg){.kind = SFAB_SEG_SHARED,
                             .addr = addr,
                             .len_bytes = len_bytes,
                             .fd = fd,
                             .inode = (uint64_t)stat.st_ino};
    if (!remember(out)) {
        sfab_seg_destroy(out);
        return sfab_fail(err, -ENOMEM, "out of memory");
    }
    return 0;
}

void sfab_seg_foreign(void *addr, size_t len_bytes, struct sfab_seg *out)
{
    *out =
        (struct sfab_seg){.kind = SFAB_SEG_FOREIGN, .addr = addr, .len_bytes = len_bytes, .fd = -1};
}

void sfab_seg_destroy(struct sfab_seg *seg)
{
    if (seg->kind == SFAB_SEG_SHARED && seg->addr != NULL) {
        forget(seg->inode);
        munmap(seg->addr, seg->len_bytes);
        close(seg->fd);
    }
    *seg = (struct sfab_seg){.fd = -1};
}

static bool is_the_one(int fd, uint64_t inode, size_t len_bytes)
{
    struct stat stat;

    return fstat(fd, &stat) == 0 && (uint64_t)stat.st_ino == inode &&
           (uint64_t)stat.st_size == (uint64_t)len_bytes;
}

int sfab_seg_map(uint32_t pid, int fd, uint64_t inode, size_t len_bytes, void **addr,
                 struct sfab_err *err)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%u/fd/%d", pid, fd);
    int mine = open(path, O_RDWR | O_CLOEXEC);
    if (mine < 0) {
        int code = errno;

        return sfab_fail(err, code == ENOENT ? SFAB_ERR_STALE : -code,
                         "cannot open the shared memory of process %u (%s: %s): %s", pid, path,
                         sfab_errno_text(code),
                         code == ENOENT
                             ? "it has ended or has freed it"
                             : "ranks of a node must run as one user and see each other in "
                               "/proc; else give them different SFAB_NODE values");
    }
    if (!is_the_one(mine, inode, len_bytes)) {
        close(mine);
        return sfab_fail(err, SFAB_ERR_STALE,
                         "%s is not the shared memory that the key names: it was freed since",
                         path);
    }
    void *at = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mine, 0);
    int code = errno;

    close(mine);
    if (at == MAP_FAILED)
        return sfab_fail(err, -code, "cannot map %zu bytes of process %u: %s", len_bytes, pid,
                         sfab_errno_text(code));
    *addr = at;
    return 0;
}

void sfab_seg_unmap(void *addr, size_t len_bytes)
{
    munmap(addr, len_bytes);
}
