#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The judge is judged: one thing of each kind is leaked on purpose, and it must be named.
# test_leftovers.sh ALONE LEFTOVERS
set -u
if [ "${3-}" != inside ]; then
    [ "$(id -u)" = 0 ] || { echo 'skipped: leaking mounts and groups needs root'; exit 77; }
    dir=$(mktemp -d) || exit 1
    "$1" "$dir" "$0" "$1" "$(realpath "$2")" inside "$dir"
    rc=$?
    rmdir "$dir"
    exit $rc
fi
judge=$2 dir=$4 n=0 bad=0
cd "$dir" || exit 1
group() { awk -F: -v c="$1" '$2 == c {print $3}' /proc/self/cgroup; }
point() { awk -v t="$1" -v c="$2" '$0 ~ " - " t " " && $NF ~ c {print $5; exit}' /proc/self/mountinfo; }

# expect NAME PATTERN: the judge must complain, and say this
expect() {
    n=$((n + 1))
    if CAY_SETTLE_MS=300 "$judge" after before "$dir/state" >said; then
        echo "not ok $n - $1: nothing was seen"
        bad=1
    elif ! grep -q "$2" said; then
        echo "not ok $n - $1: said only:"
        sed 's/^/# /' said
        bad=1
    else
        echo "ok $n - $1: $(grep -m1 "$2" said)"
    fi
}
begin() { mkdir -p state && "$judge" before before "$dir/state" >said; } # redirected as below: the same descriptors
end() { # nothing is left once the leak is mended
    n=$((n + 1))
    if "$judge" after before "$dir/state" >said; then
        echo "ok $n - quiet after $1"
    else
        echo "not ok $n - quiet after $1"
        sed 's/^/# /' said
        bad=1
    fi
}

begin
sleep 60 & pid=$!
until grep -q sleep "/proc/$pid/comm"; do sleep 0.05; done
expect 'a process that is left is named' "^left: process $pid sleep"
kill $pid; wait $pid 2>/dev/null
end process

begin
sh -c 'true & exec sleep 60' & pid=$!
until ps --ppid $pid -o stat= 2>/dev/null | grep -q Z; do sleep 0.05; done
expect 'a zombie that is left is named' '^left: process [0-9]* .*(zombie)'
kill $pid; wait $pid 2>/dev/null
end zombie

begin
mkdir m && mount -t tmpfs none m
expect 'a mount that is left is named' "^left: mount .* $dir/m of /"
umount m; rmdir m
end mount

begin
unshare -m sh -c 'mount -t tmpfs hidden /mnt; exec sleep 60' & pid=$!
until grep -q '^hidden ' "/proc/$pid/mounts"; do sleep 0.05; done
expect 'a mount in another namespace is named' '^left: mount mnt:.* /mnt of / (tmpfs hidden'
kill $pid; wait $pid 2>/dev/null
end 'mount in another namespace'

begin
: >pinned
unshare -n sh -c 'echo $$ >who; exec sleep 60' & pid=$!
until [ -s who ]; do sleep 0.05; done
expect 'a net namespace that is left is named' '^left: namespace net:'
mount --bind "/proc/$(cat who)/ns/net" pinned
kill $pid; wait $pid 2>/dev/null
expect 'a net namespace that only a mount holds is named' '^left: mount .*/pinned of net:'
umount pinned; rm pinned who
end 'net namespace'

for kind in v1 v2; do
    case $kind in
    v1) at=$(point cgroup 'pids$') own=$(group pids) ;;
    v2) at=$(point cgroup2 '') own=$(group '') ;;
    esac
    [ -n "$at" ] || { n=$((n + 1)); echo "ok $n - a group of $kind that is left is named # SKIP this host mounts none"; continue; }
    begin
    mkdir "$at$own/leak"
    expect "a group of $kind that is left is named" "^left: group $at$own/leak"
    rmdir "$at$own/leak"
    end "$kind group"
done

begin
mkdir state/sandbox
expect 'a directory that is left is named' "^left: file $dir/state/sandbox "
rmdir state/sandbox
end directory

: >state/kept
begin
rm state/kept
expect 'a file that was not ours to remove is named' "^gone: file $dir/state/kept"
: >state/kept
end 'a file that was not ours to remove'

begin
python3 -c 'import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); time.sleep(60)' \
    "$dir/state/sock" & pid=$!
until [ -S state/sock ]; do sleep 0.05; done
rm -f state/sock
expect 'a socket whose name is gone is named' "^left: socket $dir/state/sock"
kill $pid; wait $pid 2>/dev/null
end socket

begin
exec 9</dev/null
expect 'a descriptor that is left is named' '^left: descriptors of'
exec 9<&-
end descriptor

mkdir -p state
truncate -s 1M state/image
begin
if loop=$(losetup --show -f state/image 2>/dev/null); then
    expect 'a loop device that is left is named' "^left: loop ${loop#/dev/} on $dir/state/image"
    losetup -d "$loop"
    end 'loop device'
else
    n=$((n + 1))
    echo "ok $n - a loop device that is left is named # SKIP no loop device can be made here"
fi
echo "1..$n"
exit $bad
