#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_volumes.sh CAY: named volumes, as whoever runs this.
set -u
cay=$(realpath "$1")
. "$(dirname "$0")/lib.sh"
c() { timeout -k 1 30 "$cay" "$@" </dev/null 2>"$tmp/err"; }
fails() { ! c "$@" >/dev/null; }

ok 'volume create makes a volume' same "$(c volume create data --size 64m)" data
[ "$(id -u)" = 0 ] || ok 'a soft limit is called soft' says soft
if [ "$(id -u)" != 0 ]; then
    ok 'a hard limit is refused to an ordinary user' fails volume create held --size 64m --hard
    ok 'the refusal names project quotas' says "project quota"
    ok 'a refused volume is not there' fails volume inspect held
fi
ok 'a second volume of the same name is refused' fails volume create data
ok 'the refusal names the volume' says "volume data is there already"
for bad in .x -- ../y 'a b' "$(head -c 60 /dev/zero | tr '\0' a)"; do
    ok "a bad name of a volume is refused: $bad" fails volume create -- "$bad"
done

ok 'user 1000 owns a volume' same "$(c run --volume data:/data -- sh -c 'stat -c %u /data; echo one >/data/f && stat -c %u /data/f')" "1000
1000"
ok 'a volume keeps its files for the next sandbox' same "$(c run --volume data:/mnt/deep/er -- cat /mnt/deep/er/f)" one
ok 'a volume can be mounted read-only' fails run --volume data:/data:ro -- sh -c 'echo x >/data/g'
ok 'the kernel refuses a write to a read-only volume' says "Read-only file system"
ok 'a removed sandbox does not use its volume' same "$(c volume inspect data | grep -c '"c[a-z2-7]\{19\}"')" 0

a=$(c create --volume data:/data)
b=$(c create --volume data:/data)
ok 'one of two sandboxes writes into a volume' c exec "$a" -- sh -c 'echo two >/data/f'
ok 'the other sandbox reads and writes the same file' same "$(c exec "$b" -- sh -c 'cat /data/f; echo three >>/data/f; stat -c %u /data/f')" "two
1000"
ok 'the first sandbox sees the write of the other' same "$(c exec "$a" -- tail -n 1 /data/f)" three
ok 'volume inspect names both sandboxes' same "$(c volume inspect data | grep -c "\"$a\"\|\"$b\"")" 2
ok 'volume ls counts both sandboxes' same "$(c volume ls | awk '$1 == "data" { print ($4 == "2" || $5 == "2" || $6 == "2" || $7 == "2") }')" 1
ok 'volume ls --json tells the limit' same "$(c --json volume ls | grep -c '"limit": 67108864')" 1
ok 'a volume in use is not removed' fails volume rm data
ok 'the refusal names the sandbox' says "is used by sandbox c"
ok 'a volume is not on the disk of the sandbox' c exec "$a" -- sh -c 'test "$(stat -c %d /data)" != "$(stat -c %d /workspace)"'
c kill "$a" >/dev/null
ok 'a volume of a stopped sandbox is not removed' fails volume rm data
c resume "$a" >/dev/null
ok 'a stopped sandbox finds its volume when it starts again' same "$(c exec "$a" -- head -n 1 /data/f)" two
pid=$(pgrep -f "^[^ ]*cay-keeper $CAY_HOME ")
kill -9 "$pid"
ok 'a volume outlives the keeper' same "$(c exec "$b" -- head -n 1 /data/f)" two
c rm -f "$a" "$b" >/dev/null

ok 'a volume that does not exist is refused' fails run --volume nosuch:/x -- true
ok 'the refusal names volume create' says "cay volume create nosuch"
ok 'a path is refused as the name of a volume' fails run --volume ../sandboxes:/x -- true
ok 'a volume is not mounted over /proc' fails run --volume data:/proc -- true
ok 'two volumes in one place are refused' fails run --volume data:/a --volume data:/a -- true
ok 'a relative target of a volume is refused' fails run --volume data:a -- true
ok 'a provider without volumes refuses them' fails --provider local run --volume data:/a -- true
if [ "$(id -u)" = 0 ]; then
    ok 'files of a volume belong to the range of the store' same "$(stat -c %u "$CAY_HOME/volumes/data/f")" $((0x70000000 + 1000))
    c run --user root --volume data:/data -- sh -c 'cp /usr/bin/id /data/id && chmod 4755 /data/id' >/dev/null
    ok 'no file of a volume belongs to root of the host' same "$(stat -c %u "$CAY_HOME/volumes/data/id")" $((0x70000000))
    ok 'a set-uid file of a volume gives no rights inside' same "$(c run --volume data:/data -- /data/id -u)" 1000
fi
# A directory of the host by a manifest: a real bind, either way.
mkdir "$tmp/host"
echo outside >"$tmp/host/f"
chmod 755 "$tmp"
cat >"$tmp/m.json" <<M
{"entries":{"ro":{"type":"mount","source":"$tmp/host","mount_strategy":{"type":"local_bind"}},
            "rw":{"type":"mount","source":"host","read_only":false,"mount_strategy":{"type":"local_bind"}}}}
M
ok 'a bind mount of a manifest is read' same "$(c run --manifest "$tmp/m.json" -- cat ro/f rw/f)" "outside
outside"
ok 'a bind mount is read-only by default' fails run --manifest "$tmp/m.json" --user root -- sh -c 'echo x >ro/g'
ok 'the kernel refuses a write to a bind mount' says "Read-only file system"
ok 'a writable bind mount is written' c run --manifest "$tmp/m.json" --user root -- sh -c 'echo inside >rw/g'
ok 'a file written through a bind mount is in its directory' same "$(cat "$tmp/host/g")" inside
sed "s|$tmp/host|/proc|" "$tmp/m.json" >"$tmp/bad.json"
ok 'a bind mount of /proc is refused' fails run --manifest "$tmp/bad.json" -- true

ok 'volume create --json tells the name' same "$(c --json volume create other | grep -c '"name": "other"')" 1
c volume rm other
ok 'volume rm removes a volume' c volume rm data
ok 'a removed volume leaves no directory' [ ! -e "$CAY_HOME/volumes/data" ]
ok 'a removed volume is not found' fails volume inspect data
ok 'the name of a removed volume is free again' c volume create data
ok 'a volume of the same name is empty' same "$(c run --volume data:/data -- ls -A /data)" ""
ok 'the new volume is removed' c volume rm data

verdict
