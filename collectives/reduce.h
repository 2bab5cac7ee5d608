/* reduce.h - combining words: pure arithmetic. */
#ifndef SFAB_COLLECTIVES_REDUCE_H
#define SFAB_COLLECTIVES_REDUCE_H

#include "syncfab/syncfab.h"

/* into[i] = into[i] (reduce) from[i] for i < count. */
void sfab_reduce_words(sfab_reduce reduce, uint64_t *into, const uint64_t *from, unsigned count);

#endif
