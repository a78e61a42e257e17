#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_manifest.sh CAY: manifests with real sandboxes, as whoever runs this. Numbers are those of docs/manifest.md, cases.
set -u
cay=$(realpath "$1")
tmp=$(mktemp -d)
export CAY_HOME="$tmp/home"
passed=0 failed=0
finish() {
    for id in $("$cay" ls -q 2>/dev/null </dev/null); do "$cay" rm -f "$id" >/dev/null 2>&1 </dev/null; done
    pid=$(pgrep -f "^[^ ]*cay-keeper $CAY_HOME ")
    [ -n "$pid" ] && kill "$pid" && while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
    chmod -R u+rwx "$tmp" 2>/dev/null
    rm -rf "$tmp" 2>/dev/null
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
        head -3 "$tmp/err"
    fi
}
c() { timeout -k 1 30 "$cay" "$@" </dev/null 2>"$tmp/err"; }
same() { [ "$1" = "$2" ] || { echo "  got: $1"; false; }; }
fails() { # WORD WORD COMMAND…: it fails with this reason, and this one in its detail
    word=$1 why=$2
    shift 2
    c --json "$@" >/dev/null
    rc=$?
    [ $rc != 0 ] && grep -q "\"reason\":\"$word\"" "$tmp/err" && grep -q "\"reason\":\"$why\"" "$tmp/err" || { cat "$tmp/err"; false; }
}
layers() { ls "$CAY_HOME/layers" 2>/dev/null | grep -c '^m.\{19\}$'; }
single=false
[ "$(id -u)" = 0 ] || grep -q "^$(id -un):" /etc/subuid || single=true
cd "$tmp" || exit 1

mkdir -p src/sub/empty
printf 'hello\n' >src/a
printf '#!/bin/sh\necho ran\n' >src/run
chmod 750 src/run
printf 'x' >src/sub/b.o
printf 'keep' >src/sub/keep.o
ln -s ../a src/sub/link
printf '*.tmp\nsecret/\n' >src/.ignore
mkdir src/secret && printf 'no' >src/secret/no && printf 'no' >src/t.tmp
cat >m.json <<'END'
{ "entries": {
    "hello.txt": { "type": "file", "content": "hi\n", "permissions": "rw-r-----" },
    "bytes": { "type": "file", "content_base64": "AP8K" },
    "deep/er": { "type": "dir", "children": { "x": { "type": "file", "content": "deep" } } },
    "tree": { "type": "local_dir", "src": "src", "exclude": ["*.o", "!keep.o"], "ignore_file": ".ignore" },
    "one": { "type": "local_file", "src": "src/run" },
    "tree/a2": { "type": "file", "content": "mine" },
    "eph": { "type": "file", "content": "passing", "ephemeral": true, "permissions": "rw-------" } },
  "environment": { "PLAIN": "p", "REF": { "type": "ref", "source": "env:TEST_SENTINEL" },
    "EPH": { "value": "sentinel-eph-4711", "ephemeral": true } } }
END
export TEST_SENTINEL=sentinel-ref-0815

# ---- several at once where nothing was made yet: the first layers are made by one of them
echo '{ "entries": { "n": { "type": "file", "content": "n" } } }' >n.json
for n in 1 2 3 4 5; do timeout -k 1 30 "$cay" create --name "first$n" --manifest n.json </dev/null >"made$n" 2>&1 & done
wait
ok 'five first sandboxes are made at once' [ "$(cat made? | grep -c '^c[a-z2-7]\{19\}$')" = 5 ]
ok 'five first sandboxes leave nothing half-made' [ -z "$(ls -A "$CAY_HOME/layers" | grep '^\.')" ]
for n in 1 2 3 4 5; do c rm -f "first$n" >/dev/null; done

# ---- what it puts in place
c manifest check m.json >out
ok "check prints the tree" grep -q "/workspace/deep/er/x" out
ok 'manifest check counts entries and files' grep -q "8 entries: 11 files" out
ok 'manifest check --json counts files' sh -c '"$1" --json manifest check m.json | grep -q "\"files\": 11"' sh "$cay"
id=$(c create --manifest m.json)
ok 'create --manifest makes a sandbox' [ -n "$id" ]
ok 'inline text is written' same "$(c exec "$id" -- cat hello.txt)" hi
ok 'permissions and owner are set' same "$(c exec "$id" -- stat -c '%a %u' hello.txt)" "640 1000"
ok 'inline bytes are written' same "$(c exec "$id" -- od -An -tx1 bytes)" " 00 ff 0a"
ok 'children of a directory are written' same "$(c exec "$id" -- cat deep/er/x)" deep
ok 'a local file keeps its execute bit' same "$(c exec "$id" -- ./one)" ran
ok 'a local directory comes with excludes, ignore file, empty directories and links' same "$(c exec "$id" -- sh -c 'cd tree && find . | sort | tr "\n" " "')" \
    ". ./.ignore ./a ./a2 ./run ./sub ./sub/empty ./sub/keep.o ./sub/link "
ok "a link stays a link" same "$(c exec "$id" -- readlink tree/sub/link)" ../a
ok 'an entry wins over a file of a local directory' same "$(c exec "$id" -- cat tree/a2)" mine
ok 'the user may change the files of a manifest' c exec "$id" -- sh -c 'echo more >>tree/a && rm one && mkdir tree/new'
ok 'variables are set, from references too' same "$(c exec "$id" -- sh -c 'echo $PLAIN $REF $EPH')" "p sentinel-ref-0815 sentinel-eph-4711"
ok 'an ephemeral entry is written' same "$(c exec "$id" -- cat eph)" passing
ok 'manifest show has no secret value' sh -c '! "$1" manifest show "$2" | grep -q sentinel-' sh "$cay" "$id"
ok 'manifest show prints a manifest' sh -c '"$1" manifest show "$2" >shown.json && "$1" manifest check shown.json >/dev/null' sh "$cay" "$id"

ok 'manifest check tells where values are read from' grep -q "reads secret *REF from env:TEST_SENTINEL" out
ok 'manifest check tells which variables are set' grep -q "sets variable *PLAIN" out
ok 'manifest check --json tells references' sh -c '"$1" --json manifest check m.json | python3 -c "import json,sys; d=json.load(sys.stdin); assert d[\"references\"]==[{\"where\":\"REF\",\"source\":\"env:TEST_SENTINEL\"}]"' sh "$cay"
printf '%s' '{"extra_path_grants":[{"path":"/data","host_path":"/usr","read_only":false}],"policy":"cay-net 1\nmode rules\nrule pypi.org","run_as":"dev","users":[{"name":"dev"}]}' >asks.json
c manifest check asks.json >asked
ok 'manifest check tells grants, network and accounts' sh -c 'grep -q "may write *.*/data, the host.s /usr" asked && grep -q "runs as *dev" asked && grep -q "network *" asked && grep -q "has user *dev" asked'

# ---- a sandbox that runs follows another manifest
python3 - <<'P'
import json
m = json.load(open("m.json"))
m["entries"]["late"] = {"type": "file", "content": "came later"}
json.dump(m, open("more.json", "w"))
m["entries"]["hello.txt"]["content"] = "other"
json.dump(m, open("other.json", "w"))
m["environment"]["NEW"] = "1"
json.dump(m, open("refused.json", "w"))
P
live=$(c create --manifest m.json)
c exec "$live" -- sh -c 'echo more >>tree/a'
ok 'manifest apply -n tells the entry that is new' sh -c '"$1" manifest apply -n "$2" more.json | grep -q "add .*entry late"' sh "$cay" "$live"
ok 'manifest apply -n changes nothing' sh -c '! "$1" exec "$2" -- test -e late' sh "$cay" "$live"
ok 'manifest apply applies a manifest' c manifest apply "$live" more.json
ok 'manifest apply writes a new entry' same "$(c exec "$live" -- cat late)" "came later"
ok 'manifest apply leaves files that were changed inside' same "$(c exec "$live" -- tail -1 tree/a)" more
ok 'manifest apply refuses other content' fails manifest_change_refused manifest_change_refused manifest apply "$live" other.json
ok 'manifest apply --replace accepts other content' c manifest apply --replace "$live" other.json
ok 'manifest apply --replace writes other content' same "$(c exec "$live" -- cat hello.txt)" other
ok 'manifest apply refuses a change that it cannot follow' fails manifest_change_refused manifest_change_refused manifest apply --replace "$live" refused.json
ok 'manifest show shows the applied manifest' sh -c '"$1" manifest show "$2" | grep -q "came later"' sh "$cay" "$live"
c rm -f "$live" >/dev/null

# ---- secrets and ephemeral entries are in no layer, record or snapshot
ok 'no secret value is in the store' sh -c '! grep -rqa "sentinel-" "$CAY_HOME"/store.db*'
ok 'no secret value is in a layer' sh -c '! grep -rqa -e "sentinel-" -e passing "$CAY_HOME"/layers/m* 2>/dev/null'
snap=$(c snapshot "$id")
ok 'a snapshot of a sandbox with ephemeral entries is taken' [ -n "$snap" ]
ok "a snapshot has no ephemeral entry" sh -c '! grep -rqa passing "$CAY_HOME/layers/$1"' sh "$snap"
for form in cay tar js; do
    c snapshot export "$snap" --format $form -o "$tmp/out.$form" >/dev/null
    [ $form != cay ] || { zstd -qdcf "$tmp/out.cay" >"$tmp/plain" && mv "$tmp/plain" "$tmp/out.cay"; }
    ok "an export as $form has no secret value and no ephemeral entry" sh -c '[ -s "$1" ] && ! grep -qa -e "sentinel-" -e passing -e "$(printf passing | base64)" "$1"' sh "$tmp/out.$form"
done
c state --snapshot "$id" >"$tmp/state"
ok 'a session state has no secret value and no ephemeral entry' sh -c 'grep -q "\"session_id\"" "$1" && ! grep -qa -e "sentinel-" -e passing "$1"' sh "$tmp/state"
ok 'no secret value is in the state directory' sh -c '! grep -rqsa "sentinel-" "$CAY_HOME"'
ok 'an ephemeral entry is there after a snapshot' same "$(c exec "$id" -- cat eph)" passing
twin=$(c fork "$id")
ok 'a fork gets ephemeral entries and references again' same "$(c exec "$twin" -- sh -c 'cat eph; echo; cat tree/a; echo $REF')" "passing
hello
more
sentinel-ref-0815"
c rm -f "$twin" >/dev/null
c exec "$id" -- rm eph
c kill "$id" >/dev/null
c resume "$id" >/dev/null
ok "resume writes ephemeral entries only" same "$(c exec "$id" -- sh -c 'cat eph; test -e one || echo gone')" "passinggone"
ok 'resume reads references again' same "$(c exec "$id" -- sh -c 'echo $PLAIN $REF')" "p sentinel-ref-0815"
c rm -f "$id" >/dev/null

# ---- what has to be in every snapshot besides the root
echo '{"entries":{"a":{"type":"file","content":"a"}},"extra_persisted_roots":["/home/user/.cache"]}' >keep.json
ok 'manifest check tells roots that are kept' sh -c '"$1" manifest check keep.json </dev/null | grep -q "^keeps  *"/home/user/.cache' sh "$cay"
keep=$(c create --manifest keep.json)
c exec "$keep" -- sh -c 'mkdir -p ~/.cache; echo warm >~/.cache/x'
keep_snap=$(c snapshot "$keep")
c rm -f "$keep" >/dev/null
ok 'a kept root is in the snapshot' same "$(c run --from "$keep_snap" -- sh -c 'cat ~/.cache/x')" warm
ok 'a provider without snapshots refuses kept roots' fails snapshot_unsupported snapshot_unsupported --provider local create --manifest keep.json
c snapshot rm "$keep_snap" >/dev/null

# ---- the cache tells the truth
n=$(layers)
ok 'the same manifest gives the same files' sh -c 'test "$("$1" run --manifest m.json -- cat tree/a </dev/null)" = hello' sh "$cay"
ok 'the same manifest makes no second layer' same "$(layers)" "$n"
touch -r src/a stamp
printf 'hellO\n' >src/a
touch -r stamp src/a
ok 'a changed byte is seen, with size and mtime restored' same "$(c run --manifest m.json -- cat tree/a)" hellO
ok 'a changed byte makes another layer' same "$(layers)" "$((n + 1))"
ok 'relative paths start at the manifest' sh -c 'cd / && test "$("$1" run --manifest "$2/m.json" -- cat tree/a </dev/null)" = hellO' sh "$cay" "$tmp"
ok 'a manifest is read from standard input' same "$(timeout 30 "$cay" run --manifest - -- cat f <<'END'
{ "entries": { "f": { "type": "file", "content": "piped" } } }
END
)" piped

# ---- a large one is known again by its text
large() { # WORD: 200 files of 1 kB, the last says WORD
    awk -v word="$1" 'BEGIN { printf "{\"environment\":{\"L\":\"%s\"},\"entries\":{", word; for (i = 0; i < 200; i++)
        printf "\"d%d/f%d\":{\"type\":\"file\",\"content\":\"%01000d%s\"},", i % 9, i, i, word; printf "\"last\":{\"type\":\"file\",\"content\":\"%s\"}}}", word }' >large.json
}
n=$(layers)
for word in one one two one; do
    large $word
    ok "a large manifest says $word" same "$(c run --manifest large.json -- sh -c 'cat last; tail -c 3 d0/f9; echo $L; find . -type f | wc -l')" "$word${word}$word
201"
done
ok 'two large manifests make two layers' same "$(layers)" "$((n + 2))"
large two
id=$(c create --manifest large.json)
ok 'a large manifest is kept' sh -c 'test "$("$1" manifest show "$2" | wc -c)" -gt 200000' sh "$cay" "$id"
c rm -f "$id" >/dev/null
id=$(c create --manifest large.json)
ok 'a large manifest that is known is kept again' sh -c 'test "$("$1" manifest show "$2" | wc -c)" -gt 200000' sh "$cay" "$id"
fork=$(c fork "$id")
ok "a fork has its files and its manifest" same "$(c exec "$fork" -- sh -c 'cat last; find . -type f | wc -l') $(c manifest show "$fork" | cksum)" "two201 $(c manifest show "$id" | cksum)"
c rm -f "$fork" >/dev/null
kept=$(ls -A "$CAY_HOME/manifests" | wc -l)
: >"$CAY_HOME/manifests/.left.part"
printf x >"$CAY_HOME/manifests/taaaaaaaaaaaaaaaaaaa"
c gc >/dev/null
ok 'gc removes files of a dead writer' same "$(ls -A "$CAY_HOME/manifests" | wc -l)" "$kept"
ok 'gc leaves a manifest in use' sh -c 'test "$("$1" manifest show "$2" | wc -c)" -gt 200000' sh "$cay" "$id"
c rm -f "$id" >/dev/null

# ---- what is refused, before anything is made
before=$(layers)
mkdir -p other && printf s >other/s && ln -s ../other src/up && ln -s src/a leaf && ln -s src ancestor
try() { printf '%s' "$1" >bad.json; }
try '{"entries":{"t":{"type":"local_dir","src":"src"}}}'
ok "23 a link that leaves" fails local_dir_read_error symlink_not_supported create --manifest bad.json
rm src/up
try '{"entries":{"t":{"type":"local_file","src":"leaf"}}}'
ok "23 a link as leaf" fails local_file_read_error symlink_not_supported create --manifest bad.json
try '{"entries":{"t":{"type":"local_file","src":"ancestor/a"}}}'
ok "23 a link as ancestor" fails local_file_read_error symlink_not_supported create --manifest bad.json
try '{"entries":{"t":{"type":"local_file","src":"/etc/hostname"}}}'
ok "22 outside without a grant" fails local_file_read_error outside_base_dir create --manifest bad.json
try '{"entries":{"t":{"type":"local_file","src":"../../etc/hostname"}}}'
ok "22 out by .." fails local_file_read_error outside_base_dir create --manifest bad.json
try '{"entries":{"t":{"type":"local_file","src":"/etc/passwd"}},"extra_path_grants":[{"path":"/etc","read_only":true}]}'
ok "22 with a grant" same "$(c run --manifest bad.json -- head -c 4 t)" root
mkdir -p "$tmp/granted/shut"
echo s >"$tmp/granted/shut/s"
chmod -R a+rwX "$tmp/granted"
try "{\"extra_path_grants\":[{\"path\":\"/data\",\"host_path\":\"$tmp/granted\"},{\"path\":\"/data/shut\",\"host_path\":\"$tmp/granted/shut\",\"read_only\":true}]}"
ok "13 a read-only grant in a writable one" same "$(c run --manifest bad.json -- sh -c 'echo x >/data/w; cat /data/w /data/shut/s; { echo y >/data/shut/s; } 2>/dev/null || echo refused')" "x
s
refused"
before=$(layers)
ln -s / alias
try "{\"entries\":{\"t\":{\"type\":\"local_file\",\"src\":\"$tmp/alias/etc/passwd\"}},\"extra_path_grants\":[{\"path\":\"$tmp/alias\"}]}"
ok "12 a grant that is a link to /" fails local_file_read_error outside_base_dir create --manifest bad.json
try '{"entries":{"t":{"type":"local_file","src":"nosuch"}}}'
ok 'a source that is not there is refused' fails local_file_read_error path_not_found create --manifest bad.json
try '{"entries":{"a":{"type":"file","content":"x"},"../b":{"type":"file","content":"x"}}}'
ok '2 an entry that leaves the root is refused' fails invalid_manifest_path escape_root create --manifest bad.json
try '{"entries":{},"environment":{"A":{"type":"ref","source":"env:TEST_NOT_SET_AT_ALL"},"B":"x"}}'
c --json create --manifest bad.json >/dev/null
ok '10 a source that fails ends the create' grep -q '"reason":"secret_unreadable"' "$tmp/err"
ok 'a refused manifest makes no layer and no sandbox' same "$(layers) $(c ls -q | wc -l)" "$before 0"
# Two commands that would go on for ten minutes, and one that waits until both run and then fails: one after another it would never be the first.
cat >"$tmp/source" <<'END'
case $1 in
wait) echo $$ >"$2/$3.pid" && exec sleep 600 ;;
fail) while ! { [ -s "$2/one.pid" ] && [ -s "$2/two.pid" ]; }; do sleep 0.02; done; exit 1 ;;
tell) : >"$2/$3"; while [ ! -e "$2/$4" ]; do sleep 0.02; done; echo "$3" ;;
esac
END
for name in one two; do echo "cmd $name /bin/sh $tmp/source wait $tmp $name"; done >"$CAY_HOME/secrets.conf"
{
    echo "cmd three /bin/sh $tmp/source fail $tmp"
    echo "cmd here /bin/sh $tmp/source tell $tmp here there"
    echo "cmd there /bin/sh $tmp/source tell $tmp there here"
} >>"$CAY_HOME/secrets.conf"
try '{"environment":{"ONE":{"type":"ref","source":"cmd:one"},"TWO":{"type":"ref","source":"cmd:two"},"THREE":{"type":"ref","source":"cmd:three"}}}'
c --json create --manifest bad.json >/dev/null
ok "10 of three sources the one that fails is told" grep -q 'environment: secret THREE: failed' "$tmp/err"
ok '10 a failed source has its reason' grep -q '"reason":"secret_unreadable"' "$tmp/err"
ended() { [ -s "$1" ] && ! kill -0 "$(cat "$1")" 2>/dev/null; }
ok "10 the first of the others is cancelled" ended "$tmp/one.pid"
ok "10 the second of the others is cancelled" ended "$tmp/two.pid"
ok '10 a failed source makes no layer and no sandbox' same "$(layers) $(c ls -q | wc -l)" "$before 0"
try '{"environment":{"A":{"type":"ref","source":"cmd:here"},"B":{"type":"ref","source":"cmd:there"}}}'
ok "10 sources that wait for each other are read at once" same "$(c run --manifest bad.json -- sh -c 'echo $A $B')" "here there"
try '{"entries":{"m":{"type":"mount","source":"other","read_only":true}}}'
ok 'a bind mount is in place, read-only' same "$(c run --manifest bad.json -- sh -c 'cat m/s; echo y >m/s 2>/dev/null || echo ro')" "sro"
try '{"root":"/home/user/work","entries":{"x":{"type":"file","content":"here"}}}'
ok "another root is the working directory" same "$(c run --manifest bad.json -- sh -c 'pwd; cat x; stat -c %u:%a /home/user')" "/home/user/work
here1000:755"

# ---- accounts
try '{"users":["agent"],"groups":[{"name":"devs","users":["agent","eve"]}],"run_as":"agent","entries":{"f":{"type":"file","content":"x","group":"devs","permissions":"0640"},"g":{"type":"file","content":"e","ephemeral":true}}}'
if $single; then
    c --json create --manifest bad.json >/dev/null
    ok "18 accounts need ids" grep -q '"reason":"single_id"' "$tmp/err"
else
    ok "18 accounts are real, and commands run as one" same "$(c run --manifest bad.json -- sh -c 'id -un; id -Gn; stat -c %U:%G:%a f; cat g; id -Gn eve; grep -c ^agent: /etc/passwd')" "agent
agent devs
agent:devs:640
eeve devs
1"
fi

# ---- a kill or a failure leaves nothing
if [ -n "${FAULTS:-}" ]; then
    for point in layer.build.staged layer.build.copied layer.build.filled layer.build.published manifest.build manifest.built create.applied; do
        printf '%s' "$point" >src/a
        rows=$(c ls -q | wc -l)
        CAY_FAULT="$point=kill" c run --manifest m.json -- true
        ok "a kill at $point is seen" [ $? != 0 ] || :
        c gc >/dev/null
        ok "after a kill at $point it works" same "$(c run --manifest m.json -- cat tree/a)" "$point"
        ok "after a kill at $point no sandbox is left" same "$(c ls -q | wc -l)" "$rows"
    done
    large three
    CAY_FAULT="manifest.text=kill" c create --manifest large.json
    ok 'a kill between text and note ends the create' [ $? != 0 ] || :
    id=$(c create --manifest large.json)
    ok 'a manifest after a kill is kept whole' sh -c 'test "$("$1" manifest show "$2" | wc -c)" -gt 200000' sh "$cay" "$id"
    c rm -f "$id" >/dev/null
    printf fail >src/a
    CAY_FAULT=layer.build.fails=fail c run --manifest m.json -- true
    ok "a failure removes its stage" same "$(ls -A "$CAY_HOME/layers" | grep -c stage-)" 0
fi

# 28: a host without git, which is one whose /usr/bin has none; with a keeper of its own, that sees it so.
if [ "$(id -u)" = 0 ]; then
    mkdir "$tmp/nogit" "$tmp/nogit/home" "$tmp/nogit/run"
    printf '{"entries":{"r":{"type":"git_repo","repo":"a/b","ref":"main"}}}' >"$tmp/nogit/m.json"
    cat >"$tmp/nogit/try" <<'S'
set -e
mkdir "$1/over"
mount -t tmpfs none "$1/over"
mkdir "$1/over/up" "$1/over/work"
mknod "$1/over/up/git" c 0 0
mount -t overlay overlay -o "lowerdir=/usr/bin,upperdir=$1/over/up,workdir=$1/over/work" /usr/bin
export CAY_HOME="$1/home" XDG_RUNTIME_DIR="$1/run"
"$2" --json create --manifest "$1/m.json" && echo made || :
"$2" ls -q
pid=$(pgrep -f "^[^ ]*cay-keeper $1/home ")
kill $pid
while kill -0 $pid 2>/dev/null; do sleep 0.1; done
S
    if timeout -k 1 60 unshare -m sh -c 'mount -t tmpfs none /mnt && mkdir /mnt/l /mnt/u /mnt/w /mnt/m && mount -t overlay overlay -o lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w /mnt/m' 2>/dev/null; then
        out=$(timeout -k 1 60 unshare -m sh "$tmp/nogit/try" "$tmp/nogit" "$cay" </dev/null 2>"$tmp/err")
        ok "28 no git on this host" grep -q '"reason":"git_missing_in_image"' "$tmp/err"
        ok '28 no sandbox is made without git' same "$out" ""
    else
        echo "SKIP: 28: no overlay in a namespace of mounts here"
    fi
fi

echo "$passed passed, $failed failed"
[ $failed = 0 ]
