#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_diff.sh CAY: what a sandbox changed, told as a list, a patch and JSON, whatever it left behind.
set -u
cay=$(realpath "$1")
. "$(dirname "$0")/lib.sh"
c() { timeout -k 1 60 "$cay" "$@" </dev/null 2>"$tmp/err"; }
in_box() { c exec "$id" -- sh -c "$1"; }
fresh() { id=$(c create); }

fresh
ok 'diff of an unchanged sandbox prints nothing' same "$(c diff "$id")" ""
c diff --exit-code "$id"
ok 'diff --exit-code of an unchanged sandbox gives 0' same $? 0
mkdir "$tmp/dir" && chmod 755 "$tmp"
with=$(c create --mount "$tmp/dir:/workspace/here" --mount "$tmp/dir:/mnt/there")
c diff --exit-code "$with"
ok "a place of a mount is no change" same $? 0
ok 'a file next to a mount is a change' same "$(c exec "$with" -- sh -c 'echo x >y' && c diff "$with")" "A y"
c rm -f "$with" >/dev/null
in_box 'echo one > a; mkdir d; echo two > d/b; ln -s a l'
ok 'diff lists files, directories and links that were added' same "$(c diff "$id" | tr '\n' ';')" "A a;A d/;A d/b;A l;"
c diff --exit-code "$id" >/dev/null
ok 'diff --exit-code of a changed sandbox gives 1' same $? 1
ok 'diff --all prints paths from the root' same "$(c diff --all "$id" | grep -c '^A /workspace/')" 4
in_box 'echo x > ~/note'
ok 'diff --all answers' c diff --all "$id" -q
ok 'diff --all lists files of the home directory' sh -c "timeout 60 '$cay' diff --all '$id' </dev/null | grep -q '^A /home/user/note'"

snap=$(c snapshot "$id" --label first)
ok "a snapshot was taken" [ -n "$snap" ]
in_box 'echo more >> a; rm -r d; chmod 755 a; rm l; mkdir l; echo in > l/f'
ok 'diff since a snapshot lists every kind of change' same "$(c diff first "$id" | tr '\n' ';')" "M a;D d/;T l/;A l/f;"
ok 'diff --every lists the files of a removed directory' same "$(c diff --every first "$id" | tr '\n' ';')" "M a;D d/;D d/b;T l/;A l/f;"
ok 'diff since the beginning lists what is there now' same "$(c diff "$id" | tr '\n' ';')" "A a;A l/;A l/f;"
ok 'diff in the other direction lists the opposite' same "$(c diff "$id" first | tr '\n' ';')" "M a;A d/;A d/b;T l;"
second=$(c snapshot "$id")
in_box 'rm a'
ok 'diff compares two snapshots' same "$(c diff first "$second" | tr '\n' ';')" "M a;D d/;T l/;A l/f;"
ok "a snapshot alone is refused" sh -c "! timeout 60 '$cay' diff first </dev/null 2>'$tmp/err'"
ok 'a refused diff asks for a second point' grep -q "second point" "$tmp/err"
ok 'diff of an unknown sandbox is refused' sh -c "! timeout 60 '$cay' diff nosuch </dev/null 2>'$tmp/err'"

# A patch leads from one to the other.
if command -v git >/dev/null; then
    fresh
    in_box 'seq 1 100 > numbers; echo "two words" > "a file"; printf "no end" > tail; printf "a\0b" > binary; ln -s x link; echo run > run'
    c snapshot "$id" --label before >/dev/null
    mkdir "$tmp/a" "$tmp/b"
    c cp "$id:." "$tmp/a"
    in_box 'sed -i s/50/fifty/ numbers; sed -i 1d numbers; rm "a file"; printf "an end\n" > tail; rm link; ln -s y link; chmod 755 run; mkdir n; echo n > n/n; printf "c\0d" > binary'
    c cp "$id:." "$tmp/b"
    c diff -p before "$id" >"$tmp/patch"
    ok "a binary file is noted" grep -q '^# binary: binary' "$tmp/patch"
    rm "$tmp/a/binary" "$tmp/b/binary"
    ok "git takes the patch" sh -c "cd '$tmp/a' && GIT_DIR=/nonexistent git apply --whitespace=nowarn ../patch"
    ok 'an applied patch makes the other side' diff -r --no-dereference "$tmp/a" "$tmp/b"
    ok 'an applied patch sets modes' [ -x "$tmp/a/run" ]
    ok 'diff -U prints more lines around a change' sh -c "[ \$(timeout 60 '$cay' diff -U 9 before '$id' </dev/null | wc -l) -gt \$(wc -l <'$tmp/patch') ]"
fi

# Names and files that are meant to hurt.
fresh
in_box 'printf x > "$(printf "esc\033[31m")"; printf x > "$(printf "line\nbreak")"; printf x > "$(printf "turn\342\200\256ed")"; printf x > "$(printf "raw\377")"
    mkfifo pipe; truncate -s 8G hole; : > locked; chmod 0 locked; mkdir closed; : > closed/in; chmod 0 closed'
c diff "$id" >"$tmp/list"
ok "no byte of a name reaches a terminal as it is" sh -c "! LC_ALL=C grep -q '[^ -~]' '$tmp/list'"
ok "each name is one line" same "$(wc -l <"$tmp/list")" 9
ok 'a name with a line break is escaped' grep -qF 'line\x0abreak' "$tmp/list"
ok 'a name that changes the direction of text is escaped' grep -qF 'turn\xe2\x80\xaeed' "$tmp/list"
ok 'a file in a closed directory is listed' grep -q '^A closed/in$' "$tmp/list"
ok 'diff --json is JSON, with raw names as hex' sh -c "timeout 60 '$cay' diff --json '$id' </dev/null | python3 -c 'import json,sys; d=json.load(sys.stdin); assert len(d)==9, d; assert any(\"path_hex\" in x for x in d)'"
c diff -p "$id" >"$tmp/patch"
ok "a pipe and a huge hole do not hold a patch up" same $? 0
ok 'a pipe and a huge hole are noted in a patch' sh -c "grep -q '^# pipe: no regular file' '$tmp/patch' && grep -q '^# hole: too long' '$tmp/patch'"

# Deep below, and while it is written.
deep='import os
for i in range(700):
    os.mkdir("directory-number")
    os.chdir("directory-number")
open("file", "w").write("deep")'
fresh
c exec "$id" -- python3 -c "$deep"
ok 'paths longer than the limit of the system are listed' same "$(c diff "$id" | wc -l)" 701
c snapshot "$id" --label deep >/dev/null
ok 'paths longer than the limit of the system are compared with a snapshot' same "$(c diff deep "$id" | wc -l)" 0
c exec -d "$id" -- sh -c 'while :; do mkdir -p x/y/z; echo 1 > x/y/z/f; mv x w; rm -r w; done' >/dev/null
i=0 good=0
while [ $i -lt 5 ]; do
    c diff "$id" >/dev/null && good=$((good + 1))
    i=$((i + 1))
done
ok 'a diff of files that change all the time ends' [ $good -gt 0 ]
c rm -f "$id" >/dev/null

verdict
