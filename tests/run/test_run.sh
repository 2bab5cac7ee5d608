#!/bin/bash
# test_run.sh - `sfab run`: statuses, sentences, labels, and that nothing is left behind.
#
# usage: test_run.sh PATH-OF-SFAB
# Processes of a test are found by a variable in their environment that only they have.
set -u
SFAB=${1:?usage: test_run.sh PATH-OF-SFAB}
DIR=$(mktemp -d)
trap 'rm -rf "$DIR"' EXIT
FAILED=0
CHECKS=0
NAME=none
MARK=none
RC=0

# ---- helpers ---------------------------------------------------------------------------------

test_named() {
    NAME=$1
    MARK="SFAB_TEST_MARK_$$_$RANDOM$RANDOM"
    echo "-- $NAME"
}

fail() {
    FAILED=$((FAILED + 1))
    echo "FAILED: $NAME: $*"
    echo "   status $RC"
    sed 's/^/   out: /' "$DIR/out" | head -20
    sed 's/^/   err: /' "$DIR/err" | head -20
}

# run ARGUMENTS: `sfab run` with the test's mark; its output in out and err, its status in RC.
run() {
    "$SFAB" run -x "$MARK=1" "$@" >"$DIR/out" 2>"$DIR/err" </dev/null
    RC=$?
}

status_is() {
    CHECKS=$((CHECKS + 1))
    [ "$RC" = "$1" ] || fail "status $RC, not $1"
}

# says FILE TEXT: a fixed string is in out or err.
says() {
    CHECKS=$((CHECKS + 1))
    grep -qF -- "$2" "$DIR/$1" || fail "'$2' is not in $1"
}

lines_are() {
    CHECKS=$((CHECKS + 1))
    [ "$(wc -l <"$DIR/$1")" = "$2" ] || fail "$(wc -l <"$DIR/$1") lines in $1, not $2"
}

is() {
    CHECKS=$((CHECKS + 1))
    [ "$1" = "$2" ] || fail "'$1' is not '$2'${3:+ ($3)}"
}

# Pids of the test's processes. The launcher has the mark on its command line only.
marked() {
    grep -lszF -- "$MARK=1" /proc/[0-9]*/environ 2>/dev/null | tr -dc '0-9\n'
}

# Waits until N marked processes are there.
wait_marked() {
    local i
    for ((i = 0; i < 600; i++)); do
        [ "$(marked | wc -l)" -ge "$1" ] && return 0
        sleep 0.05
    done
    fail "only $(marked | wc -l) of $1 processes have started"
}

none_left() {
    local i
    CHECKS=$((CHECKS + 1))
    for ((i = 0; i < 100; i++)); do
        [ -z "$(marked)" ] && return 0
        sleep 0.1
    done
    fail "left behind: $(for p in $(marked); do echo "$p $(tr '\0' ' ' <"/proc/$p/cmdline")"; done)"
    kill -KILL $(marked)
}

# start ARGUMENTS: as run, in the background; LAUNCHER is its pid. Signals that a script's background
# processes ignore are as usual again.
start() {
    env --default-signal "$SFAB" run -x "$MARK=1" "$@" >"$DIR/out" 2>"$DIR/err" </dev/null &
    LAUNCHER=$!
}

finish() {
    { wait "$LAUNCHER"; RC=$?; } 2>/dev/null
}

keeper_of() {
    cat "/proc/$1/task/$1/children" | tr -d ' '
}

# ---- statuses --------------------------------------------------------------------------------

test_named "all ranks end well"
run -n 4 true
status_is 0
lines_are out 0
lines_are err 0

test_named "the first failing rank is named and its status handed on"
run -n 8 sh -c 'if [ $SFAB_RANK = 5 ]; then exit 7; fi; exec sleep 1000'
status_is 7
lines_are err 1
says err "sfab run: rank 5 (pid "
says err ") exited with status 7; ending the other 7 ranks"
none_left

test_named "a crash is named with its signal"
run -n 8 sh -c 'if [ $SFAB_RANK = 3 ]; then kill -SEGV $$; fi; exec sleep 1000'
status_is 139
lines_are err 1
says err "sfab run: rank 3 (pid "
says err ") was killed by signal 11 (Segmentation fault); ending the other 7 ranks"
none_left

test_named "one other rank, and no other rank"
run -n 2 sh -c 'if [ $SFAB_RANK = 1 ]; then exit 1; fi; exec sleep 1000'
says err "exited with status 1; ending the other rank"
run -n 1 sh -c 'exit 9'
status_is 9
is "$(grep -c 'ending' "$DIR/err")" 0

test_named "of ranks that end in one moment the crashed one is blamed"
rm -f "$DIR/go"
start -n 4 sh -c 'while [ ! -e '"$DIR/go"' ]; do sleep 0.01; done
    if [ $SFAB_RANK = 2 ]; then kill -ABRT $$; fi; exit 1'
wait_marked 4
keeper=$(keeper_of "$LAUNCHER")
kill -STOP "$keeper" # so that it sees them all at once
touch "$DIR/go"
none_left
kill -CONT "$keeper"
finish
status_is 134
says err "sfab run: rank 2 (pid "
lines_are err 1

test_named "a kill is told as one"
run -n 4 sh -c 'kill -KILL $$'
status_is 137
says err "was killed by signal 9 (Killed)"

test_named "256 ranks"
run -n 256 sh -c 'echo $SFAB_RANK'
status_is 0
is "$(sort -n "$DIR/out" | tr '\n' ' ')" "$(seq 0 255 | tr '\n' ' ')"
none_left

# ---- what ranks see --------------------------------------------------------------------------

test_named "the environment of ranks"
run -n 3 sh -c 'echo "$SFAB_RANK $SFAB_SIZE ${SFAB_NODE-unset} ${SFAB_SECRET_FILE-unset} ${#SFAB_SECRET} $SFAB_SECRET $SFAB_ROOT"'
status_is 0
is "$(sort "$DIR/out" | cut -d' ' -f1-5 | tr '\n' ,)" "0 3 unset unset 64,1 3 unset unset 64,2 3 unset unset 64,"
is "$(cut -d' ' -f6,7 "$DIR/out" | sort -u | wc -l)" 1 "one secret and one root"
first=$(cut -d' ' -f6 "$DIR/out" | head -1)
run -n 1 sh -c 'echo $SFAB_SECRET'
CHECKS=$((CHECKS + 1))
[ "$(cat "$DIR/out")" != "$first" ] || fail "two jobs have one secret"

test_named "what the launcher inherits of another job does not reach ranks"
SFAB_RANK=9 SFAB_SIZE=9 SFAB_SECRET=x SFAB_SECRET_FILE=/x run -n 1 sh -c \
    'echo $SFAB_RANK $SFAB_SIZE ${SFAB_SECRET_FILE-unset}; env | grep -c ^SFAB_RANK='
is "$(tr '\n' ' ' <"$DIR/out")" "0 1 unset 1 "

test_named "pretended nodes"
run -n 7 --nodes 3 sh -c 'echo $SFAB_RANK:$SFAB_NODE'
is "$(sort "$DIR/out" | tr '\n' ' ')" "0:node0 1:node0 2:node0 3:node1 4:node1 5:node2 6:node2 "
run -n 3 --nodes 3 sh -c 'echo $SFAB_RANK:$SFAB_NODE'
is "$(sort "$DIR/out" | tr '\n' ' ')" "0:node0 1:node1 2:node2 "

test_named "variables by -x"
A=old run -n 1 -x A=1 --env B='x y=z' -x A=2 sh -c 'echo "$A|$B"; env | grep -c ^A='
is "$(tr '\n' ' ' <"$DIR/out")" "2|x y=z 1 "

test_named "options behind the program are the program's"
run -n 2 echo -n 5 --label --timeout 0
status_is 0
is "$(cat "$DIR/out")" "5 --label --timeout 05 --label --timeout 0"

test_named "signals, limits and descriptors are as the launcher found them"
look='echo $(ulimit -Sn) $(grep -E "SigBlk|SigIgn" /proc/self/status) $(ls /proc/$$/fd)'
(ulimit -Sn 300 && env --default-signal sh -c "$look") >"$DIR/direct" </dev/null
(ulimit -Sn 300 && env --default-signal "$SFAB" run -n 80 --label sh -c "$look") \
    2>"$DIR/err" </dev/null | sed 's/^[^ ]* //' | sort -u >"$DIR/out"
is "$(cat "$DIR/out")" "$(cat "$DIR/direct")"

test_named "standard input is rank 0's"
echo hello | "$SFAB" run -n 3 sh -c 'echo "$SFAB_RANK:$(cat)"' >"$DIR/out" 2>"$DIR/err"
is "$(sort "$DIR/out" | tr '\n' ' ')" "0:hello 1: 2: "

test_named "binding to CPUs"
cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr ',' '\n' |
    while IFS=- read -r a b; do seq "$a" "${b:-$a}"; done)
run -n 5 --bind cpu sh -c 'echo $SFAB_RANK $(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)'
want=$(for r in 0 1 2 3 4; do
    n=$(echo "$cpus" | wc -l)
    echo "$r $(echo "$cpus" | sed -n "$((r % n + 1))p")"
done)
is "$(sort "$DIR/out")" "$want"
run -n 1 --bind none sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status
is "$(cat "$DIR/out")" "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"

# ---- labels ----------------------------------------------------------------------------------

test_named "labels"
run -n 3 --label sh -c 'echo "line one"; echo; echo oops >&2; printf "no end"'
status_is 0
is "$(sort "$DIR/out" | tr '\n' ,)" "[0] ,[0] line one,[0] no end,[1] ,[1] line one,[1] no end,[2] ,[2] line one,[2] no end,"
is "$(sort "$DIR/err" | tr '\n' ,)" "[0] oops,[1] oops,[2] oops,"

test_named "labelled lines are whole and in order"
run -n 8 --label sh -c 'i=0; while [ $i -lt 500 ]; do printf "%s " "rank $SFAB_RANK"; echo "line $i"; i=$((i+1)); done'
status_is 0
for r in 0 1 2 3 4 5 6 7; do
    is "$(grep "^\[$r\] " "$DIR/out" | sed "s/^\[$r\] rank $r line //" | tr '\n' ' ')" "$(seq 0 499 | tr '\n' ' ')"
done
lines_are out 4000

test_named "a very long line"
run -n 2 --label sh -c 'head -c 300000 /dev/zero | tr "\0" x; echo'
is "$(awk '{print length($0)}' "$DIR/out" | tr '\n' ' ')" "300004 300004 "

test_named "nobody reads the labelled output any more"
timeout 60 "$SFAB" run -x "$MARK=1" -n 4 --label yes 2>"$DIR/err" </dev/null | head -1 >"$DIR/out"
RC=${PIPESTATUS[0]}
status_is 141
none_left

# ---- programs that cannot be started ---------------------------------------------------------

test_named "no such program"
run -n 5 no-such-program-here
status_is 127
is "$(cat "$DIR/err")" "sfab run: cannot start 'no-such-program-here': No such file or directory"
run -n 5 ./no/such/program
status_is 127
lines_are err 1
run -n 5 ""
status_is 127
lines_are err 1

test_named "a program that cannot be run"
run -n 5 /etc/passwd
status_is 126
is "$(cat "$DIR/err")" "sfab run: cannot start '/etc/passwd': Permission denied"
run -n 5 /
status_is 126
lines_are err 1

test_named "exec fails in the ranks: told once"
printf '#!/no/such/interpreter\n' >"$DIR/bad"
chmod +x "$DIR/bad"
run -n 16 "$DIR/bad"
status_is 127
is "$(cat "$DIR/err")" "sfab run: cannot start '$DIR/bad': No such file or directory"
none_left

test_named "a script without a first line"
printf 'echo "$SFAB_RANK:$1"\n' >"$DIR/script"
chmod +x "$DIR/script"
run -n 2 "$DIR/script" arg
is "$(sort "$DIR/out" | tr '\n' ' ')" "0:arg 1:arg "

# ---- wrong usage -----------------------------------------------------------------------------

# usage_error TEXT ARGUMENTS
usage_error() {
    local text=$1
    shift
    NAME="wrong usage: $*"
    "$SFAB" run "$@" >"$DIR/out" 2>"$DIR/err" </dev/null
    RC=$?
    status_is 2
    lines_are out 0
    lines_are err 1
    says err "sfab run: "
    says err "$text"
}
test_named "wrong usage"
usage_error "number from 1 to 65536, not '0'" -n 0 true
usage_error "number from 1 to 65536, not 'abc'" -n abc true
usage_error "number from 1 to 65536, not '-1'" -n -1 true
usage_error "number from 1 to 65536, not '4x'" -n 4x true
usage_error "number from 1 to 65536, not ''" -n "" true
usage_error "number from 1 to 65536, not ' 4'" -n " 4" true
usage_error "number from 1 to 65536, not '99999999999999999999'" -n 99999999999999999999 true
usage_error "number of ranks is missing" true
usage_error "no program to run" -n 2
usage_error "no program to run" -n 2 --
usage_error "2 ranks cannot be spread over 5 nodes" --nodes 5 -n 2 true
usage_error "--nodes takes a number" -n 2 --nodes 0 true
usage_error "--nodes takes a number" -n 2 --nodes x true
for bad in 0 -1 abc nan inf 1e99 "" 5s; do
    usage_error "--timeout takes a number of seconds above 0, not '$bad'" -n 2 --timeout "$bad" true
done
usage_error "--bind takes 'none' or 'cpu', not 'socket'" -n 2 --bind socket true
usage_error "there is no option '--bogus'" -n 2 --bogus true
usage_error "-n needs a value" -n
usage_error "--timeout needs a value" -n 2 --timeout
usage_error "-x takes NAME=VALUE, not 'FOO'" -n 2 -x FOO true
usage_error "-x takes NAME=VALUE, not '=1'" -n 2 -x =1 true
usage_error "SFAB_RANK is set by sfab run itself" -n 2 -x SFAB_RANK=1 true
usage_error "SFAB_SECRET is set by sfab run itself" -n 2 -x SFAB_SECRET=1 true

test_named "help"
run --help
status_is 0
says out "usage: sfab run"
lines_are err 0

# ---- ends that come from outside -------------------------------------------------------------

test_named "timeout"
run -n 6 --timeout 3 sh -c 'case $SFAB_RANK in 1|4) exit 0;; esac; exec sleep 1000'
status_is 124
is "$(cat "$DIR/err")" "sfab run: the job did not end within 3 s: ranks 0, 2, 3, 5 still ran; ending them"
none_left

test_named "a timeout that is not needed"
run -n 2 --timeout 100 true
status_is 0
lines_are err 0

# A rank that has a child of its own, and one that has run off into a session of its own.
FAMILY='sleep 1000 & setsid sleep 1000 & sleep 1000 & wait'

for signal in INT:130 TERM:143 HUP:129 QUIT:131; do
    test_named "SIG${signal%:*} to the launcher"
    start -n 3 sh -c "$FAMILY"
    wait_marked 12
    kill "-${signal%:*}" "$LAUNCHER"
    finish
    status_is "${signal#*:}"
    is "$(cat "$DIR/err")" "sfab run: got SIG${signal%:*}; ending 3 ranks"
    is "$(marked)" "" "left when the launcher had ended"
done

test_named "SIGKILL to the launcher"
start -n 3 sh -c "$FAMILY"
wait_marked 12
kill -KILL "$LAUNCHER"
finish
status_is 137
none_left

test_named "SIGKILL to the keeper"
start -n 3 sh -c "$FAMILY"
wait_marked 12
kill -KILL "$(keeper_of "$LAUNCHER")"
finish
status_is 137
says err "sfab run: the process that keeps the ranks was killed by signal 9 (Killed); all ranks have been ended"
is "$(marked)" "" "left when the launcher had ended"

test_named "SIGKILL to both: the ranks themselves end all the same"
start -n 3 sleep 1000
wait_marked 3
both="$LAUNCHER $(keeper_of "$LAUNCHER")"
kill -STOP $both # so that neither has the time to clean up after the other
kill -KILL $both
finish
none_left

test_named "SIGTERM to the keeper"
start -n 3 sh -c "$FAMILY"
wait_marked 12
kill -TERM "$(keeper_of "$LAUNCHER")"
finish
status_is 143
is "$(marked)" "" "left when the launcher had ended"

test_named "SIGKILL to a launcher of labelled ranks"
start -n 3 --label sh -c "$FAMILY"
wait_marked 12
kill -KILL "$LAUNCHER"
finish
none_left

test_named "ranks that ignore SIGTERM are killed"
begin=$SECONDS
rm -f "$DIR"/ready*
run -n 3 sh -c 'trap "" TERM
    if [ $SFAB_RANK = 0 ]; then
        while [ ! -e '"$DIR"'/ready1 ] || [ ! -e '"$DIR"'/ready2 ]; do sleep 0.01; done
        exit 4
    fi
    touch '"$DIR"'/ready$SFAB_RANK
    while :; do sleep 1000; done'
status_is 4
CHECKS=$((CHECKS + 1))
[ $((SECONDS - begin)) -ge 1 ] || fail "no time was given"
none_left

test_named "a second signal ends all patience"
start -n 2 sh -c 'trap "" TERM; while :; do sleep 1000; done'
wait_marked 4
kill -INT "$LAUNCHER"
while ! grep -q "got SIGINT" "$DIR/err"; do sleep 0.02; done
kill -INT "$LAUNCHER"
finish
status_is 130
is "$(marked)" "" "left when the launcher had ended"

test_named "stopped ranks are woken to hear SIGTERM"
rm -f "$DIR"/heard*
start -n 2 sh -c 'trap "touch '"$DIR"'/heard$SFAB_RANK; exit 0" TERM; kill -STOP $$; exec sleep 1000'
wait_marked 2
for ((i = 0; i < 200; i++)); do
    [ "$(for p in $(marked); do grep "State:.T" "/proc/$p/status"; done | wc -l)" = 2 ] && break
    sleep 0.05
done
kill -TERM "$LAUNCHER"
finish
status_is 143
is "$(cd "$DIR" && echo heard*)" "heard0 heard1"
is "$(marked)" "" "left when the launcher had ended"

test_named "a rank ends well and leaves children"
run -n 3 sh -c 'sleep 1000 & setsid sleep 1000 & exit 0'
status_is 0
is "$(marked)" "" "left when the launcher had ended"

test_named "a rank fails and leaves children"
run -n 3 sh -c 'sleep 1000 & setsid sleep 1000 & [ $SFAB_RANK != 1 ]'
status_is 1
is "$(marked)" "" "left when the launcher had ended"

test_named "a job within a job"
start -n 2 "$SFAB" run -n 2 sh -c "$FAMILY"
wait_marked 16
kill -KILL "$LAUNCHER"
finish
none_left

test_named "no zombie while the job runs"
start -n 4 sh -c 'if [ $SFAB_RANK -gt 0 ]; then (sleep 0.01 &); exit 0; fi; exec sleep 1000'
for ((i = 0; i < 200; i++)); do
    children=$(cat "/proc/$(keeper_of "$LAUNCHER")/task/"*/children 2>/dev/null)
    [ "$(echo "$children" | wc -w)" = 1 ] && [ -n "$(marked)" ] && break
    sleep 0.05
done
is "$(echo "$children" | wc -w)" 1 "children of the keeper"
kill -TERM "$LAUNCHER"
finish
none_left

test_named "children that were there before are left alone"
env --default-signal bash -c "$MARK=1 sleep 1000 & exec \"\$@\"" - "$SFAB" run -n 1 sleep 1000 >"$DIR/out" 2>"$DIR/err" &
LAUNCHER=$!
wait_marked 1
bystander=$(marked)
for ((i = 0; i < 200; i++)); do
    keeper=$(cat "/proc/$LAUNCHER/task/$LAUNCHER/children" | tr ' ' '\n' | grep -vx "$bystander" | head -1)
    [ -n "$keeper" ] && grep -q rank-keeper "/proc/$keeper/comm" 2>/dev/null && break
    sleep 0.05
done
kill -KILL "$keeper"
finish
status_is 137
is "$(marked)" "$bystander" "the bystander lives"
kill -KILL "$bystander" 2>/dev/null

echo "$CHECKS checks, $FAILED failed"
[ "$FAILED" = 0 ]
