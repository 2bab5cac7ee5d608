/* forked.h - descriptors that a child made with fork() does not keep.
 *
 * A rank's death is known by its connection's end, and a connection ends when its last descriptor does: with
 * one in a child that lives on, the rank would seem to live for ever, as the kernel goes on to
 * acknowledge whatever it is sent. Close-on-exec does not help with a child that runs no other program
 * (Python's multiprocessing makes such). */
#ifndef SFAB_FABRIC_BOOT_FORKED_H
#define SFAB_FABRIC_BOOT_FORKED_H

/* From now on children close fd as soon as they are made, until it is forgotten. Any thread; takes a lock. Where
 * there is no memory to note it in, children keep it, as without this. fd < 0 does nothing. */
void sfab_forked_close(int fd);

/* Before this process closes fd itself. */
void sfab_forked_forget(int fd);

#endif
