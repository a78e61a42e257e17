#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_purge.sh CAY: cay purge removes everything of a state directory and nothing beside it, as whoever runs this.
set -u
cay=$(realpath "$1")
tmp=$(mktemp -d)
export CAY_HOME="$tmp/home"
passed=0 failed=0 server=
keeper() { pgrep -f "^[^ ]*cay-keeper $CAY_HOME "; }
finish() {
    [ -n "$server" ] && kill "$server" 2>/dev/null
    [ -d "$CAY_HOME" ] && "$cay" purge --yes --force >/dev/null 2>&1 </dev/null
    rm -rf "$tmp"
}
trap finish EXIT
ok() { # NAME CONDITION…
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        sed 's/^/  err: /' "$tmp/err"
    fi
}
c() { timeout -k 1 60 "$cay" "$@" </dev/null 2>"$tmp/err"; }
same() { [ "$1" = "$2" ] || { echo "  got: $1"; false; }; }
says() { grep -qF -- "$1" "$tmp/err"; }
fails() { ! c "$@" >/dev/null; }
not() { ! "$@"; }

ok 'purge without a state directory succeeds' c purge --yes
ok 'purge makes no state directory' not test -e "$CAY_HOME"

# One of each kind, and traps: a link that leads out, in place of a directory of ours and inside of one.
mkdir "$tmp/out" && echo kept >"$tmp/out/f"
a=$(c create --name one)
c exec "$a" -- sh -c "echo x >/workspace/f; ln -s $tmp/out /workspace/out; mkdir /workspace/d; chmod 0 /workspace/d"
s=$(c snapshot "$a")
c volume create vol >/dev/null
c template save "$a" mine:1 >/dev/null
b=$(c create --isolation none)
c exec "$b" -- ln -s "$tmp/out" linked
ln -s "$tmp/out" "$CAY_HOME/blobs"
printf '{"entries":{"f":{"type":"file","content":"%s"}}}' "$(head -c 70000 /dev/zero | tr '\0' x)" >"$tmp/large.json"
c rm -f "$(c create --manifest "$tmp/large.json")" >/dev/null
ok "a large manifest's text is kept there" test -n "$(ls "$CAY_HOME/manifests")"
"$cay" run -- sleep 1000 >/dev/null 2>&1 </dev/null &
loose=$!
until [ "$(c ps "$a" >/dev/null; ls "$CAY_HOME/sandboxes" | grep -c '^c')" -ge 2 ]; do sleep 0.1; done

ok 'purge without a terminal is refused' fails purge
ok 'the refusal names --yes' says "--yes"
plan=$(c purge --dry-run)
for word in "$a" "$b" "$s" mine:1 vol "$CAY_HOME"; do
    ok "purge --dry-run names $word" test "$plan" != "${plan#*"$word"}"
done
ok 'purge --dry-run changes nothing' c exec "$a" -- test -f /workspace/f
ok 'purge --dry-run --json names everything' same "$(c --json purge --dry-run | grep -c "\"$a\"\|\"$s\"\|\"vol\"\|\"removed\": false")" 4

# On a terminal: anything but yes is no.
ok 'purge asks on a terminal and accepts a no' same "$(echo no | timeout 60 script -qec "$cay purge" /dev/null 2>&1 | grep -c 'nothing was removed')" 1
ok 'a no removes nothing' c exec "$a" -- true

# A server that uses it.
"$cay" serve --listen 127.0.0.1:0 >"$tmp/serve" 2>&1 </dev/null &
server=$!
n=0
until [ -s "$CAY_HOME/server.url" ] || [ $((n += 1)) -gt 300 ]; do sleep 0.1; done
ok 'purge is refused while a server runs' fails purge --yes
ok 'the refusal names the server' says "cay serve"
kill "$server" && wait "$server" 2>/dev/null
server=
ok 'a refused purge removes nothing' c exec "$a" -- true

k=$(keeper)
ok 'a keeper runs before the purge' test -n "$k"
ok 'a yes on a terminal removes everything' same "$(echo yes | timeout 60 script -qec "$cay purge" /dev/null 2>&1 | grep -c '2 sandboxes, 1 snapshot, 1 template and 1 volume removed')" 1
ok 'purge removes the state directory' not test -e "$CAY_HOME"
ok 'purge ends the keeper' not keeper
ok 'purge ends a command without a record' sh -c "n=0; while kill -0 $loose 2>/dev/null && [ \$((n += 1)) -lt 600 ]; do sleep 0.1; done; ! kill -0 $loose 2>/dev/null"
ok 'purge follows no link' same "$(ls "$tmp/out") $(cat "$tmp/out/f")" "f kept"

# What is not ours stays, and is named; the rest goes.
id=$(c create)
echo mine >"$CAY_HOME/notes"
echo "# operator" >"$CAY_HOME/egress.conf"
ok 'purge names files that are not ours' same "$(c --json purge --yes | grep -c '"notes"\|"egress.conf"')" 2
ok 'purge leaves only files that are not ours' same "$(ls "$CAY_HOME" | tr '\n' ' ')" "egress.conf notes "
rm "$CAY_HOME/notes"
ok "cay works there again" same "$(c run -- echo again)" again
ok 'a second purge succeeds' c purge --yes

# A filesystem mounted below it is refused before anything is touched.
if [ "$(id -u)" = 0 ]; then
    id=$(c create)
    mkdir "$CAY_HOME/chat" && mount -t tmpfs none "$CAY_HOME/chat"
    ok 'purge is refused with a mount below the state directory' fails purge --yes
    ok 'the refusal names the mount' says "$CAY_HOME/chat"
    ok 'purge refused for a mount removes nothing' c exec "$id" -- true
    umount "$CAY_HOME/chat"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
