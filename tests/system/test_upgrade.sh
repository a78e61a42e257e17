#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_upgrade.sh OLD NEW PROVIDER: a state directory that the build OLD made, with sandboxes that run, is opened by the build NEW
# and its sandboxes are adopted. OLD and NEW are build trees. tests/upgrade builds OLD and runs this as several users.
set -u
old=$(realpath "$1") new=$(realpath "$2") provider=$3
cay=$new/cay
. "$(dirname "$0")/lib.sh"
export CAY_PROVIDER="$provider"
mkdir -m 700 "$CAY_HOME"
o() { timeout -k 1 60 "$old/cay" "$@" </dev/null 2>"$tmp/err"; }
n() { timeout -k 1 60 "$new/cay" "$@" </dev/null 2>"$tmp/err"; }
until_() { # CONDITION…: within 30 s
    for _ in $(seq 300); do "$@" && return; sleep 0.1; done
    false
}
keeper() { pgrep -f "^[^ ]*cay-keeper $CAY_HOME " | head -n 1; }
keeper_of() { [ "$(readlink "/proc/$(keeper)/exe")" = "$1/cay-keeper" ]; }
gone() { ! kill -0 "$1" 2>/dev/null; }
state_of() { n ls --json | tr -d ' \n' | grep -o "\"name\":\"$1\".*" | grep -o '"state":"[a-z]*"' | head -n 1; }
ticks() { "$1" logs --stdout box tick | grep -c tick; }
ticks_more() { [ "$(ticks "$1")" -gt "$2" ]; }

doctor=$(o doctor 2>&1) || { echo "provider $provider: $doctor" | head -n 3; exit 77; }

# By the old build: one that runs a process, one that is paused, one that is stopped, and two snapshots.
if ! o create --name box --label kept=yes --metadata '{"n":1}' >/dev/null && [ "$provider$(id -u)" = process0 ]; then
    cat "$tmp/err" # level 1 is for ordinary users
    exit 77
fi
o create --name still >/dev/null
o create --name frozen >/dev/null
ok 'the old build makes sandboxes' same "$(o ls -q | wc -l)" 3
o exec box -- sh -c 'mkdir d; echo one >d/f; chmod 640 d/f; ln -s f d/l; echo gone >old'
snapshots=no
o snapshot --label one box >/dev/null && snapshots=yes
o exec box -- sh -c 'echo two >d/f; rm old'
[ $snapshots = no ] || o snapshot --label two box >/dev/null
process=$(o exec -d --tag tick -l kind=loop box -- sh -c 'trap "exit 7" TERM; i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.05; done')
ok 'the old build starts a process' until_ ticks_more o 3
ended=$(o exec -d --tag short box -- sh -c 'echo last words; exit 5')
until_ sh -c "'$old/cay' logs box short </dev/null 2>/dev/null | grep -q words"
o exec still -- sh -c 'echo asleep >f'
o kill still >/dev/null
paused=no
o pause frozen >/dev/null && paused=yes

# Both builds beside each other, while the old keeper runs.
if [ "$provider" = native ]; then
    ok 'the keeper is the old one' keeper_of "$old"
fi
ok 'a new client lists sandboxes of a running old build' same "$(n ls -q | wc -l)" 3
ok 'a new client executes in a sandbox of a running old build' same "$(n exec box -- cat d/f)" two
ok 'a new client reads the output of a process of the old build' ticks_more n 3
before=$(ticks n)

if [ "$provider" = native ]; then
    k=$(keeper)
    kill -9 "$k"
    until_ gone "$k"
fi

# Adopted by the new build.
ok 'the new build lists every sandbox' same "$(n ls -q | wc -l)" 3
ok 'a sandbox that ran still runs' same "$(state_of box)" '"state":"running"'
ok 'a stopped sandbox is still stopped' same "$(state_of still)" '"state":"stopped"'
[ $paused = no ] || ok 'a paused sandbox is still paused' same "$(state_of frozen)" '"state":"paused"'
ok 'labels are kept' same "$(n ls -q -l kept=yes | wc -l)" 1
ok 'metadata is kept' sh -c "'$new/cay' inspect box </dev/null | tr -d ' \n' | grep -q '\"metadata\":{\"n\":1}'"
if [ "$provider" = native ]; then
    ok 'the keeper is the new one' keeper_of "$new"
fi
ok 'files are kept with their modes and links' same "$(n exec box -- sh -c 'cat d/f; stat -c %a d/f; readlink d/l')" 'two
640
f'
ok 'a process is listed by its tag' sh -c "'$new/cay' ps box </dev/null | grep -q '$process.*tick'"
ok 'a process is found by its label' same "$(n ps -q -l kind=loop box)" "$process"
ok 'the output of a process goes on' until_ ticks_more n "$before"
ok 'the output of a process is whole' same "$(n logs --stdout box tick | head -n 2)" 'tick 1
tick 2'
ok 'the output of an ended process is kept' same "$(n logs box "$ended")" 'last words'
n signal -s TERM box tick
tick_ended() { n ps --json -a box 2>/dev/null | tr -d ' \n' | grep -q "\"id\":\"$process\"[^}]*\"code\":7" || ! n ps -q box | grep -q "$process"; }
ok 'a signal ends an adopted process' until_ tick_ended
n resume still >/dev/null
ok 'a stopped sandbox starts with its files' same "$(n exec still -- cat f)" asleep
if [ $paused = yes ]; then
    n resume frozen >/dev/null
    ok 'a paused sandbox goes on' n exec frozen -- true
fi
if [ $snapshots = yes ]; then
    ok 'snapshots are listed' same "$(n snapshots -q box | wc -l)" 2
    n exec box -- sh -c 'echo three >d/f; echo new >new'
    ok 'a snapshot is taken on top of old ones' n snapshot --label three box >/dev/null
    ok 'a fork of an old snapshot has its files' same "$(n exec "$(n fork --name twin one)" -- sh -c 'cat d/f old')" 'one
gone'
    ok 'undo goes back to an old snapshot' n undo --to one box >/dev/null
    ok 'undo brings the files of an old snapshot back' same "$(n exec box -- sh -c 'cat d/f old; ls')" 'one
gone
d
old'
    ok 'undo goes forward to a new snapshot' n undo --to three box >/dev/null
    ok 'undo brings the files of a new snapshot back' same "$(n exec box -- sh -c 'cat d/f new')" 'three
new'
fi

# An old client beside a new keeper: what somebody runs whose shell has not seen the upgrade yet.
ok 'an old client lists the sandboxes of the new build' same "$(o ls -q | wc -l)" "$(n ls -q | wc -l)"
ok 'an old client executes in a sandbox of the new build' same "$(o exec still -- cat f)" asleep
made=$(o create --name late)
ok 'an old client makes a sandbox beside the new build' same "$(n exec "$made" -- echo here)" here

for id in $(n ls -q); do
    ok 'a sandbox is removed' n rm -f "$id" >/dev/null
done
n gc --settle >/dev/null
for s in $(n snapshots -q); do n snapshot rm "$s" >/dev/null; done
n gc --settle >/dev/null
ok 'no sandbox is left' test -z "$(ls "$CAY_HOME/sandboxes" 2>/dev/null)"
ok 'no snapshot is left' test -z "$(n snapshots -q)"
verdict
