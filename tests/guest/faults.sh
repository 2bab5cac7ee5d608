#!/bin/bash
# faults.sh BUILD_DIR PART - runs in the SoftRoCE guest with several devices (tests/softroce/run --devices 3):
# ranks, as if on hosts of their own, are killed, stopped and cut off from the network. What was noticed
# when goes to $SOFTROCE_OUT/faults.jsonl, for tests/faults/table.
build=$1 part=$2
cd "$(dirname "$0")/../faults" || exit 1
if [ "$(wc -w <<<"$SOFTROCE_DEVICES")" -lt 3 ] || [ ! -d /sys/class/net/sfabbr ]; then
    echo "SKIPPED: the network's faults need three devices on wires of our own (the guest's layout multi)"
    exit 0
fi
status=0
common=(--build "$build" --devices "$SOFTROCE_DEVICES" -x "SFAB_VERBS_GID_INDEX=$SOFTROCE_GID_INDEX")
scenario() { ./scenario "${common[@]}" --where "verbs (SoftRoCE)" --json "$SOFTROCE_OUT/faults.jsonl" "$@" || status=1; }

deaths() {
    ./kills "${common[@]}" --kills 40 --limit 20 --parallel 1 || status=1
    scenario --times 3 kill holder exit abort
}

lateness() { scenario stop compute; }

network() {
    scenario --times 3 blip
    scenario loss
    scenario --times 3 cut down
}

$part
exit $status
