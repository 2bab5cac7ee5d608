/* barrier.pml - the dissemination barrier with timeouts (collectives/dissemination.c, fabric/wait.c) for SPIN:
 * EPISODES among N members, radix 2, any of which may run out of time whenever it waits. It then looks who
 * is late and calls again, or cancels, which moves the episode on in the background: to the others the same.
 * Checked: nobody returns before all have made the same call; whom a timeout names as late has not made
 * it; nobody waits for ever (SPIN's invalid end states).
 *
 * A message is posted, and is to be seen some time later; those of different slots in any order. A slot is
 * written by one member alone, and its word only grows.
 *
 * Mutations, each of which must be found (the first two with N=4: with fewer, who sends to a slot has heard,
 * through others, that it was looked at):
 *   EQUAL     a word of a later episode does not count (== instead of >=)
 *   RESET     a slot is set to 0 once it has been heard, for the next episode
 *   RESTART   who calls again after a timeout begins another episode
 *   GIVEUP    a timeout ends the episode here
 *   FORGET    who cancels sends no more of the episode's messages
 *   ONEROUND  the last round is forgotten
 *   LATEWORD  the word that others look for is stored after the first message
 */
#ifndef N
#define N 3
#endif
#ifndef EPISODES
#define EPISODES 2
#endif

#if N == 2
#define ALL_ROUNDS 1
#else
#define ALL_ROUNDS 2
#endif
#ifdef ONEROUND
#define ROUNDS (ALL_ROUNDS - 1)
#else
#define ROUNDS ALL_ROUNDS
#endif
#define SLOTS (N * ALL_ROUNDS)

byte calls[N];      /* what the programs have called: what the library is judged by */
byte arrived[N];    /* the word that all may read */
byte posted[SLOTS]; /* on its way to a slot; 0: nothing */
byte slot[SLOTS];   /* by receiver and round */

#define TO(i, r)   (((i + (1 << r)) % N) * ALL_ROUNDS + r)
#define MINE(i, r) (i * ALL_ROUNDS + r)

#ifdef EQUAL
#define COMES(i, r, e) (slot[MINE(i, r)] == e)
#else
#define COMES(i, r, e) (slot[MINE(i, r)] >= e)
#endif

proctype member(byte i)
{
    byte e = 0, r = 0, k = 0;
    bool told = false;

    do
    :: calls[i] < EPISODES ->
        atomic {
            calls[i]++;
            e++;
#ifndef LATEWORD
            arrived[i] = e;
#endif
            r = 0;
            told = false
        };
#ifdef RESTART
again:
        atomic { arrived[i] = e; r = 0; told = false };
#endif
        do
        :: atomic { r < ROUNDS -> posted[TO(i, r)] = e };
#ifdef LATEWORD
            arrived[i] = e;
#endif
            do
            :: atomic {
                COMES(i, r, e) ->
#ifdef RESET
                slot[MINE(i, r)] = 0;
#endif
                r++;
                break
               }
            :: atomic { !COMES(i, r, e) && !told -> told = true; k = 0 };
                do
                :: atomic { k < N -> assert(arrived[k] >= e || calls[k] < calls[i]); k++ }
                :: atomic { k == N -> k = 0; break }
                od
#ifdef RESTART
                ; atomic { e++; goto again }
#endif
#ifdef GIVEUP
                ; atomic { r = ROUNDS; break }
#endif
#ifdef FORGET
                ;
                if
                :: goto gone
                :: true
                fi
#endif
            od
        :: atomic { r == ROUNDS -> break }
        od;
        atomic {
            k = 0;
            do
            :: k < N -> assert(calls[k] >= calls[i]); k++
            :: else -> break
            od;
            k = 0;
            r = 0
        }
    :: else -> break
    od;
#ifdef FORGET
gone:
    skip
#endif
}

#define DELIVER(x) :: atomic { posted[x] > 0 -> slot[x] = posted[x]; posted[x] = 0 }

active proctype network()
{
end:
    do
    DELIVER(0)
    DELIVER(1)
#if SLOTS > 2
    DELIVER(2)
    DELIVER(3)
    DELIVER(4)
    DELIVER(5)
#endif
#if SLOTS > 6
    DELIVER(6)
    DELIVER(7)
#endif
    od
}

init
{
    byte i = 0;

    atomic {
        do
        :: i < N -> run member(i); i++
        :: else -> break
        od
    }
}
