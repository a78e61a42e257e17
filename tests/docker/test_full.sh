#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_full.sh BUILD: disks that are full: the engine's, where images and containers are, and ours, where the state directory is. Each is told with what helps,
# nothing half-made stays, and it works again when there is room. Run by tests/docker/with.
set -eu
build=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/lib.sh"
export CAY_PROVIDER=docker
tmp=$ENGINE_DIR/f
mkdir -p "$tmp/data" "$tmp/home"
containers() { api "http://e/v1.41/containers/json?all=true" | grep -o '"Id":"[0-9a-f]*"' | wc -l; }
boxes() { find "$CAY_HOME/docker" -mindepth 1 -maxdepth 1 -name '*c???????????????????' 2>/dev/null | wc -l; }
fill() { dd if=/dev/zero of="$1/ballast" bs=1M 2>/dev/null || :; dd if=/dev/zero of="$1/ballast2" bs=512 2>/dev/null || :; }
empty() { rm -f "$1/ballast" "$1/ballast2"; }

# An engine on a small disk of its own, with the image that the first one has.
truncate -s 700M "$tmp/disk"
mkfs.ext4 -q -m 0 "$tmp/disk" 2>"$tmp/out" && mount -o loop "$tmp/disk" "$tmp/data" 2>>"$tmp/out" || { echo "no disk of its own here: $(tail -1 "$tmp/out")"; exit 77; }
trap 'for b in $(cay ls -q 2>/dev/null); do cay rm -f "$b" >/dev/null 2>&1; done; "$ENGINE_DIR/stop"; umount -l "$tmp/home" "$tmp/data" 2>/dev/null' EXIT
"$here/image" >"$tmp/image.tar"
DOCKERD_ARGS="--data-root $tmp/data" "$ENGINE_DIR/restart" || { echo "no engine there: $(tail -1 "$ENGINE_DIR/log")"; exit 77; }
curl -sf --unix-socket "$sock" -X POST -H 'Content-Type: application/x-tar' --data-binary "@$tmp/image.tar" -o "$tmp/imported" \
    'http://engine/v1.41/images/create?fromSrc=-&repo=localhost/cay-test&tag=latest' || { echo "the image does not fit"; exit 77; }

# ------------------------------------------------------------------ the engine's
cay create --name one >/dev/null
cay exec one -- sh -c 'echo kept >f'
left() { "$here/judge" | grep -v process; } # workers of ours for files come and go
before=$(left)
fill "$tmp/data"
refused "a container on a full disk" engine_full cay --json create
grep -q 'prune' "$ENGINE_DIR/out" && ok "the refusal of a container names the remedy" || bad "told: $(cat "$ENGINE_DIR/out")"
refused "a snapshot on a full disk" engine_full cay --json snapshot one
cay --json exec one -- sh -c 'head -c 2000000 /dev/zero >big' >"$tmp/out" 2>&1 && bad "a full disk takes a file" || ok "a command fails at its own write"
head -c 2000000 /dev/zero >"$tmp/big"
refused "a file on a full disk" disk_full cay --json cp "$tmp/big" one:/workspace/big
same "a running sandbox still works on a full disk" "$(cay exec one -- cat f)" kept
cay exec one -- rm -f big
empty "$tmp/data"
same "refusals on a full disk leave nothing" "$(left)" "$before"
cay create --name two >/dev/null && ok "with room on the disk a sandbox is made again" || bad "with room on the disk no sandbox is made"
cay rm -f two >/dev/null

# ------------------------------------------------------------------ ours
cay rm -f one >/dev/null
mount -t tmpfs -o size=6m,mode=700 tmpfs "$tmp/home"
CAY_HOME=$tmp/home
cay create --name three >/dev/null
fill "$tmp/home"
rc=0; cay --json create >"$tmp/out" 2>&1 || rc=$?
[ $rc != 0 ] && grep -qE '"code": *"ENOSPACE"|[Nn]o space left|full' "$tmp/out" && ok "a full state directory: $(grep -o '"reason": *"[a-z_]*"' "$tmp/out")" || bad "a full state directory: $rc $(head -c 300 "$tmp/out")"
same "a full state directory leaves no container" "$(containers) $(boxes)" "1 1"
same "commands work with a full state directory" "$(cay exec three -- echo alive 2>&1)" alive
empty "$tmp/home"
cay create --name four >/dev/null && ok "with room in the state directory a sandbox is made again" || bad "with room in the state directory no sandbox is made"
cay rm -f three four >/dev/null
same "no container and no directory is left" "$(containers) $(boxes)" "0 0"
exit $failed
