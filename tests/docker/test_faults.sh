#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_faults.sh BUILD ENGINE: cay is killed at each of its points named docker.* and workspace.*, and the engine while cay stands at one. What was acknowledged is there
# afterwards, and nothing is left over, by the word of tests/docker/judge. Needs a tree with -Dfaults=true. Run by tests/docker/with.
set -eu
build=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/lib.sh"
engine=${2:-docker}
export CAY_PROVIDER="$engine"
export ASAN_OPTIONS=detect_leaks=0
clock=$ENGINE_DIR/clock
points='create docker.intent
create docker.made
create docker.started
snapshot docker.committed
snapshot docker.layered
undo docker.other
undo docker.exchanged
undo docker.noted
forget docker.unimaged
remove docker.removed
volume docker.volume
hydrate workspace.read
export workspace.made'
same "the list has every point there is" "$(echo "$points" | sed 's/.* //' | sort -u)" "$(grep -rhoE 'CAY_FAULT(_FAILS)?\("(docker|workspace)\.[a-z]*"' "$here/../../src/lib/provider/docker" "$here/../../src/lib/snapshot/workspace.c" | sed 's/.*"\(.*\)"/\1/' | sort -u)"

# An image or a directory that somebody who died left is judged when it is a minute old: our clock goes ahead.
later() { python3 -c 'import struct,sys; open(sys.argv[1],"wb").write(struct.pack("qq", 0, 300000))' "$clock"; CAY_FAULT_HITS=$clock "$@"; }
hits() { python3 -c 'import struct,sys
try: print(struct.unpack("q", open(sys.argv[1],"rb").read(8))[0])
except Exception: print(0)' "$1"; }
others() { cay ls 2>/dev/null | awk 'NR > 1 && $2 != "good" { print $1 }'; }
settled() { # settled WHAT: what was there is, and nothing else
    n=0
    until cay ls >/dev/null 2>&1 || [ $((n += 1)) -gt 100 ]; do sleep 0.1; done
    cay resume good >/dev/null 2>&1 || :
    n=0
    until [ "$(timeout 60 cay exec good -- cat kept 2>/dev/null)" = kept ] || [ $((n += 1)) -gt 50 ]; do cay resume good >/dev/null 2>&1 || :; sleep 0.2; done
    same "$1: another sandbox keeps its files" "$(timeout 60 cay exec good -- cat kept 2>&1)" kept
    n=0
    until for b in $(others); do cay rm -f "$b" >/dev/null 2>&1 || :; done
        cay snapshots -q 2>/dev/null | while read -r s; do [ "$s" = "$base" ] || [ "$s" = "$came" ] || cay snapshot rm "$s" >/dev/null 2>&1 || :; done
        later cay gc >/dev/null 2>&1; later cay gc --settle >/dev/null 2>&1
        [ "$("$here/judge")" = "$one" ] || [ $((n += 1)) -gt 40 ]; do sleep 0.2; done
    left=$("$here/judge")
    [ "$left" = "$one" ] || ps -eo pid,ppid,stat,etimes,wchan:24,comm,args | grep -A3 '[c]ay-reaper\|[c]ay-pid1'
    same "$1: nothing is left of it" "$left" "$one"
}
act() { # act WHAT, which begins after `ready WHAT`
    case $1 in
    create) cay create --name new ;;
    snapshot) cay snapshot target --label saved ;;
    undo) cay undo target ;;
    forget) cay snapshot rm first && cay rm -f target && later cay gc --settle && later cay gc ;; # the image goes when nobody stands on it any more
    remove) cay rm -f target ;;
    volume) cay create --name new --manifest "$ENGINE_DIR/volume.json" ;;
    hydrate) cay create --name new --from came ;; # files that another provider saved
    export) cay snapshot export first --format tar -o "$ENGINE_DIR/export.tar" ;;
    esac
}
ready() {
    case $1 in create | volume | hydrate) return 0 ;; esac
    cay create --name target >/dev/null || bad "create for $1"
    cay exec target -- sh -c 'echo a >f'
    case $1 in undo | forget | export) cay snapshot target --label first >/dev/null || bad "snapshot for $1"; cay exec target -- sh -c 'echo b >f' ;; esac
}
# What it may be afterwards: as it was, or as it was asked to be. Never half.
whole() {
    case $1 in
    snapshot) same "$2: the sandbox has its files" "$(cay exec target -- cat f 2>&1)" a ;;
    undo) cay resume target >/dev/null 2>&1 || :
        case $(cay exec target -- cat f 2>&1) in a | b) ok "$2: its files are of one time" ;; *) bad "$2: $(cay exec target -- cat f 2>&1 | head -c 200)" ;; esac ;;
    esac
}
# A driver of volumes, by the name of one that storage may have; where the machine has its own, that point is left out.
printf '{"entries":{"b":{"type":"s3_mount","bucket":"b","mount_strategy":{"type":"docker_volume","driver":"rclone"}}}}' >"$ENGINE_DIR/volume.json"
if plugin_free rclone; then
    "$here/plugin.py" "$plugin" "$ENGINE_DIR/plugin" </dev/null >/dev/null 2>&1 &
    driver=$!
    trap 'kill $driver; rm -f "$plugin"' EXIT
    plugin_up
else
    points=$(echo "$points" | grep -v docker.volume)
fi
mkdir "$ENGINE_DIR/tree"
echo saved >"$ENGINE_DIR/tree/f"
tar -C "$ENGINE_DIR/tree" -cf "$ENGINE_DIR/tree.tar" .
cay --provider native snapshot import "$ENGINE_DIR/tree.tar" --label came >/dev/null || bad "an archive cannot be imported"
cay create --name good >/dev/null
cay exec good -- sh -c 'echo kept >kept'
base=$(cay snapshot good --label base)
came=$(cay snapshots -q | grep -v "^$base$")
later cay gc --settle >/dev/null 2>&1 || :
one=$("$here/judge") n=0 # once the reapers of the commands above are gone
until sleep 1; now=$("$here/judge"); { [ "$now" = "$one" ] && ! echo "$now" | grep -q 'process cay-reaper'; } || [ $((n += 1)) -gt 60 ]; do one=$now; done
echo "$points" | while read -r what point; do
    ready "$what"
    CAY_FAULT="$point=kill" act "$what" >"$ENGINE_DIR/out" 2>&1 </dev/null && bad "$point was not reached by $what: $(head -c 200 "$ENGINE_DIR/out")"
    whole "$what" "kill -9 of cay at $point"
    settled "kill -9 of cay at $point" </dev/null
    [ $failed = 0 ] || exit 1
done || failed=1
# The engine dies while ours stands there, and comes again.
echo "$points" | while read -r what point; do
    case $point in docker.made | docker.volume | docker.committed | docker.exchanged | docker.removed) ;; *) continue ;; esac
    ready "$what"
    rm -f "$ENGINE_DIR/hits"
    python3 -c 'import struct,sys; open(sys.argv[1],"wb").write(struct.pack("qq", 0, 0))' "$ENGINE_DIR/hits"
    CAY_FAULT_HITS=$ENGINE_DIR/hits CAY_FAULT="$point=delay:1500" act "$what" >"$ENGINE_DIR/out" 2>&1 </dev/null &
    pid=$!
    n=0; until [ "$(hits "$ENGINE_DIR/hits")" -ge 1 ] || [ $((n += 1)) -gt 300 ]; do sleep 0.05; done
    "$ENGINE_DIR/restart" KILL </dev/null || bad "the engine does not come back"
    wait $pid || :
    n=0; until cay resume target >/dev/null 2>&1 || [ $((n += 1)) -gt 10 ]; do sleep 0.2; done
    [ "$what" = create ] || [ "$what" = volume ] || [ "$what" = remove ] || whole "$what" "kill -9 of the engine at $point"
    settled "kill -9 of the engine at $point" </dev/null
    [ $failed = 0 ] || exit 1
done || failed=1
cay rm -f good >/dev/null
cay snapshot rm base >/dev/null
cay snapshot rm came >/dev/null
later cay gc --settle >/dev/null 2>&1 || :
same "in the end no container is left" "$(api 'http://e/v1.41/containers/json?all=true' | grep -o '"Id"' | wc -l)" 0
exit $failed
