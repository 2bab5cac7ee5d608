/* dissem.h - who talks to whom in a dissemination of radix k among n: pure arithmetic.
 *
 * In round r (from 0) member i sends to i + j*k^r and hears from i - j*k^r, for j = 1 .. k-1 as far as
 * j*k^r < n, all modulo n. After ceil(log_k n) rounds everybody has heard of everybody (Hensgen,
 * Finkel, Manber: "Two algorithms for barrier synchronization", 1988; radix above 2: Hoefler et al.:
 * "Fast barrier synchronization for InfiniBand", IPDPS 2006). Works for every n. */
#ifndef SFAB_COLLECTIVES_PATTERN_DISSEM_H
#define SFAB_COLLECTIVES_PATTERN_DISSEM_H

#include <stdint.h>

/* Rounds until everybody has heard of everybody: ceil(log_k n); 0 for n = 1. */
static inline uint32_t sfab_dissem_rounds(uint32_t n, uint32_t k)
{
    uint32_t rounds = 0;

    for (uint64_t reach = 1; reach < n; reach *= k)
        rounds++;
    return rounds;
}

/* k^r. Fits, since r < rounds. */
static inline uint64_t sfab_dissem_stride(uint32_t k, uint32_t round)
{
    uint64_t stride = 1;

    while (round-- > 0)
        stride *= k;
    return stride;
}

/* How many peers a member sends to (and hears from) in the round: at least 1, at most k-1. */
static inline uint32_t sfab_dissem_peers(uint32_t n, uint32_t k, uint32_t round)
{
    uint64_t peers = (n - 1) / sfab_dissem_stride(k, round);

    return peers < k - 1 ? (uint32_t)peers : k - 1;
}

/* The j-th peer (1-based) that member sends to, and the j-th that it hears from. */
static inline uint32_t sfab_dissem_to(uint32_t n, uint32_t k, uint32_t round, uint32_t j,
                                      uint32_t member)
{
    return (uint32_t)((member + j * sfab_dissem_stride(k, round)) % n);
}

static inline uint32_t sfab_dissem_from(uint32_t n, uint32_t k, uint32_t round, uint32_t j,
                                        uint32_t member)
{
    return (uint32_t)((member + n - j * sfab_dissem_stride(k, round) % n) % n);
}

/* Messages that a member sends in all rounds: at most (k-1)*ceil(log_k n). */
static inline uint32_t sfab_dissem_messages(uint32_t n, uint32_t k)
{
    uint32_t messages = 0;

    for (uint32_t r = 0; r < sfab_dissem_rounds(n, k); r++)
        messages += sfab_dissem_peers(n, k, r);
    return messages;
}

/* A sum must count each member once, which a dissemination does not when n is no power of k: the last
 * round's windows overlap. So each member keeps two partial sums over the members before and including
 * itself: `full`, over k^r of them, and `part`, over n mod k^r; both travel. With d the r-th digit of n
 * in base k, after round r:
 *     full' = full + full from each of the k-1 peers           (k^(r+1) members)
 *     part' = full of itself and peers 1 .. d-1, + part of peer d   (d*k^r + n mod k^r members)
 * and part' = part when d = 0. At the end n = k^rounds: full holds all; otherwise part does. (The
 * method of Bar-Noy, Kipnis and Schieber, "An optimal algorithm for computing census functions in
 * message-passing systems", 1993, for radix 2, taken to radix k.) */
static inline uint32_t sfab_dissem_digit(uint32_t n, uint32_t k, uint32_t round)
{
    return (uint32_t)(n / sfab_dissem_stride(k, round) % k);
}

/* Whether `full` (rather than `part`) is everybody's sum at the end. */
static inline int sfab_dissem_full_is_all(uint32_t n, uint32_t k)
{
    return sfab_dissem_stride(k, sfab_dissem_rounds(n, k)) == n;
}

#endif
