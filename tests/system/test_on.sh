#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_on.sh CAY: a directory of the user's below /workspace, and taking over what changed in it.
set -u
cay=$(realpath "$1")
. "$(dirname "$0")/lib.sh"
umask 022
# shellcheck disable=SC2120 # options, in some places
take() { c apply "$id" --yes "$@" >"$tmp/out"; }
c() { timeout -k 1 60 "$cay" "$@" </dev/null 2>"$tmp/err"; }
d=$tmp/dir
# A directory as it is at home, and a sandbox on it that runs $1.
fresh() {
    rm -rf "$d"
    mkdir -p "$d/src" "$d/old"
    echo one >"$d/a"
    echo two >"$d/src/b"
    echo three >"$d/old/c"
    touch -d '2020-01-01' "$d/a" "$d/src/b"
    sum=$(cd "$d" && find . -type f -exec cksum {} + | sort)
    c run -q --on "$d" --id-file "$tmp/id" -- sh -c "$1"
    rc=$?
    id=$(cat "$tmp/id")
}

# ---- what is inside, and what is not touched
c run --on "$d" -- true
ok '--on a directory that is not there is refused' says "No such file"
mkdir "$d"
: >"$tmp/file"
ok '--on a file is refused' not c run --on "$tmp/file" -- true
ok '--on / is refused' not c run --on / -- true
ok '--on the state directory is refused' not c run --on "$CAY_HOME" -- true
ok '--on a directory that holds the state directory is refused' not c run --on "$tmp" -- true
ok "a mount in the same place is refused" not c run --on "$d" --mount "$tmp/file/..:/workspace" -- true
id=$(c create)
snap=$(c snapshot "$id" --label base)
ok '--on with a snapshot that has its own workspace is refused' not c run --on "$d" --from base -- true
ok 'the refusal names the workspace of the snapshot' says "a /workspace of its own"
ok 'apply of a sandbox without a directory is refused' not take
ok 'the refusal names cay diff -p' says "cay diff -p"
ok '--id-file without a sandbox that is kept is refused' not c run --id-file "$tmp/id" -- true
c rm -f "$id" >/dev/null
c snapshot rm base >/dev/null

c run --on "$d" --id-file "$tmp/id" -- true
id=$(cat "$tmp/id")
ok 'a sandbox --on a directory is kept, and run says so' says "kept $id"
fresh 'cat a src/b; [ -w a ] && echo changed > a; rm src/b; mv old new; echo n > n; exit 7' >"$tmp/out"
ok 'run --on gives the status of its command' same $rc 7
ok 'a command reads the files of the directory' same "$(tr '\n' ' ' <"$tmp/out")" "one two "
ok "nothing reaches the directory" same "$(cd "$d" && find . -type f -exec cksum {} + | sort)" "$sum"
ok 'diff lists changes of the directory' same "$(c diff "$id" | tr '\n' ';')" "M a;A n;A new/;A new/c;D old/;D src/b;"
ok 'diff --all lists changes of the directory with its path' sh -c "timeout 60 '$cay' diff --all '$id' </dev/null | grep -q '^M /workspace/a'"
ok 'later commands see the changes' same "$(c exec "$id" -- cat a new/c | tr '\n' ' ')" "changed three "
c kill "$id" >/dev/null
ok 'diff reads a stopped sandbox' same "$(c diff "$id" | wc -l)" 6
c resume "$id" >/dev/null
ok 'a resumed sandbox has the changes' same "$(c exec "$id" -- cat a)" changed

# ---- taking over
ok 'apply without a terminal needs --yes' not c apply "$id"
c apply "$id" --dry-run >"$tmp/out"
ok 'apply --dry-run lists the changes' same "$(sort "$tmp/out" | tr '\n' ';')" "A n;A new/;A new/c;D old/;D old/c;D src/b;M a;"
ok 'apply --dry-run changes nothing' same "$(cd "$d" && find . -type f -exec cksum {} + | sort)" "$sum"
ok 'apply of one path succeeds' take n
ok 'apply of one path writes it' same "$(cat "$d/n")" n
ok 'apply of one path writes no other' same "$(cat "$d/a")" one
ok "a path where nothing changed is refused" not take nosuch
ok 'apply of everything succeeds' take
ok 'apply writes changed and new files' same "$(cd "$d" && cat a n new/c | tr '\n' ' ')" "changed n three "
ok 'apply removes deleted files' [ ! -e "$d/old" -a ! -e "$d/src/b" -a -d "$d/src" ]
ok 'diff is empty after apply' same "$(c diff "$id")" ""
ok "the sandbox sees the same as before" same "$(c exec "$id" -- cat a new/c | tr '\n' ' ')" "changed three "
c exec "$id" -- sh -c 'echo again >> a; echo again >> new/c'
ok 'files that were applied before are no conflict' take
ok 'files that were applied before are applied again' same "$(cat "$d/a" "$d/new/c" | tr '\n' ' ')" "changed again three again "
ok "owners are the directory's" same "$(stat -c %u "$d/new/c")" "$(stat -c %u "$d")"
c rm -f "$id" >/dev/null
ok "a removed sandbox leaves the directory" same "$(cat "$d/n")" n

# ---- conflicts
fresh 'echo inside > a; echo inside > src/b; rm old/c; echo x > new'
echo mine >"$d/a"
touch -d '2020-01-01' "$d/a"
rm "$d/src/b"
echo mine >"$d/old/c"
echo mine >"$d/new"
ok 'apply leaves files that both sides changed' not take
ok 'apply names a file that both sides changed' says "a: it changed in your directory"
ok 'apply names a file that the user removed' says "src/b: it was removed from your directory"
ok 'apply names a file that it would delete but the user changed' says "old/c: it changed in your directory"
ok 'apply names a file that both sides made' says "new: it changed in your directory"
ok 'conflicts stay as they are in the directory' same "$(cat "$d/a" "$d/old/c" "$d/new" | tr '\n' ' ')" "mine mine mine "
c apply "$id" --yes --json >"$tmp/out"
ok 'apply --json lists the conflicts' same "$(grep -c '"result": "conflict"' "$tmp/out")" 4
ok 'apply --force accepts conflicts' take --force
ok 'apply --force writes the side of the sandbox' same "$(cat "$d/a" "$d/src/b" "$d/new" | tr '\n' ' ')" "inside inside x "
c rm -f "$id" >/dev/null

# ---- what is guarded, refused, or weakened
fresh 'mkdir -p .git/hooks src/.VSCode; echo evil > .git/hooks/pre-commit; echo evil > src/.VSCode/tasks.json; echo evil > .envrc; ln -s /etc/passwd out; ln -s ../../x src/up
    ln -s ../a src/fine; mkfifo pipe; echo s > s; chmod 6777 s; mkdir wide; chmod 777 wide; echo fine > ok'
ok 'apply fails when it leaves something out' not take
ok 'apply does not write guarded files on the way' [ ! -e "$d/.git" -a ! -e "$d/.envrc" -a ! -e "$d/src/.VSCode" ]
ok 'apply does not write a link that leaves' [ ! -L "$d/out" -a ! -L "$d/src/up" ]
ok 'apply writes a link that stays inside' same "$(readlink "$d/src/fine")" ../a
ok 'apply does not write a pipe' [ ! -e "$d/pipe" ]
ok 'apply removes set-uid bits and write permission of others' same "$(stat -c %a "$d/s")" 755
ok 'apply removes write permission of others from directories' same "$(stat -c %a "$d/wide")" 755
ok 'a directory named for apply includes no guarded file' not take src
ok 'a guarded file below a named directory is not written' [ ! -e "$d/src/.VSCode" ]
ok 'apply of guarded files by name succeeds' take .git/hooks/pre-commit .envrc src/.VSCode out
ok 'apply writes guarded files that are named' [ -f "$d/.git/hooks/pre-commit" -a -f "$d/.envrc" -a -f "$d/src/.VSCode/tasks.json" -a -L "$d/out" ]
c rm -f "$id" >/dev/null

# ---- links on the way, put there by whomever
fresh 'echo evil > src/b; echo evil > src/new; mkdir deep; echo evil > deep/f; rm -r old; ln -s /tmp old'
mkdir "$tmp/outside"
echo safe >"$tmp/outside/b"
mv "$d/src" "$d/src-was"
ln -s "$tmp/outside" "$d/src"
ln -s "$tmp/outside" "$d/deep"
ok "a link in the directory is not followed" not take --force
ok 'a link that is not followed is named' says "link"
ok "nothing is written through it" same "$(ls "$tmp/outside" | tr '\n' ' ')$(cat "$tmp/outside/b")" "b safe"
ok "a link of the sandbox that leaves is not put in the place of a directory" [ ! -L "$d/old" ]
c rm -f "$id" >/dev/null

# ---- names, depth, numbers
fresh 'echo x > "$(printf "line\nbreak")"; echo x > "$(printf "esc\033[1m")"; mkdir deep
    exec python3 -c "
import os
os.chdir(\"deep\")
for i in range(600):
    os.mkdir(\"directory-number\")
    os.chdir(\"directory-number\")
open(\"f\", \"w\").write(\"deep\")"'
take
ok 'apply writes any name at any depth' same $? 0
ok 'apply lists every path' same "$(wc -l <"$tmp/out")" 604
ok 'apply writes a name with a line break' [ -f "$d/line
break" ]
ok 'diff is empty after apply of a deep tree' same "$(c diff "$id" | wc -l)" 0
c rm -f "$id" >/dev/null
rm -rf "$d"

# ---- killed in the middle: each file is the old or the new one (bites where fault points are compiled in)
for point in temp written renamed removed; do
    fresh 'for i in 1 2 3 4 5; do echo new > f$i; done; echo new > a; rm src/b old/c'
    CAY_FAULT="layer.apply.$point=kill@2" c apply "$id" --yes >/dev/null
    case $(cat "$d/a") in one | new) good=true ;; *) good=false ;; esac
    for i in 1 2 3 4 5; do [ ! -e "$d/f$i" ] || [ "$(cat "$d/f$i")" = new ] || good=false; done
    ok "killed at $point: each file is old or new" $good
    ok "killed at $point: the next apply succeeds" take
    ok "killed at $point: the next apply makes it whole" same "$(cat "$d/a" "$d"/f? | sort -u)$(cd "$d" && find . -name "*tmp*" -o -name b -o -name c)" new
    c rm -f "$id" >/dev/null
done

# ---- as root: what is made belongs to whose directory it is, and what that one puts in its place meanwhile to nobody else (bites as above)
if [ "$(id -u)" = 0 ]; then
    fresh 'ln -s a l; mkdir m; echo new > m/f'
    chown -R 65534:65534 "$d"
    echo foreign >"$d/foreign"
    CAY_FAULT="layer.apply.linked=delay:2000" take &
    while kill -0 $! 2>/dev/null && [ ! -L "$d/.cay-apply-tmp" ]; do sleep 0.02; done
    [ ! -L "$d/.cay-apply-tmp" ] || mv -fT "$d/foreign" "$d/.cay-apply-tmp"
    wait
    if [ -L "$d/l" ]; then owner=65534 file=foreign; else owner=0 file=l; fi
    ok 'a swapped file keeps its owner' same "$(stat -c %u "$d/$file") $(stat -c %u "$d/l")" "0 $owner"
    ok 'files made by root belong to the owner of the directory' same "$(stat -c %u:%g "$d/m" "$d/m/f" | tr '\n' ' ')" "65534:65534 65534:65534 "
    c rm -f "$id" >/dev/null
fi
fresh 'mkdir -p p/q; ln -s ../.. p/q/up; ln -s p/q/up/../secret leak'
c apply "$id" --yes --json >"$tmp/out"
ok "a link inside is taken over, one that leaves by another is not" same "$(readlink "$d/p/q/up" "$d/leak")" "../.."
c rm -f "$id" >/dev/null

# ---- asked one by one
fresh 'echo new > a; echo new > f; echo new > src/b'
timeout -k 1 60 python3 - "$cay" "$id" <<'P'
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], "apply", sys.argv[2]])
answers, seen = [b"d\n", b"y\n", b"n\n", b"y\n"], b""
while True:
    try:
        data = os.read(fd, 4096)
    except OSError:
        break
    if not data:
        break
    seen += data
    while answers and seen.count(b"[y/n/d/a/q]") > 4 - len(answers):
        os.write(fd, answers.pop(0))
assert b"+new" in seen, seen
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
P
ok 'apply asks for each file on a terminal' same $? 0
ok 'apply writes the files with a yes only' same "$(cat "$d/a" "$d/src/b" | tr '\n' ' ')$([ -e "$d/f" ] && echo f)" "new new "
c rm -f "$id" >/dev/null

verdict
