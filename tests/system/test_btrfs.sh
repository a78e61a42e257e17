#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_btrfs.sh CAY MOMENT: snapshots while processes run, where the state directory is on btrfs: walked in a snapshot of the subvolume. As root.
set -u
cay=$(realpath "$1") moment=$(realpath "$2")
[ "$(id -u)" = 0 ] || { echo "test_btrfs.sh wants root"; exit 77; }
command -v mkfs.btrfs >/dev/null || { echo "there is no mkfs.btrfs here (btrfs-progs)"; exit 77; }
if [ "${CAY_BTRFS_NS-}" != 1 ]; then # mounts are nobody else's
    CAY_BTRFS_NS=1 exec unshare -m --propagation private "$0" "$@"
fi
. "$(dirname "$0")/lib.sh"
unset CAY_PROVIDER
mkdir "$tmp/fs"
truncate -s 512M "$tmp/image" && mkfs.btrfs -q "$tmp/image" >"$tmp/err" 2>&1 && mount -o loop "$tmp/image" "$tmp/fs" 2>"$tmp/err" || { echo "no btrfs can be mounted here: $(head -n 1 "$tmp/err")"; exit 77; }
leave() { "$cay" snapshots -q </dev/null 2>/dev/null | xargs -r "$cay" snapshot rm -q >/dev/null 2>&1; }
c() { timeout -k 1 60 "$cay" "$@" </dev/null 2>"$tmp/err"; }
field() { c snapshot inspect "$1" | sed -n "s/.*\"$2\": \"*\([^\",]*\).*/\1/p"; }
eventually() { for i in $(seq 300); do "$@" && return 0; sleep 0.1; done; return 1; }
stages() { ls -A "$CAY_HOME/layers" | grep -c '^\.stage-'; }
none_left() { c gc >/dev/null; [ "$(stages)" = 0 ] && [ "$(btrfs subvolume list "$tmp/fs" | grep -c 'stage')" = 0 ]; }

# The state directory deep in the file system's own subvolume, then as a subvolume of its own.
export CAY_HOME="$tmp/fs/a/b/home"
mkdir -p "$CAY_HOME"
first_of() {
    id=$(c create)
    c cp "$moment" "$id:/home/user/moment"
    c exec "$id" -- sh -c 'chmod 755 /home/user/moment; mkdir w; echo old >gone; mkdir many; for i in $(seq 300); do echo $i >many/$i; done; head -c 3000000 /dev/urandom >large; ln large twin'
    c exec -d --tag count "$id" -- /home/user/moment write /workspace/w >/dev/null
    eventually c exec "$id" -- sh -c '[ -s w/twin ] && [ -e w/map ] && ls w/gen-???* >/dev/null 2>&1'
}
first_of
s=$(c snapshot "$id") || { echo "no freezer here: $(cat "$tmp/err")"; exit 77; }
ok 'a snapshot on btrfs names its method' same "$(field "$s" method)" btrfs
ok 'a sandbox stands still for a part of the snapshot only' [ "$(field "$s" frozen_us)" -lt "$(field "$s" total_us)" ]
whole=yes
for i in 1 2 3 4; do
    c exec "$id" -- sh -c "echo $i >last; rm -f gone; echo $i >many/7"
    s=$(c snapshot "$id")
    [ "$(field "$s" method)" = btrfs ] && c run -q --from "$s" -- sh -c "/home/user/moment check /workspace/w && [ \$(cat last)\$(cat many/7)\$(cat many/300) = $i${i}300 ] && [ ! -e gone ] && [ large -ef twin ]" >"$tmp/out" 2>&1 || { whole="no: $i $(cat "$tmp/out" "$tmp/err")"; break; }
done
ok 'each snapshot is one moment' same "$whole" yes
ok 'no subvolume is left' eventually none_left
c exec "$id" -- sh -c 'mkdir on'
c rm -f "$id" >/dev/null

# ---- killed in the middle (bites where fault points are compiled in)
first_of
for point in clone.subvol.taken clone.walk clone.walked clone.published; do
    CAY_FAULT="$point=kill" c snapshot "$id" --label "k-$point" >/dev/null
    eventually c exec "$id" -- true
    if c snapshots --json | grep -q "k-$point"; then
        c run -q --from "k-$point" -- /home/user/moment check /workspace/w >"$tmp/out"
        ok "killed at $point: the snapshot is whole" same "$?" 0
    else
        ok "killed at $point: the next snapshot is taken" c snapshot -q "$id"
    fi
    ok "killed at $point: no subvolume stays" eventually none_left
done
c rm -f "$id" >/dev/null

# ---- above a directory of the host, and with the state directory as a subvolume of its own
leave
pid=$(pgrep -f "^[^ ]*cay-keeper $CAY_HOME ") && kill "$pid"
btrfs subvolume create "$tmp/fs/own" >/dev/null
export CAY_HOME="$tmp/fs/own"
mkdir "$tmp/dir" && echo host >"$tmp/dir/f"
id=$(c create --on "$tmp/dir")
c exec -d "$id" -- sh -c 'i=0; while :; do i=$((i+1)); echo $i >a; echo $i >/home/user/a; done' >/dev/null
eventually c exec "$id" -- test -s /home/user/a
s=$(c snapshot "$id")
ok 'a snapshot above a directory uses btrfs, too' same "$(field "$s" method)" btrfs
f=$(c fork "$s")
ok 'a fork has the directory and the home of one moment' c exec "$f" -- sh -c 'a=$(cat a) b=$(cat /home/user/a); [ "$a" = "$b" ] || [ "$a" = $((b+1)) ] || [ -z "$a" ] || [ -z "$b" ]'
for x in "$f" "$id"; do c rm -f "$x" >/dev/null; done
leave
verdict
