#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_disk_image.sh CAY: a disk limit that holds where the state directory has no project quota: who requires it gets a disk image. Root only.
set -u
cay=$(realpath "$1")
[ "$(id -u)" = 0 ] || { echo 'SKIP: disk images need root'; exit 77; }
tmp=$(mktemp -d /tmp/cay-image.XXXXXX)
export CAY_HOME="$tmp/home" XDG_RUNTIME_DIR="$tmp/run" NO_COLOR=1
unset CAY_PROVIDER
mkdir -m 700 "$tmp/run"
passed=0 failed=0
finish() {
    for CAY_HOME in "$tmp/small/home" "$tmp/home"; do
        for id in $("$cay" ls -q 2>/dev/null </dev/null); do "$cay" rm -f "$id" >/dev/null 2>&1 </dev/null; done
        pid=$(pgrep -f "^[^ ]*cay-keeper $CAY_HOME ")
        [ -n "$pid" ] && kill "$pid" && while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
        for at in "$tmp/small" "$tmp/tmpfs"; do
            for _ in $(seq 50); do
                mountpoint -q "$at" || break
                umount "$at" 2>/dev/null || sleep 0.1
            done
        done
    done
    [ -z "${disk-}" ] || { [ "$part" = "$disk" ] || delpart "$disk" 1; losetup -d "$disk"; }
    rm -rf --one-file-system "$tmp"
}
trap finish EXIT
trap 'exit 1' INT TERM HUP
ok() { # NAME CONDITION…
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        [ -s "$tmp/err" ] && sed 's/^/  /' "$tmp/err" | head -n 5
    fi
}
same() { [ "$1" = "$2" ] || { echo "  got: $1"; false; }; }
within() { [ "$1" -ge "$2" ] && [ "$1" -le "$3" ] || { echo "  got: $1, not $2 to $3"; false; }; }
c() { timeout -k 1 60 "$cay" "$@" </dev/null 2>"$tmp/err"; }
not() { ! "$@"; }
says() { grep -qF -- "$1" "$tmp/err"; }
json() { python3 -c "import json,sys; print(json.load(sys.stdin)$1)"; }
devices() { losetup -n -O BACK-FILE -l 2>/dev/null | grep -cF "$CAY_HOME"; }
no_devices() { # the kernel lets go of the last mount after its process's end
    for _ in $(seq 200); do
        [ "$(devices)" = 0 ] && return
        sleep 0.1
    done
    losetup -l | sed 's/^/  /'
    false
}
# In many files, because a single one is bounded by a limit of the process already.
fill='i=0; while head -c 1000000 /dev/zero >"$1/f$i"; do i=$((i + 1)); [ $i -lt 90 ] || break; done 2>&1'
M=1048576

c doctor >"$tmp/out"
grep 'disk-quota' "$tmp/out" | grep -q 'disk image of its own' || { echo "SKIP: no disk images here: $(grep disk-quota "$tmp/out")"; exit 77; }
ok 'doctor --require accepts disk-quota' c doctor --require disk-quota >/dev/null
id=$(c create --disk 20m --inodes 600 --require disk-quota)
[ -n "$id" ] || ! says 'loop device' || { echo "SKIP: $(cat "$tmp/err")"; exit 77; }
ok 'create --require disk-quota makes a sandbox' [ -n "$id" ]
layer() { c inspect "$1" | json '["layers"]' | tr '{' '\n' | grep disk-quota; }
ok 'inspect says that an image holds the limit' sh -c 'echo "$1" | grep -q "'"'on'.*image"'"' sh "$(layer "$id")"
plain=$(c create)
ok 'inspect calls the limit of another sandbox soft' sh -c 'echo "$1" | grep -q "'"'soft'"'"' sh "$(layer "$plain")"

# ---- the limit (attack cases S-40 and S-41)
c events >"$tmp/events" &
events=$!
for _ in $(seq 100); do
    c exec "$id" -- true
    [ -s "$tmp/events" ] && break
    sleep 0.1
done
c exec "$id" -- sh -c "$fill" sh /workspace | grep -q 'No space'
ok 'writing beyond the limit ends with no space' [ $? = 0 ]
n=$(c exec "$id" -- sh -c 'cat /workspace/f* | wc -c')
ok 'writing ends within five per cent of the limit' within "$n" $((20 * M * 95 / 100)) $((20 * M * 105 / 100))
ok 'the result of a command names the disk as the reason' same "$(c exec --json "$id" -- sh -c 'head -c 500000 /dev/zero >more' | json '["reason"]')" disk
c exec "$id" -- sh -c "$fill" sh /home/user >/dev/null
c exec "$id" -- sh -c "$fill" sh /tmp >/dev/null
n=$(c exec "$id" -- sh -c 'cat /workspace/f* /home/user/f* /tmp/f* 2>/dev/null | wc -c')
ok "home and temporary directory count too" within "$n" $((20 * M * 95 / 100)) $((20 * M * 105 / 100))
told() { for _ in $(seq 100); do grep -q 'limit.*(disk)' "$tmp/events" && return; sleep 0.1; done; false; }
ok 'events name the disk as the reason' told
kill "$events" 2>/dev/null
wait "$events" 2>/dev/null
ok 'another sandbox can still write' c exec "$plain" -- sh -c 'head -c 30000000 /dev/zero >f && rm f'
ok 'removed space can be written again' c exec "$id" -- sh -c 'rm -f /workspace/f* /home/user/f* /tmp/f* more; head -c 5000000 /dev/zero >g && rm g'
n=$(c exec "$id" -- sh -c 'mkdir n; i=0; while true >n/$i; do i=$((i + 1)); [ $i -lt 2000 ] || break; done 2>/dev/null; ls n | wc -l; rm -r n')
ok "inodes end at their limit" within "$n" 540 660
ok 'renames in /etc work, as package managers do them' c exec --user root "$id" -- sh -c 'echo x >>/etc/profile && mv /etc/profile /etc/q && mkdir /etc/d && mv /etc/d /etc/e && rm -r /etc/e'

# ---- snapshots are copies out of it
c exec "$id" -- sh -c 'echo one >kept; mkdir -p a/b; echo two >a/b/c; chmod 640 kept; ln -s kept l'
ok 'a snapshot of a sandbox with an image is taken' c snapshot "$id" --label first >/dev/null
ok 'a snapshot of an image names its method' same "$(c snapshots --json | json '[0]["method"]')" image
c exec "$id" -- sh -c 'echo other >kept; rm -r a; echo new >new'
ok 'diff compares a snapshot with the image' same "$(c diff first "$id" | sort | tr '\n' ' ')" "A new D a/ M kept "
fork=$(c fork first)
ok 'a fork has the files of the snapshot' same "$(c exec "$fork" -- sh -c 'cat kept a/b/c l; stat -c %a kept' | tr '\n' ' ')" "one two one 640 "
ok 'a fork has a limit that an image holds' sh -c 'echo "$1" | grep -q image' sh "$(layer "$fork")"
ok 'undo of a sandbox with an image is refused' not c undo "$id" >/dev/null
ok 'a refused undo names the fork' says 'fork the snapshot'
ok 'a refused undo changes nothing' same "$(c exec "$id" -- cat kept)" other

# ---- life
ok 'kill stops a sandbox with an image' c kill "$id" >/dev/null
ok 'diff reads the image of a stopped sandbox' same "$(c diff first "$id" | sort | tr '\n' ' ')" "A new D a/ M kept "
ok 'resume starts a sandbox with an image' c resume "$id" >/dev/null
ok 'a resumed sandbox has the files of its image' same "$(c exec "$id" -- cat kept new | tr '\n' ' ')" "other new "
c exec "$id" -- sh -c "$fill" sh /workspace >/dev/null
n=$(c exec "$id" -- sh -c 'cat f* | wc -c; rm f*')
ok 'a resumed sandbox has its limit' within "$n" $((20 * M * 90 / 100)) $((20 * M * 105 / 100))
pid=$(pgrep -f "^[^ ]*cay-keeper $CAY_HOME ")
kill -9 "$pid"
ok 'the next keeper finds the files of the image' same "$(c exec "$id" -- cat kept)" other
c exec "$id" -- sh -c "$fill" sh /workspace >/dev/null
ok 'the next keeper knows the limit' same "$(c exec --json "$id" -- sh -c 'head -c 5000000 /dev/zero >more' | json '["reason"]')" disk

ok 'a full sandbox can be stopped' c kill "$id" >/dev/null
ok 'a full sandbox can be started' c resume "$id" >/dev/null
ok 'a full sandbox has its files when it is started' same "$(c exec "$id" -- sh -c 'rm -f f* more; cat kept')" other

# ---- what was required holds, or it does not start
image="$CAY_HOME/sandboxes/$id/image"
c kill "$id" >/dev/null
mv "$image" "$tmp/image"
ok 'a sandbox that lost its image does not start' not c resume "$id" >/dev/null
ok 'a refused start names the requirement' says 'requires disk-quota'
mv "$tmp/image" "$image"
ok 'a sandbox starts when its image is there again' c resume "$id" >/dev/null
ok 'a sandbox has its files when its image is there again' same "$(c exec "$id" -- cat kept)" other

# ---- a throw-away one has an image without a name
n=$(c run --disk 5m --require disk-quota -- sh -c 'i=0; while head -c 100000 /dev/zero >f$i; do i=$((i + 1)); [ $i -lt 200 ] || break; done 2>/dev/null; cat f* | wc -c')
ok 'cay run ends writing at its limit' within "$n" $((5 * M * 90 / 100)) $((5 * M * 105 / 100))
ok 'cay run refuses a requirement without a limit' not c run --disk unlimited --require disk-quota -- true
mkdir "$tmp/dir"
ok 'cay run refuses a requirement above a directory of the host' not c run --on "$tmp/dir" --require disk-quota -- true
ok 'the refusal names project quotas' says 'project quota'
if id cay-range >/dev/null 2>&1; then
    chmod 711 "$tmp"
    mkdir "$tmp/u" "$tmp/ur" && chown cay-range "$tmp/u" "$tmp/ur"
    timeout 60 setpriv --reuid cay-range --regid cay-range --init-groups env HOME="$tmp/u" CAY_HOME="$tmp/u/home" XDG_RUNTIME_DIR="$tmp/ur" \
        "$cay" run --require disk-quota -- true >/dev/null 2>"$tmp/err" </dev/null
    ok 'a requirement is refused to an ordinary user' [ $? != 0 ]
    ok 'the refusal for an ordinary user names disk-quota' says disk-quota
    pid=$(pgrep -f "^[^ ]*cay-keeper $tmp/u/home ")
    [ -z "$pid" ] || kill "$pid"
fi

# ---- the host's disk is not the sandbox's: one without a limit that holds is not told that it is full, nor what is used of it
small() { (CAY_HOME="$tmp/small/home" && c "$@"); }
truncate -s 514M "$tmp/disk" && disk=$(losetup --show -f "$tmp/disk") && part=$disk
addpart "$disk" 1 2048 1048576 2>/dev/null && for _ in $(seq 50); do [ -b "${disk}p1" ] && part=${disk}p1 && break; sleep 0.1; done
mkfs.ext4 -q -F -m 0 "$part" && mkdir "$tmp/small" && mount "$part" "$tmp/small"
ok 'a small disk is mounted on the host' mountpoint -q "$tmp/small"
other=$(small create --disk unlimited)
fallocate -l $(($(stat -f -c '%a * %S' "$tmp/small") - 5000000)) "$tmp/small/hog"
ok 'a command that fails on a full disk of the host has its own reason' same "$(small exec --json "$other" -- false | json '["reason"]')" exit
n=$(small top --once --json "$other" | grep -o '"disk": *[0-9]*' | tr -cd 0-9)
ok 'top tells only the space that the sandbox uses' within "${n:--1}" 0 5000000
rm "$tmp/small/hog"

# ---- a limit of I/O holds on the whole disk, also below a partition
if c doctor --require io-limit >/dev/null; then
    slow=$(small create --io-write 1234567)
    ok 'a sandbox with a limit of I/O is made' [ -n "$slow" ]
    find /sys/fs/cgroup -path '*/cay-*' \( -name blkio.throttle.write_bps_device -o -name io.max \) -exec cat {} + >"$tmp/out" 2>/dev/null
    ok 'the kernel has the limit of I/O for the whole disk' grep -q "^$(cat "/sys/class/block/${disk#/dev/}/dev") .*1234567" "$tmp/out"
    small rm -f "$slow" >/dev/null
    mkdir "$tmp/tmpfs" && mount -t tmpfs -o size=64m none "$tmp/tmpfs"
    (CAY_HOME=$tmp/tmpfs/home && c run --io-write 1m -- true)
    ok 'a limit of I/O is refused on tmpfs' [ $? = 125 ]
    ok 'the refusal of a limit of I/O names the tmpfs' says "$tmp/tmpfs/home is on tmpfs"
    pid=$(pgrep -f "^[^ ]*cay-keeper $tmp/tmpfs/home ")
    [ -z "$pid" ] || kill "$pid"
fi

# ---- killed in the middle (bites where fault points are compiled in)
boxes() { ls "$CAY_HOME/sandboxes" | grep -c '^c'; }
before=$(boxes)
for point in disk.image disk.made client.create.send client.create.answered; do
    CAY_FAULT="$point=kill" c create --disk 5m --require disk-quota >"$tmp/made"
    made=$(cat "$tmp/made")
    [ -z "$made" ] || c rm -f "$made" >/dev/null
    few() { for _ in $(seq 100); do c gc >/dev/null; [ "$(boxes)" -le "$before" ] && return; sleep 0.1; done; ls -l "$CAY_HOME"/sandboxes/c*; false; }
    ok "killed at $point: no sandbox stays" few
done

# ---- a volume whose limit has to hold
ok 'a volume with a hard limit is made' c volume create hard --size 20m --hard >/dev/null
ok 'a hard limit is not called soft' not says soft
ok 'the hard limit of a volume is on' same "$(c volume inspect hard | json '["quota"]')" on
ok 'a new volume with a hard limit is empty' same "$(c volume inspect hard | json '["inodes"]')" 1
ok 'a second volume of the same name is refused' not c volume create hard --hard --size 20m >/dev/null
ok 'a hard volume without a size is refused' not c volume create more --hard >/dev/null
ok 'the refusal of a hard volume names --size' says --size
a=$(c create --volume hard:/v) b=$(c create --volume hard:/v)
c exec "$a" -- sh -c "$fill" sh /v | grep -q 'No space'
ok 'writing into a hard volume ends with no space' [ $? = 0 ]
n=$(c exec "$b" -- sh -c 'cat /v/f* | wc -c')
ok "writing ends within five per cent of the volume's limit, and another sandbox sees it" within "$n" $((20 * M * 95 / 100)) $((20 * M * 105 / 100))
ok 'user 1000 owns a hard volume' same "$(c exec "$b" -- stat -c '%u %u' /v /v/f0 | tr '\n' ' ')" "1000 1000 1000 1000 "
n=$(c volume inspect hard | json '["used"]')
ok 'volume inspect tells the use of a hard volume' within "$n" $((20 * M * 95 / 100)) $((20 * M * 105 / 100))
ok 'a full volume leaves the sandbox its own disk' c exec "$b" -- sh -c 'head -c 5000000 /dev/zero >own && rm own'
ok 'a hard volume has one loop device for all sandboxes' same "$(losetup -n -O BACK-FILE -l | grep -c "$CAY_HOME/volumes/.image-hard")" 1
ok 'one sandbox removes files of the volume' c exec "$b" -- rm -f /v/f1 /v/f2
ok 'another sandbox writes into the space' c exec "$a" -- sh -c 'head -c 1500000 /dev/zero >/v/again'
ok 'a hard volume can be mounted read-only' not c run --volume hard:/v:ro -- sh -c 'echo x >/v/x'
ok 'the kernel refuses a write to a read-only volume' says 'Read-only file system'
c kill "$a" >/dev/null
ok 'a stopped sandbox starts with its volume' c resume "$a" >/dev/null
ok 'a stopped sandbox finds the files of its volume' same "$(c exec "$a" -- sh -c 'cat /v/again | wc -c')" 1500000
ok 'a volume in use is not removed' not c volume rm hard >/dev/null
c rm -f "$a" "$b" >/dev/null
ok 'a volume outlives its sandboxes' same "$(c run --volume hard:/v -- sh -c 'cat /v/again | wc -c')" 1500000
mv "$CAY_HOME/volumes/.image-hard" "$tmp/image"
ok 'a volume without its image is refused' not c run --volume hard:/v -- true
ok 'no soft volume replaces a missing image' says 'nothing holds it'
mv "$tmp/image" "$CAY_HOME/volumes/.image-hard"
for point in disk.volume.image volume.recorded volume.made; do
    CAY_FAULT="$point=kill" c volume create cut --size 5m --hard >/dev/null
    c volume create cut --size 5m --hard >/dev/null
    ok "killed at $point: the volume is there, or made again" same "$(c run --volume cut:/v -- sh -c 'echo x >/v/x && cat /v/x')" x
    ok "killed at $point: the volume can be removed" c volume rm cut
done
ok 'a hard volume is removed' c volume rm hard
ok 'a removed volume leaves no file' same "$(ls -A "$CAY_HOME/volumes")" ""

# ---- nothing is left
ok 'sandboxes with images are removed' c rm -f "$id" "$fork" "$plain" >/dev/null
ok "no loop device stays" no_devices
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
