/* heap.h - what is to happen, by time and, for equal times, by the order of its making. */
#ifndef SFAB_FABRIC_SIM_HEAP_H
#define SFAB_FABRIC_SIM_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct sim;

typedef void sim_fn(struct sim *s, void *arg, uint64_t value);

struct sim_event {
    uint64_t at, order;
    sim_fn *fn;
    void *arg;
    uint64_t value;
};

struct sim_heap {
    struct sim_event *events; /* a binary heap */
    size_t count, cap;
    uint64_t order;
};

/* Aborts where there is no memory. */
void sim_heap_push(struct sim_heap *heap, uint64_t at, sim_fn *fn, void *arg, uint64_t value);

/* The first; there must be one. */
struct sim_event sim_heap_pop(struct sim_heap *heap);

#endif
