/* job.h - runs a function as the ranks of a job: as the process that it is under a launcher, or as
 * threads of this process, each with a context of its own (so that the thread sanitizer sees the
 * memory accesses of all). */
#ifndef SFAB_TESTS_SUPPORT_JOB_H
#define SFAB_TESTS_SUPPORT_JOB_H

#include "syncfab/syncfab.h"

/* One rank's work on an open context; the number of failures. */
typedef int (*sfab_job_rank)(sfab_ctx *ctx, void *arg);

/* This process is one rank. The number of failures, one more if opening or closing failed. */
int sfab_job_process(sfab_job_rank work, void *arg);

/* `ranks` threads; settings as in sfab_attr (NULL: none). The failures of all. */
int sfab_job_threads(int ranks, const char *const *settings, sfab_job_rank work, void *arg);

#endif
