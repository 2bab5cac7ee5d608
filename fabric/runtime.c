/* runtime.c - the world of a real process, as the context sees it. */
#include "fabric/runtime.h"
#include "fabric/clock.h"
#include "fabric/ctx.h"
#include "fabric/rendezvous.h"
#include "fabric/seg.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t now_ns(const struct sfab_ctx *ctx)
{
    (void)ctx;
    return sfab_now_ns();
}

static int random_bytes(void *buf, size_t len)
{
    return getrandom(buf, len, 0) == (ssize_t)len ? 0 : -EIO;
}

static char *const *environment(void)
{
    return NULL;
}

/* membarrier(2): the private expedited kind needs to be registered for once a process, which is cheap and
 * may be repeated. */
static bool fence_others(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
           syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

const struct sfab_runtime sfab_runtime_process = {.now_ns = now_ns,
                                                  .relax = sfab_ladder,
                                                  .random = random_bytes,
                                                  .environment = environment,
                                                  .identity = sfab_node_identity,
                                                  .seg_create = sfab_seg_create,
                                                  .seg_destroy = sfab_seg_destroy,
                                                  .transports = sfab_transports,
                                                  .fence_others = fence_others,
                                                  .join = sfab_rendezvous_join,
                                                  .allgather = sfab_boot_allgather,
                                                  .send = sfab_boot_send,
                                                  .survey = sfab_boot_survey,
                                                  .survey_ask = sfab_boot_survey_ask,
                                                  .accuse = sfab_boot_accuse,
                                                  .abort = sfab_boot_abort,
                                                  .watch = sfab_boot_watch,
                                                  .last_words = sfab_boot_last_words,
                                                  .leave = sfab_boot_leave,
                                                  .close = sfab_boot_close};
