/* registry.c - the transports of this build: the one place that names them all. */
#include "fabric/ctx.h"
#include "fabric/shm/shm.h"

#ifdef SFAB_HAVE_VERBS
#include "verbs/verbs.h"
#endif

const struct sfab_tp_ops *const sfab_transports[] = {
    &sfab_shm_ops,
#ifdef SFAB_HAVE_VERBS
    &sfab_verbs_ops,
#endif
    NULL,
};
