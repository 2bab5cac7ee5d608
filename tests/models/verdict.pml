/* verdict.pml - collectives/verdict.c for SPIN: EPISODES of a barrier among N members, DEATHS of which are
 * killed at any point, so that the last words of the dead reach some and not others. Checked: all that
 * live on see the same outcome of each episode, whoever has left in good order included, and none waits
 * for ever (SPIN's invalid end states).
 *
 * A member is two processes: its owner, in the barrier, and its control thread, which hears of deaths. The
 * rounds are one: every member writes its word to every other, in an order of its own.
 *
 * Mutations, each of which must be found:
 *   NOFENCE      the owner looks at `stop` before its `arrived` is to be seen (the Dekker pair STOP)
 *   OWNVIEW      each takes its own `done` for the verdict
 *   BYMESSAGES   a frozen episode may still be finished by messages
 *   FORGOTTEN    the control thread brings nothing for who is idle
 *   UNTOLD       an owner that finishes by messages does not look at `stop` after it
 *   NOFAREWELL   what a leaver has seen done does not count
 *
 * STAY (nobody leaves) makes it a smaller model. */
#ifndef N
#define N 3
#endif
#ifndef EPISODES
#define EPISODES 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif

#define NORMAL 0
#define FROZEN 1
#define HELD   2
#define GIVEN  3

#define DONE   1
#define FAILED 2

bool killed[N], left[N], stop[N];
byte arrived[N], done[N], freeze[N];
byte brought[N];    /* 1 + the episode brought to the survey; 0: nothing yet */
byte farewell[N];   /* done, when it left */
byte word[N * N];   /* word[i * N + j]: what i has of j */
byte outcome[N * 3]; /* of member and episode */
bool known;
byte verdict;

#define MORTAL(i) (i >= N - DEATHS)
#if DEATHS == 1
#define ANY_DEATH killed[N - 1]
#else
#define ANY_DEATH (killed[N - 1] || killed[N - 2])
#endif

/* freeze.c's take_over and what follows it: one compare-and-swap wins. */
#define BRING(i, to) \
    if \
    :: freeze[i] == FROZEN -> freeze[i] = to; brought[i] = 1 + done[i] \
    :: else \
    fi

/* An outcome is compared with that of all that are not dead; whoever dies later does not matter then. */
#define NOTE(i, e, what) \
    outcome[i * 3 + e] = what; \
    k = 0; \
    do \
    :: k < N -> \
        assert(MORTAL(k) || MORTAL(i) || outcome[k * 3 + e] == 0 || outcome[k * 3 + e] == what); \
        k++ \
    :: else -> break \
    od; \
    k = 0

#if N == 2
#define HEARD(i, e) (word[i * N] >= e && word[i * N + 1] >= e)
#elif N == 3
#define HEARD(i, e) (word[i * N] >= e && word[i * N + 1] >= e && word[i * N + 2] >= e)
#else
#define HEARD(i, e) \
    (word[i * N] >= e && word[i * N + 1] >= e && word[i * N + 2] >= e && word[i * N + 3] >= e)
#endif

proctype owner(byte i)
{
    byte e = 0, j = 0, k = 0;
    bool frozen = false, seen = false;

    {
        do
        :: e < EPISODES ->
#ifdef NOFENCE
            atomic { e++; seen = stop[i] };
            arrived[i] = e;
#else
            atomic { e++; arrived[i] = e };
            seen = stop[i];
#endif
            atomic {
                if
                :: seen && freeze[i] != NORMAL -> frozen = true; BRING(i, HELD)
                :: else
                fi;
                seen = false;
                j = 0
            };
            do
            :: atomic { !frozen && j < N -> word[((i + j) % N) * N + i] = e; j++ }
            :: atomic { frozen || j == N -> break }
            od;
            do
            :: atomic { !frozen && HEARD(i, e) -> done[i] = e; NOTE(i, e, DONE) };
#ifndef UNTOLD
                atomic {
                    if
                    :: stop[i] -> BRING(i, GIVEN)
                    :: else
                    fi
                };
#endif
                break
            :: atomic { !frozen && stop[i] && freeze[i] != NORMAL -> frozen = true; BRING(i, HELD) }
#ifdef BYMESSAGES
            :: atomic { frozen && HEARD(i, e) -> done[i] = e; NOTE(i, e, DONE) }; break
#endif
            :: atomic {
                frozen && known ->
                if
#ifdef OWNVIEW
                :: e <= done[i] -> NOTE(i, e, DONE)
#else
                :: e <= verdict -> done[i] = e; NOTE(i, e, DONE)
#endif
                :: else -> NOTE(i, e, FAILED); e = EPISODES + 1
                fi
               };
                break
            od;
            atomic { frozen = false; j = 0 }
        :: else -> break
        od;
        /* Who has seen all episodes done leaves, unless it is to stay. */
        if
#ifndef STAY
        :: atomic { e == EPISODES -> farewell[i] = done[i]; left[i] = true }
#endif
        :: true
        fi
    } unless { killed[i] }
}

proctype control(byte i)
{
    byte a = 0;

    {
        atomic {
            ANY_DEATH -> freeze[i] = FROZEN
        };
        stop[i] = true;
        a = arrived[i];
#ifndef FORGOTTEN
        atomic {
            if
            :: a == done[i] || outcome[i * 3 + a] == FAILED -> BRING(i, GIVEN)
            :: else
            fi;
            a = 0
        }
#endif
    } unless { killed[i] || left[i] }
}

proctype killer()
{
    killed[N - 1] = true
#if DEATHS == 2
    ; killed[N - 2] = true
#endif
}

/* The rendezvous: the survey is complete when all have brought who are not gone; what the dead have brought
 * does not count, once their death is known. */
proctype server()
{
    byte i = 0;

    ANY_DEATH;
    do
    :: atomic { i < N && (brought[i] > 0 || killed[i] || left[i]) -> i++ }
    :: atomic { i == N -> break }
    od;
    atomic {
        i = 0;
        do
        :: i < N ->
            if
            :: brought[i] > 0 && brought[i] - 1 > verdict -> verdict = brought[i] - 1
            :: brought[i] == 0 || brought[i] - 1 <= verdict || killed[i] -> skip
            fi;
#ifndef NOFAREWELL
            if
            :: left[i] && farewell[i] > verdict -> verdict = farewell[i]
            :: else
            fi;
#endif
            i++
        :: else -> break
        od;
        known = true
    }
}

init
{
    byte i = 0;

    atomic {
        do
        :: i < N ->
            run owner(i);
            if
            :: DEATHS > 1 || !MORTAL(i) -> run control(i) /* the only one to die hears of no death */
            :: else
            fi;
            i++
        :: else -> break
        od;
        run killer();
        run server()
    }
}
