#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_net.sh BUILD [CASE…]: what a sandbox may reach, by keeper and cay-egress together. Run it in tests/support/netlab.
set -u
build=$(realpath "$1")
shift
[ -n "${NETLAB:-}" ] || { echo "test_net.sh runs inside tests/support/netlab"; exit 77; }
CAY_HOME=$(mktemp -d "${TMPDIR:-/tmp}/cay-net.XXXXXX") CAY_LIBEXEC=$build CAY_POOL=2
export CAY_HOME CAY_LIBEXEC CAY_POOL
cay=$build/cay drive=$build/tests/support/netdrive
bad=0 made=
dir=$CAY_HOME.d
mkdir -p "$dir"

keeper() { pgrep -f "cay-keeper $CAY_HOME " | head -1; }
run_dir() { tr '\0' '\n' <"/proc/$(keeper)/cmdline" | sed -n 3p; }
egress() { cut -d' ' -f1 "$(run_dir)/egress.pid" 2>/dev/null; }
tidy() {
    for id in $made; do timeout 20 "$cay" rm -f "$id" >/dev/null 2>&1; done
    run=$(run_dir) k=$(keeper)
    [ -n "$k" ] && kill "$k"
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        [ -n "$k" ] && kill -0 "$k" 2>/dev/null || break
        sleep 0.25
    done
    rm -rf "$CAY_HOME" "$dir"
}
trap tidy EXIT
ends() { # PID: a process that was killed is gone
    for _ in $(seq 100); do kill -0 "$1" 2>/dev/null || return 0; sleep 0.05; done
    fail "process $1 does not end"
}
fail() { echo "  $*"; bad=1; now=1; }
policy() { # WORDS…: a file of it
    mode=rules
    [ "$1" = all ] || [ "$1" = off ] && { mode=$1; shift; }
    { printf 'cay-net 1\nmode %s\n' "$mode"; for r; do echo "rule $r"; done; } >"$dir/policy"
    echo "$dir/policy"
}
create() { # [RULE…] → $id
    if [ $# -gt 0 ]; then id=$(timeout 20 "$drive" create "$(policy "$@")"); else id=$(timeout 20 "$drive" create); fi
    [ -n "$id" ] || fail "create failed"
    made="$made $id"
}
inside() { timeout -k1 30 "$cay" exec "$id" -- "$@" </dev/null 2>&1; }
get() { inside curl -sS -m "${2:-6}" "$1"; }
reaches() { get "$1" | grep -q "^hello from" || fail "$1 was not reached: $(get "$1")"; }
comes_back() { # URL: once who died has been started again
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        get "$1" | grep -q "^hello from" && return
        sleep 0.5
    done
    fail "$1 was not reached again: $(get "$1")"
}
refused() { get "$1" | grep -q "^hello from" && fail "$1 was reached"; }
quick() { # COMMAND…: fails, and within a second; what waits does so each time, who is only busy does not
    for _ in 1 2 3; do
        t=$(date +%s%N)
        "$@" >/dev/null 2>&1 && fail "worked: $*"
        t=$((($(date +%s%N) - t) / 1000000))
        [ "$t" -ge 1500 ] || return 0
    done
    fail "$t ms until refused: $*"
}

case_off_lets_no_packet_out() {
    create
    : >"$NETLAB/queries"
    : >"$NETLAB/flows"
    for to in http://93.184.216.34/ http://10.0.0.5/ 'http://[2606:2800::1]/' http://203.0.113.2:8080/ http://good.test/ http://169.254.169.254/; do
        quick inside curl -sS -m 10 "$to"
    done
    quick inside python3 -c 'import socket; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.sendto(b"x",("1.1.1.1",443))'
    [ ! -s "$NETLAB/queries" ] && [ ! -s "$NETLAB/flows" ] || fail "packets under off: $(cat "$NETLAB/queries" "$NETLAB/flows")"
    [ "$("$drive" get "$id" | head -1)" = 0 ] || fail "a revision without a policy"
}

case_only_names_with_a_rule_are_reached() {
    create good.test '**.wild.test:8080'
    : >"$NETLAB/queries"
    reaches http://good.test/
    reaches http://a.wild.test:8080/
    refused http://a.wild.test/
    refused http://other.test/
    refused http://93.184.216.34/
    refused http://sub.good.test/
    grep -vE ' (good|a\.wild)\.test$' "$NETLAB/queries" && fail "queries for names that are not allowed"
    [ "$("$drive" get "$id" | sed -n 4p)" = "rule good.test" ] || fail "another policy comes back"
}

case_a_new_policy_holds_at_once() {
    create good.test
    reaches http://good.test/
    r=$("$drive" policy "$id" "$(policy other.test)")
    [ "$r" = 2 ] || fail "revision $r"
    reaches http://other.test/
    refused http://good.test/
    echo nonsense | "$drive" policy "$id" - 2>"$dir/err" && fail "nonsense was accepted"
    grep -q policy_invalid "$dir/err" || fail "$(cat "$dir/err")"
    "$drive" policy "$id" "$(policy 'a..b')" 2>/dev/null && fail "a broken rule was accepted"
    [ "$("$drive" get "$id" | head -1)" = 2 ] || fail "a refused policy changed the revision"
    reaches http://other.test/
    "$drive" policy "$id" "$(policy off)" >/dev/null || fail "off was refused"
    refused http://other.test/
    "$drive" create "$dir/err" >/dev/null 2>&1 && fail "a sandbox with a broken policy was made"
}

case_a_policy_opens_a_closed_sandbox() { # off first, then a way out
    create
    quick inside curl -sS -m 10 http://good.test/
    "$drive" policy "$id" "$(policy good.test)" >/dev/null || fail "policy"
    reaches http://good.test/
}

case_snapshots_undo_and_forks_keep_the_policy() { # the way out is as it was: after snapshots, after the way back, and in a fork
    id=$(timeout 20 "$cay" create --net good.test </dev/null)
    made="$made $id"
    reaches http://good.test/
    for i in 1 2 3; do
        timeout 20 "$cay" snapshot --quiet "$id" </dev/null >/dev/null 2>"$dir/err" || fail "snapshot $i: $(cat "$dir/err")"
        reaches http://good.test/
        refused http://other.test/
    done
    timeout 20 "$cay" undo "$id" </dev/null >/dev/null 2>"$dir/err" || fail "undo: $(cat "$dir/err")"
    reaches http://good.test/
    refused http://other.test/
    id=$(timeout 20 "$cay" fork "$id" </dev/null)
    made="$made $id"
    reaches http://good.test/
    refused http://other.test/
}

case_a_policy_is_refused_while_port_53_is_taken() {
    create
    timeout 20 "$cay" exec "$id" -- sh -c 'python3 -c "
import socket,time
s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.bind((\"0.0.0.0\",53)); open(\"/tmp/bound\", \"w\"); time.sleep(60)" >/dev/null 2>&1 & until [ -e /tmp/bound ]; do sleep 0.05; done' </dev/null
    "$drive" policy "$id" "$(policy good.test)" 2>"$dir/err" && fail "set although port 53 is taken"
    grep -q port_53_taken "$dir/err" || fail "$(cat "$dir/err")"
    inside pkill -9 python3
    for i in 1 2 3 4 5 6 7 8 9 10; do # until it is gone
        inside pgrep python3 >/dev/null || break
        sleep 0.1
    done
    "$drive" policy "$id" "$(policy good.test)" >/dev/null || fail "still refused"
    reaches http://good.test/
}

case_an_egress_that_dies_is_replaced() {
    create good.test
    reaches http://good.test/
    for i in 1 2 3 4 5; do
        e=$(egress)
        kill -9 "$e" || fail "no egress"
        reaches http://good.test/
        [ "$(egress)" != "$e" ] || fail "the same process"
        refused http://other.test/
    done
    [ "$("$drive" get "$id" | head -1)" = 1 ] || fail "the revision changed"
}

case_an_egress_that_hangs_is_replaced() {
    create good.test
    reaches http://good.test/
    e=$(egress)
    kill -STOP "$e"
    "$drive" policy "$id" "$(policy other.test)" >/dev/null || fail "no policy after a wedge"
    kill -0 "$e" 2>/dev/null && [ "$(egress)" = "$e" ] && fail "the wedged one is kept"
    reaches http://other.test/
    refused http://good.test/
}

case_a_policy_outlives_the_keeper() {
    create good.test
    reaches http://good.test/
    for i in 1 2 3; do
        k=$(keeper) e=$(egress)
        kill -9 "$k"
        ends "$k"
        reaches http://good.test/ # the next keeper, the same egress
        [ "$(keeper)" != "$k" ] || fail "the same keeper"
        [ "$(egress)" = "$e" ] || fail "another egress"
        [ "$("$drive" get "$id" | head -1)" = $i ] || fail "revision $("$drive" get "$id" | head -1), not $i"
        r=$("$drive" policy "$id" "$(policy good.test)")
        [ "$r" = $((i + 1)) ] || fail "revision $r after an adoption"
        refused http://other.test/
    done
}

case_a_policy_that_nobody_acknowledged_goes() { # egress took a policy whose keeper died before anybody was told: it goes, also when the next one fails
    for how in refused unkept; do
        create good.test
        reaches http://good.test/
        e=$(egress)
        kill -STOP "$e"
        "$drive" policy "$id" "$(policy good.test other.test)" >/dev/null 2>&1 &
        setter=$!
        for i in $(seq 40); do [ -s "$CAY_HOME/sandboxes/$id/policy.new" ] && break; sleep 0.05; done
        sleep 0.1
        kill -9 "$setter" "$(keeper)"
        wait "$setter" 2>/dev/null
        next=$(policy good.test)
        if [ $how = refused ]; then
            echo nonsense >"$next"
        else # as on a disk that is full
            rm -f "$CAY_HOME/sandboxes/$id/policy.new"
            mkdir "$CAY_HOME/sandboxes/$id/policy.new" || fail "mkdir"
        fi
        "$drive" get "$id" >"$dir/held" || fail "get"
        grep -q other.test "$dir/held" && fail "it holds already"
        "$drive" policy "$id" "$next" >/dev/null 2>"$dir/err" &
        setter=$!
        sleep 0.3 # what was acknowledged is on its way to egress, and this one waits behind it
        kill -CONT "$e"
        wait "$setter" && fail "$how: accepted"
        grep -q 'policy_not_kept\|policy_invalid' "$dir/err" || fail "$(cat "$dir/err")"
        for i in $(seq 20); do get http://other.test/ | grep -q "^hello from" || break; sleep 0.25; done
        refused http://other.test/
        reaches http://good.test/
    done
}

case_a_policy_outlives_keeper_and_egress() {
    create good.test
    reaches http://good.test/
    before=$(inside getent ahostsv4 good.test | head -1 | cut -d' ' -f1)
    e=$(egress) k=$(keeper)
    kill -9 "$e" "$k"
    ends "$e" && ends "$k"
    reaches http://good.test/
    refused http://other.test/
    after=$(inside getent ahostsv4 good.test | head -1 | cut -d' ' -f1)
    [ "$before" = "$after" ] || fail "the name had $before, now $after"
}

case_a_removed_sandbox_leaves_egress_no_descriptor() { # nothing of a removed sandbox stays with egress
    create good.test
    reaches http://good.test/
    n=$(ls "/proc/$(egress)/fd" | wc -l)
    for i in 1 2 3; do
        keep=$id
        create other.test
        reaches http://other.test/
        timeout 20 "$cay" rm -f "$id" >/dev/null || fail "rm"
        id=$keep
    done
    for i in $(seq 100); do
        m=$(ls "/proc/$(egress)/fd" | wc -l)
        [ "$m" -gt $((n + 2)) ] || break
        sleep 0.1
    done
    [ "$m" -le $((n + 2)) ] || fail "egress holds $m descriptors, before $n"
    reaches http://good.test/
}

case_dial_follows_the_policy() {
    create good.test
    printf 'GET / HTTP/1.0\r\n\r\n' | "$drive" dial "$id" good.test 80 | grep -q "hello from" || fail "dial good.test"
    "$drive" dial "$id" other.test 80 </dev/null 2>"$dir/err" && fail "dialled other.test"
    printf 'GET / HTTP/1.0\r\n\r\n' | "$drive" dial "$id" other.test 80 implicit | grep -q "hello from" || fail "implicit"
    "$drive" dial "$id" inside.test 80 implicit </dev/null 2>"$dir/err" && fail "dialled a private address"
    create
    printf 'GET / HTTP/1.0\r\n\r\n' | "$drive" dial "$id" other.test 80 implicit | grep -q "hello from" || fail "implicit under off"
    refused http://other.test/
}

case_rules_of_the_operator_hold_for_all() {
    create all
    reaches http://other.test/
    refused http://inside.test/
    printf 'cay-net 1\nmode all\nrule !other.test\nlift 10.0.0.0/24\n' >"$CAY_HOME/egress.new"
    mv "$CAY_HOME/egress.new" "$CAY_HOME/egress.conf"
    comes_back http://inside.test/ # once the file is read
    refused http://other.test/
    reaches http://inside.test/
    "$cay" net why "$id" inside.test:80 2>"$dir/err" >/dev/null || true
    [ ! -s "$dir/err" ] || fail "a sound file is complained of: $(cat "$dir/err")"
    echo nonsense >>"$CAY_HOME/egress.conf" # changes nothing, and says so
    for verb in "net why $id other.test:80" "net show $id" doctor; do
        "$cay" $verb >/dev/null 2>"$dir/err" || true
        grep -q 'egress.conf: line 5' "$dir/err" || fail "cay $verb does not tell of the bad line: $(cat "$dir/err")"
    done
    refused http://other.test/
    sed -i '$d' "$CAY_HOME/egress.conf"
    kill -9 "$(egress)"
    comes_back http://inside.test/ # by the next one
    refused http://other.test/
    rm "$CAY_HOME/egress.conf"
    comes_back http://other.test/
}

case_a_service_of_the_host_needs_operator_and_rule() { # of the host, under a name that its operator gives; cay makes the sandboxes
    python3 -c 'import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200), self.end_headers(), self.wfile.write(b"hello from the host\n")
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H)
print(s.server_address[1], flush=True)
s.serve_forever()' >"$dir/port" 2>/dev/null &
    served=$!
    for i in $(seq 100); do [ -s "$dir/port" ] && break; sleep 0.1; done
    id=$(timeout 20 "$cay" create --net db.host:8000 </dev/null)
    made="$made $id"
    refused http://db.host:8000/ # a rule of the sandbox's own does not make one
    refused "http://127.0.0.1:$(cat "$dir/port")/"
    printf 'cay-net 1\nmode all\nservice db.host:8000 127.0.0.1:%s\n' "$(cat "$dir/port")" >"$CAY_HOME/egress.new"
    mv "$CAY_HOME/egress.new" "$CAY_HOME/egress.conf"
    comes_back http://db.host:8000/
    timeout 20 "$cay" net log "$id" </dev/null | grep -q 'allow connect db.host:8000 at 127.0.0.1' || fail "no record of it: $(timeout 20 "$cay" net log "$id" </dev/null)"
    refused "http://127.0.0.1:$(cat "$dir/port")/"
    refused 'http://[2606:2800::1]/'
    timeout 20 "$cay" net log "$id" </dev/null | grep -q 'deny  connect \[2606:2800::1\]:80 default_deny' || fail "no record of it: $(timeout 20 "$cay" net log "$id" </dev/null)"
    with=$id
    id=$(timeout 20 "$cay" create --net good.test </dev/null)
    made="$made $id"
    refused http://db.host:8000/ # nobody's who does not name it
    id=$with
    rm "$CAY_HOME/egress.conf"
    for i in $(seq 40); do
        get http://db.host:8000/ | grep -q "^hello from" || break
        sleep 0.25
    done
    refused http://db.host:8000/
    kill $served
    wait $served 2>/dev/null
}

case_only_the_server_sees_a_bound_value() { # a value that the server sees and the sandbox does not
    [ -x "$build/cay-intercept" ] || { echo "  skipped: cay-intercept is not built"; return; }
    create good.test
    printf 'cay-net 1\nmode rules\nrule good.test\nrule other.test\nbind KEY http://good.test\n' >"$dir/bound"
    "$drive" bind "$id" "$dir/bound" KEY=sesame-8842 >"$dir/trust" || fail "bind"
    grep -q ca.pem "$dir/trust" || fail "nothing to trust: $(cat "$dir/trust")"
    "$drive" policy "$id" "$dir/bound" >/dev/null || fail "policy"
    : >"$NETLAB/heads"
    reaches http://good.test/
    reaches http://other.test/
    [ "$(grep -c 'sesame-8842' "$NETLAB/heads")" = 1 ] || fail "the server saw: $(cat "$NETLAB/heads")"
    inside sh -c 'env; cat /proc/*/environ /proc/*/cmdline' | grep -q sesame && fail "the value is inside"
    grep -rq sesame-8842 "$CAY_HOME" && fail "the value is on the disk"
    kill -9 "$(cut -d' ' -f1 "$(run_dir)/intercept.pid")"
    : >"$NETLAB/heads"
    comes_back http://good.test/
    grep -q sesame-8842 "$NETLAB/heads" || fail "not after the interceptor's death"
    kill -9 "$(egress)"
    : >"$NETLAB/heads"
    comes_back http://good.test/
    grep -q sesame-8842 "$NETLAB/heads" || fail "not after egress' death"
    k=$(keeper)
    kill -9 "$k"
    ends "$k"
    "$drive" get "$id" >/dev/null
    : >"$NETLAB/heads"
    reaches http://good.test/
    grep -q sesame-8842 "$NETLAB/heads" || fail "not after the keeper's death"
    "$drive" bind "$id" "$dir/bound" KEY=other-value >/dev/null || fail "rotation"
    reaches http://good.test/
    grep -q other-value "$NETLAB/heads" || fail "the new value is not used"
    "$drive" bind "$id" "$dir/bound" NOKEY=x 2>"$dir/err" && fail "a binding without its value was accepted"
    grep -q secret_unknown "$dir/err" || fail "$(cat "$dir/err")"
}

case_decisions_are_events() { # decisions are events, too, from the first one of this state directory on
    create http://good.test
    timeout -k1 60 "$cay" events --json "$id" >"$dir/events" 2>&1 </dev/null &
    follower=$!
    for i in $(seq 60); do # until it listens: each command is an event
        inside true
        grep -q '"kind":"exec"' "$dir/events" && break
        sleep 0.25
    done
    timeout -k1 20 "$cay" inspect "$id" </dev/null | grep -q '"net": {"mode":"rules"' || fail "inspect does not tell the policy"
    reaches http://good.test/
    refused http://other.test/
    for i in $(seq 60); do
        grep -q '"reason":"deny".*"name":"other.test"' "$dir/events" && grep -q '"reason":"allow".*"name":"good.test"' "$dir/events" && break
        sleep 0.25
    done
    kill $follower
    wait $follower 2>/dev/null
    grep '"kind":"net"' "$dir/events" | grep -q '"reason":"deny".*"name":"other.test"' || fail "no event of a refusal: $(cat "$dir/events")"
    grep '"kind":"net"' "$dir/events" | grep -q '"reason":"allow".*"name":"good.test"' || fail "no event of a flow: $(cat "$dir/events")"
}

case_a_host_without_nftables_is_called_soft() { # the third choice is said to be one
    [ "${FAULTS:-0}" = 1 ] || { echo "  skipped: needs a build with fault points"; return; }
    was=$CAY_HOME CAY_HOME=$dir/soft
    mkdir -m 700 "$CAY_HOME"
    export CAY_FAULT=zygote.netns.nft=fail
    id=$(timeout 60 "$cay" create --net http://good.test:80 </dev/null) || fail "create failed"
    timeout 20 "$cay" doctor </dev/null >"$dir/doctor" 2>&1
    grep -q 'soft *egress-policy' "$dir/doctor" || fail "doctor says: $(cat "$dir/doctor")"
    timeout 20 "$cay" create --net all </dev/null >"$dir/err" 2>&1 && fail "all ports were promised"
    grep -q 'no nftables' "$dir/err" || fail "$(cat "$dir/err")"
    timeout 20 "$cay" create --require egress-policy </dev/null >"$dir/err" 2>&1 && fail "who requires it got it"
    reaches http://good.test/
    refused http://other.test/
    timeout 20 "$cay" rm -f "$id" >/dev/null 2>&1
    unset CAY_FAULT
    k=$(keeper)
    kill "$k"
    for i in $(seq 40); do kill -0 "$k" 2>/dev/null || break; sleep 0.25; done
    CAY_HOME=$was
}

case_egress_has_no_rights() { # who egress is
    create good.test
    e=$(egress)
    grep -E '^Cap(Eff|Prm|Bnd|Amb|Inh):' "/proc/$e/status" | grep -v '0000000000000000$' && fail "egress has capabilities"
    grep -q '^NoNewPrivs:.*1$' "/proc/$e/status" || fail "no_new_privs"
    [ "$(id -u)" = 0 ] && ! grep -q '^Uid:.2147352576' "/proc/$e/status" && fail "not its own id"
    :
}

all=$(sed -n 's/^case_\([a-z0-9_]*\)().*/\1/p' "$0")
for c in "$@"; do # before anything is made
    echo "$all" | grep -qxF -e "$c" || { echo "not ok - there is no case $c: $(echo "$all" | tr '\n' ' ')"; exit 1; }
done
# shellcheck disable=SC2048 # names of cases have no blanks
for c in ${*:-$all}; do
    now=0
    "case_$c"
    [ $now = 0 ] && echo "ok - $c" || echo "not ok - $c"
done
exit $bad
