/* random.h - xoshiro256** (Blackman and Vigna, 2018), seeded by splitmix64 (Steele et al., 2014): the same
 * numbers for the same seed on every machine. */
#ifndef SFAB_FABRIC_SIM_RANDOM_H
#define SFAB_FABRIC_SIM_RANDOM_H

#include <stdint.h>

struct sim_random {
    uint64_t state[4];
};

static inline uint64_t sim_rotl(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

static inline uint64_t sim_random_next(struct sim_random *random)
{
    uint64_t *r = random->state, result = sim_rotl(r[1] * 5, 7) * 9, t = r[1] << 17;

    r[2] ^= r[0];
    r[3] ^= r[1];
    r[1] ^= r[2];
    r[0] ^= r[3];
    r[2] ^= t;
    r[3] = sim_rotl(r[3], 45);
    return result;
}

static inline void sim_random_seed(struct sim_random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        random->state[i] = z ^ (z >> 31);
    }
}

#endif
