#!/bin/bash
# verbs.sh BUILD_DIR PART - runs where an RDMA device is up (tests/softroce/run gives one): everything that
# needs verbs, one line a check.
build=$1 part=$2
. "$(dirname "$0")/../support/expect.sh"
LIMIT=150
# The guest's emulated CPUs may stand still for a second; what is measured of failures is in faults.sh.
export SFAB_HEARTBEAT_MS=5000
sfab=$build/bin/sfab tests=$build/tests hello=$build/examples/hello

conformance() { # conformance TEXT SFAB_RUN_OPTIONS...: the suite, its failures shown
    local text=$1; shift
    timeout -k 5 $LIMIT "$sfab" run "$@" -- "$tests/conformance" >"$WORK/suite" 2>&1
    local status=$?
    if [ $status = 0 ] && grep -q ', 0 failed' "$WORK/suite"; then
        report OK "conformance, $text: $(grep -c '^ok' "$WORK/suite") checks; $(sed -n 's/^# [0-9]* ranks; //p' "$WORK/suite")"
    else
        report BAD "conformance, $text (status $status)"; grep -v '^ok' "$WORK/suite" | sed 's/^/#   /' | head -40
    fi
}

suite() {
    for n in 1 2 3; do conformance "verbs, $n ranks" -n $n -x SFAB_TRANSPORT=verbs; done
    conformance "verbs, 4 ranks, radix 4" -n 4 -x SFAB_TRANSPORT=verbs -x SFAB_RADIX=4
    conformance "verbs, 4 ranks, star" -n 4 -x SFAB_TRANSPORT=verbs -x SFAB_BARRIER=central
    conformance "verbs, 2 ranks, sleeping" -n 2 -x SFAB_TRANSPORT=verbs -x SFAB_WAIT=block
    conformance "verbs, small queues" -n 2 -x SFAB_TRANSPORT=verbs -x SFAB_VERBS_SQ_DEPTH=8
    conformance "verbs, nothing inline" -n 2 -x SFAB_TRANSPORT=verbs -x SFAB_VERBS_INLINE=0
}

mixed() {
    conformance "mixed, 2 nodes of 2 ranks" -n 4 --nodes 2
    conformance "mixed, 2 nodes, radix 3" -n 5 --nodes 2 -x SFAB_RADIX=3
    conformance "mixed, 2 nodes, star" -n 4 --nodes 2 -x SFAB_BARRIER=central
    conformance "mixed, 3 nodes of 1 rank" -n 3 --nodes 3
}

late() {
    for n in 2 5 8; do
        expect 0 "nobody left early" "$sfab" run -n $n -x SFAB_TRANSPORT=verbs -- "$tests/barrier_late" 40 $n
        expect 0 "nobody left early" "$sfab" run -n $n -x SFAB_TRANSPORT=verbs -x SFAB_BARRIER=central -- "$tests/barrier_late" 40 $n
    done
    expect 0 "nobody left early" "$sfab" run -n 6 --nodes 3 -- "$tests/barrier_late" 40 6
}

bad_input() {
    expect fail "mlx9_9" "$sfab" run -n 2 -x SFAB_TRANSPORT=verbs -x SFAB_VERBS_DEVICE=mlx9_9 "$hello"
    grep -q rxe "$WORK/out" && report OK "the devices that there are, are listed" || { report BAD "the devices that there are, are listed"; cat "$WORK/out"; }
    expect fail "GID" "$sfab" run -n 2 -x SFAB_TRANSPORT=verbs -x SFAB_VERBS_GID_INDEX=77 "$hello"
    expect fail "port" "$sfab" run -n 2 -x SFAB_TRANSPORT=verbs -x SFAB_VERBS_PORT=9 "$hello"
    # As a user whom the limit binds, from a place that such a user can reach wherever the clone lies.
    chmod 755 "$WORK" && cp "$sfab" "$hello" "$WORK"
    expect fail "memlock" setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock --reuid=65534 --clear-groups \
        bash -c "ulimit -l 16; cd /; exec '$WORK/sfab' run -n 2 -x SFAB_TRANSPORT=verbs '$WORK/hello'"
    expect 0 "rxe" "$sfab" info
    expect 137 "rank 1" "$sfab" run -n 3 -x SFAB_TRANSPORT=verbs "$tests/dying" 1 kill
    expect 0 "add up to 6" "$sfab" run -n 4 -x SFAB_TRANSPORT=verbs "$hello"
    expect 0 "has not arrived: rank 3" "$sfab" run -n 4 -x SFAB_TRANSPORT=verbs "$build/examples/straggler"
}

rdmacm() {
    for n in 2 4; do conformance "verbs by rdma_cm, $n ranks" -n $n -x SFAB_TRANSPORT=verbs -x SFAB_VERBS_CM=rdmacm; done
    conformance "mixed by rdma_cm" -n 4 --nodes 2 -x SFAB_VERBS_CM=rdmacm
}

# Two devices on one network: each rank of a job may use another.
devices() {
    cat >"$WORK/rank" <<'RANK'
#!/bin/bash
SFAB_VERBS_DEVICE=rx$((SFAB_RANK % 2)) exec "$@"
RANK
    chmod +x "$WORK/rank"
    expect 0 "25 checks, 0 failed" "$sfab" run -n 2 -x SFAB_TRANSPORT=verbs -- "$WORK/rank" "$tests/conformance"
    expect 0 "nobody left early" "$sfab" run -n 4 -x SFAB_TRANSPORT=verbs -x SFAB_BARRIER=dissemination -- "$WORK/rank" "$tests/barrier_late" 40 4
    expect 0 "rx1" "$sfab" info
}

$part
finish
