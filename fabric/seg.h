/* seg.h - making and mapping shareable memory: memfd, so that nothing is ever left in /dev/shm.
 *
 * A segment is an anonymous file (memfd_create(2)) that peers of the host open through
 * /proc/PID/fd/N. It vanishes with the last process that has it, however those end. */
#ifndef SFAB_FABRIC_SEG_H
#define SFAB_FABRIC_SEG_H

#include "fabric/transport.h"

/* Zeroed, page-aligned, sealed against resizing. -ENOMEM and the like with a sentence. */
int sfab_seg_create(size_t len_bytes, struct sfab_seg *out, struct sfab_err *err);

/* Describes the caller's own memory. */
void sfab_seg_foreign(void *addr, size_t len_bytes, struct sfab_seg *out);

void sfab_seg_destroy(struct sfab_seg *seg);

/* Maps another process's segment, as named in a key: SFAB_ERR_STALE where it is no longer there or is
 * not the one that was meant. */
int sfab_seg_map(uint32_t pid, int fd, uint64_t inode, size_t len_bytes, void **addr,
                 struct sfab_err *err);
/* Where a segment of this very process lies (ranks may be threads of one process); NULL: no such
 * segment, or it was freed. Any thread. */
void *sfab_seg_find(uint64_t inode, size_t len_bytes);
void sfab_seg_unmap(void *addr, size_t len_bytes);

#endif
