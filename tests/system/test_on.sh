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
ok "a directory that is not there" says "No such file"
mkdir "$d"
: >"$tmp/file"
ok "a file is refused" not c run --on "$tmp/file" -- true
ok "/ is refused" not c run --on / -- true
ok "the state directory is refused" not c run --on "$CAY_HOME" -- true
ok "what holds the state directory is refused" not c run --on "$tmp" -- true
ok "a mount in the same place is refused" not c run --on "$d" --mount "$tmp/file/..:/workspace" -- true
id=$(c create)
snap=$(c snapshot "$id" --label base)
ok "a snapshot with a workspace of its own together with it is refused" not c run --on "$d" --from base -- true
ok "saying so" says "a /workspace of its own"
ok "apply to a sandbox on nothing is refused" not take
ok "naming what else there is" says "cay diff -p"
ok "a file for an id that is not kept is refused" not c run --id-file "$tmp/id" -- true
c rm -f "$id" >/dev/null
c snapshot rm base >/dev/null

c run --on "$d" --id-file "$tmp/id" -- true
id=$(cat "$tmp/id")
ok "it is said that it is kept" says "kept $id"
fresh 'cat a src/b; [ -w a ] && echo changed > a; rm src/b; mv old new; echo n > n; exit 7' >"$tmp/out"
ok "the command's status" same $rc 7
ok "it reads what is there" same "$(tr '\n' ' ' <"$tmp/out")" "one two "
ok "nothing reaches the directory" same "$(cd "$d" && find . -type f -exec cksum {} + | sort)" "$sum"
ok "what changed" same "$(c diff "$id" | tr '\n' ';')" "M a;A n;A new/;A new/c;D old/;D src/b;"
ok "with the rest of the root" sh -c "timeout 60 '$cay' diff --all '$id' </dev/null | grep -q '^M /workspace/a'"
ok "later commands see it" same "$(c exec "$id" -- cat a new/c | tr '\n' ' ')" "changed three "
c kill "$id" >/dev/null
ok "a stopped one is compared" same "$(c diff "$id" | wc -l)" 6
c resume "$id" >/dev/null
ok "and has it when it runs again" same "$(c exec "$id" -- cat a)" changed

# ---- taking over
ok "without a terminal it wants to be told" not c apply "$id"
c apply "$id" --dry-run >"$tmp/out"
ok "a dry run tells" same "$(sort "$tmp/out" | tr '\n' ';')" "A n;A new/;A new/c;D old/;D old/c;D src/b;M a;"
ok "and does nothing" same "$(cd "$d" && find . -type f -exec cksum {} + | sort)" "$sum"
ok "one path" take n
ok "is taken" same "$(cat "$d/n")" n
ok "and no other" same "$(cat "$d/a")" one
ok "a path where nothing changed is refused" not take nosuch
ok "all" take
ok "is there" same "$(cd "$d" && cat a n new/c | tr '\n' ' ')" "changed n three "
ok "what was deleted is gone" [ ! -e "$d/old" -a ! -e "$d/src/b" -a -d "$d/src" ]
ok "nothing is left to tell" same "$(c diff "$id")" ""
ok "the sandbox sees the same as before" same "$(c exec "$id" -- cat a new/c | tr '\n' ' ')" "changed three "
c exec "$id" -- sh -c 'echo again >> a; echo again >> new/c'
ok "what was applied before is no conflict" take
ok "and is taken again" same "$(cat "$d/a" "$d/new/c" | tr '\n' ' ')" "changed again three again "
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
ok "what both changed is left" not take
ok "and named: changed" says "a: it changed in your directory"
ok "removed" says "src/b: it was removed from your directory"
ok "to be deleted" says "old/c: it changed in your directory"
ok "new on both sides" says "new: it changed in your directory"
ok "as it was" same "$(cat "$d/a" "$d/old/c" "$d/new" | tr '\n' ' ')" "mine mine mine "
c apply "$id" --yes --json >"$tmp/out"
ok "in JSON, too" same "$(grep -c '"result": "conflict"' "$tmp/out")" 4
ok "force takes the sandbox's side" take --force
ok "and is done" same "$(cat "$d/a" "$d/src/b" "$d/new" | tr '\n' ' ')" "inside inside x "
c rm -f "$id" >/dev/null

# ---- what is guarded, refused, or weakened
fresh 'mkdir -p .git/hooks src/.VSCode; echo evil > .git/hooks/pre-commit; echo evil > src/.VSCode/tasks.json; echo evil > .envrc; ln -s /etc/passwd out; ln -s ../../x src/up
    ln -s ../a src/fine; mkfifo pipe; echo s > s; chmod 6777 s; mkdir wide; chmod 777 wide; echo fine > ok'
ok "something is left" not take
ok "a hook is not taken by the way" [ ! -e "$d/.git" -a ! -e "$d/.envrc" -a ! -e "$d/src/.VSCode" ]
ok "nor a link that leaves" [ ! -L "$d/out" -a ! -L "$d/src/up" ]
ok "one that stays is" same "$(readlink "$d/src/fine")" ../a
ok "nor a pipe" [ ! -e "$d/pipe" ]
ok "set-uid bits go, and others may not write" same "$(stat -c %a "$d/s")" 755
ok "nor into a directory" same "$(stat -c %a "$d/wide")" 755
ok "a directory above names nothing guarded" not take src
ok "it is not there" [ ! -e "$d/src/.VSCode" ]
ok "by name" take .git/hooks/pre-commit .envrc src/.VSCode out
ok "it is" [ -f "$d/.git/hooks/pre-commit" -a -f "$d/.envrc" -a -f "$d/src/.VSCode/tasks.json" -a -L "$d/out" ]
c rm -f "$id" >/dev/null

# ---- links on the way, put there by whomever
fresh 'echo evil > src/b; echo evil > src/new; mkdir deep; echo evil > deep/f; rm -r old; ln -s /tmp old'
mkdir "$tmp/outside"
echo safe >"$tmp/outside/b"
mv "$d/src" "$d/src-was"
ln -s "$tmp/outside" "$d/src"
ln -s "$tmp/outside" "$d/deep"
ok "a link in the directory is not followed" not take --force
ok "and named" says "link"
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
ok "any name, any depth" same $? 0
ok "each told" same "$(wc -l <"$tmp/out")" 604
ok "a line break" [ -f "$d/line
break" ]
ok "as deep as it is" same "$(c diff "$id" | wc -l)" 0
c rm -f "$id" >/dev/null
rm -rf "$d"

# ---- killed in the middle: each file is the old or the new one (bites where fault points are compiled in)
for point in temp written renamed removed; do
    fresh 'for i in 1 2 3 4 5; do echo new > f$i; done; echo new > a; rm src/b old/c'
    CAY_FAULT="layer.apply.$point=kill@2" c apply "$id" --yes >/dev/null
    case $(cat "$d/a") in one | new) good=true ;; *) good=false ;; esac
    for i in 1 2 3 4 5; do [ ! -e "$d/f$i" ] || [ "$(cat "$d/f$i")" = new ] || good=false; done
    ok "killed at $point: old or new" $good
    ok "killed at $point: the next one goes on" take
    ok "killed at $point: whole then" same "$(cat "$d/a" "$d"/f? | sort -u)$(cd "$d" && find . -name "*tmp*" -o -name b -o -name c)" new
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
    ok "what was swapped stays its owner's" same "$(stat -c %u "$d/$file") $(stat -c %u "$d/l")" "0 $owner"
    ok "what was made is the user's" same "$(stat -c %u:%g "$d/m" "$d/m/f" | tr '\n' ' ')" "65534:65534 65534:65534 "
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
ok "asked for each" same $? 0
ok "yes, no, yes" same "$(cat "$d/a" "$d/src/b" | tr '\n' ' ')$([ -e "$d/f" ] && echo f)" "new new "
c rm -f "$id" >/dev/null

verdict
