#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_on_snapshots.sh CAY: snapshots, forks, undo and diff of what is written above a directory of the user's (--on).
set -u
cay=$(realpath "$1")
. "$(dirname "$0")/lib.sh"
umask 022
c() { timeout -k 1 60 "$cay" "$@" </dev/null 2>"$tmp/err"; }
see() { c exec "$1" -- sh -c "cd /workspace && for f in *; do [ -f \$f ] && echo \$f=\$(cat \$f); done" | tr '\n' ' '; }
by_root() { # or by the one user there is, whose / is then
    c exec --user root "$1" -- sh -c "$2" || { says "one user" && c exec "$1" -- sh -c "$2"; }
}
layers() { ls "$CAY_HOME/layers" | grep -c '^o'; }
d=$tmp/dir
mkdir -p "$d/sub"
echo one >"$d/a"
echo two >"$d/b"
echo three >"$d/sub/c"
touch -d 2020-01-01 "$d/a" "$d/b" "$d/sub/c"

# ---- one moment, whatever comes later
id=$(c create --on "$d")
c exec "$id" -- sh -c 'echo x >a; rm b; echo new >n; rm -r sub; mkdir sub; echo h >/home/user/h; ln n hard'
snap=$(c snapshot "$id" --label first)
ok 'a snapshot above a directory is taken' [ -n "$snap" ]
ok 'a snapshot above a directory is a copy' same "$(c snapshots --json | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["method"])')" copy
c exec "$id" -- sh -c 'echo y >a; echo two >b; rm n hard; echo late >late; echo h2 >/home/user/h'
ok 'the sandbox continues after a snapshot' same "$(see "$id")" "a=y b=two late=late "
ok 'diff lists changes since the snapshot' same "$(c diff first "$id" | sort | tr '\n' ' ')" "A b A late D hard D n M a "

# ---- forks
fork=$(c fork first)
ok 'a fork has the files of the snapshot' same "$(see "$fork")" "a=x hard=new n=new "
ok 'hard links stay hard links in a fork' same "$(c exec "$fork" -- stat -c %h /workspace/n)" 2
ok 'an emptied directory is empty in a fork' same "$(c exec "$fork" -- ls /workspace/sub)" ""
ok 'a fork has the files outside of the directory' same "$(c exec "$fork" -- cat /home/user/h)" h
c exec "$fork" -- sh -c 'echo forked >f'
ok 'a fork does not change its parent' same "$(see "$id")" "a=y b=two late=late "
two=$(c fork "$id" -n 2 | tr '\n' ' ')
for f in $two; do ok 'a fork of a running sandbox has its files' same "$(see "$f")" "a=y b=two late=late "; done
ok 'forks change nothing in the directory' same "$(cat "$d/a" "$d/b" "$d/sub/c" | tr '\n' ' ')" "one two three "
again=$(c fork "$fork")
ok 'a fork of a fork has its files' same "$(see "$again")" "a=x f=forked hard=new n=new "
c exec "$again" -- rm /workspace/n
third=$(c fork "$again")
ok "what a fork removed stays removed" same "$(see "$third")" "a=x f=forked hard=new "

# ---- create on a snapshot: on that directory, or not at all
mkdir "$tmp/other"
ok 'create from a snapshot without its directory is refused' not c create --from first
ok 'the refusal names --on' says "--on"
ok 'create from a snapshot on another directory is refused' not c create --from first --on "$tmp/other"
ok 'create from a snapshot on its directory is like a fork' same "$(see "$(c create --from first --on "$d")")" "a=x hard=new n=new "
plain=$(c create)
c snapshot "$plain" --label plain >/dev/null
ok 'create on a directory from a snapshot with its own workspace is refused' not c create --from plain --on "$d"

# ---- archives: elsewhere the directory and what is above it are one workspace
c snapshot "${two%% *}" --label later >/dev/null
ok 'a snapshot above a directory is exported' c snapshot export -q first -o "$tmp/first.tar.zst"
ok 'a difference of two snapshots is exported' c snapshot export -q later --since first -o "$tmp/later.tar.zst"
ok 'a difference is not imported above half a directory' not c snapshot import "$tmp/later.tar.zst"
ok 'the refusal names the archive to import' says "import the archive"
c snapshot import "$tmp/first.tar.zst" --label moved >/dev/null
moved=$(c create --from moved)
ok 'an imported snapshot has a workspace of its own' same "$(see "$moved")" "a=x hard=new n=new "
ok 'the files of an imported snapshot belong to its user' same "$(c exec "$moved" -- sh -c 'cd /workspace && stat -c %U . a n sub && echo w >mine && cat mine' | sort -u | tr '\n' ' ')" "user w "
ok 'an imported snapshot has the files outside of the directory' same "$(c exec "$moved" -- sh -c 'cat /home/user/h; stat -c %h /workspace/n; ls /workspace/sub')" "h
2"
c snapshot import "$tmp/later.tar.zst" --label moved-later >/dev/null
ok 'a difference is imported above its parent' same "$(see "$(c create --from moved-later)")" "a=y b=two late=late "
ok 'a tar export holds the workspace' same "$(c snapshot export first --format tar -o - | tar -tf - | sort | tr '\n' ' ')" "./ ./a ./hard ./n ./sub/ "
ok 'a JSON export holds the workspace' same "$(c snapshot export first --format js -o - | python3 -c 'import json,sys; j=json.load(sys.stdin); print(sorted(f["path"] for f in j["files"]), j["directories"])')" "['a', 'hard', 'n'] ['sub']"
echo more >"$d/more"
c snapshot export later --since first -o "$tmp/other.tar.zst" >/dev/null
ok 'a difference above a changed directory is refused' not c snapshot import "$tmp/other.tar.zst"
ok 'the refusal for a changed directory names the archive' says "import the archive"
rm "$d/more"
c snapshot export later --since first -o "$tmp/other.tar.zst" >/dev/null
ok 'a difference above the restored directory is imported' [ -n "$(c snapshot import "$tmp/other.tar.zst")" ]
stopped=$(c create --on "$d")
c kill "$stopped" >/dev/null
mv "$d" "$d.away"
ok 'an export without the directory is refused' not c snapshot export first -o "$tmp/none"
ok 'the refusal names the missing directory' says "$d"
ok 'a refused export leaves no file' [ ! -e "$tmp/none" ]
# ---- nor is another, that somebody put into its place by a link
mkdir "$tmp/private"
echo private >"$tmp/private/key"
ln -s "$tmp/private" "$d"
for x in cay tar js; do ok "an export as $x follows no link" not c snapshot export first --format "$x" -o "$tmp/none"; done
ok 'the refusal names the symbolic link' says "symbolic link"
ok 'a refused export through a link leaves no file' [ ! -e "$tmp/none" ]
ok 'no sandbox starts on a link' not c resume "$stopped"
ok 'a refused start names the symbolic link' says "symbolic link"
ok 'no fork is made on a link' not c fork first
ok 'no diff is made on a link' not c diff "$stopped"
rm "$d"
mv "$d.away" "$d"
ok 'a sandbox starts once its directory is back' c resume -q "$stopped"
c rm -f "$stopped" >/dev/null
for x in moved-later moved; do c snapshot rm "$x" >/dev/null; done

# ---- undo: back to it, running again, with what was applied remembered
c exec "$id" -- sh -c 'echo z >/tmp/gone'
c undo "$id" >/dev/null
ok 'undo goes back to the last snapshot' same "$(see "$id")" "a=x hard=new n=new "
ok 'undo goes back outside of the directory, too' same "$(c exec "$id" -- sh -c 'cat /home/user/h; ls /tmp/gone 2>&1 | wc -l')" "h
1"
c apply "$id" --yes a >/dev/null
ok 'apply writes after an undo' same "$(cat "$d/a")" x
c exec "$id" -- sh -c 'echo w >a'
c undo "$id" >/dev/null
c exec "$id" -- sh -c 'echo again >a'
ok 'files that were applied are no conflict after an undo' c apply -q "$id" --yes a
ok 'a file is applied again after an undo' same "$(cat "$d/a")" again
c kill "$id" >/dev/null
c undo "$id" --to first >/dev/null
ok 'undo of a stopped sandbox leaves it stopped' same "$(c inspect "$id" --json | grep -c '"state": *"stopped"')" 1
c resume "$id" >/dev/null
ok 'undo of a stopped sandbox brings its files back' same "$(see "$id")" "a=x hard=new n=new "
# ---- a conflict is one for forks, too: the directory changed after the first of them was made
echo mine >"$d/b"
f=$(c fork first)
ok 'a change of the user is a conflict for a fork' not c apply "$f" --yes b
ok 'a conflict of a fork stays as it is' same "$(cat "$d/b")" mine

# ---- checkpoints
check=$(c create --on "$d" --checkpoint)
for i in 1 2 3; do c exec "$check" -- sh -c "echo $i >count"; done
c undo "$check" >/dev/null
ok 'undo goes back by one command with --checkpoint' same "$(c exec "$check" -- cat /workspace/count)" 2

# ---- a snapshot that goes takes its files along
have=$(layers)
c snapshot rm first >/dev/null
fewer() { [ "$(layers)" -lt "$have" ]; }
for i in $(seq 100); do fewer && break; c gc >/dev/null; sleep 0.1; done
ok 'the layer of a snapshot is removed with its record' fewer
ok 'forks outlive their snapshot' same "$(see "$again")" "a=x f=forked hard=new "

# ---- killed in the middle (bites where fault points are compiled in): before or after, nothing between
for point in clone.stage clone.walk clone.walked clone.published snapshot.recorded snapshot.made; do
    id=$(c create --on "$d")
    c exec "$id" -- sh -c 'echo k >k'
    CAY_FAULT="$point=kill" c snapshot "$id" --label "k-$point" >/dev/null
    c snapshots >/dev/null
    if c snapshots --json | grep -q "k-$point"; then
        ok "killed at $point: the snapshot is whole" same "$(see "$(c fork "k-$point")" | tr ' ' '\n' | grep -c '^k=k')" 1
    else
        ok "killed at $point: the next snapshot is taken" c snapshot -q "$id"
    fi
    c rm -f "$id" >/dev/null
done
for point in layer.on.copied layer.on.middle layer.on.away on.back undo.intended; do
    id=$(c create --on "$d")
    c exec "$id" -- sh -c 'echo before >k; echo before >/home/user/k'
    c snapshot "$id" >/dev/null
    c exec "$id" -- sh -c 'echo after >k; echo after >/home/user/k'
    CAY_FAULT="$point=kill" c undo "$id" >/dev/null
    c resume "$id" >/dev/null
    got=$(c exec "$id" -- cat /workspace/k /home/user/k | tr '\n' ' ')
    case $got in "before before " | "after after ") good=true ;; *) good=false ; echo "  got: $got" ;; esac
    ok "killed at $point: all of it or nothing" $good
    ok "killed at $point: / belongs to its root" same "$(by_root "$id" 'echo r >/made && cat /made')" r
    ok "killed at $point: undo succeeds then" c undo -q "$id"
    ok "killed at $point: undo brings the files back then" same "$(c exec "$id" -- cat /workspace/k /home/user/k | tr '\n' ' ')" "before before "
    c snapshot rm "$(c snapshots -q "$id" | head -n 1)" >/dev/null
    c rm -f "$id" >/dev/null
done
# ---- one that is cut off past its middle twice is ended all the same, and not forgotten
id=$(c create --on "$d")
c exec "$id" -- sh -c 'echo before >k; echo before >/home/user/k'
c snapshot "$id" >/dev/null
c exec "$id" -- sh -c 'echo after >k; echo after >/home/user/k'
for i in 1 2; do CAY_FAULT="layer.on.middle=kill" c undo "$id" >/dev/null; done
c resume "$id" >/dev/null
ok "cut off twice: it is undone" same "$(c exec "$id" -- cat /workspace/k /home/user/k | tr '\n' ' ')" "before before "
ok "cut off twice: / belongs to its root" same "$(by_root "$id" 'echo r >/made && cat /made')" r
c rm -f "$id" >/dev/null
id=$(c create --on "$d")
c exec "$id" -- sh -c 'echo k >k'
c snapshot "$id" --label forked >/dev/null
for point in layer.on.copied create.held create.made; do
    CAY_FAULT="$point=kill" c fork forked >/dev/null
    c ls >/dev/null
    ok "killed at $point: the next fork is whole" same "$(see "$(c fork forked)" | tr ' ' '\n' | grep -c '^k=k')" 1
done
for x in $("$cay" ls -q </dev/null); do c rm -f "$x" >/dev/null; done
for x in $("$cay" snapshots -q </dev/null); do c snapshot rm "$x" >/dev/null; done
c gc >/dev/null
gone() { [ -z "$(ls "$CAY_HOME/sandboxes")" ]; }
for i in $(seq 100); do gone && break; sleep 0.1; done
ok "no sandbox's files are left" same "$(ls "$CAY_HOME/sandboxes")" ""

verdict
