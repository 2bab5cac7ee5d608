/* unit.h - cmocka's headers in the order it wants them. */
#ifndef SFAB_TESTS_UNIT_UNIT_H
#define SFAB_TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
