/* log.h - one line on stderr for what a user must know and no return code can carry.
 *
 * "syncfab[rank 3 hostA]: text". The level comes from SFAB_LOG (error, warn, info, debug; default
 * warn) and holds for the process. Never on a hot path. */
#ifndef SFAB_FABRIC_LOG_H
#define SFAB_FABRIC_LOG_H

enum sfab_log_level { SFAB_LOG_ERROR, SFAB_LOG_WARN, SFAB_LOG_INFO, SFAB_LOG_DEBUG };

void sfab_log_set_level(enum sfab_log_level level);

/* Who is speaking: shown in front of each line of this thread. NULL: nobody in particular. */
void sfab_log_set_name(const char *name);

void sfab_log(enum sfab_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
