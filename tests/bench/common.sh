# common.sh: what the shell scripts of this folder share. Sourced with $name set to the script's name.
# shellcheck shell=bash disable=SC2034,SC2154
# Sets sfab and programs (the folder of the rank programs) from --build DIR, by default
# build/release of this source tree, and work: a folder that is removed at the end.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$here/../.." && pwd)/build/release

# One sentence; the script itself, not what it checks, is in trouble.
trouble()
{
    echo "$name: $1" >&2
    exit 125
}

# What it checks is not so.
failed()
{
    echo "$name: FAILED: $1" >&2
    failures=$((failures + 1))
}

need()
{
    command -v "$1" >/dev/null || trouble "$1 is missing; install it with: apt-get install $2"
}

# Call when the options are read.
prepare()
{
    sfab=$build/bin/sfab
    programs=$build/tests/bench
    [[ -x $sfab ]] || trouble "$sfab is not there: build it first, or name the build with --build DIR"
    work=$(mktemp -d "${TMPDIR:-/tmp}/syncfab-$name.XXXXXX") || trouble "no temporary folder can be made"
    trap 'rm -rf "$work"' EXIT
    failures=0
    # Nothing of the caller's settings but what the script sets.
    local variable
    for variable in $(compgen -e SFAB_); do
        [[ -n ${keep_settings:-} && $variable == SFAB_VERBS_* ]] || unset "$variable"
    done
}

program()
{
    [[ -x $programs/$1 ]] || trouble "$programs/$1 is not there: build the tests first"
    echo "$programs/$1"
}
