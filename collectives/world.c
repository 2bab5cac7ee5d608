/* world.c - sfab_open and sfab_close: a context of the ground floor, with collectives on its group. */
#include "collectives/world.h"
#include "fabric/ctx.h"

#include <errno.h>

int sfab_open(const sfab_attr *attr, sfab_ctx **out)
{
    struct sfab_err *err = sfab_open_error();

    if (out == NULL)
        return sfab_fail(err, -EINVAL, "sfab_open was given no place for the context");
    int rc = sfab_ctx_open(attr, &sfab_barrier_group_class, &sfab_runtime_process, out, err);
    if (rc == 0)
        *err = (struct sfab_err){0};
    return rc;
}

int sfab_close(sfab_ctx *ctx)
{
    if (ctx == NULL)
        return 0;
    return sfab_ctx_ok(ctx) ? sfab_ctx_close(ctx) : -EINVAL;
}
