#!/bin/bash
# bad_input.sh BIN_DIR EXAMPLES_DIR - what a user can get wrong when starting a job: one clear sentence, a
# non-zero status, no hang.
bin=$1 hello=$2/hello
. "$(dirname "$0")/../support/expect.sh"

port() { # a free port of this machine
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
job="env SFAB_BOOT_TIMEOUT_MS=1500 SFAB_SECRET=s" # the usual surroundings of a rank

# Settings
expect 1 "rank 4 cannot be used in a job of 4" env SFAB_RANK=4 SFAB_SIZE=4 "$hello"
expect 1 "SFAB_SIZE=0 cannot be used" env SFAB_RANK=0 SFAB_SIZE=0 "$hello"
expect 1 "SFAB_SIZE is not" env SFAB_RANK=1 "$hello"
expect 1 "SFAB_RANK is not" env SFAB_SIZE=2 "$hello"
expect 1 'SFAB_RANK="two"' env SFAB_RANK=two SFAB_SIZE=4 "$hello"
expect 1 "where to meet the others" env SFAB_RANK=1 SFAB_SIZE=2 "$hello"
expect 1 "takes host:port" env SFAB_RANK=1 SFAB_SIZE=2 SFAB_ROOT=nowhere SFAB_SECRET=s "$hello"
expect 1 "has no job secret" env SFAB_RANK=1 SFAB_SIZE=2 SFAB_ROOT=127.0.0.1:1 "$hello"
expect 1 "SFAB_SECRET_FILE=/nonexistent" env SFAB_RANK=1 SFAB_SIZE=2 SFAB_ROOT=127.0.0.1:1 \
    SFAB_SECRET_FILE=/nonexistent "$hello"
: >"$WORK/empty"
expect 1 "is empty" env SFAB_RANK=1 SFAB_SIZE=2 SFAB_ROOT=127.0.0.1:1 SFAB_SECRET_FILE="$WORK/empty" "$hello"
expect 1 '"warp" is not a transport' env SFAB_TRANSPORT=warp "$hello"
expect 1 '"warp" is not a transport' env SFAB_TRANSPORT=shm,warp "$hello"
expect 1 "SFAB_TRANSPORT is empty" env SFAB_TRANSPORT= "$hello"
expect 1 "2 or more" env SFAB_RADIX=1 "$hello"
expect 0 "there is no such setting" env SFAB_RADXI=4 "$hello"
if [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ] && "$bin/sfab" info | grep -q '^  verbs'; then
    expect 1 "RDMA device" env SFAB_TRANSPORT=verbs "$hello"
    expect 1 "RDMA device" env SFAB_TRANSPORT=verbs SFAB_VERBS_DEVICE=mlx9_9 "$hello"
    expect fail "no network" "$bin/sfab" run -n 2 --nodes 2 "$hello"
fi
expect fail "on another node" env SFAB_TRANSPORT=shm "$bin/sfab" run -n 2 --nodes 2 "$hello"

# The rendezvous
expect 1 "127.0.0.1:1" $job SFAB_RANK=1 SFAB_SIZE=2 SFAB_ROOT=127.0.0.1:1 "$hello"
p=$(port)
expect 1 "rank 1" $job SFAB_RANK=0 SFAB_SIZE=2 SFAB_ROOT=127.0.0.1:"$p" "$hello"

p=$(port) # two processes with one rank: the second is refused, the job goes on
$job SFAB_RANK=0 SFAB_SIZE=2 SFAB_ROOT=127.0.0.1:"$p" SFAB_BOOT_TIMEOUT_MS=20000 "$hello" >"$WORK/zero" 2>&1 & zero=$!
sleep 0.3
$job SFAB_RANK=1 SFAB_SIZE=3 SFAB_ROOT=127.0.0.1:"$p" "$hello" >"$WORK/size" 2>&1
grep -q "3" "$WORK/size" && grep -qi "size" "$WORK/size" && report OK "another size is refused and named" || { report BAD "another size is refused and named"; cat "$WORK/size"; }
$job SFAB_RANK=0 SFAB_SIZE=2 SFAB_ROOT=127.0.0.1:"$p" SFAB_ROOT_SERVED=yes "$hello" >"$WORK/twin" 2>&1
grep -qi "taken" "$WORK/twin" && report OK "a rank that is taken is refused" || { report BAD "a rank that is taken is refused"; cat "$WORK/twin"; }
SFAB_BOOT_TIMEOUT_MS=3000 SFAB_SECRET=wrong SFAB_RANK=1 SFAB_SIZE=2 SFAB_ROOT=127.0.0.1:"$p" "$hello" >"$WORK/wrong" 2>&1
grep -qi "secret" "$WORK/wrong" && report OK "a wrong secret is refused" || { report BAD "a wrong secret is refused"; cat "$WORK/wrong"; }
head -c 100000 /dev/urandom >"/dev/tcp/127.0.0.1/$p" 2>/dev/null # garbage
for _ in 1 2 3 4 5; do (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; done # a port scan
$job SFAB_RANK=1 SFAB_SIZE=2 SFAB_ROOT=127.0.0.1:"$p" "$hello" >"$WORK/one" 2>&1; one=$?
wait $zero; zero=$?
[ $zero = 0 ] && [ $one = 0 ] && grep -q "add up to 1" "$WORK/zero" && report OK "none of these disturbs the job" ||
    { report BAD "none of these disturbs the job ($zero, $one)"; cat "$WORK/zero" "$WORK/one"; }
[ "$(grep -c 'refused' "$WORK/zero")" -ge 1 ] && report OK "refusals are logged" || { report BAD "refusals are logged"; cat "$WORK/zero"; }

# Different settings on different ranks
p=$(port)
$job SFAB_RADIX=2 SFAB_RANK=0 SFAB_SIZE=2 SFAB_ROOT=127.0.0.1:"$p" "$hello" >"$WORK/zero" 2>&1 & zero=$!
expect 1 "SFAB_RADIX is" $job SFAB_RADIX=3 SFAB_RANK=1 SFAB_SIZE=2 SFAB_ROOT=127.0.0.1:"$p" "$hello"
wait $zero && report BAD "the other rank fails too" || report OK "the other rank fails too"

# The command
expect 2 "-n" "$bin/sfab" run -n 0 "$hello"
expect 2 "-n" "$bin/sfab" run -n many "$hello"
expect 127 "/nonexistent" "$bin/sfab" run -n 2 /nonexistent
expect 2 "no command" "$bin/sfab" flibber
expect 2 "no bench" "$bin/sfab" bench flibber
expect 2 "-n" "$bin/sfab" bench barrier -n 0
expect 2 "--radix" "$bin/sfab" bench barrier --radix 99
expect fail "is not a transport" "$bin/sfab" bench barrier -n 2 --transport warp
finish
