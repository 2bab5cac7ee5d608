#!/bin/bash
# consumer.sh: installs syncfab, moves the installed tree elsewhere, and builds an outside program
# with it in every way that is offered: pkg-config shared and static, CMake package shared and
# static. Each is run as a job of one rank and under `sfab run -n 2`.
#
# usage: consumer.sh SOURCE BUILD WORK COMPILER GENERATOR
set -euo pipefail
source=$1 build=$2 work=$3 compiler=$4 generator=$5
rm -rf "$work" && mkdir -p "$work"
unset "${!SFAB_@}" LD_LIBRARY_PATH CMAKE_PREFIX_PATH PKG_CONFIG_LIBDIR

fail()
{
    echo "FAILED: $*"
    exit 1
}

quietly() # COMMAND...: its output only when it fails
{
    "$@" >"$work/log" 2>&1 || fail "$* (status $?): $(cat "$work/log")"
}

quietly cmake --install "$build" --prefix "$work/first"
mv "$work/first" "$work/moved"
prefix=$work/moved
cp -r "$source/tests/package/consumer" "$work/consumer" # an outside program lies outside
libdir=$(cd "$prefix" && find . -name 'libsyncfab.a' -printf '%h\n')
libdir=$prefix/${libdir#./}
export PKG_CONFIG_PATH=$libdir/pkgconfig

# What is read while building must name neither the sources nor the place of the first installation.
if grep -rIl -e "$source" -e "$build" -e "$work/first" "$prefix" --include='*.pc' --include='*.cmake' --include='*.h'; then
    fail "these installed files name a folder that the installation must not need"
fi
if readelf -d "$libdir/libsyncfab.so" "$prefix/bin/sfab" | grep -E 'R(UN)?PATH'; then
    fail "an installed file has a run path"
fi
[[ -L $libdir/libsyncfab.so && -e $libdir/libsyncfab.so ]] || fail "libsyncfab.so is no link to a versioned library"
stray=$(cd "$prefix" && find . -type f,l | grep -Ev '^\./(bin/sfab|include/syncfab/[a-z]+\.h|.*/(libsyncfab\.(a|so[.0-9]*)|pkgconfig/syncfab\.pc|cmake/syncfab/syncfab-[a-z-]+\.cmake)|share/(doc|man)/.*)$' || true)
[[ -z $stray ]] || fail "installed without need: $stray"

runs=0
# try PROGRAM [VARIABLE=VALUE...]
try()
{
    local program=$1 want output
    shift
    output=$(env "$@" "$program") || fail "$program as one rank ends with status $?: $output"
    [[ $output == "consumer: rank 0 of 1, sum 1" ]] || fail "$program as one rank printed: $output"
    want=$'consumer: rank 0 of 2, sum 3\nconsumer: rank 1 of 2, sum 3'
    output=$(env "$@" "$prefix/bin/sfab" run -n 2 "$program") ||
        fail "sfab run -n 2 $program ends with status $?: $output"
    [[ $(sort <<<"$output") == "$want" ]] || fail "sfab run -n 2 $program printed: $output"
    runs=$((runs + 2))
}

needs_library() # PROGRAM yes|no: whether it is linked with the shared one
{
    local linked=no
    if readelf -d "$1" | grep -q 'NEEDED.*libsyncfab'; then
        linked=yes
    fi
    [[ $linked == "$2" ]] || fail "$1: linked with the shared library: $linked, expected $2"
}

echo "1. pkg-config $(pkg-config --modversion syncfab), shared"
quietly "$compiler" -std=c11 -Wall -Wextra -Werror $(pkg-config --cflags syncfab) -o "$work/pc_shared" \
    "$work/consumer/main.c" $(pkg-config --libs syncfab)
needs_library "$work/pc_shared" yes
if readelf -d "$work/pc_shared" | grep -E 'NEEDED.*(crypto|ibverbs|rdmacm)'; then
    fail "linking with the shared library also links what only the library itself needs"
fi
try "$work/pc_shared" LD_LIBRARY_PATH="$libdir"

echo "2. pkg-config --static"
quietly "$compiler" -std=c11 -Wall -Wextra -Werror $(pkg-config --static --cflags syncfab) -o "$work/pc_static" \
    "$work/consumer/main.c" $(pkg-config --static --libs syncfab | sed 's/-lsyncfab/-l:libsyncfab.a/')
needs_library "$work/pc_static" no
try "$work/pc_static" UNUSED=

echo "3. CMake package, shared and static"
quietly cmake -S "$work/consumer" -B "$work/cmake" -G "$generator" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$compiler" -DWANTED_VERSION="$(pkg-config --modversion syncfab)"
quietly cmake --build "$work/cmake"
needs_library "$work/cmake/consumer_shared" yes
needs_library "$work/cmake/consumer_default" yes
needs_library "$work/cmake/consumer_static" no
try "$work/cmake/consumer_shared" UNUSED=
try "$work/cmake/consumer_default" UNUSED=
try "$work/cmake/consumer_static" UNUSED=

echo "4. CMake package of a version that is not there"
if cmake -S "$work/consumer" -B "$work/version" -G "$generator" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$compiler" -DWANTED_VERSION=99.0 >"$work/log" 2>&1; then
    fail "version 99.0 was accepted"
fi
grep -q '99.0' "$work/log" || fail "refused for another reason: $(cat "$work/log")"

echo "$runs runs of an outside program are good; installed: $(cd "$prefix" && find . -type f | wc -l) files"
