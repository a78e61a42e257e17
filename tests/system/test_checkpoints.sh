#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_checkpoints.sh CAY MOMENT [COUNT]: snapshots while programs run, and programs after snapshots, as whoever runs this. Prints TAP.
# COUNT: how often a served sandbox is snapshotted (default 100).
set -u
cay=$(realpath "$1") moment=$(realpath "$2") count=${3:-100}
t=$(mktemp -d /tmp/cay-checkpoints.XXXXXX)
export CAY_HOME="$t/home" XDG_RUNTIME_DIR="$t/run" NO_COLOR=1
unset CAY_PROVIDER
mkdir -m 700 "$t/home" "$t/run"
n=0 bad=0 code=0 forward=
cleanup() {
    [ -n "$forward" ] && kill "$forward" 2>/dev/null
    "$cay" ls -q 2>/dev/null </dev/null | while read -r i; do "$cay" rm -qf "$i" 2>/dev/null </dev/null; done
    # Layers belong to ids that only the keeper's namespace may remove.
    "$cay" snapshots -q 2>/dev/null </dev/null | xargs -r "$cay" snapshot rm -q >/dev/null 2>&1
    "$cay" gc --settle >/dev/null 2>&1 </dev/null
    cd / && chmod -R u+rwx "$t" 2>/dev/null
    # The keeper leaves when its directory does, and may put something into it until then.
    for _ in $(seq 50); do
        rm -rf "$t" 2>/dev/null
        [ -e "$t" ] || break
        sleep 0.2
    done
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP
ok() { # TEXT, with the status of the last command in $?
    if [ $? = 0 ]; then r=ok; else r='not ok' bad=1; fi
    n=$((n + 1))
    echo "$r $n - $1"
    [ "$r" = ok ] || { sed 's/^/# out: /' "$t/out"; sed 's/^/# err: /' "$t/err"; echo "# status: $code"; } | head -30
}
skip() { n=$((n + 1)); echo "ok $n - $1 # SKIP $2"; }
run() { code=0; timeout -k1 120 "$@" >"$t/out" 2>"$t/err" </dev/null || code=$?; }
is() { [ "$code" = "$1" ]; }
c() { timeout -k1 120 "$cay" "$@" </dev/null; }
x() { run "$cay" exec "$id" -- "$@"; }
until_() { # CONDITION…: becomes true
    for _ in $(seq 600); do "$@" && return 0; sleep 0.05; done
    false
}
method() { c snapshot inspect "$1" | sed -n 's/.*"method": "\(.*\)".*/\1/p'; }

run "$cay" doctor
is 0 || { echo "1..0 # SKIP no sandboxes here: $(head -n 1 "$t/err")"; exit 77; }

# ---- each snapshot of a running one is a moment
id=$(c create -q)
run "$cay" cp "$moment" "$id:/home/user/moment"; is 0; ok 'the checker is copied in'
x sh -c 'chmod 755 /home/user/moment; mkdir w'
c exec -d --tag count "$id" -- /home/user/moment write /workspace/w >/dev/null
counted() { c exec "$id" -- sh -c '[ -s w/twin ] && [ -e w/map ] && ls w/gen-???* >/dev/null 2>&1' 2>/dev/null; }
until_ counted; ok 'the checker writes its files'
run "$cay" --json snapshot --quiet "$id"; ! is 0 && grep -q processes_running "$t/err"; ok 'a quiet snapshot is refused while processes run'
stop=
run "$cay" snapshot "$id"
if is 0; then
    how=freezer first=$(cat "$t/out")
else
    grep -q -- --stop "$t/err"; ok 'a snapshot without a freezer is refused, with the remedy'
    how=signals stop=--stop first=$(c snapshot --stop "$id")
fi
[ ${#first} = 20 ]; ok "a snapshot is taken, by the $how"
[ "$(method "$first")" != swap ]; ok 'a snapshot of a running sandbox is a copy'
whole=yes
for i in 1 2 3 4 5 6; do
    s=$(c snapshot $stop "$id") && run "$cay" run -q --from "$s" -- /home/user/moment check /workspace/w
    is 0 || { whole=no; break; }
done
[ $whole = yes ]; ok 'each snapshot is one moment'
a=$(c exec "$id" -- sh -c 'ls w | grep gen-'); until_ sh -c "[ \"\$('$cay' exec $id -- sh -c 'ls w | grep gen-' </dev/null)\" != '$a' ]"; ok 'the checker continues after snapshots'
c signal -s KILL "$id" count; until_ sh -c "'$cay' snapshot --quiet $id </dev/null >'$t/out' 2>'$t/err'"; ok 'a quiet snapshot is taken once no process runs'
[ "$(method "$(cat "$t/out")")" = swap ]; ok 'a quiet snapshot copies nothing'
c rm -qf "$id"

# ---- services across many
id=$(c create -q)
x sh -c 'mkdir site && echo served >site/index && cat >loop <<"E"
while :; do
    [ "$(curl -sS --max-time 20 http://127.0.0.1:8000/index 2>>errors)" = served ] && echo . >>good || echo x >>failed
done
E'
c exec -d --tag web "$id" -- python3 -m http.server -d site 8000 >/dev/null
c exec -d --tag tick "$id" -- sh -c 'i=0; while :; do i=$((i+1)); echo $i >tick.new && mv tick.new tick; sleep 0.01; done' >/dev/null
until_ sh -c "'$cay' exec $id -- curl -s -o /dev/null http://127.0.0.1:8000/index </dev/null"; ok 'a web server runs inside'
c exec -d --tag loop "$id" -- sh loop >/dev/null
"$cay" port forward "$id" 8000:0 >"$t/port" 2>/dev/null </dev/null &
forward=$!
until_ grep -q 127.0.0.1 "$t/port"; ok 'the port of the web server is forwarded'
url=$(grep -o '127.0.0.1:[0-9]*' "$t/port" | head -n 1)
( while [ ! -e "$t/done" ]; do [ "$(curl -sS --max-time 20 "http://$url/index" 2>>"$t/curl.err")" = served ] && echo . >>"$t/good" || echo x >>"$t/bad"; done ) &
outside=$!
taken=0
last=
while [ $taken -lt "$count" ]; do
    s=$(c snapshot $stop "$id" 2>"$t/err") || break
    last=$s taken=$((taken + 1))
done
: >"$t/done"
wait $outside
[ $taken = "$count" ]; ok "$count snapshots are taken while the web server answers"
[ -s "$t/good" ] && [ ! -e "$t/bad" ]; ok "not one request from outside failed ($(wc -l <"$t/good") made)"
x sh -c '[ -s good ] && [ ! -e failed ] && wc -l <good'; is 0; ok "not one request from inside failed ($(cat "$t/out") made)"
run "$cay" run -q --from "$last" -- sh -c '[ "$(cat site/index)" = served ] && [ "$(cat tick)" -gt 0 ]'; is 0; ok 'the last snapshot has the files of its moment'
c rm -qf "$id"

# ---- programs after a snapshot: a directory that is older than it cannot be renamed rootless (EXDEV), and they have to cope
id=$(c create -q)
tool() { c exec "$id" -- sh -c "command -v $1" >/dev/null 2>&1; }
x sh -c 'mkdir -p old/sub/deep && echo 1 >old/sub/deep/f && mkdir py && echo 2 >py/f'
for what in git npm pip; do tool $what || eval "no_$what=1"; done
[ -n "${no_git-}" ] || x sh -c 'git init -q repo && cd repo && git config user.email a@b && git config user.name a && mkdir -p lib/in && echo a >lib/in/a && git add . && git commit -qm one && git checkout -qb other && git mv lib renamed && git commit -qm two && git checkout -q -'
[ -n "${no_npm-}" ] || x sh -c 'mkdir -p app dep/lib && cd dep && printf "{\"name\":\"dep\",\"version\":\"1.0.0\"}" >package.json && echo "module.exports=1" >index.js && npm pack --silent && cp dep-1.0.0.tgz ../app && cd ../app && printf "{\"name\":\"app\",\"version\":\"1.0.0\"}" >package.json && npm install --offline --no-audit --no-fund --silent ./dep-1.0.0.tgz && cd ../dep && printf "{\"name\":\"dep\",\"version\":\"2.0.0\"}" >package.json && echo "module.exports=2" >index.js && npm pack --silent && cp dep-2.0.0.tgz ../app'
[ -n "${no_npm-}" ] || { is 0; ok 'npm installs a package'; }
[ -n "${no_pip-}" ] || x sh -c 'mkdir -p pkg/thing && cd pkg && echo "v = 1" >thing/__init__.py && printf "from setuptools import setup\nsetup(name=\"thing\", version=\"1.0\", packages=[\"thing\"])\n" >setup.py && cd .. && pip install -q --no-index --no-build-isolation --disable-pip-version-check --target lib ./pkg'
[ -n "${no_pip-}" ] || { is 0; ok 'pip installs a package'; }
run "$cay" snapshot --quiet "$id"; is 0; ok 'a quiet snapshot is taken after the installs'
x mv old moved; is 0; ok 'mv moves a directory older than the snapshot'
x sh -c '[ "$(cat moved/sub/deep/f)" = 1 ] && [ ! -e old ]'; is 0; ok 'a moved directory has all its files'
x python3 -c '
import errno, os, shutil
try:
    os.rename("py", "py2")
    print("renamed")
except OSError as e:
    assert e.errno == errno.EXDEV, e
    shutil.move("py", "py2")
    print("EXDEV, moved")
assert open("py2/f").read() == "2\n" and not os.path.exists("py")
os.mkdir("fresh"); os.rename("fresh", "fresh2")
os.rename("py2/f", "py2/g")'
is 0; ok "os.rename of an old directory: $(cat "$t/out")"
[ "$(id -u)" != 0 ] || { grep -q '^renamed' "$t/out"; ok 'root renames a directory older than the snapshot'; }
if [ -n "${no_git-}" ]; then skip git 'there is no git in /usr'; else
    x sh -c 'cd repo && git checkout -q other && [ -e renamed/in/a ] && [ ! -e lib ] && git checkout -q - && [ -e lib/in/a ] && git mv lib lib2 && git commit -qm three && git gc -q && git fsck --no-progress'
    is 0; ok 'git checks out, moves and packs after a snapshot'
fi
if [ -n "${no_npm-}" ]; then skip npm 'there is no npm in /usr'; else
    x sh -c 'cd app && npm install --offline --no-audit --no-fund --silent ./dep-2.0.0.tgz && [ "$(node -p "require(\"dep\")")" = 2 ] && npm uninstall --offline --no-audit --no-fund --silent dep && [ ! -e node_modules/dep ]'
    is 0; ok 'npm upgrades and removes after a snapshot'
fi
if [ -n "${no_pip-}" ]; then skip pip 'there is no pip in /usr'; else
    x sh -c 'echo "v = 2" >pkg/thing/__init__.py; sed -i s/1.0/2.0/ pkg/setup.py; rm -rf pkg/build; pip install -q --no-index --no-build-isolation --disable-pip-version-check --upgrade --target lib ./pkg && [ "$(PYTHONPATH=lib python3 -c "import thing; print(thing.v)")" = 2 ]'
    is 0; ok 'pip upgrades after a snapshot'
fi
if ! tool cargo; then skip cargo 'there is no cargo in /usr'; else
    x sh -c 'cargo new -q --vcs none crate && cd crate && cargo build -q --offline'; is 0; ok 'cargo builds a new crate'
    run "$cay" snapshot --quiet "$id"
    x sh -c 'cd crate && echo "fn main() { println!(\"2\"); }" >src/main.rs && [ "$(cargo run -q --offline)" = 2 ] && cargo clean -q && cargo build -q --offline'; is 0; ok 'cargo builds again after a snapshot'
fi
run "$cay" undo "$id"; is 0; ok 'undo goes back to the snapshot'
x sh -c '[ "$(cat old/sub/deep/f)" = 1 ] && [ ! -e moved ] && [ -e py/f ]'; is 0; ok 'undo brings every directory back'

echo "1..$n"
exit $bad
