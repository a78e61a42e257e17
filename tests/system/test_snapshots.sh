#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_snapshots.sh CAY: snapshots, forks, undo and checkpoints with real sandboxes, as whoever runs this.
set -u
cay=$(realpath "$1")
. "$(dirname "$0")/lib.sh"
c() { timeout -k 1 30 "$cay" "$@" </dev/null 2>"$tmp/err"; }
fails() { # WORD COMMAND…: it fails, and its reason is WORD
    word=$1
    shift
    c --json "$@" >/dev/null
    rc=$?
    [ $rc != 0 ] && grep -q "\"reason\":\"$word\"" "$tmp/err" || { cat "$tmp/err"; false; }
}
until_() { # CONDITION…: becomes true
    for _ in $(seq 300); do
        "$@" && return 0
        sleep 0.1
    done
    false
}
left() { # no layer of a snapshot or a merge
    c gc --settle
    [ -z "$(ls "$CAY_HOME/layers" | grep '^[sg].\{19\}$')" ]
}
is_durable() { c snapshot inspect "$1" | grep -q '"durable": true'; }

# ---- take, list, inspect
id=$(c create --name box)
ok "a sandbox is made" [ ${#id} = 20 ]
c exec "$id" -- sh -c 'mkdir d; echo one > d/f; chmod 640 d/f; ln -s f d/l; ln d/f d/h; mkfifo d/p; echo gone > old'
s1=$(c snapshot --label one --meta '{"n":1}' box)
ok "a snapshot is taken" [ ${#s1} = 20 ]
ok 'a snapshot has a layer' [ -d "$CAY_HOME/layers/$s1" ]
ok "a quiet one copies nothing" same "$(c snapshot inspect one | sed -n 's/.*"method": "\(.*\)".*/\1/p')" swap
ok 'a snapshot keeps its metadata' sh -c "'$cay' snapshot inspect one </dev/null | tr -d ' \n' | grep -q '\"metadata\":{\"n\":1}'"
ok 'a sandbox has its files after a snapshot' same "$(c exec "$id" -- cat d/f)" one
c exec "$id" -- sh -c 'echo two > d/f; rm old; echo new > new; chmod 600 d/f'
s2=$(c snapshot "$id")
ok 'snapshots -q lists both snapshots' same "$(c snapshots -q box | tr '\n' ' ')" "$s1 $s2 "
ok 'snapshots prints a table with labels' sh -c "'$cay' snapshots </dev/null | grep -q '^$s1  *one '"
ok 'a snapshot names its parent' same "$(c snapshot inspect "$s2" | sed -n 's/.*"parent": "\(.*\)".*/\1/p')" "$s1"

# ---- time
if command -v script >/dev/null && [ "$(id -u)" = 0 ]; then # what takes longer shows that it goes on, to a terminal alone
    c create --name slow >/dev/null
    keeper=$(pgrep -f "^[^ ]*cay-keeper $CAY_HOME ")
    kill -STOP "$keeper"
    (sleep 2.5; kill -CONT "$keeper") &
    timeout -k 1 60 script -qec "'$cay' snapshot slow" "$tmp/bar" </dev/null >/dev/null
    wait
    ok "a snapshot that takes more than a second has a bar" grep -q '\[[#.]*\] [0-9.]* s  snapshot slow' "$tmp/bar"
    ok 'the bar is removed in the end, and the id is printed' sh -c "tr -d '\r' <'$tmp/bar' | grep -q '\[K.*s[a-z2-7]\{19\}$'"
    c snapshot rm "$(c snapshots -q slow)" >/dev/null
    c rm -f slow >/dev/null
fi

# ---- what is refused
ok "a label is unique" fails label_in_use snapshot --label one box
ok 'a malformed label is refused' fails label_invalid snapshot --label 'a/b' box
ok "a label is given later" sh -c "'$cay' snapshot rename '$s2' two </dev/null && '$cay' snapshot inspect two </dev/null | grep -q '$s2'"
ok 'snapshot rename refuses a label in use' fails label_in_use snapshot rename two one
ok 'snapshot rename refuses a malformed label' fails label_invalid snapshot rename two 'a/b'
ok 'snapshot rename without a label removes it' sh -c "'$cay' snapshot rename two </dev/null && ! '$cay' snapshot inspect two </dev/null 2>/dev/null"
ok "an unknown snapshot is named" fails snapshot_not_found snapshot inspect nosuch
ok 'an unknown sandbox is named' fails sandbox_not_found snapshot nosuch
ok 'a snapshot is refused on another template' fails snapshot_template create --from one --root "$tmp"
ok 'a snapshot is refused on another provider' fails snapshot_provider create --from one --provider local
ok "checkpoints need a record" fails snapshot_ephemeral run --checkpoint -- true
c exec -d --tag nap box -- sleep 60 >/dev/null
ok 'a quiet snapshot is refused while a process runs' fails processes_running snapshot --quiet box
c signal -s KILL box nap

# ---- forks and --from
ok "run --from sees the old files" same "$(c run --from one -- sh -c 'cat d/f old; stat -c %a d/f')" "one
gone
640"
forks=$(c fork -n 3 --name twin one)
ok 'fork -n makes three forks' same "$(echo "$forks" | wc -l)" 3
for f in $forks; do
    ok 'a fork has files, modes and links of the snapshot' same "$(c exec "$f" -- sh -c 'cat d/f d/l d/h old; stat -c %a%F d/f d/p; stat -c %h d/f')" "one
one
one
gone
640regular file
644fifo
2"
    ok 'a fork has a hostname of its own' [ "$(c exec "$f" -- hostname)" != cay ]
    c exec "$f" -- sh -c "echo $f > mine; rm old"
done
names=$(for f in $forks; do c exec "$f" -- hostname; done | sort -u | wc -l)
ok 'three forks have three hostnames' same "$names" 3
f=$(echo "$forks" | head -1)
ok "forks do not see each other's files" same "$(c exec twin-2 -- cat mine | cut -c1)$(c exec twin -- ls mine)" "cmine"
ok "a fork of a sandbox has its newest state" same "$(c exec "$(c fork box)" -- cat new)" new
ok 'forks do not change their parent' same "$(c exec box -- cat d/f)" two

# ---- undo
c exec box -- sh -c 'echo three > d/f; rm -rf new; mkdir x'
ok 'undo prints the snapshot' [ "$(c undo --to "$s2" box)" = "$s2" ]
ok 'undo removes new files and brings removed ones back' same "$(c exec box -- sh -c 'cat d/f new; ls')" "two
new
d
new"
c exec box -- sh -c 'echo x > late'
c undo --to one box >/dev/null
ok 'undo goes back further than the last snapshot' same "$(c exec box -- sh -c 'cat d/f old; ls')" "one
gone
d
old"
ok 'undo to a snapshot of another sandbox is refused' fails snapshot_foreign undo --to "$(c snapshot twin)" box
ok 'undo without a snapshot is refused' fails undo_nothing undo "$(c create)"
c exec box -- sh -c 'echo y > late'
c kill box >/dev/null
ok 'undo of a stopped sandbox succeeds' [ "$(c undo box)" = "$s1" ]
c resume box >/dev/null
ok 'undo of a stopped sandbox brings its files back' same "$(c exec box -- ls)" "d
old"

# ---- what runs goes on
c exec -d --tag web box -- python3 -m http.server 8000 >/dev/null
until_ sh -c "'$cay' port ls box </dev/null 2>/dev/null | grep -q 8000"
s3=$(c snapshot box) || { # nothing to freeze with: signals then, if one agrees
    ok "without a freezer the remedy is told" grep -q -e --stop "$tmp/err"
    s3=$(c snapshot --stop box)
}
ok 'a snapshot is taken while a process runs' [ ${#s3} = 20 ]
ok 'a web server answers after a snapshot' sh -c "printf 'GET /d/f HTTP/1.0\r\n\r\n' | timeout 10 '$cay' port connect box 8000 2>/dev/null | grep -q '^one'"
ok 'the process of the web server is the same after a snapshot' same "$(c ps box | grep -c http.server)" 1
c signal -s KILL box web
until_ sh -c "! '$cay' ps box </dev/null | grep -q http.server"
c snapshot --quiet box >/dev/null
ok 'a quiet snapshot is taken once no process runs' [ $? = 0 ]

# ---- checkpoints
k=$(c create --checkpoint=3)
for n in 1 2 3 4 5; do c exec "$k" -- sh -c "echo $n > n"; done
ok "checkpoints are kept by count" same "$(c snapshots -q "$k" | wc -l)" 3
c undo "$k" >/dev/null
ok "one undo is one command" same "$(c exec "$k" -- cat n)" 4 # this exec makes a checkpoint, too
ok 'run --keep --checkpoint keeps the sandbox' sh -c "'$cay' run --keep --checkpoint -- true </dev/null 2>&1 | grep -q kept"

# ---- deep stacks become shallow, under the feet of a running sandbox
deep=$(c create --checkpoint=2 --name deep)
c exec deep -- sh -c 'mkdir -p a/b; echo deep > a/b/c; echo gone > z'
for n in $(seq 36); do
    c exec deep -- sh -c "echo $n > f$n; rm -f z f$((n - 20)); mkdir -p t$((n % 5)); echo $n > t$((n % 5))/$n; [ $n != 9 ] || mv a moved; [ $n != 20 ] || rm -r t3" ||
        ok "command $n above a deep stack succeeds" false
done
shallow() {
    c gc --settle && c exec deep -- true && [ "$(c snapshot inspect "$(c snapshots -q deep | tail -1)" | sed -n 's/.*"depth": \([0-9]*\).*/\1/p')" -le 32 ]
}
ok "a deep stack is merged" until_ shallow
want=$(echo deep; seq 17 36 | sed 's/^/f/' | sort; echo moved; for n in 0 1 2 3 4; do echo "t$n"; done; echo 23 28 33)
ok 'a merge loses nothing' same "$(c exec deep -- sh -c 'cat moved/b/c; ls | LC_ALL=C sort; cd t3; echo $(ls | sort -n)')" "$want"
c kill deep >/dev/null
c resume deep >/dev/null
ok 'a restart after a merge loses nothing' same "$(c exec deep -- sh -c 'cat moved/b/c; ls | LC_ALL=C sort; cd t3; echo $(ls | sort -n)')" "$want"

# ---- the same above a directory of the host, which has what was removed
r=$tmp/root
mkdir -p "$r/usr/bin" "$r/etc" "$r/workspace"
chmod 777 "$r/workspace"
ln -s usr/bin "$r/bin"
for p in bash cat rm ls; do
    cp "/usr/bin/$p" "$r/usr/bin/"
    ldd "/usr/bin/$p" | grep -o '/[^ ]*\.so[^ ]*' | while read -r l; do
        mkdir -p "$r$(dirname "$l")" && cp -L "$l" "$r$l"
    done
done
echo lower >"$r/workspace/low"
chmod 666 "$r/workspace/low"
below=$(c create --root "$r" --name below --checkpoint=2)
c exec below -- /bin/bash -c 'rm -f low; echo 0 > only; rm only'
for n in $(seq 35); do c exec below -- /bin/bash -c "echo $n > f$n; rm -f f$((n - 5))" || ok "command $n above a directory succeeds" false; done
flat() { c gc --settle && c exec below -- /bin/bash -c : && [ "$(c snapshot inspect "$(c snapshots -q below | tail -1)" | sed -n 's/.*"depth": \([0-9]*\).*/\1/p')" -le 32 ]; }
ok "a deep stack above --root is merged" until_ flat
ok 'a merge above --root loses nothing and brings nothing back' same "$(c exec below -- /bin/bash -c 'echo *')" "f31 f32 f33 f34 f35"
c kill below >/dev/null
echo later >"$r/workspace/only" # what was removed before, put below later
c resume below >/dev/null
ok 'a file put below later stays removed' same "$(c exec below -- /bin/bash -c 'cat f35; echo low*')" "35
low*"

# ---- removal
ok 'removal of a snapshot in use is deferred' same "$(c --json snapshot rm one)" '{"removed":"one","deferred":true}'
ok 'a removed snapshot is not found' fails snapshot_not_found snapshot inspect one
ok 'the layer of a removed snapshot stays for its forks' [ -d "$CAY_HOME/layers/$s1" ]
ok 'forks of a removed snapshot can be used' same "$(c exec twin-3 -- cat d/f)" one
ok "snapshots become durable" until_ is_durable "$s3"
ok 'a durable snapshot has a digest' sh -c "'$cay' snapshot inspect $s3 </dev/null | grep -q '\"digest\": \"sha256:[0-9a-f]'"
for x in $(c ls -q); do c rm -f "$x" >/dev/null; done
c snapshots -q >"$tmp/all"
while read -r s; do c snapshot rm "$s" >/dev/null; done <"$tmp/all"
ok 'no layer of a snapshot is left' until_ left
ok 'no directory of a sandbox is left' until_ sh -c "[ -z \"\$(ls '$CAY_HOME/sandboxes' 2>/dev/null)\" ]"
ok 'no mark of a checkpoint is left' [ -z "$(ls "$CAY_HOME/checkpoint")" ]

verdict
