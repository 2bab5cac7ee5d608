/* forked.c - see forked.h. */
#include "fabric/boot/forked.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BITS = sizeof(unsigned long) * CHAR_BIT };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned long *noted; /* bit fd */
static size_t words;

static void before(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* Nothing but close(2), which is safe here; the memory stays, since free() may not be called. */
static void in_child(void)
{
    for (size_t w = 0; w < words; w++) {
        for (size_t bit = 0; noted[w] != 0; bit++, noted[w] >>= 1) {
            if ((noted[w] & 1) != 0) {
                close((int)(w * BITS + bit));
            }
        }
    }
    pthread_mutex_unlock(&lock);
}

static void install(void)
{
    /* pthread_atfork(3); a failure leaves children as they are without it. */
    (void)pthread_atfork(before, in_parent, in_child);
}

void sfab_forked_close(int fd)
{
    size_t w = (size_t)fd / BITS;

    if (fd < 0) {
        return;
    }
    pthread_once(&once, install);
    pthread_mutex_lock(&lock);
    if (w >= words) {
        size_t more = 2 * w + 1;
        unsigned long *grown = realloc(noted, more * sizeof *grown);

        if (grown != NULL) {
            memset(grown + words, 0, (more - words) * sizeof *grown);
            noted = grown;
            words = more;
        }
    }
    if (w < words) {
        noted[w] |= 1ul << (size_t)fd % BITS;
    }
    pthread_mutex_unlock(&lock);
}

void sfab_forked_forget(int fd)
{
    size_t w = (size_t)fd / BITS;

    if (fd < 0) {
        return;
    }
    pthread_mutex_lock(&lock);
    if (w < words) {
        noted[w] &= ~(1ul << (size_t)fd % BITS);
    }
    pthread_mutex_unlock(&lock);
}
