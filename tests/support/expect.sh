# expect.sh - for test scripts: run a command, expect a status and words, count.
#
#     expect STATUS 'words' COMMAND ARGS...     STATUS: a number, or "fail" for any non-zero one
#     finish
#
# A command that takes longer than LIMIT seconds is a hang and fails the test.
LIMIT=${LIMIT:-30}
passed=0 failed=0
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

report() { # report OK|BAD text
    if [ "$1" = OK ]; then passed=$((passed + 1)); echo "ok $((passed + failed)) - $2"
    else failed=$((failed + 1)); echo "not ok $((passed + failed)) - $2"; fi
}

expect() {
    local want=$1 words=$2 status; shift 2
    timeout -k 5 "$LIMIT" "$@" >"$WORK/out" 2>&1 </dev/null
    status=$?
    local good=OK
    case $want in
        fail) [ $status -ne 0 ] && [ $status -ne 124 ] && [ $status -ne 137 ] || good=BAD ;;
        *) [ $status -eq "$want" ] || good=BAD ;;
    esac
    grep -qF -- "$words" "$WORK/out" || good=BAD
    report $good "$* -> $status, \"$words\""
    if [ $good = BAD ]; then echo "# expected status $want; its output:"; sed 's/^/#   /' "$WORK/out"; fi
}

finish() {
    echo "# $passed passed, $failed failed"
    [ $failed -eq 0 ]
    exit
}
