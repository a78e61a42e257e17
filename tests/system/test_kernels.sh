#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_kernels.sh CAY: what cay does on kernels that lack a row of src/base/kernel.def, played by a test build on this one ($CAY_LACK). As root.
set -u
cay=$(realpath "$1")
. "$(dirname "$0")/lib.sh"
c() { timeout -k 1 60 "$cay" "$@" </dev/null 2>"$tmp/err"; }
fails() { # WORD COMMAND…: it fails, and its reason is WORD
    word=$1
    shift
    c --json "$@" >/dev/null
    rc=$?
    [ $rc != 0 ] && grep -q "\"reason\":\"$word\"" "$tmp/err" || { cat "$tmp/err"; false; }
}
wall() { # NAME OF: its state in the answer of `cay doctor` or `cay inspect`
    if [ "$2" = doctor ]; then c doctor --json; else c inspect --json "$2"; fi |
        python3 -c 'import json, sys
d = json.load(sys.stdin)
print(*[w["state"] for w in d["layers"] if w["name"] == sys.argv[1]])' "$1"
}
old() { # FEATURES: from here on the kernel lacks them; a keeper of its own finds that out
    finish_keeper
    CAY_LACK=$1
    export CAY_LACK
}
finish_keeper() {
    for id in $(c ls -q); do c kill "$id" >/dev/null 2>&1; done
    pid=$(pgrep -f "^[^ ]*cay-keeper $CAY_HOME ")
    [ -n "$pid" ] && kill "$pid" && while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
    return 0
}

# What makes roots of several layers: by descriptor, by name, and on plain clones.
work() { # WHAT
    id=$(c create)
    ok "$1: a sandbox is made" [ ${#id} = 20 ]
    c exec "$id" -- sh -c 'mkdir d; echo one >d/f; echo gone >old'
    s=$(c snapshot "$id")
    ok "$1: a snapshot is taken" [ ${#s} = 20 ]
    c exec "$id" -- sh -c 'echo two >d/f; rm old; mv d e; echo new >new'
    ok "$1: a second snapshot is taken" c snapshot "$id" >/dev/null
    ok "$1: a renamed directory keeps its files" same "$(c exec "$id" -- cat e/f)" two
    ok "$1: a fork has them" same "$(f=$(c fork "$s") && c exec "$f" -- cat d/f old | tr '\n' ' ' && c rm -f "$f" >/dev/null)" 'one gone '
    c exec "$id" -- sh -c 'echo three >e/f'
    ok "$1: undo takes a change back" sh -c "'$cay' undo '$id' --yes </dev/null >/dev/null 2>'$tmp/err' || '$cay' undo '$id' </dev/null >/dev/null 2>'$tmp/err'"
    ok "$1: after undo the files are those of the snapshot" same "$(c exec "$id" -- cat e/f)" two
    mkdir -p "$tmp/in"
    echo data >"$tmp/in/file"
    printf '{"entries":{"in":{"type":"local_dir","src":"%s"},"t":{"type":"file","content":"text"}}}' "$tmp/in" >"$tmp/m.json"
    m=$(c create --manifest "$tmp/m.json")
    ok "$1: a manifest fills a sandbox" same "$(c exec "$m" -- cat in/file t | tr '\n' ' ')" 'data text'
    c rm -f "$m" >/dev/null
    ok "$1: its files are the sandbox user's" same "$(c exec "$id" -- sh -c 'stat -c %U e new; touch e/x && rm e/x && echo written' | tr '\n' ' ')" 'user user written '
    ok "$1: it stops and runs again with its files" same "$(c kill "$id" >/dev/null; c resume "$id" >/dev/null; c exec "$id" -- cat e/f)" two
}

mkdir -p "$tmp/root/etc"
old ''
work 'this kernel'
kept=$id
ok 'this kernel: own-ids is on' same "$(wall own-ids doctor)" on

old overlay-fd
work 'before 6.15'
ok 'before 6.15: own-ids is on' same "$(wall own-ids doctor)" on
c run --on "$tmp/in" -- sh -c 'echo more >file' >"$tmp/out"
ok 'before 6.15: a directory is shown copy-on-write' same "$(cat "$tmp/in/file")" data

for lack in overlay-fd,overlay-idmap idmapped-mounts; do
    old $lack
    work "$lack"
    ok "$lack: doctor says that own-ids is off" same "$(wall own-ids doctor)" off
    ok "$lack: a sandbox says so, too" same "$(wall own-ids "$id")" off
    ok "$lack: run that requires own-ids is refused" not c run --require own-ids -- true
    ok "$lack: create that requires own-ids is refused" fails feature_missing create --require own-ids
    finish_keeper
    ok "$lack: a keeper that has tried nothing yet refuses it, too" not c run --require own-ids -- true
    ok "$lack: the refusal names it" says own-ids
    ok "$lack: --root is refused" not c run --root "$tmp/root" -- true
    ok "$lack: the refusal names its cause" says own-ids
    ok "$lack: a sandbox of an earlier kernel goes on" same "$(c resume "$kept" >/dev/null; c exec "$kept" -- cat e/f)" two
    other=$(c create)
    python3 - "$CAY_HOME/store.db" "$other" <<'END'
import sqlite3
import sys
db = sqlite3.connect(sys.argv[1])
db.execute("UPDATE sandboxes SET tenant = 'other' WHERE id = ?", (sys.argv[2],))
db.commit()
END
    ok "$lack: beside one of another tenant none is made" fails own_ids_missing create
    c kill "$other" >/dev/null
    ok "$lack: when that one is stopped, one is made" c create >/dev/null
    ok "$lack: and that one does not start again" not c resume "$other"
    c rm -f "$other" >/dev/null
done
shared=$id
old ''
ok 'after an upgrade of the kernel its sandboxes have ids of their own' same "$(c resume "$shared" >/dev/null; c exec "$shared" -- cat e/f; wall own-ids "$shared")" 'two
on'

old cgroup-kill
id=$(c create)
c exec --timeout 300ms "$id" -- sh -c 'setsid sleep 1000 & setsid sleep 1000 & wait' >/dev/null
ok 'cgroup-kill: a time-out ends all descendants' same "$(c exec "$id" -- sh -c 'grep -c sleep /proc/[0-9]*/comm | grep -c ":1$"')" 0
old pidfd-namespace
ok 'pidfd-namespace: a sandbox is made and removed' c run -- true
old netns-cookie
ok 'netns-cookie: a sandbox has its network' c run --net example.test -- true
old quotactl-fd
ok 'quotactl-fd: a sandbox is made' c run -- true
old landlock
ok 'landlock: doctor says that it is off' same "$(wall landlock doctor)" off
old landlock-scope
ok 'landlock-scope: doctor says that landlock is soft' same "$(wall landlock doctor)" soft
old mount-setattr
ok 'mount-setattr: a sandbox is refused' not c run -- true
c doctor >"$tmp/out"
ok 'mount-setattr: doctor names it' grep -q 'mount_setattr(2)' "$tmp/out"
ok 'mount-setattr: doctor says level 0' grep -q 'isolation 0' "$tmp/out"
old ''
c doctor --json >"$tmp/out"
verdict
