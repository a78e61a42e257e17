#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_volumes.sh CAY: named volumes, as whoever runs this.
set -u
cay=$(realpath "$1")
. "$(dirname "$0")/lib.sh"
c() { timeout -k 1 30 "$cay" "$@" </dev/null 2>"$tmp/err"; }
fails() { ! c "$@" >/dev/null; }

ok "create" same "$(c volume create data --size 64m)" data
[ "$(id -u)" = 0 ] || ok "a limit that is only watched is said" says soft
if [ "$(id -u)" != 0 ]; then
    ok "one that has to hold is refused" fails volume create held --size 64m --hard
    ok "by name" says "project quota"
    ok "and is not there" fails volume inspect held
fi
ok "twice is refused" fails volume create data
ok "and named" says "volume data is there already"
for bad in .x -- ../y 'a b' "$(head -c 60 /dev/zero | tr '\0' a)"; do
    ok "no name: $bad" fails volume create -- "$bad"
done

ok "user 1000 owns it" same "$(c run --volume data:/data -- sh -c 'stat -c %u /data; echo one >/data/f && stat -c %u /data/f')" "1000
1000"
ok "it is there in the next one, elsewhere" same "$(c run --volume data:/mnt/deep/er -- cat /mnt/deep/er/f)" one
ok "read-only" fails run --volume data:/data:ro -- sh -c 'echo x >/data/g'
ok "and says so" says "Read-only file system"
ok "nothing is used by what is gone" same "$(c volume inspect data | grep -c '"c[a-z2-7]\{19\}"')" 0

a=$(c create --volume data:/data)
b=$(c create --volume data:/data)
ok "two at once: one writes" c exec "$a" -- sh -c 'echo two >/data/f'
ok "the other reads and writes it" same "$(c exec "$b" -- sh -c 'cat /data/f; echo three >>/data/f; stat -c %u /data/f')" "two
1000"
ok "and back" same "$(c exec "$a" -- tail -n 1 /data/f)" three
ok "inspect names both" same "$(c volume inspect data | grep -c "\"$a\"\|\"$b\"")" 2
ok "ls counts them" same "$(c volume ls | awk '$1 == "data" { print ($4 == "2" || $5 == "2" || $6 == "2" || $7 == "2") }')" 1
ok "ls as JSON" same "$(c --json volume ls | grep -c '"limit": 67108864')" 1
ok "in use it stays" fails volume rm data
ok "and the user is named" says "is used by sandbox c"
ok "it does not count as the sandbox's files" c exec "$a" -- sh -c 'test "$(stat -c %d /data)" != "$(stat -c %d /workspace)"'
c kill "$a" >/dev/null
ok "a stopped one still has it" fails volume rm data
c resume "$a" >/dev/null
ok "and finds it when it starts again" same "$(c exec "$a" -- head -n 1 /data/f)" two
pid=$(pgrep -f "^[^ ]*cay-keeper $CAY_HOME ")
kill -9 "$pid"
ok "a keeper's death changes nothing" same "$(c exec "$b" -- head -n 1 /data/f)" two
c rm -f "$a" "$b" >/dev/null

ok "no such volume" fails run --volume nosuch:/x -- true
ok "and the remedy" says "cay volume create nosuch"
ok "a name is no path" fails run --volume ../sandboxes:/x -- true
ok "nothing goes over /proc" fails run --volume data:/proc -- true
ok "nor twice to one place" fails run --volume data:/a --volume data:/a -- true
ok "a relative target" fails run --volume data:a -- true
ok "where there are none" fails --provider local run --volume data:/a -- true
if [ "$(id -u)" = 0 ]; then
    ok "on disk it is the store's" same "$(stat -c %u "$CAY_HOME/volumes/data/f")" $((0x70000000 + 1000))
    c run --user root --volume data:/data -- sh -c 'cp /usr/bin/id /data/id && chmod 4755 /data/id' >/dev/null
    ok "no file of it is the host's root's" same "$(stat -c %u "$CAY_HOME/volumes/data/id")" $((0x70000000))
    ok "nor gains anything inside" same "$(c run --volume data:/data -- /data/id -u)" 1000
fi
# A directory of the host by a manifest: a real bind, either way.
mkdir "$tmp/host"
echo outside >"$tmp/host/f"
chmod 755 "$tmp"
cat >"$tmp/m.json" <<M
{"entries":{"ro":{"type":"mount","source":"$tmp/host","mount_strategy":{"type":"local_bind"}},
            "rw":{"type":"mount","source":"host","read_only":false,"mount_strategy":{"type":"local_bind"}}}}
M
ok "a bind is read" same "$(c run --manifest "$tmp/m.json" -- cat ro/f rw/f)" "outside
outside"
ok "read-only unless it says so" fails run --manifest "$tmp/m.json" --user root -- sh -c 'echo x >ro/g'
ok "and said by the kernel" says "Read-only file system"
ok "writable when it does" c run --manifest "$tmp/m.json" --user root -- sh -c 'echo inside >rw/g'
ok "in place" same "$(cat "$tmp/host/g")" inside
sed "s|$tmp/host|/proc|" "$tmp/m.json" >"$tmp/bad.json"
ok "not of what is never shown" fails run --manifest "$tmp/bad.json" -- true

ok "create as JSON" same "$(c --json volume create other | grep -c '"name": "other"')" 1
c volume rm other
ok "rm" c volume rm data
ok "gone" [ ! -e "$CAY_HOME/volumes/data" ]
ok "and not found" fails volume inspect data
ok "the name is free again" c volume create data
ok "and empty" same "$(c run --volume data:/data -- ls -A /data)" ""
ok "rm of the new one" c volume rm data

verdict
