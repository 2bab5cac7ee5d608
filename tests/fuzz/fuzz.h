/* fuzz.h - what the fuzz targets share: an assertion that release builds keep, and a count of the
 * inputs that a decoder took. */
#ifndef SFAB_TESTS_FUZZ_FUZZ_H
#define SFAB_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Inputs that were taken for what they claim to be. The driver refuses a seed corpus in which
 * nothing is: after a change of the wire form it would test refusals alone. */
extern unsigned long sfab_fuzz_taken;

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: this must hold: %s\n", __FILE__, __LINE__, #condition);        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
