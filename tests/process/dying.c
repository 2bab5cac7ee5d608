/* dying.c - a rank that dies in the middle of a job: `dying VICTIM segv|kill|exit`. The others wait in a
 * barrier without a timeout; they end with status 9 and the library's sentence. */
#include <syncfab/syncfab.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *how)
{
    if (strcmp(how, "exit") == 0)
        _Exit(3);
    raise(strcmp(how, "segv") == 0 ? SIGSEGV : SIGKILL);
}

int main(int argc, char **argv)
{
    char text[1024];
    sfab_ctx *ctx;
    int rc;

    if (argc < 3 || sfab_open(NULL, &ctx) != 0)
        return 1;
    for (int i = 0; i < 100; i++)
        if ((rc = sfab_barrier(sfab_world(ctx), -1)) != 0)
            return 1;
    if (sfab_rank(ctx) == atoi(argv[1])) {
        signal(SIGSEGV, SIG_DFL);
        die(argv[2]);
    }
    rc = sfab_barrier(sfab_world(ctx), -1);
    sfab_last_error(ctx, text, sizeof text);
    fprintf(stderr, "%s\n", text);
    return rc == SFAB_ERR_PEER_DEAD ? 9 : 1;
}
