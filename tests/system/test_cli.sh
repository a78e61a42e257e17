#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_cli.sh CAY PTY_DRIVE PROVIDER: the command line as people and scripts use it, verb by verb. Prints TAP.
set -u
cay=$(realpath "$1") drive=$(realpath "$2") provider=$3
t=$(mktemp -d /tmp/cay-cli.XXXXXX)
export CAY_HOME="$t/home" CAY_PROVIDER="$provider" XDG_RUNTIME_DIR="$t/run" NO_COLOR=1 TERM=xterm
mkdir -m 700 "$t/home" "$t/run" "$t/w"
cd "$t/w" || exit 1
n=0 bad=0 code=0
cleanup() {
    "$cay" ls -q 2>/dev/null | while read -r i; do "$cay" rm -qf "$i" 2>/dev/null; done
    cd / && chmod -R u+rwx "$t" 2>/dev/null # the kernel's own directories of an overlay have no rights at all
    rm -rf "$t" 2>/dev/null
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP

ok() { # TEXT, with the status of the last command in $?
    if [ $? = 0 ]; then r=ok; else r='not ok' bad=1; fi
    n=$((n + 1))
    echo "$r $n - $1"
    [ "$r" = ok ] || { sed 's/^/# out: /' "$t/out"; sed 's/^/# err: /' "$t/err"; echo "# status: $code"; } | head -20
}
skip() { n=$((n + 1)); echo "ok $n - $1 # SKIP $2"; }
run() { code=0; "$@" >"$t/out" 2>"$t/err" </dev/null || code=$?; }
is() { [ "$code" = "$1" ]; }
says() { grep -qF -- "$1" "$t/out"; }
errs() { grep -qF -- "$1" "$t/err"; }
until_() { # CONDITION…: within 20 s
    for _ in $(seq 200); do "$@" && return; sleep 0.1; done
    false
}
json() { if command -v jq >/dev/null; then jq -e . >/dev/null; else python3 -m json.tool >/dev/null; fi; }

run "$cay" doctor
is 0 || { echo "1..0 # SKIP provider $provider: $(head -n 1 "$t/err")"; exit 77; }
esc=$(printf '\033')

# ---- about itself
run "$cay" --version; is 0 && says 'cay 0'; ok '--version prints the version'
run "$cay" help; is 0 && says 'cay run'; ok 'help lists the verbs'
run "$cay" run --help; is 0 && says '--memory SIZE' && says 'examples'; ok 'help of a verb has options and examples'
run "$cay" help files; is 0 && says 'files grep'; ok 'help of a family lists its verbs'
run "$cay" exce x; is 2 && errs 'did you mean `cay exec`'; ok 'an unknown verb is named, with the nearest'
run "$cay" files frobnicate; is 2 && errs 'files frobnicate'; ok 'an unknown verb of a family is named'
run "$cay" run --memry 1G -- true; is 2 && errs '--memory'; ok 'an unknown option is named, with the nearest'
run "$cay" completion verbs; is 0 && says 'files ls'; ok 'completion knows the verbs'
run "$cay" completion options run; is 0 && says '--memory='; ok 'completion knows the options of a verb'

# ---- doctor
run "$cay" doctor --json; is 0 && json <"$t/out"; ok 'doctor --json is JSON'
run "$cay" doctor --server; is 1 && grep -E 'off +keys +nobody can get in' "$t/out" >/dev/null; ok 'doctor --server tells that nobody can get in'
run "$cay" doctor --server --json; json <"$t/out"; ok 'doctor --server --json is JSON'
run "$cay" doctor --need vm; is 1; ok 'doctor --need fails when it is missing'
run "$cay" doctor --need nonsense; is 2 && errs nonsense; ok 'doctor --need names a wrong level'
for _ in 1 2 3 4 5 6; do s=$(date +%s%N); run "$cay" doctor; e=$(date +%s%N); [ $(((e - s) / 1000000)) -ge 1000 ] || break; done # who is only busy is not so each time
[ $(((e - s) / 1000000)) -lt 1000 ]; ok 'doctor ends in under a second'

# ---- run
run "$cay" run -q -- echo hello; is 0 && says hello && [ ! -s "$t/err" ]; ok 'run prints the output of its command'
run "$cay" run -q -- sh -c 'echo o; echo e >&2; exit 7'; is 7 && says o && errs e; ok 'run keeps streams apart and passes the code'
run "$cay" run -q -- sh -c 'kill -TERM $$'; is 143; ok 'a signal is 128 + its number'
run "$cay" files frob x; is 2 && errs 'cay help files'; ok 'an unknown verb of a kind is told where that kind is explained'
run "$cay" run -q -- /no/such/program; is 127; ok 'run gives 127 when the command is not found'
run "$cay" run -q -- /etc; is 126; ok 'run gives 126 when the command cannot be run'
# Nothing is ready, so the command comes before its sandbox is there.
mkdir -m 700 "$t/cold"
CAY_HOME=$t/cold CAY_POOL=0 run "$cay" run -q -- sh -c 'echo early; exit 5'; is 5 && says early; ok 'run without a pool runs its command'
CAY_HOME=$t/cold CAY_POOL=0 run "$cay" run -q -- /no/such/program; is 127; ok 'run without a pool gives 127 when the command is not found'
case $("$cay" doctor --json | tr -d ' \n') in # a limit that is none is told, one that holds needs no words
*'"name":"pids-limit","state":"on"'*) run "$cay" run --pids 50 --memory 64m --io-write unlimited -- true; is 0 && [ ! -s "$t/err" ];;
*) run "$cay" run --pids 50 -- true; is 0 && errs '--pids' && errs here;;
esac; ok 'a limit that does not hold is told'
run "$cay" run -q; is 2; ok 'run without a command is a usage error'
run "$cay" run -q --shell 'echo $((6*7))'; is 0 && says 42; ok 'run --shell runs a line of shell'
run "$cay" run -q -e A=1 -e B='two words' -- sh -c 'echo "$A-$B"'; is 0 && says '1-two words'; ok 'run -e sets variables'
printf '# note\nC=3\n\nD=4\n' >'env'; run "$cay" run -q --env-file env -- sh -c 'echo $C$D'; is 0 && says 34; ok 'run --env-file reads variables from a file'
SECRET=x run "$cay" run -q -- env; is 0 && ! says SECRET; ok 'nothing of our environment enters'
code=0; echo in | "$cay" run -q -i -- cat >"$t/out" 2>"$t/err" || code=$?; is 0 && says in; ok 'run -i forwards input'
code=0; head -c 3000000 /dev/zero | "$cay" run -q -i -- wc -c >"$t/out" 2>"$t/err" || code=$?; is 0 && says 3000000; ok 'run -i forwards three megabytes of input'
code=0; "$cay" run -q -- sh -c 'head -c 5000000 /dev/zero' 2>"$t/err" | wc -c >"$t/out"; says 5000000; ok 'run forwards five megabytes of output'
code=0; "$cay" run -q -i -- cat <&- >"$t/out" 2>"$t/err" || code=$?; is 0; ok 'a closed standard input is an empty one'
code=0; echo in | "$cay" run -q -- cat >"$t/out" 2>"$t/err" || code=$?; is 0 && [ ! -s "$t/out" ]; ok 'without -i nothing is read'
run "$cay" run --json -- sh -c 'echo o; echo e >&2; exit 3'; is 3 && json <"$t/out" && says '"code":3'; ok 'run --json gives one object'
s=$(date +%s); run "$cay" run --timeout 300ms -- sh -c 'sleep 50 & sleep 50'; e=$(date +%s)
[ "$code" -ge 128 ] && errs time-out && [ $((e - s)) -lt 40 ]; ok 'run --timeout ends the tree and says so'
run "$cay" run -q -w /tmp -- pwd; is 0 && says /tmp; ok 'run -w sets the directory'
code=0; "$cay" run -q -- yes 2>"$t/err" | head -n 1 >"$t/out"; says y && [ ! -s "$t/err" ]; ok 'a reader that leaves ends it quietly'
run "$cay" run --memory 12x -- true; is 2 && errs 12x; ok 'a wrong size is named'
run "$cay" run --memory 1k -- true; is 2 && errs '--memory'; ok 'a limit out of range is refused'
run "$cay" run --mount /no/such/dir -- true; is 2 && errs /no/such/dir; ok 'a mount that is not there is named'
run "$cay" run --isolation strong -- true; is 2 && errs strong; ok 'an unknown level is named'
run "$cay" run --isolation vm -- true; is 125; ok 'a level the host lacks is refused'
run "$cay" run --template nosuch -- true; is 125 && errs nosuch; ok 'an unknown template is named'
run "$cay" run --user nobodyx -- true; [ "$code" -ge 2 ] && { errs nobodyx || errs 'another user'; }; ok 'an unknown user is named'
run "$cay" run --name "$(printf 'a\nb')" -- true; is 2; ok 'a name with a newline is refused'
run "$cay" ls -q; is 0 && [ ! -s "$t/out" ]; ok 'run leaves nothing in the list'

# ---- create, ls, inspect
id=$("$cay" create -q --name box --label team=web --label x=1 --ttl 1h --metadata '{"k":[1]}' 2>"$t/err")
[ ${#id} = 20 ]; ok 'create prints the id alone'
short=$(echo "$id" | cut -c 1-8)
run "$cay" ls; is 0 && says "$id" && says box && says running; ok 'ls shows a sandbox with its name and state'
run "$cay" ls -q; is 0 && [ "$(cat "$t/out")" = "$id" ]; ok 'ls -q gives ids alone'
run "$cay" ls --json; is 0 && json <"$t/out"; ok 'ls --json is JSON'
run "$cay" ls -q --label team=web; says "$id"; ok 'ls --label finds a sandbox'
run "$cay" ls -q --label team=db; ! says "$id"; ok 'ls --label leaves out a sandbox'
run "$cay" ls -q --metadata '{"k":[1]}'; says "$id"; ok 'ls --metadata finds a sandbox'
run "$cay" ls -q --metadata '{"k":[2]}'; ! says "$id"; ok 'ls --metadata leaves out a sandbox'
run "$cay" ls -q --state stopped; ! says "$id"; ok 'ls --state leaves out a sandbox'
run "$cay" ls --state sleepy; is 2 && errs sleepy; ok 'an unknown state is named'
run "$cay" inspect "$short"; is 0 && json <"$t/out" && says '"team": "web"'; ok 'inspect is JSON, by a short id'
run "$cay" inspect --text box; is 0 && says "$id"; ok 'inspect --text finds a sandbox by name'
run "$cay" inspect nosuchid; is 1 && errs nosuchid; ok 'an unknown id is named'
run "$cay" create --name box; is 1 && errs "$id" && errs box; run "$cay" run --keep --name box -- true; is 125 && errs "$id"; ok 'a name that is taken is refused, naming who has it'
run "$cay" inspect nosuchid; [ "$(grep -c 'cay ls' "$t/err")" = 1 ]; ok 'a hint is given once'
run "$cay" create --name "$(printf 'x\033]0;t\007')"; is 2 && ! grep -q "$esc" "$t/err"; ok 'a name with an escape sequence is refused, and not echoed'
id2=$("$cay" create -q 2>/dev/null)

# ---- exec and processes
run "$cay" exec "$short" -- echo hi; is 0 && says hi; ok 'exec finds a sandbox by a short id'
run "$cay" exec "$id" echo -n -- x; is 0 && [ "$(cat "$t/out")" = '-- x' ]; ok 'options after the command are its own'
run "$cay" exec "$id" -- sh -c 'exit 200'; is 200; ok 'exec passes the code'
run "$cay" exec nosuch -- true; is 125 && errs nosuch; ok 'exec names an unknown sandbox'
run "$cay" exec "$id"; is 2; ok 'exec without a command is a usage error'
run "$cay" exec -w /no/such/dir "$id" -- true; [ "$code" -ge 125 ] && errs /no/such/dir; ok 'exec names a directory that is not there'
p=$("$cay" exec -d --tag ticker "$id" -- sh -c 'echo one; echo two >&2; while :; do sleep 0.2; echo tick; done' 2>"$t/err")
case $p in p*) true ;; *) false ;; esac; ok 'exec -d prints a process id'
ticks() { "$cay" logs --stdout "$id" ticker 2>/dev/null </dev/null | grep -q tick; }
until_ ticks
run "$cay" ps "$id"; is 0 && says ticker && says "$p"; ok 'ps shows a process with its tag'
run "$cay" ps --json "$id"; is 0 && json <"$t/out"; ok 'ps --json is JSON'
run "$cay" ps -q "$id"; is 0 && says "$p"; ok 'ps -q gives ids'
run "$cay" exec -d -l job=42 -l 'who=a b' "$id" -- sleep 60; is 0; labelled=$(cat "$t/out")
run "$cay" ps -l job=42 -l 'who=a b' "$id"; is 0 && says "$labelled" && says 'job=42 who=a b' && ! says "$p"; ok 'ps --label filters by all labels'
run "$cay" ps --json -l job=42 "$id"; is 0 && json <"$t/out" && says '"job": "42"'; ok 'labels are in the JSON'
run "$cay" ps -q -l job=43 "$id"; is 0 && [ ! -s "$t/out" ]; ok 'ps --label leaves out another label'
run "$cay" exec -l nonsense "$id" -- true; is 2 && errs nonsense; ok 'a label without a value is named'
run "$cay" logs "$id" ticker; is 0 && says one && errs two; ok 'logs by tag, each stream to its own'
run "$cay" logs --stdout -n 1 "$id" "$p"; is 0 && says tick && ! says one; ok 'logs -n prints the last lines alone'
code=0; "$cay" logs -f "$id" ticker 2>/dev/null | head -n 2 >"$t/out"; says one; ok 'logs -f ends quietly when its reader leaves'
p2=$("$cay" exec -d --kept 4k "$id" -- sh -c 'seq 10000' 2>"$t/err")
wrote_all() { "$cay" logs "$id" "$p2" 2>/dev/null </dev/null | grep -q '^10000$'; }
until_ wrote_all
run "$cay" logs "$id" "$p2"; is 0 && says 10000 && [ "$(wc -c <"$t/out")" -le 4096 ] && errs 'no longer kept'; ok 'exec --kept bounds what is kept, and logs says what went'
run "$cay" exec --kept 1k "$id" -- true; is 2 && errs '--kept'; ok 'a size that cannot be kept is refused'
run "$cay" logs "$id" nosuch; is 1 && errs nosuch; ok 'logs names an unknown process'
run "$cay" signal -s KILL "$id" ticker; is 0; ok 'signal reaches a process by its tag'
run "$cay" signal -s NOSUCH "$id" ticker; is 2 && errs NOSUCH; ok 'an unknown signal is named'
"$cay" logs -f "$id" "$p" >/dev/null 2>&1 # until its end
run "$cay" ps -a "$id"; is 0 && says "$p" && says 137; ok 'ps -a remembers how it ended'
run timeout -s INT 1 "$cay" exec "$id" -- sh -c 'trap "echo caught; exit 9" INT; while :; do sleep 0.1; done'; says caught; ok 'exec forwards SIGINT to its command'
code=0; printf 'echo from-shell\nexit 5\n' | "$cay" shell "$id" >"$t/out" 2>"$t/err" || code=$?; is 5 && says from-shell; ok 'shell reads commands from a pipe'
run "$cay" shell --name dev "$id" 'mkdir -p d; cd d; X=5; echo err >&2; (exit 3)'; is 3 && errs err; ok 'a named shell passes code and streams'
run "$cay" shell --name dev "$id" echo '$X' '${PWD##*/}'; is 0 && says '5 d'; ok 'a named shell keeps directory and variables'
run "$cay" shell --name dev --timeout 300ms "$id" 'while :; do sleep 1; done; echo never'; is 130 && errs time-out && ! says never; ok 'a time-out interrupts its command'
run timeout -s INT 1 "$cay" shell --name dev "$id" 'trap "" INT; sleep 60'; run "$cay" shell --name dev "$id" 'trap - INT; echo $X'; is 0 && says 5; ok 'Ctrl-C is for the command, not for the shell'
code=0; printf 'for i in 1 2\ndo echo $i\ndone\n' | "$cay" shell --json -n dev "$id" >"$t/out" 2>"$t/err" || code=$?; is 0 && json <"$t/out" && says '1\u000a2\u000a'; ok 'a named shell takes a script by standard input'
run "$cay" ps -l cay.kind=shell "$id"; is 0 && says shell:dev; ok 'a named shell is a process with a tag and a label'
run "$cay" shell --name dev "$id" exit 4; is 4 && errs 'has ended'; run "$cay" shell --name dev "$id" 'echo "${X-new}"'; says new; ok 'after exit the name starts a new one'
run "$cay" shell --name dev --end "$id"; is 0; run "$cay" shell --name dev --end "$id"; is 125 && errs 'no shell dev'; ok 'shell --end ends a named shell once'
run "$cay" shell --name 'a b' "$id" true; is 125 && errs 'a b'; ok 'a bad name of a shell is named'
run "$cay" shell "$id" true; is 2 && errs "needs --name"; ok 'a command for shell needs --name'
run "$cay" exec "$id" -- printf '\033]52;c;x\007'; is 0 && grep -q "$esc" "$t/out"; ok 'bytes into a pipe are untouched'

# ---- files
echo data >f1; mkdir -p tree/sub; echo a >tree/a; echo b >tree/sub/b; ln -s a tree/link; ln -s "$(printf '%0900d' 0)" tree/far; chmod 750 tree/a
run "$cay" cp f1 "$id:/tmp/f1"; is 0; ok 'cp copies a file in'
run "$cay" cp "$id:/tmp/f1" f2; is 0 && cmp -s f1 f2; ok 'cp copies a file out'
code=0; date | tee now | "$cay" cp - "$id:now" 2>"$t/err" || code=$?; is 0; ok 'cp copies from standard input'
"$cay" cp "$id:now" - >now2 2>"$t/err"; cmp -s now now2; ok 'cp copies to standard output'
run "$cay" cp tree "$id:copy"; is 0; ok 'cp copies a tree in'
run "$cay" cp "$id:copy" back; is 0 && diff -r --no-dereference tree back && [ -L back/link ] && [ "$(readlink back/far | wc -c)" = 901 ] && [ "$(stat -c %a back/a)" = 750 ]; ok 'cp copies a tree out, with links and modes'
mkdir -p names/-d; python3 -c 'import os
for n in (b"new\nline", b"\n", b"e\33]52;c;eA==\7\33[2J", b"\377\376raw", b"-rf", b"--", b" blank ", b"a:b", b"\\x0a"):
    open(b"names/-d/" + n, "wb").write(n)
os.mkdir(b"names/sub\n\377"); os.symlink(b"to\nno\377where", b"names/sub\n\377/-l\n")'
run "$cay" cp names "$id:names"; is 0 && [ ! -s "$t/err" ]; ok 'cp copies a tree with names of any bytes in'
run "$cay" cp "$id:names" names2; is 0 && diff -r --no-dereference names names2 && [ "$(find names2 -printf x)" = xxxxxxxxxxxxx ]; ok 'cp copies names of any bytes out again'
run "$cay" cp "$id:names/-d/$(printf 'new\nline')" ./-x; is 0 && cmp -s -- ./-x "names/-d/$(printf 'new\nline')"; ok 'a name with a newline may be given'
run "$cay" files ls "$id" names/-d; is 0 && [ "$(wc -l <"$t/out")" = 9 ] && ! says "$esc"; ok 'files ls has a line for each, escaped'
run "$cay" files rm "$id" "names/-d/$(printf 'new\nline')"; is 0; run "$cay" files stat "$id" "names/-d/$(printf 'new\nline')"; is 1 && errs 'new?line' && [ "$(wc -l <"$t/err")" = 1 ]; ok 'a name with a newline is escaped in a message'
mkdir into; run "$cay" cp "$id:copy/a" into; is 0 && [ -f into/a ]; ok 'cp copies into a directory'
run "$cay" cp "$id:/tmp/f1" "$id2:/tmp/moved"; is 0; ok 'cp copies between sandboxes'
mkfifo tree/fifo; run "$cay" cp tree "$id:copy2"; is 1 && errs fifo; ok 'cp skips a FIFO aloud'
run "$cay" cp f1 f2; is 2 && errs 'ID:PATH'; ok 'cp without a sandbox is a usage error'
run "$cay" cp "$id:/no/such" .; is 1 && errs /no/such; ok 'cp names a path that is not there'
run "$cay" files ls "$id" copy; is 0 && says 'sub/' && says link; ok 'files ls lists a directory'
run "$cay" files ls -l "$id:copy"; is 0 && says 'rwxr-x---' && says 'link -> a'; ok 'files ls -l takes ID:PATH and shows modes and links'
run "$cay" files ls -R --json "$id" copy; is 0 && json <"$t/out" && says sub/b; ok 'files ls -R --json lists a tree as JSON'
run "$cay" files cat "$id" copy/a; is 0 && [ "$(cat "$t/out")" = a ]; ok 'files cat prints a file'
run "$cay" files cat --offset 1 --length 2 "$id" /tmp/f1; is 0 && [ "$(cat "$t/out")" = at ]; ok 'files cat prints a range of a file'
echo put | "$cay" files put -p --mode 600 "$id" deep/er/p 2>"$t/err"; ok 'files put makes directories'
run "$cay" files stat --json "$id" deep/er/p; is 0 && json <"$t/out" && says '0600'; ok 'files stat --json tells the mode'
echo more | "$cay" files put -a "$id" deep/er/p; run "$cay" files cat "$id" deep/er/p; says put && says more; ok 'files put --append adds to a file'
echo no | "$cay" files put -x "$id" deep/er/p 2>/dev/null; [ $? = 1 ]; ok 'files put --exclusive refuses a file that is there'
run "$cay" files mkdir -p "$id" m/n; is 0; ok 'files mkdir -p makes directories'
run "$cay" files mv "$id" m/n m/o; is 0; ok 'files mv moves a directory'
run "$cay" files chmod "$id" 700 m/o; is 0; run "$cay" files stat "$id" m/o; says 0700; ok 'files chmod sets the mode'
run "$cay" files chmod "$id" 9 m/o; is 2; ok 'files chmod refuses a wrong mode'
run "$cay" files ln "$id" o m/l; is 0; ok 'files ln makes a link'
run "$cay" files find "$id" '**/b'; is 0 && says sub/b; ok 'files find finds by a pattern'
run "$cay" files grep "$id" copy '^b$'; is 0 && says 'sub/b:1:b'; ok 'files grep finds a line'
run "$cay" files grep "$id" copy nothing-like-it; is 1; ok 'files grep without a match is 1'
run "$cay" files grep --json "$id" copy '^b$'; is 0 && json <"$t/out"; ok 'files grep --json is JSON'
run "$cay" files rm -r "$id" m; is 0; ok 'files rm -r removes a tree'
run "$cay" files rm "$id" m; is 1; ok 'files rm fails for a path that is not there'
run "$cay" files rm -f "$id" m; is 0; ok 'files rm -f ignores a path that is not there'
"$cay" files watch -q -n 1 "$id" copy >"$t/watch" 2>&1 & w=$!
sees_a_new_file() { "$cay" exec "$id" -- touch "copy/fresh$((k += 1))" </dev/null && grep -q fresh "$t/watch"; } # once it watches
k=0; until_ sees_a_new_file; code=$?
kill $w 2>/dev/null; is 0; ok 'files watch sees a new file'
if "$cay" files xattr "$id" copy/a user.k=v 2>/dev/null; then
    run "$cay" files xattr "$id" copy/a user.k; says v; ok 'files xattr sets and reads an attribute'
    run "$cay" files xattr "$id" copy/a; says user.k; ok 'files xattr lists attributes'
    run "$cay" files xattr -r "$id" copy/a user.k; is 0; ok 'files xattr -r removes an attribute'
else
    skip 'files xattr' 'no extended attributes here'
fi
"$cay" exec "$id" -- sh -c 'mkdir evil; : >"evil/$(printf "x\033]52;c;eA==\007y")"'
run "$cay" files ls "$id" evil; is 0 && says 'x\x1b]52;c;eA==\x07y' && ! grep -q "$esc" "$t/out"; ok 'a hostile name is shown, not sent'
run "$cay" files ls --json "$id" evil; is 0 && json <"$t/out" && ! grep -q "$esc" "$t/out"; ok 'a hostile name is escaped in JSON'

if command -v bash >/dev/null; then
    "$cay" exec -qd --tag odd "$id" -- bash -c 'exec -a "$(printf "a\033]0;t\007b")" sleep 60' >/dev/null
    has_its_name() { "$cay" exec "$id" -- pgrep -f '^a.]0;t.b 60' >/dev/null 2>&1 </dev/null; }
    until_ has_its_name
    run "$cay" ps "$id"; is 0 && says sleep || says 'a\x1b]0;t'; ! grep -q "$esc" "$t/out"; ok 'a hostile process name is shown, not sent'
    "$cay" signal -s KILL "$id" odd
fi

# ---- ports
if "$cay" exec "$id" -- sh -c 'command -v python3' >/dev/null 2>&1; then
    "$cay" exec -qd --tag web "$id" -- python3 -c '
import socket
s=socket.socket(); s.setsockopt(1,2,1); s.bind(("127.0.0.1",18273)); s.listen(9)
while 1:
    c,_=s.accept(); d=c.recv(99); c.sendall(b"got "+d); c.close()' >/dev/null
    for i in 1 2 3 4 5 6 7 8 9 10; do "$cay" port ls -q "$id" 2>/dev/null | grep -q 18273 && break; sleep 0.2; done
    run "$cay" port ls "$id"; is 0 && says 18273; ok 'port ls shows a listening port'
    run "$cay" port ls --json "$id"; json <"$t/out"; ok 'port ls --json is JSON'
    echo ping | "$cay" port connect "$id" 18273 >"$t/out" 2>"$t/err"; says 'got ping'; ok 'port connect reaches a listening port'
    "$cay" port forward "$id" 18273:0 >"$t/fwd" 2>/dev/null & f=$!
    for i in 1 2 3 4 5 6 7 8 9 10; do [ -s "$t/fwd" ] && break; sleep 0.1; done
    python3 - "$(cut -d: -f2 "$t/fwd")" >"$t/out" 2>"$t/err" <<'PY'
import socket,sys
s=socket.create_connection(("127.0.0.1",int(sys.argv[1]))); s.sendall(b"fwd"); print(s.recv(99))
PY
    kill $f 2>/dev/null; says 'got fwd'; ok 'port forward reaches a listening port'
    "$cay" signal "$id" web >/dev/null 2>&1
else
    skip 'ports' 'no python3 inside'
fi
run "$cay" port connect "$id" 1; is 1; ok 'port connect fails where nobody listens'
run "$cay" port forward "$id" 70000; is 2 && errs 70000; ok 'a port out of range is named'

# ---- network
run "$cay" net presets; is 0 && says pypi.org:443; ok 'net presets are readable'
run "$cay" net presets nosuch; is 1 && errs nosuch; ok 'a preset that is not there is named'
run "$cay" run --net 'a.*.example' -- true; is 2 && errs 'wildcard stands alone'; ok 'run refuses a rule that cannot be read'
run "$cay" run --net 'example.com,!**.com' -- true; is 2 && errs contradict; ok 'run refuses rules that contradict each other'
run "$cay" run --net-up 1m -- true; is 2 && errs 'give --net too'; ok 'run refuses limits of no network'
run "$cay" run --secret T=env:T@example.com -- true; is 2 && errs 'give --net too'; ok 'run refuses a secret without a way'
run "$cay" run --net pypi --secret T=bad -- true; is 2 && errs NAME=SOURCE@DESTINATION; ok 'run refuses a secret that cannot be read'
if [ "$provider" = native ] && "$cay" doctor | grep -q 'on *egress-policy'; then
    nid=$("$cay" create -q --net 'pypi,*.example.com:8443' --net-up 1m)
    run "$cay" net show "$nid"; is 0 && says 'allow *.example.com:8443' && says 'up 1 MiB/s'; ok 'net show tells rules and limits'
    run "$cay" net show --json "$nid"; is 0 && json <"$t/out" && says '"mode":"rules"'; ok 'net show --json is JSON'
    run "$cay" net why "$nid" pypi.org:443; is 0 && says 'rule pypi.org:443'; ok 'net why names the rule'
    run "$cay" net why --json "$nid" 169.254.169.254:80; is 1 && json <"$t/out" && says metadata; ok 'net why knows the blocked ranges'
    run "$cay" net why "$nid" 0x7f.1; is 1 && errs 'no host name'; ok 'net why refuses a spelled address'
    run "$cay" net allow "$nid" db.example.org:5432; is 0 && run "$cay" net why "$nid" db.example.org:5432 && is 0; ok 'net allow holds at once'
    run "$cay" net deny "$nid" '**.example.org'; is 0 && run "$cay" net why "$nid" db.example.org:5432 && is 1; ok 'net deny takes allows away'
    run "$cay" net allow "$nid" 'a b'; is 1 && errs blanks; ok 'net allow refuses what cannot be read'
    "$cay" exec "$nid" -- getent hosts none.example.net >/dev/null 2>&1 </dev/null
    "$cay" exec "$nid" -- bash -c 'exec 3<>/dev/tcp/pypi.org/5432; read -r x <&3' >/dev/null 2>&1 </dev/null
    for i in $(seq 60); do
        run "$cay" net blocked --json "$nid"
        says '"port": 5432' && break
        sleep 0.2
    done
    is 0 && json <"$t/out" && says '"allow": "none.example.net"' && says '"allow": "pypi.org:5432"'; ok 'net blocked names the rule that would allow it'
    run "$cay" net blocked "$nid"; is 0 && says 'WOULD ALLOW IT' && says pypi.org:5432; ok 'net blocked prints a table'
    run "$cay" net allow "$nid" pypi.org:5432; is 0 && run "$cay" net blocked --json "$nid" && says '"allow": "allowed now"'; ok 'net blocked says that a new rule allows it now'
    "$cay" exec "$nid" -- bash -c 'exec 3<>/dev/tcp/pypi.org/443; echo no hello at all, only words >&3; read -r x <&3' >/dev/null 2>&1 </dev/null
    for i in $(seq 60); do
        run "$cay" net blocked --json "$nid"
        says tls_unreadable && break
        sleep 0.2
    done
    says '"allow": "tls+opaque://pypi.org:443"'; ok 'net blocked goes by the reason'
    run "$cay" net log "$nid"; says 'connect pypi.org:443 tls_unreadable by pypi.org:443'; ok 'net log tells the reason with the rule'
    run "$cay" net allow "$nid" 'tls+opaque://pypi.org:443'; is 0 && run "$cay" net blocked --json "$nid" && ! says opaque; ok 'a rule named by net blocked lets the connection pass'
    run "$cay" net set "$nid" 'all,!**.example.org'; is 0 && run "$cay" net allow "$nid" db.example.org; is 1 && errs contradict; ok 'net allow beside all is refused where a deny stays'
    run "$cay" net set "$nid" off; is 0 && run "$cay" net show "$nid" && says off && says 'up 1 MiB/s'; ok 'net set keeps limits'
    run "$cay" net log "$nid"; is 0 && says none.example.net && says 5432; ok 'net log can be read'
    run "$cay" port expose --expires 1h "$nid" 8000; is 0 && says cayp_; ok 'port expose prints a token'
    run "$cay" port exposed --json "$nid"; is 0 && says 8000 && ! says cayp_; ok 'port exposed lists a port without its token'
    run "$cay" port unexpose "$nid" 8000; is 0 && run "$cay" port unexpose "$nid" 8000 && is 1; ok 'port unexpose takes it back'
    run "$cay" kill "$nid"; run "$cay" net set "$nid" pypi; is 0 && run "$cay" resume "$nid" && run "$cay" net show "$nid" && says pypi.org:443; ok 'a stopped one takes its policy up'
    "$cay" rm -qf "$nid"
elif [ "$provider" != native ]; then
    run "$cay" run --net pypi -- true; is 125 && errs "provider $provider"; ok 'a provider without policies refuses by name'
fi

# ---- life
run "$cay" top --once; is 0 && says "$id"; ok 'top --once shows a sandbox'
run "$cay" top --json; is 0 && json <"$t/out"; ok 'top --json is JSON'
if "$cay" pause -q "$id" 2>"$t/err"; then
    "$cay" resume -q "$id"
    "$cay" events --for 60s --json "$id" >"$t/events" 2>&1 & w=$!
    hears() { "$cay" exec "$id" -- true </dev/null && [ -s "$t/events" ]; } # each command is an event
    until_ hears
    "$cay" pause -q "$id" 2>"$t/err"; code=$?
    until_ grep -q '"paused"' "$t/events"
    kill $w; wait $w 2>/dev/null
    is 0 && grep -q '"paused"' "$t/events" && tail -n 1 "$t/events" | json; ok 'events --json tells a pause'
    run "$cay" inspect "$id"; says '"state": "paused"'; ok 'inspect tells that a sandbox is paused'
    run "$cay" exec "$id" -- true; is 125; ok 'exec in a paused sandbox is refused'
    run "$cay" resume "$id"; is 0; run "$cay" exec "$id" -- true; is 0; ok 'resume lets a paused sandbox work again'
else
    errs "$id" || errs freeze; ok 'a host that cannot freeze says so'
fi
run "$cay" extend --ttl 2h "$id"; is 0; ok 'extend sets another lifetime'
run "$cay" extend --ttl 2h --json "$id" "$id2"; is 0 && [ "$(jq -r .id "$t/out" | sort)" = "$(printf '%s\n' "$id" "$id2" | sort)" ]; ok 'extend --json prints a line of JSON for each sandbox'
run "$cay" run -q --mount /etc:bogus -- true; [ "$code" != 0 ] && errs ':bogus' && errs ':rw'; ok 'a mount with a wrong ending says what there is'
run "$cay" extend "$id"; is 2; ok 'extend without a time is a usage error'
run "$cay" rm "$id"; is 1 && errs 'rm -f'; ok 'rm of a running sandbox needs -f'
run "$cay" kill "$id" "$id2"; is 0; ok 'kill ends two sandboxes'
run "$cay" wait --timeout 5s "$id"; is 0 && says stopped; ok 'wait waits for the end of a sandbox'
run "$cay" wait --json "$id"; is 0 && [ "$(jq -r .state "$t/out")" = stopped ]; ok 'wait --json tells the state'
[ "$provider" = local ] || { run "$cay" inspect "$id"; is 0 && says '"isolation": null' && says '"level": null' && run "$cay" ls && ! grep -q none "$t/out"; ok 'a stopped one is not called unprotected'; }
run "$cay" files cat "$id" copy/a; [ "$code" -le 1 ]; ok 'files of a stopped sandbox give an answer or a clear no'
run "$cay" resume "$id"; is 0; run "$cay" exec "$id" -- cat copy/a; is 0 && says a; ok 'resume starts it again on its files'
run "$cay" rm -f "$id" "$id2" nosuchid; is 0; run "$cay" ls -q; [ ! -s "$t/out" ]; ok 'rm -f removes sandboxes and ignores an unknown one'
run "$cay" gc; is 0; ok 'gc answers'
code=0; "$cay" run -q --keep -- sh -c 'echo kept > f' >"$t/out" 2>"$t/err" || code=$?
id=$("$cay" ls -q); is 0 && [ ${#id} = 20 ]; ok 'run --keep keeps the sandbox'
run "$cay" exec "$id" -- cat f; says kept; ok 'a sandbox of run --keep has its files'

# ---- a terminal
if "$drive" -e 'x' -- printf x >/dev/null 2>&1; then
    run "$drive" -e '$' -s 'echo $((40+2))\r' -e 42 -s 'exit 3\r' -- "$cay" run -q -it -e PS1='$ ' -- sh; is 3 && errs restored; ok 'run -it gives a terminal and restores it'
    run env CAY_SECRET_KEY="$t/typed.key" "$drive" -e 'not shown' -s 'hunter2\r' -- "$cay" secret set typed; is 0 && errs restored && ! says hunter2; ok 'a secret that is typed is not shown'
    run "$drive" -e '$' -r 101,33 -z 300 -s 'stty size\r' -e '33 101' -s 'exit\r' -- "$cay" run -q -it -e PS1='$ ' -- sh; is 0; ok 'a resized window is seen inside'
    run "$drive" -e '$' -s 'sleep 50\r' -z 500 -s '\x03' -e '$' -s 'exit 4\r' -- "$cay" exec -it -e PS1='$ ' "$id" sh; is 4; ok 'Ctrl-C reaches the command, not cay'
    run "$drive" -z 500 -s 'set +o history; PS1=%%; echo re''ady\r' -e ready -s 'sleep 50\r' -z 500 -s '\x1a' -e 'topped' -s 'jobs\r' -e 'sleep 50' -s 'fg\r' -z 300 -s '\x03' -z 300 -s 'exit 6\r' -- "$cay" shell "$id"; is 6; ok 'shell has job control'
    run "$drive" -e 'x\x1b]52' -- "$cay" exec "$id" -- printf 'x\033]52;c;x\007'; [ "$code" != 0 ]; ok 'without -t a terminal gets no escape sequence'
    run "$drive" -e 'x\\x1b]52' -- "$cay" exec "$id" -- printf 'x\033]52;c;x\007'; is 0; ok 'an escape sequence without -t is shown as text'
    run "$drive" -e '\e]0;t' -- "$cay" exec -t "$id" -- printf '\033]0;t\007'; is 0; ok 'an attached terminal gets everything'
    run "$drive" -e 'evil' -- "$cay" files ls -l "$id"; true
    run "$drive" -e '$' -x "$cay kill -q $id" -- "$cay" exec -it -e PS1='$ ' "$id" sh; errs restored && [ "$code" != 99 ] && [ "$code" != 124 ]; ok 'the terminal is restored when the sandbox is killed'
    run "$cay" resume "$id"
    run "$drive" -e 'top' -s 'q' -- "$cay" top; is 0 && errs restored; ok 'top is live on a terminal and q leaves'
else
    skip 'terminals' 'no pty to be had'
fi
run "$cay" rm -qf "$id"

# ---- provider local in a directory that is there
mkdir "$t/own"
run "$cay" create --provider local --option root_dir="$t/own" --name own; is 0; ok 'local takes a directory of its caller'
run "$cay" exec own -- sh -c 'pwd; echo 1 >made'; is 0 && says "$t/own"; ok 'commands begin in the directory of provider local'
run "$cay" files cat own made; is 0 && says 1; ok 'files are named from the directory of provider local'
run "$cay" rm -f own; is 0 && [ -f "$t/own/made" ]; ok 'the directory of provider local outlives the sandbox'
run "$cay" create --provider local --option root_dir=own; is 1 && errs 'absolute path'; ok 'a relative root_dir is refused'
run "$cay" create --provider local --option root_dir="$t/none"; is 1 && errs 'No such file'; ok 'a root_dir that is missing is refused'
run "$cay" create --provider process --option root_dir="$t/own"; is 1 && errs 'does not know it'; ok 'root_dir is refused by a provider with a wall'

# ---- the tour
run "$cay" tour; is 0 && says 'Nothing is left behind' && says 'by 3 tool calls that add.sh subtracted'; ok 'the tour ends as it promises'
run "$cay" ls -q; [ ! -s "$t/out" ]; ok 'the tour leaves no sandbox'

# ---- a host that is changed while a keeper runs, as by a package that is installed: its template is another, and as good
if [ "$provider" = native ]; then
    [ "$(id -u)" = 0 ] && ns=-m || ns='-Um --map-current-user --keep-caps'
    run "$cay" run -q -- true
    mkdir "$t/alternatives"
    # shellcheck disable=SC2086
    run unshare $ns python3 -c 'import ctypes, os, sys
ctypes.CDLL(None).mount(sys.argv[1].encode(), b"/etc/alternatives", None, 4096, None) == 0 or sys.exit("mount")
os.execv(sys.argv[2], sys.argv[2:])' "$t/alternatives" "$cay" run -q -- sh -c 'ls -A /etc/alternatives; touch here "$HOME/there"; pwd'
    is 0 && [ "$(cat "$t/out")" = /workspace ]; ok 'a host that changes under a keeper: the next sandbox has the new /etc and its places'
    if [ "$(id -u)" = 0 ]; then # with a keeper of its own, which is started there
        mkdir -m 700 "$t/masked"
        # shellcheck disable=SC2016
        run unshare -m sh -c 'mount --bind /dev/null /proc/kmsg && exec "$0" --home "$1" run -q -- id -un' "$cay" "$t/masked"
        is 0 && says user; ok 'a sandbox can be made where a service manager hides files of /proc'
    fi
fi

# ---- what only a wall gives
if [ "$provider" = native ]; then
    chmod 755 "$t" "$t/w" into; chmod 644 into/a
    run "$cay" run --mount "$t/w/into:/data" -- cat /data/a; is 0 && says a; ok 'a mount is seen inside'
    run "$cay" run --mount "$t/w/into:/data" -- touch /data/new; ! is 0 && [ ! -e into/new ]; ok 'a mount is read-only'
    run "$cay" run --mount "$t/w/into" -- ls /workspace/into; is 0 && says a; ok 'a mount without a target is /workspace/NAME'
    chmod 777 into; run "$cay" run --mount "$t/w/into:/data:rw" -- touch /data/new; is 0 && [ -e into/new ] && errs writable; ok 'a writable mount is written, with a warning'
    run "$cay" run --hostname island -- hostname; is 0 && says island; ok 'run --hostname sets the name of the host'
    run "$cay" run --nofile 77 -- sh -c 'ulimit -n'; is 0 && says 77; ok 'run --nofile sets the limit of descriptors'
    run "$cay" run -- sh -c 'ls -d /proc/[0-9]* | wc -l'; is 0 && [ "$(cat "$t/out")" -lt 10 ]; ok 'a sandbox sees its own processes alone'
    run "$cay" run -- sh -c 'ls /root; cat /etc/shadow'; ! is 0; ok 'nothing of root is to be seen'
    run "$cay" run -q -- sh -c 'mkdir b && printf "#!/bin/sh\ntouch /tmp/asked\necho 7\n" >b/id && chmod +x b/id && PATH=$PWD/b:$PATH bash -l -c "echo \$PATH; ls /tmp/asked"'
    is 2 && says /usr/local/bin:/usr/bin:/bin && ! says sbin; ok 'a login shell starts no other program, and has the PATH of its user'
    run "$cay" run -q --user root -- bash -l -c 'echo $PATH'; is 0 && says /usr/local/sbin:; ok 'the PATH of root has the programs of root'
    run "$cay" run --isolation none -- true; is 0 && errs 'isolation none'; ok 'no wall only by name, and aloud'
    if "$cay" doctor --require memory-limit >/dev/null 2>&1; then
        run "$cay" run --memory 64m -- dd if=/dev/zero of=/dev/null bs=256M count=1; is 137 && errs 'out of memory'; ok 'the memory limit holds and is told'
        run "$cay" run --require memory-limit -- true; is 0; ok 'run --require accepts a limit that holds'
    else
        run "$cay" run --require memory-limit -- true; is 125 && errs memory-limit; ok 'a limit that does not hold here is refused when it is required'
        run "$cay" doctor; is 0 && grep -E 'soft +memory-limit' "$t/out" >/dev/null; ok 'doctor calls a limit that does not hold soft'
    fi
    run "$cay" run --require nosuch-feature -- true; is 125 && errs nosuch-feature; ok 'an unknown feature is named'
    "$cay" run -- sleep 300 >/dev/null 2>&1 & k=$!
    until_ pgrep -f '^sleep 300$' >/dev/null
    kill -9 $k; wait $k 2>/dev/null
    for i in 1 2 3 4 5 6 7 8 9 10; do pgrep -f '^sleep 300$' >/dev/null || break; sleep 0.3; done
    ! pgrep -f '^sleep 300$' >/dev/null; ok 'a thrown-away sandbox goes with the program that made it'
    id=$("$cay" create -q --ttl 1s); run "$cay" wait --timeout 8s "$id"; [ "$code" = 0 ] || errs "$id"; ok 'a sandbox ends when its lifetime is over'
    "$cay" rm -qf "$id" 2>/dev/null
fi

# ---- a state directory that cannot be used
run "$cay" --home /proc/nosuch ls; is 1 && errs /proc/nosuch; ok 'a state directory that cannot be made is named'

echo "1..$n"
exit $bad
