#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test_remote.sh BUILD: the command line on a server's sandboxes. Run by `serve`, which sets CAY_URL, CAY_KEY and CAY_HOME (of the server).
set -u
build=$1
cay=$build/cay
there=$CAY_HOME
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
export CAY_HOME=$t/home CAY_LIBEXEC=$build XDG_CONFIG_HOME=$t/config HOME=$t
unset CAY_HOST CAY_API_KEY CAY_PROVIDER SANDBOX_HOST SANDBOX_PORT SANDBOX_PROVIDER
fails=0
run() { timeout -k1 60 "$cay" "$@" </dev/null; }
is() { # WHAT WANT WORD…: its output
    local what=$1 want=$2 got
    shift 2
    got=$(run "$@" 2>&1)
    if [ "$got" = "$want" ]; then echo "ok   $what"; else echo "FAIL $what: '$got' instead of '$want'"; fails=$((fails + 1)); fi
}
ok() { # WHAT COMMAND…
    local what=$1
    shift
    if "$@" >"$t/out" 2>&1; then echo "ok   $what"; else echo "FAIL $what: $(head -c 400 "$t/out")"; fails=$((fails + 1)); fi
}
says() { # WHAT TEXT WORD…: it fails, and says so
    local what=$1 text=$2 got
    shift 2
    if got=$(run "$@" 2>&1); then echo "FAIL $what: it succeeded"; fails=$((fails + 1)); return; fi
    case $got in *"$text"*) echo "ok   $what" ;; *) echo "FAIL $what: '$got'"; fails=$((fails + 1)) ;; esac
}
until_() { for _ in $(seq 200); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done; return 1; }

says 'a request without a key is refused' 'key' --host "$CAY_URL" ls
says 'a server that does not answer is named' '127.0.0.1:1' --host http://127.0.0.1:1 ls
says 'a URL of another scheme is refused' 'ftp' --host ftp://x ls
says 'provider cay without a server is refused' 'no server is named' --provider cay create
is 'a refused create leaves no record' '' ls -q

# Ids of a server that is up to something: what is no id is none, on the terminal and in JSON.
cat >"$t/liar.py" <<'END'
import http.server, json
bad = '\x1b]0;owned\x07'
one = {'id': bad, 'tenant': 'default', 'names': ['a:1'], 'base': 'image', 'layers': [], 'state': 'ready', 'template': bad, 'sandbox': bad, 'steps': 1}
class Liar(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({'items': [one]} if self.path.split('?')[0].endswith(('/templates', '/builds')) else one).encode()
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a):
        pass
s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Liar)
print(s.server_address[1], flush=True)
s.serve_forever()
END
python3 "$t/liar.py" >"$t/liar" &
liar=$!
until_ test -s "$t/liar"
for what in 'template ls' 'template ls -q' 'template ls --json' 'template inspect a:1' 'template builds' 'template builds --json'; do
    # shellcheck disable=SC2086
    CAY_API_KEY=x timeout 60 "$cay" --host "http://127.0.0.1:$(cat "$t/liar")" $what </dev/null >"$t/told" 2>&1
    echo "status $?" >>"$t/told"
    ok "$what tells no id that is none" sh -c "grep -qx 'status 0' '$t/told' && ! grep -q owned '$t/told'"
done
kill "$liar"
mkdir -p "$t/config/cay"
echo "$CAY_URL $CAY_KEY" >"$t/config/cay/hosts"
chmod 644 "$t/config/cay/hosts"
says 'a hosts file for all to read is refused' 'chmod 600' --host "$CAY_URL" ls
chmod 600 "$t/config/cay/hosts"
ok 'its key is found in the hosts file' run --host "$CAY_URL" ls
rm "$t/config/cay/hosts"
export CAY_HOST=$CAY_URL CAY_API_KEY=$CAY_KEY

id=$(run create --name web --label a=b -q)
case $id in c*) echo "ok   create gives an id" ;; *) echo "FAIL create: $id"; exit 1 ;; esac
is 'ls shows the sandbox' "$id" ls -q
is 'ls --label finds the sandbox' "$id" ls -q --label a=b
is 'ls --label leaves out a sandbox without the label' '' ls -q --label a=c
is 'nothing of it is here' '' --host '' ls -q
is 'the server has it' "$id" --host '' --home "$there" ls -q
ok 'inspect --json tells the name' sh -c "'$cay' inspect web --json </dev/null | grep -q '\"name\": *\"web\"'"
is 'exec finds the sandbox by name' 'hello' exec web -- echo hello
is 'exec finds the sandbox by the beginning of its id' 'hi' exec "${id:0:8}" -- echo hi
run exec web -- sh -c 'exit 7' >/dev/null 2>&1
[ $? = 7 ] && echo 'ok   exec ends with the exit code of its command' || { echo 'FAIL exit code'; fails=$((fails + 1)); }
got=$(printf 'some input' | timeout -k1 60 "$cay" exec -i web -- tr a-z A-Z)
[ "$got" = 'SOME INPUT' ] && echo 'ok   exec -i passes its input' || { echo "FAIL input: $got"; fails=$((fails + 1)); }
says 'a program that is not there is named' 'no-such-program' exec web -- no-such-program
is 'run prints the output of its command' 'once' run -- echo once
is 'run leaves no sandbox behind' "$id" ls -q
mkdir "$t/tree" && echo one >"$t/tree/a" && head -c 300000 /dev/urandom >"$t/tree/b"
ok 'cp copies a tree into the sandbox' run cp "$t/tree" web:/workspace/
ok 'cp copies a tree out of the sandbox' run cp web:/workspace/tree "$t/back"
ok 'a tree copied in and out is the same' diff -r "$t/tree" "$t/back"
is 'files cat prints a file' 'one' files cat web tree/a
ok 'files ls lists a directory' sh -c "'$cay' files ls web tree </dev/null | grep -q b"
is 'files grep finds a line' 'a:1:one' files grep web tree one
ok 'start one in the background' run exec -d --tag job web -- sh -c 'echo begun; exec sleep 600'
ok 'ps shows a process by its tag' sh -c "'$cay' ps web </dev/null | grep -q job"
ok 'logs shows the output of a process' until_ sh -c "'$cay' logs web job </dev/null | grep -q begun"
ok 'signal reaches a process' run signal -s KILL web job
ok 'pause pauses the sandbox' run pause web
ok 'ls shows the sandbox as paused' sh -c "'$cay' ls </dev/null | grep -q paused"
ok 'resume resumes the sandbox' run resume web
ok 'extend sets another lifetime' run extend web --ttl 1h
snap=$(run snapshot web --label before -q)
ok 'snapshot gives an id' test -n "$snap"
ok 'snapshots shows the label' sh -c "'$cay' snapshots </dev/null | grep -q before"
ok 'a file is removed after the snapshot' run exec web -- rm tree/a
ok 'undo goes back to a label' run undo web --to before
is 'undo brings the removed file back' 'one' files cat web tree/a
fork=$(run fork web -q)
ok 'fork gives an id' test -n "$fork"
is 'a fork has the files of its sandbox' 'one' files cat "$fork" tree/a
forever=$(run fork web -q --ttl unlimited)
ok 'a fork may be asked to have no deadline' test -n "$forever"
ok 'such a fork is removed' run rm -f "$forever"
ok 'net allow adds a rule' run net allow web example.org
ok 'net show shows the rule' sh -c "'$cay' net show web </dev/null | grep -q example.org"
ok 'port expose exposes a port' run port expose web 8000
ok 'port exposed lists the port' sh -c "'$cay' port exposed web </dev/null | grep -q 8000"
ok 'a web server is started inside' run exec -d web -- python3 -m http.server 8000
ok 'port ls shows the listening port' until_ sh -c "'$cay' port ls web </dev/null | grep -q 8000"
ok 'port connect reaches the web server' sh -c "printf 'GET /tree/a HTTP/1.0\r\n\r\n' | timeout 20 '$cay' port connect web 8000 | grep -q '^one'"
timeout 60 "$cay" events --json </dev/null >"$t/events" 2>/dev/null &
ear=$!
until_ sh -c "'$cay' exec web -- true </dev/null && grep -q '\"exit\"' '$t/events'" && echo 'ok   events shows the end of a command' || { echo 'FAIL events'; fails=$((fails + 1)); }
kill $ear 2>/dev/null
wait $ear 2>/dev/null
says 'a directory of this machine is refused as a mount' 'mount' run --mount "$t" -- true
ok 'files are changed and made after the snapshot' run exec web -- sh -c 'echo two >>tree/a; printf "\377\n" >tree/raw'
is 'diff with a snapshot' "$(printf 'M tree/a\nA tree/raw')" diff before web
ok 'diff --patch prints lines as git does' sh -c "'$cay' diff --patch before web </dev/null | grep -qx '+two'"
ok 'export of a snapshot' run snapshot export before -o "$t/before.cay"
ok 'snapshot export takes a sandbox as a tar file' run snapshot export web --format tar -o "$t/web.tar"
ok 'an exported sandbox has its files' sh -c "tar tf '$t/web.tar' | grep -q tree/raw"
ok 'snapshot import reads a file' run snapshot import --label again "$t/before.cay"
ok 'snapshot import reads a pipe' sh -c "cat '$t/web.tar' | timeout 60 '$cay' snapshot import --label piped -"
ok 'snapshots lists both imports' sh -c "'$cay' snapshots </dev/null | grep -c 'again\|piped' | grep -qx 2"
ok 'volume create makes a volume of a size' run volume create data --size 10M
ok 'volume ls lists the volume' sh -c "'$cay' volume ls </dev/null | grep -q data"
ok 'volume inspect tells the size' sh -c "'$cay' volume inspect data --json </dev/null | grep -q 10485760"
ok 'a sandbox writes into the volume' run run --volume data:/data:rw -- sh -c 'echo kept >/data/f'
ok 'volume rm removes the volume' run volume rm data
is 'volume ls is empty after volume rm' '' volume ls -q
ok 'secret set stores a secret' sh -c "printf 'sesame' | timeout 60 '$cay' secret set door"
is 'secret ls lists the secret' 'door' secret ls -q
[ "$(run --host '' --home "$there" secret ls -q)" = door ] && echo 'ok   the secret is stored on the server' || { echo 'FAIL the secret is not there'; fails=$((fails + 1)); }
ok 'secret rm removes the secret' run secret rm door
ok 'net log answers' run net log web
key=$(run key create --scope tenant --name other 2>/dev/null)
ok 'a key that was made so opens the server' env CAY_API_KEY="$key" "$cay" ls
ok 'key revoke revokes a key' run key revoke "${key:4:8}"
ok 'a revoked key opens nothing' sh -c "! CAY_API_KEY='$key' '$cay' ls </dev/null"
ok 'tenant create makes a tenant' run tenant create acme --sandboxes 3
ok 'tenant ls lists the tenant' sh -c "'$cay' tenant ls </dev/null | grep -q acme"
ok 'tenant set changes a quota' run tenant set acme --sandboxes 4
ok 'tenant rm removes the tenant' run tenant rm acme
ok 'jobs ls answers' run jobs ls
ok 'audit ls shows requests about tenants' sh -c "'$cay' audit ls </dev/null | grep -q tenants"
ok 'audit verify finds the audit trail sound' run audit verify
ok 'doctor --server says that keys are on' sh -c "'$cay' doctor --server --json </dev/null | grep -A3 '\"keys\"' | grep -q '\"on\"'"
ok 'gc answers' run gc
got=$(run e2b env 2>/dev/null | grep E2B_API_URL)
[ "$got" = "export E2B_API_URL=$CAY_URL" ] && echo 'ok   e2b env names that server' || { echo "FAIL e2b env: $got"; fails=$((fails + 1)); }
ok 'doctor names that server' sh -c "'$cay' doctor </dev/null | grep -q '$CAY_URL'"
says 'open says where to go' "$CAY_URL" open --print
says 'a session state is refused by name' 'session state' state web
ok 'a secret is stored for a binding' sh -c "printf sesame | timeout 60 '$cay' secret set BOUND"
says 'secret bind refuses a destination without a rule' 'BOUND' secret bind web BOUND=store:BOUND@api.example.net
ok 'secret bind binds a secret to a rule' run secret bind web BOUND=store:BOUND@example.org,header:X-Key
ok 'net show of the server shows the binding' sh -c "'$cay' net show web --json </dev/null | grep -A3 BOUND | grep -q example.org"
tenants=$(run key create --scope tenant)
CAY_API_KEY=$tenants says 'a file of the server is not for a key of a tenant' 'scope admin' secret bind web BOUND=file:/etc/shadow@example.org
ok 'secret bind without bindings removes them' run secret bind web
ok 'net show shows no binding after that' sh -c "! '$cay' net show web --json </dev/null | grep -q BOUND"
ok 'the rules outlive their bindings' sh -c "'$cay' net show web --json </dev/null | grep -q example.org"
ok 'secret rm removes a secret that was bound' run secret rm BOUND
printf '{"entries":{"m.txt":{"type":"file","content":"one"}}}' >"$t/m.json"
ok 'manifest apply applies a manifest' run manifest apply web "$t/m.json"
is 'a file of the manifest is there' 'one' files cat web m.txt
ok 'manifest show names the file' sh -c "'$cay' manifest show web </dev/null | grep -q m.txt"
printf '{"entries":{"m.txt":{"type":"file","content":"one"},"p":{"type":"local_file","src":"m.json"}}}' >"$t/l.json"
says 'a local source of a manifest is refused' 'p' manifest apply web "$t/l.json"
says 'apply without --to is refused' '--to' apply web --yes
mkdir "$t/mine" && run cp web:/workspace/tree "$t/mine/tree" && echo mine >"$t/mine/own"
ok 'a snapshot of both sides' run snapshot web --label both
ok 'changes of every kind' run exec web -- sh -c 'cd tree; echo three >>a; rm b; mkdir -p new/deep; echo x >new/deep/f; chmod +x new/deep/f; ln -s a inner; ln -s /etc/passwd outer; mkdir .git; echo evil >.git/config; echo theirs >../own'
echo changed >>"$t/mine/own"
ok 'apply --dry-run writes nothing' sh -c "'$cay' apply --since both --to '$t/mine' --dry-run web </dev/null; test -e '$t/mine/tree/b' && test ! -e '$t/mine/tree/new'"
ok 'apply takes over what is not in the way' sh -c "! '$cay' apply --since both --to '$t/mine' --yes web </dev/null 2>'$t/said'"
ok 'apply writes files, modes and links that changed' sh -c "tail -1 '$t/mine/tree/a' | grep -qx three && test -x '$t/mine/tree/new/deep/f' && test \"\$(readlink '$t/mine/tree/inner')\" = a"
ok 'apply removes a file that was removed' test ! -e "$t/mine/tree/b"
ok 'apply leaves a file that changed here, as a conflict' sh -c "grep -qx changed '$t/mine/own' && grep -q 'own.*(conflict)' '$t/said'"
ok 'apply refuses a link that leaves the directory' sh -c "test ! -L '$t/mine/tree/outer' && grep -q 'outer.*(refused)' '$t/said'"
ok 'apply guards files that tools obey' sh -c "test ! -e '$t/mine/tree/.git' && grep -q 'config.*(guarded)' '$t/said'"
ok 'apply --force overwrites a conflict' sh -c "'$cay' apply --since both --to '$t/mine' --yes --force web own </dev/null && grep -qx theirs '$t/mine/own'"
ok 'a second apply leaves no temporary file' sh -c "'$cay' apply --since both --to '$t/mine' --yes web tree/a </dev/null | grep -q . ; ! ls -A '$t/mine/tree' | grep -q apply-tmp"
mkdir "$t/else" && rm -rf "$t/mine/tree/new" && ln -s "$t/else" "$t/mine/tree/new"
ok 'a link on the way is not followed' sh -c "! '$cay' apply --since both --to '$t/mine' --yes --force web tree/new/deep </dev/null; test ! -e '$t/else/deep'"
mkdir -p "$t/ctx/in"
printf 'FROM host\nARG WHO\nCOPY in /in/\nRUN echo "$WHO $(cat /in/a)" | tee /said; test ! -e /in/b.o\n' >"$t/ctx/Dockerfile"
printf '**/*.o\nDockerfile\n' >"$t/ctx/.dockerignore"
echo text >"$t/ctx/in/a" && echo x >"$t/ctx/in/b.o" && ln -s a "$t/ctx/in/link"
made=$(run template build -t reg.example/team/made:1 --build-arg WHO=me "$t/ctx" 2>"$t/log")
case $made in t*) echo 'ok   template build gives an id' ;; *) echo "FAIL template build: $made $(cat "$t/log")"; fails=$((fails + 1)) ;; esac
ok 'template build prints the log of its steps' grep -qx 'me text' "$t/log"
is 'a sandbox of the built template has its files' 'me text' run --template reg.example/team/made:1 -- cat /said
is 'template build copies links as links' 'a' run --template "$made" -- readlink /in/link
is 'template ls lists the built template' "$made" template ls -q
ok 'template inspect finds a name with slashes' sh -c "'$cay' template inspect reg.example/team/made:1 </dev/null | grep -q '\"$made\"'"
ok 'template log prints the log of the build' sh -c "'$cay' template log reg.example/team/made:1 </dev/null | grep -qx 'me text'"
ok 'template builds lists the build as ready' sh -c "'$cay' template builds --json </dev/null | grep -q '\"ready\"'"
ok 'a second template build comes from the cache' sh -c "'$cay' template build --build-arg WHO=me -t reg.example/team/made:1 '$t/ctx' </dev/null 2>&1 | grep -q cached"
ok 'template tag gives a second name' run template tag reg.example/team/made:1 other:1
ok 'run finds the template by its second name' run run --template other:1 -- true
ok 'template rm removes a second name alone' run template rm other:1
printf 'FROM host\nRUN echo no >&2; exit 3\n' >"$t/ctx/bad"
says 'template build names the step that fails' 'exit code 3: no' template build -f bad "$t/ctx"
saved=$(run template save web saved:1)
is 'template ls finds the saved template by name' "$saved" template ls -q saved
ok 'a saved template tells its sandbox' sh -c "'$cay' template inspect saved:1 </dev/null | grep -q '\"sandbox:$(run inspect --json web | grep -o 'c[a-z2-7]\{19\}' | head -n 1)\"'"
is 'a sandbox of a saved template has the files' 'one' run --template saved:1 -- head -1 /workspace/tree/a
says 'a template on host is not exported as an image' 'programs of this machine' template export saved:1 "$t/saved.tar"
ok 'a refused export leaves no half file' test ! -e "$t/saved.tar"
if [ -x /bin/busybox ]; then
    mkdir -p "$t/rootfs/bin" && cp /bin/busybox "$t/rootfs/bin/" && ln -s busybox "$t/rootfs/bin/cat" && echo mine >"$t/rootfs/mark"
    ok 'template import of a directory' run template import --config '{"env":{"A":"b"},"cmd":["/bin/cat","/mark"]}' "$t/rootfs" mine:1
    is 'an imported template runs its own command' 'mine' run --template mine:1
    ok 'template export writes an image' run template export mine:1 "$t/mine.tar"
    ok 'template import reads the exported image' run template import "$t/mine.tar" again:1
    is 'an image exported and imported is the same' 'mine' run --template again:1 -- /bin/cat /mark
    ok 'template export writes to a pipe' sh -c "'$cay' template export mine:1 - </dev/null | tar t | grep -q oci-layout"
    ok 'template rm removes several templates' run template rm mine:1 again:1
fi
says 'a pull from a private address is refused' 'private address' template pull 127.0.0.1:1/none:1
ok 'a password for a pull that fails' sh -c "! printf sesame | timeout 60 '$cay' template pull --login me 127.0.0.1:1/none:1"
ok 'the password of a failed pull is not kept' sh -c "! '$cay' template logins </dev/null | grep -q 127.0.0.1"
ok 'template login stores a password' sh -c "printf sesame | timeout 60 '$cay' template login -u me registry.example:5000"
ok 'template logins lists the registry' sh -c "'$cay' template logins </dev/null | grep -q registry.example:5000"
ok 'template logout forgets the registry' run template logout registry.example:5000
ok 'template rm of what is left' run template rm reg.example/team/made:1 saved:1
is 'template ls is empty after template rm' '' template ls -q
ok 'template prune answers' run template prune
ok 'kill ends a sandbox' run kill "$fork"
ok 'rm -f removes several sandboxes' run rm -f web "$fork"
is 'ls is empty after rm' '' ls -q

ok 'a sandbox, a snapshot, a template and a volume are made' sh -c "'$cay' create --name all -q && '$cay' snapshot all && '$cay' template save --hidden all kept:1 && '$cay' volume create heap" </dev/null
theirs=$(run key create --scope tenant --tenant default)
run tenant create guests >/dev/null
guest=$(run key create --tenant guests)
guests=$(CAY_API_KEY=$guest run create -q)
ok 'purge --dry-run counts what it would remove' sh -c "'$cay' purge --dry-run </dev/null | grep -q '2 sandboxes, .* 1 template, 1 volume; 2 of'"
ok 'purge --dry-run names the tenant of a sandbox' sh -c "'$cay' purge --dry-run </dev/null | grep -q '$guests .*of tenant guests'"
ok "purge with a tenant's key removes only the tenant's sandboxes" sh -c "CAY_API_KEY='$guest' '$cay' purge --yes </dev/null | grep -qx '1 sandbox, 0 snapshots, 0 templates and 0 volumes removed'"
ok 'the sandboxes of other tenants are still there' sh -c "'$cay' ls </dev/null | grep -q all"
ok 'purge removes everything of its tenant' env CAY_API_KEY="$theirs" "$cay" purge --yes
is 'purge leaves no sandbox' '' ls -q
is 'purge leaves no snapshot' '' snapshots -q
is 'purge leaves no template' '' template ls -q
is 'purge leaves no volume' '' volume ls -q
ok 'the server answers after a purge' run audit verify
ok 'tenant rm removes a tenant after a purge' run tenant rm guests

unset CAY_HOST
export SANDBOX_HOST=127.0.0.1 SANDBOX_PORT=${CAY_URL##*:}
ok 'SANDBOX_HOST and SANDBOX_PORT are read' run ls
unset SANDBOX_HOST SANDBOX_PORT
export CAY_HOST=$CAY_URL SANDBOX_PROVIDER=cay
id=$(run create --name mine -q)
is 'provider cay records the sandbox here' "$id" ls -q
is 'provider cay runs commands on the server' 'far' exec mine -- echo far
[ "$(run --host '' --home "$there" --provider native ls -q | wc -l)" = 1 ] && echo 'ok   the sandbox of provider cay is on the server' || { echo 'FAIL it is not on the server'; fails=$((fails + 1)); }
ok 'rm ends it there' run rm -f mine
[ -z "$(run --host '' --home "$there" --provider native ls -q)" ] && echo 'ok   provider cay leaves nothing on the server' || { echo 'FAIL something is left'; fails=$((fails + 1)); }
export SANDBOX_PROVIDER=e2b
says 'a provider that is not there is named with those that are' 'native' create
exit $((fails > 0))
