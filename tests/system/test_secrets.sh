#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_secrets.sh BUILD: credentials that are added on the way out and are nowhere else (S-67). Run it in tests/support/netlab with
# tests/support/apiserver as its world.
set -u
build=$(realpath "$1")
[ -n "${NETLAB:-}" ] || { echo "test_secrets.sh runs inside tests/support/netlab"; exit 77; }
for tool in curl openssl; do
    command -v $tool >/dev/null || { echo "$tool is not installed: make deps"; exit 77; }
done
CAY_HOME=$(mktemp -d "${TMPDIR:-/tmp}/cay-sec.XXXXXX") CAY_LIBEXEC=$build CAY_POOL=2
export CAY_HOME CAY_LIBEXEC CAY_POOL
cay="timeout -k1 30 $build/cay"
value=sentinel-$$-VALUE-never-inside
other=sentinel-$$-OTHER-never-inside
told=$CAY_HOME.told # what we say of it, for the search
mkdir "$told"
n=0 bad=0 id= server= follower=

check() { # WHAT COMMAND…
    n=$((n + 1)) what=$1
    shift
    if "$@" >/dev/null 2>&1; then echo "ok $n - $what"; else echo "not ok $n - $what"; bad=1; fi
}
has() { case $1 in *"$2"*) return 0 ;; *) return 1 ;; esac }
hasnt() { ! has "$@"; }
keeper() { pgrep -f "cay-keeper $CAY_HOME " | head -1; }
run_dir() { tr '\0' '\n' <"/proc/$(keeper)/cmdline" | sed -n 3p; }
pid_of() { cut -d' ' -f1 "$run/$1.pid"; }
fetch() { $cay exec "$id" -- curl -sS -m 10 "$1" 2>&1 </dev/null; }
until_() { # COMMAND…
    for i in $(seq 120); do
        "$@" && return
        sleep 0.25
    done
    return 1
}
tidy() {
    for p in $server $follower; do kill "$p" 2>/dev/null; done
    [ -n "$id" ] && $cay rm -f "$id" >/dev/null 2>&1
    k=$(keeper)
    [ -n "$k" ] && kill "$k"
    for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
        [ -n "$k" ] && kill -0 "$k" 2>/dev/null || break
        sleep 0.25
    done
    rm -rf "$CAY_HOME" "$told"
}
trap tidy EXIT
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    [ -e "$NETLAB/ready" ] && break
    sleep 0.25
done
echo "roots $NETLAB/ca.pem" >"$CAY_HOME/egress.conf" # an operator may write it before anything else is there

KEY=$value
export KEY
bound="--net tls://api.test:8443 --secret KEY=env:KEY@api.test:8443/v1"
got=$($cay run $bound -- sh -c 'echo "key=$KEY"; curl -sS -m 10 https://api.test:8443/v1/run' 2>&1 </dev/null)
check "cay run: the server sees the value" grep -q "path=/v1/run auth=Bearer $value" "$NETLAB/seen"
check 'cay run: the program inside sees neither the value nor its echo' hasnt "$got" "$value"
check 'cay run: the program inside sees a placeholder' has "$got" "key=cay-secret-"
[ $bad = 0 ] || echo "$got"

got=$($cay run --net all --secret KEY=env:KEY@api.test:8443/v1 -- curl -sS -m 10 https://api.test:8443/v1/open 2>&1 </dev/null)
check 'cay run --net all: the server sees the value' grep -q "path=/v1/open auth=Bearer $value" "$NETLAB/seen"
check 'cay run --net all: the echo of the value is covered' hasnt "$got" "$value"

id=$($cay create $bound </dev/null)
got=$(fetch https://api.test:8443/v1/a)
check 'cay create: a request of a kept sandbox gets the value' grep -q "path=/v1/a auth=Bearer $value" "$NETLAB/seen"
got=$(fetch https://api.test:8443/elsewhere)
check 'a request for another path does not get the value' grep -q "path=/elsewhere auth=None" "$NETLAB/seen"
got=$(fetch https://other.test/)
check "another name is not reached" has "$got" "Could not resolve"
$cay exec "$id" -- python3 -c 'import urllib.request
urllib.request.urlopen("https://api.test:8443/v1/python").read()' </dev/null >/dev/null 2>&1
check "python trusts the sandbox's authority" grep -q "path=/v1/python auth=Bearer $value" "$NETLAB/seen"
log=$($cay net log "$id" </dev/null)
check "the record names the credential's use, and which" has "$log" "credential api.test:8443 KEY added"
ends() { $cay net log --json "$id" </dev/null | grep '"event":"end"' | grep '"name":"api.test"' | grep -c '"flow":[1-9].*"up":[1-9].*"down":[1-9].*"ms":'; }
three_ends() { [ "$(ends)" = 3 ]; }
check 'each connection with a credential has its end in the record, with bytes' until_ three_ends
got=$($cay run $bound --net away.test --net-connections 2 -- python3 -c 'import http.client, ssl
any = ssl._create_unverified_context()
def ask(port, name):
    c = http.client.HTTPSConnection(name, port, timeout=10, context=any)
    try:
        c.request("GET", "/v1/many")
        print(name, c.getresponse().read()[:3].decode())
    except OSError as e:
        print(name, "refused")
    return c
bound, plain, beyond, other = ask(8443, "api.test"), ask(443, "away.test"), ask(8443, "api.test"), ask(443, "away.test")
bound.close()
while True: # until the end is known
    c = http.client.HTTPSConnection("away.test", 443, timeout=10, context=any)
    try:
        c.request("GET", "/v1/room")
        break
    except OSError:
        pass
print("room", c.getresponse().status)' 2>&1 </dev/null)
check 'one limit of connections holds for bound and plain ones' [ "$got" = "api.test GET
away.test GET
api.test refused
away.test refused
room 200" ]
[ $bad = 0 ] || { echo "$got"; $cay net log --json "$id" </dev/null; }

# Nowhere else: inside, then in everything that we keep.
inside=$($cay exec "$id" -- sh -c "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; grep -rsl --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr sentinel-$$ /" </dev/null)
check 'no process and no file inside has the value' hasnt "$inside" "$value"
run=$(run_dir)
check 'the state directory does not have the value' sh -c "! grep -rsl 'sentinel-$$' '$CAY_HOME'"
kept=$(mktemp -d)
$cay snapshot "$id" --label searched </dev/null >/dev/null
for form in cay tar js; do $cay snapshot export searched --format $form -o "$kept/searched.$form" </dev/null >/dev/null; done
$cay state --snapshot "$id" </dev/null >"$kept/searched.state"
check 'snapshots, exports and states do not have the value' sh -c "[ -s '$kept/searched.cay' ] && [ -s '$kept/searched.state' ] && ! zstd -qdc '$kept/searched.cay' | grep -qa 'sentinel-$$' && ! grep -qa 'sentinel-$$' '$kept/searched.tar' '$kept/searched.js' '$kept/searched.state' && ! grep -rsl 'sentinel-$$' '$CAY_HOME'"
$cay snapshot rm searched </dev/null >/dev/null
rm -rf "$kept"
check 'the runtime directory does not have the value' sh -c "! grep -rsl 'sentinel-$$' '$run'"
for p in keeper egress intercept; do
    pid=$(if [ $p = keeper ]; then keeper; else pid_of $p; fi)
    check "environment and arguments of cay-$p do not have the value" sh -c "! cat /proc/$pid/environ /proc/$pid/cmdline 2>/dev/null | grep -q 'sentinel-$$'"
done
if [ "$(id -u)" = 0 ]; then
    cat >"$CAY_HOME.py" <<'P'
import re, sys
mem, want = open("/proc/%s/mem" % sys.argv[1], "rb", 0), sys.argv[2].encode()
for line in open("/proc/%s/maps" % sys.argv[1]):
    a, b = (int(x, 16) for x in line.split()[0].split("-"))
    if "r" in line.split()[1] and b - a < 1 << 30:  # not a sanitizer's shadow
        try:
            mem.seek(a)
            if want in mem.read(b - a):
                sys.exit(0)
        except (OSError, ValueError, OverflowError, MemoryError):
            pass
sys.exit(1)
P
    check 'the search of memory finds the value in the interceptor' /usr/bin/python3 "$CAY_HOME.py" "$(pid_of intercept)" "$value"
    for p in keeper egress; do
        pid=$(if [ $p = keeper ]; then keeper; else pid_of $p; fi)
        check "the memory of cay-$p does not have the value" sh -c "! /usr/bin/python3 '$CAY_HOME.py' $pid '$value'"
    done
    rm -f "$CAY_HOME.py"
fi

# Nor in what is told: events, the network's records, spans, requests to a server, and what fails.
fails() { # WORD…: of cay; what it says is kept
    $cay "$@" >>"$told/failures" 2>&1 </dev/null && echo "worked: $*" >>"$told/worked"
}
heard() { $cay exec "$id" -- true </dev/null; grep -q '"kind":"exec"' "$told/events"; }
told_of() { grep '"kind":"net"' "$told/events" | grep -q "\"name\":\"$1\""; }
env -u KEY timeout -k1 120 "$build/cay" events --json "$id" >"$told/events" 2>&1 </dev/null &
follower=$!
env -u KEY "$build/cay-server" --home "$CAY_HOME" --listen "unix:$told/sock" --trace "$told/spans" --log "$told/requests" >"$told/server" 2>&1 </dev/null &
server=$!
until_ heard
until_ grep -q "listening on unix:" "$told/server"
served="$cay --host unix:$told/sock"
CAY_API_KEY=$($cay key create --scope tenant </dev/null)
export CAY_API_KEY
$served exec "$id" -- curl -sS -m 10 https://api.test:8443/v1/served >"$told/served" 2>&1 </dev/null
check 'a request by way of the server gets the value' grep -q "path=/v1/served auth=Bearer $value" "$NETLAB/seen"
$served exec "$id" -- sh -c 'curl -sS -m 10 https://other.test/; echo "$KEY" >&2; exit 3' >"$told/served-failure" 2>&1 </dev/null
check 'events tell the request' until_ told_of api.test
check 'events tell the refusal' until_ told_of other.test
for verb in "net log" "net log --json" "net blocked" "net show --json" inspect logs ps; do
    $cay $verb "$id" >>"$told/shown" 2>&1 </dev/null
done
$cay secret ls >>"$told/shown" 2>&1 </dev/null
kill $server # spans are written when it ends, at the latest
wait $server
server=
unset CAY_API_KEY
$cay trace --list "$told/spans" >"$told/traces" 2>&1 </dev/null
for one in $($cay -q trace --list "$told/spans" </dev/null); do $cay trace "$told/spans" "$one" >>"$told/traces" 2>&1 </dev/null; done
check "the server's spans are shown, with where a command went" grep -q api.test "$told/traces"
fails run $bound -- /no/such/program
fails run $bound -- sh -c 'echo "$KEY" >&2; exit 3'
fails create --net good.test --secret KEY=env:KEY@api.test:8443
fails create --net tls://api.test:8443 --secret KEY=env:KEY@api.test:8443,header:Host
fails secret bind "$id" KEY=env:KEY@other.test
fails create --net tls://api.test:8443 --secret "KEY=file:$CAY_HOME/no-such-file@api.test:8443"
KEY="$value
X-More: y"
fails create $bound
KEY=$value$(head -c 100000 /dev/zero | tr '\0' x)
fails create $bound
KEY=$value
check 'each request that cannot work is refused' [ ! -e "$told/worked" ]
check 'refusals name the missing rule' grep -q "no rule allows" "$told/failures"
check "the search finds a planted one" sh -c "echo '$value' >'$told/planted'; grep -rsq 'sentinel-$$' '$told'; rc=\$?; rm '$told/planted'; exit \$rc"
check 'no event, record, span, log or error has the value' sh -c "! grep -rsl 'sentinel-$$' '$told' >&2"
[ $bad = 0 ] || { grep -rsl "sentinel-$$" "$told"; cat "$told/worked" "$told/server" "$told/traces" "$told/failures"; }

# Deaths, a change, the end.
$cay exec "$id" -- python3 -c 'import http.client, socket
c = http.client.HTTPSConnection("api.test", 8443)
c.request("GET", "/v1/held")
c.getresponse().read()
print("here", flush=True)
try: print("end", socket.socket(fileno=c.sock.detach()).recv(1)) # without TLS, which hides the difference
except ConnectionResetError: print("reset")' >"$told/held" 2>&1 </dev/null &
held=$!
died() { $cay net log --json "$id" </dev/null | grep '"event":"end","verdict":"cut","reason":"interceptor_died"' | grep '"flow":[1-9]' | grep '"name":"api.test"' | grep '"ms":'; }
until_ grep -q here "$told/held"
kill -9 "$(pid_of intercept)"
check 'a connection that dies with the interceptor is recorded as such' until_ died
wait $held
check 'a connection that dies with the interceptor is reset inside' grep -q '^reset$' "$told/held"
[ $bad = 0 ] || cat "$told/held"
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do # until another one is there
    got=$(fetch https://api.test:8443/v1/after-death)
    grep -q path=/v1/after-death "$NETLAB/seen" && break
    sleep 0.5
done
check 'a new interceptor uses the same authority' grep -q "path=/v1/after-death auth=Bearer $value" "$NETLAB/seen"
kill -9 "$(pid_of egress)"
got=$(fetch https://api.test:8443/v1/after-egress)
check 'a new egress sends requests with the value' grep -q "path=/v1/after-egress auth=Bearer $value" "$NETLAB/seen"
k=$(keeper)
kill -9 "$k"
got=$(fetch https://api.test:8443/v1/after-keeper)
check 'a keeper that dies loses no value' grep -q "path=/v1/after-keeper auth=Bearer $value" "$NETLAB/seen"
# One that ends while it takes over: its helpers know of nothing yet, and init, which stands still, tells nothing.
kill $follower # it would start the next one
wait $follower
follower=
still=$($cay inspect "$id" </dev/null | sed -n 's/^  "pid": \([0-9]*\),$/\1/p')
holds=$(pid_of intercept) lets=$(pid_of egress)
no_lender() { ! pgrep -f "^cay-init lender $CAY_HOME " >/dev/null; }
for sig in KILL TERM; do
    kill -STOP "$still"
    kill -9 "$(keeper)"
    until_ no_lender
    $cay ls >/dev/null 2>&1 </dev/null
    check "the next keeper takes over before SIG$sig" pgrep -f "^cay-init lender $CAY_HOME "
    kill -$sig "$(keeper)"
    check "the next keeper ends by SIG$sig" until_ no_lender
    check "interceptor and egress outlive SIG$sig" kill -0 "$holds" "$lets"
    kill -CONT "$still"
    got=$(fetch https://api.test:8443/v1/after-$sig)
    check "the keeper after SIG$sig loses no value" grep -q "path=/v1/after-$sig auth=Bearer $value" "$NETLAB/seen"
    check "the keeper after SIG$sig finds interceptor and egress at work" [ "$(pid_of intercept) $(pid_of egress)" = "$holds $lets" ]
done
KEY=$other
check 'secret renew reads the value again' $cay secret renew "$id"
got=$(fetch https://api.test:8443/v1/rotated)
check 'the next request has the renewed value' grep -q "path=/v1/rotated auth=Bearer $other" "$NETLAB/seen"
check 'the sandbox does not see the renewed value' hasnt "$got" "$other"
# Others while it runs: several fields for all names below one; what is more exact counts alone.
$cay secret bind "$id" "ONE=env:KEY@*.test:8443,header:X-One" "TWO=env:KEY@*.test:8443,header:X-Two" </dev/null
got=$(fetch https://api.test:8443/v1/several)
check 'secret bind gives a running sandbox two credentials for one request' grep -q "path=/v1/several auth=None X-One=$other X-Two=$other" "$NETLAB/seen"
check 'the sandbox does not see the values of secret bind' hasnt "$got" "$other"
$cay secret bind "$id" "ONE=env:KEY@*.test:8443,header:X-One" "TWO=env:KEY@api.test:8443/v1,header:X-Two" </dev/null
got=$(fetch https://api.test:8443/v1/exact)
check "the exact name counts before names below one" grep -q "path=/v1/exact auth=None X-Two=$other" "$NETLAB/seen"
got=$($cay secret bind "$id" "ONE=env:KEY@other.test" 2>&1 </dev/null)
check 'secret bind refuses a destination without a rule' has "$got" "no rule allows"
got=$($cay secret bind "$id" "ONE=env:NOT_SET@api.test:8443" 2>&1 </dev/null)
check 'secret bind refuses a source without a value' has "$got" NOT_SET
got=$(fetch https://api.test:8443/v1/still)
check 'a refused secret bind leaves the former bindings' grep -q "path=/v1/still auth=None X-Two=$other" "$NETLAB/seen"
$cay secret bind "$id" </dev/null
got=$($cay exec "$id" -- curl -skS -m 10 https://api.test:8443/v1/none 2>&1 </dev/null)
check 'secret bind without bindings removes them' grep -q "path=/v1/none auth=None\$" "$NETLAB/seen"
got=$($cay create --net good.test --secret KEY=env:KEY@api.test:8443 2>&1 </dev/null)
check "a binding that no rule covers is refused" has "$got" "api.test"
unset KEY
got=$($cay create $bound 2>&1 </dev/null)
check 'a binding whose source is not there is refused' has "$got" KEY
# A sandbox that died together with its keeper: what holds its values has nobody who would tell it so, and goes with the next keeper.
KEY=$value
export KEY
last=$($cay create $bound </dev/null)
$cay rm -f "$id" >/dev/null
id=$last
inside=$($cay inspect "$id" | sed -n 's/^  "pid": \([0-9]*\),$/\1/p')
helper=$(pid_of intercept)
check 'an interceptor is there to be left behind' kill -0 "$helper"
kill -9 "$(keeper)"
kill -9 "$inside"
$cay rm -f "$id" >/dev/null 2>&1
id=
k=$(keeper)
kill "$k"
for i in $(seq 40); do
    kill -0 "$k" 2>/dev/null || kill -0 "$helper" 2>/dev/null || break
    sleep 0.25
done
check "an interceptor whose keeper and sandboxes were killed does not stay" sh -c "! kill -0 $helper"
[ $bad = 0 ] || cat "$run/keeper.err"
echo "1..$n"
exit $bad
