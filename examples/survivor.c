/* survivor.c - going on after a death: rank 1 dies in the middle, the others make a group of those that are
 * left and finish. Run it with `sfab run -n 4 --on-death continue survivor`. */
#include <syncfab/syncfab.h>

#include <signal.h>
#include <stdio.h>

/* Says what has failed, and gives the group of the survivors. */
static sfab_group *go_on(sfab_ctx *ctx, sfab_group *group)
{
    char text[1024];
    sfab_group *next = NULL;

    sfab_last_error(ctx, text, sizeof text);
    printf("%s\n", text);
    return sfab_group_shrink(group, -1, &next) == 0 ? next : NULL;
}

int main(void)
{
    sfab_ctx *ctx;

    if (sfab_open(NULL, &ctx) != 0)
        return 1;
    sfab_group *group = sfab_world(ctx);
    for (int step = 0; step < 100; step++) {
        if (step == 50 && sfab_rank(ctx) == 1)
            raise(SIGKILL);
        int rc = sfab_barrier(group, -1);
        if (rc == SFAB_ERR_PEER_DEAD && (group = go_on(ctx, group)) != NULL)
            rc = sfab_barrier(group, -1); /* the step that failed, once more */
        if (rc != 0)
            return 1;
    }
    printf("rank %d has finished, as one of %d\n", sfab_rank(ctx), sfab_group_size(group));
    sfab_close(ctx);
    return 0;
}
