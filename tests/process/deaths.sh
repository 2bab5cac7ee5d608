#!/bin/bash
# deaths.sh BIN_DIR TEST_DIR EXAMPLE_DIR - ranks and launchers that die: everybody else is told who it was, and nothing
# is left behind.
bin=$1 tests=$2 examples=$3
. "$(dirname "$0")/../support/expect.sh"

expect 139 "rank 1" "$bin/sfab" run -n 4 "$tests/dying" 1 segv
expect 137 "rank 2" "$bin/sfab" run -n 4 "$tests/dying" 2 kill
expect 3 "rank 0" "$bin/sfab" run -n 4 "$tests/dying" 0 exit
# Before they are ended they hear why; or they go on.
expect 0 "as one of 3" "$bin/sfab" run -n 4 --on-death continue "$examples/survivor"
grep -q "rank 1 .* was killed by signal 9 (Killed); the others go on (3 still run)" "$WORK/out" &&
    report OK "the launcher names the dead and lets the others go on" || { report BAD "the launcher names the dead"; cat "$WORK/out"; }
expect 3 "rank 1" "$bin/sfab" run -n 4 --on-death continue "$tests/dying" 1 exit
expect 2 "takes 'abort' or 'continue'" "$bin/sfab" run -n 4 --on-death later "$tests/dying" 1 exit
# Without a launcher that ends them, the survivors themselves say who is gone.
for victim in 1 0; do
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    for r in 0 1 2; do
        SFAB_SECRET=s SFAB_ROOT=127.0.0.1:$port SFAB_RANK=$r SFAB_SIZE=3 timeout 30 "$tests/dying" $victim kill \
            >"$WORK/$r" 2>&1 & pids[r]=$!
    done
    for r in 0 1 2; do
        wait ${pids[r]}; status=$?
        if [ $r = $victim ]; then [ $status = 137 ] && report OK "the victim died" || report BAD "the victim died ($status)"
        else
            [ $status = 9 ] && grep -Eq "rank $victim|rank 0, which served it" "$WORK/$r" &&
                report OK "rank $r names rank $victim: $(head -c 200 "$WORK/$r" | head -1)" ||
                { report BAD "rank $r names rank $victim (status $status)"; cat "$WORK/$r"; }
        fi
    done
done
left=$(ls /dev/shm 2>/dev/null | grep -c sfab)
[ "$left" = 0 ] && report OK "nothing in /dev/shm" || report BAD "nothing in /dev/shm"
finish
