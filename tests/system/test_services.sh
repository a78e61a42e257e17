#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_services.sh CAY: services that init keeps running, as whoever runs this. Everything is waited for, nothing for a time.
set -u
cay=$(realpath "$1")
command -v python3 >/dev/null && command -v jq >/dev/null || { echo "needs python3 and jq"; exit 77; }
. "$(dirname "$0")/lib.sh"
c() { timeout -k 1 60 "$cay" "$@" </dev/null 2>"$tmp/err"; }
refused() { # WORD MANIFEST: create fails with this in its detail, and nothing was made
    printf '%s' "$2" >bad.json
    c --json create --manifest bad.json >/dev/null && return 1
    grep -q "\"reason\":\"$1\"" "$tmp/err" || { cat "$tmp/err"; false; }
}
of() { c --json services "$1" | jq -r ".[] | select(.name == \"$2\") | .$3"; } # ID NAME FIELD
until_is() { # ID NAME FIELD VALUE
    for i in $(seq 300); do
        [ "$(of "$1" "$2" "$3")" = "$4" ] && return 0
        sleep 0.1
    done
    c services "$1"
    return 1
}
at_least() { # ID NAME FIELD NUMBER
    for i in $(seq 300); do
        [ "$(of "$1" "$2" "$3")" -ge "$4" ] && return 0
        sleep 0.1
    done
    return 1
}
cd "$tmp" || exit 1

# ---- what is refused, before anything is made
ok 'a service with a bad name is refused' refused name '{"services":{"Web":{"command":"x"}}}'
ok 'a service without a command is refused' refused command '{"services":{"web":{}}}'
ok 'a service with an empty command is refused' refused command '{"services":{"web":{"command":[]}}}'
ok 'a service with an unknown field is refused' refused unknown_field '{"services":{"web":{"command":"x","prot":1}}}'
ok 'a service with a bad port is refused' refused port '{"services":{"web":{"command":"x","port":70000}}}'
ok 'a service with a bad restart is refused' refused restart '{"services":{"web":{"command":"x","restart":"maybe"}}}'
ok 'a service after an unknown one is refused' refused after '{"services":{"web":{"command":"x","after":["db"]}}}'
ok 'services in a circle are refused' refused circle '{"services":{"a":{"command":"x","after":["b"]},"b":{"command":"x","after":["c"]},"c":{"command":"x","after":["a"]}}}'
ok 'a service after itself is refused' refused circle '{"services":{"a":{"command":"x","after":["a"]}}}'
ok 'a service with health of two kinds is refused' refused health '{"services":{"a":{"command":"x","health":{"command":"x","tcp":1}}}}'
ok 'refused services make no sandbox' same "$(c ls -q)" ''
printf '{"services":{"a":{"command":"x"}}}' >bad.json
c --provider local create --isolation none --manifest bad.json >/dev/null
ok 'a provider without services says so' grep -q 'keeps no services running' err

# ---- a life
cat >m.json <<'END'
{ "entries": { "site/index.html": { "type": "file", "content": "hello from inside" } },
  "services": {
    "web": { "command": ["python3", "-u", "-m", "http.server", "8000", "-d", "/workspace/site"], "port": 8000, "restart": "always",
             "environment": { "KIND": "web" }, "stop_ms": 2000 },
    "late": { "command": "echo $KIND late; until [ -e /tmp/go ]; do sleep 0.05; done; touch /tmp/well; exec sleep 1000",
              "health": { "command": ["test", "-e", "/tmp/well"], "interval_ms": 50 }, "environment": { "KIND": "very" } },
    "last": { "command": "echo started; exec sleep 1001", "after": ["web", "late"] },
    "crash": { "command": "echo boom; echo bang >&2; exit 3" },
    "missing": { "command": ["/no/such/thing"], "restart": "no" },
    "once": { "command": "echo done", "restart": "no" },
    "fails": { "command": "exit 4", "restart": "no" },
    "forks": { "command": "setsid sleep 1002 >/dev/null 2>&1 & echo away" },
    "never": { "command": "exec sleep 1003", "port": 8999 } } }
END
id=$(c create --manifest m.json)
ok 'a sandbox with services is made' test -n "$id"
ok 'a web server becomes ready' c services wait --timeout 30s "$id" web
ok 'a web server that is ready answers' same "$(c exec "$id" -- python3 -c 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:8000/").read().decode())')" 'hello from inside'
ok 'a service waits for its health' same "$(of "$id" late state)" starting
ok 'a service waits for those before it' same "$(of "$id" last state)" waiting
c exec "$id" -- touch /tmp/go
ok 'services become ready once healthy' c services wait --timeout 30s "$id" late last
ok 'a service has its variables' same "$(c logs "$id" --service late)" 'very late'
ok 'a service has its output' same "$(c logs "$id" last)" 'started'
ok 'a crashing service is restarted' at_least "$id" crash restarts 3
ok 'a crashing service tells its code' same "$(of "$id" crash code)" 3
ok 'a crashing service pauses longer and longer' at_least "$id" crash wait_ms 400
ok 'all runs of a service share their output' test "$(c logs --stdout "$id" --service crash | grep -c boom)" -ge 3
ok 'all runs of a service share their error output' test "$(c logs --stderr "$id" --service crash | grep -c .)" = "$(c logs --stderr "$id" --service crash | grep -c bang)"
ok 'a service without its command fails with the reason' same "$(of "$id" missing state) $(of "$id" missing code) $(of "$id" missing reason)" 'failed 127 no such command or directory'
ok 'a service that ends with 0 is done' same "$(of "$id" once state) $(of "$id" once ready)" 'done true'
ok 'a service that ends with 4 has failed' same "$(of "$id" fails state) $(of "$id" fails reason)" 'failed ended with 4'
ok 'a service is ready while its forked process runs' same "$(of "$id" forks state) $(c exec "$id" -- pgrep -c -f '^sleep 1002')" 'ready 1'
c services wait --timeout 1s "$id" never >/dev/null
ok 'services wait names a service that is not ready' grep -q 'service never is starting, not ready' err
c services wait --timeout 5s "$id" missing >/dev/null
ok 'services wait names a service that cannot be ready' grep -q 'service missing: no such command' err
c services wait "$id" nobody >/dev/null
ok 'services wait names a service that is not there' grep -q 'none of this name' err
ok 'inspect tells that a service is ready' same "$(c inspect "$id" | jq -r '.services[] | select(.name == "web") | .ready')" true
ok 'ps shows a service by its name' same "$(c --json ps "$id" | jq -r '.[] | select(.tag == "web") | .user')" user

# ---- start, stop, restart
c services stop "$id" forks web
ok 'services stop stops a service' until_is "$id" web state stopped
ok 'services stop stops a service that forked' until_is "$id" forks state stopped
ok 'services stop leaves no forked process' test -z "$(c exec "$id" -- pgrep -f '^sleep 1002')"
ok 'services start starts a service' c services start --wait "$id" web
pid=$(of "$id" web pid)
c services restart "$id" web
ok 'services restart makes a service ready again' c services wait --timeout 30s "$id" web
ok 'services restart starts another process' test "$(of "$id" web pid)" != "$pid"
c services stop "$id" nobody >/dev/null
ok 'services stop names a service that is not there' grep -q 'none of this name' err
c exec "$id" --user root -- kill -9 "$(of "$id" web pid)" 2>/dev/null || c exec "$id" -- kill -9 "$(of "$id" web pid)"
ok 'a killed service is restarted' at_least "$id" web restarts 1
ok 'a killed service becomes ready again' c services wait --timeout 30s "$id" web
c exec "$id" -- rm /tmp/well
ok 'a service becomes unhealthy' until_is "$id" late state unhealthy
c exec "$id" -- touch /tmp/well
ok 'a service becomes healthy again' until_is "$id" late state ready

# ---- a keeper that dies changes nothing; the next one has the rings
pid=$(of "$id" web pid)
kill -9 "$(pgrep -f "^[^ ]*cay-keeper $CAY_HOME ")"
ok 'a service outlives its keeper' same "$(of "$id" web pid)" "$pid"
ok 'output from before is kept by the next keeper' same "$(c logs "$id" --service late)" 'very late'
ok 'the next keeper restarts a crashing service' at_least "$id" crash restarts "$(($(of "$id" crash restarts) + 1))"
ok 'output continues with the next keeper' test "$(c logs --stdout "$id" --service crash | grep -c boom)" -ge 4

# ---- pause, undo, fork, resume
c services stop "$id" crash never
c pause "$id" >/dev/null
ok 'a service has its state while paused' same "$(of "$id" web state)" ready
c resume "$id" >/dev/null
ok 'a service is the same process after a pause' same "$(of "$id" web pid)" "$pid"
how= # without a group to freeze processes are stopped by signals
[ "$(id -u)" = 0 ] || how=--stop
# shellcheck disable=SC2086
snap=$(c snapshot $how "$id")
ok 'a snapshot of running services is taken' test -n "$snap"
ok 'a service is the same process after a snapshot' same "$(of "$id" web pid)" "$pid"
c exec "$id" -- rm -rf /workspace/site
ok 'undo goes back to the snapshot' test -n "$(c undo --to "$snap" "$id")"
ok 'a service is ready again after undo' c services wait --timeout 30s "$id" web
ok 'a service is another process after undo' test "$(of "$id" web pid)" != "$pid"
ok 'a service has the files of the snapshot after undo' same "$(c exec "$id" -- cat /workspace/site/index.html)" 'hello from inside'
ok 'a stopped service stays stopped after undo' same "$(of "$id" crash state)" stopped
if [ -n "$how" ]; then # a fork freezes, or finds nothing that runs
    c services stop "$id"
    for s in web late last forks; do until_is "$id" $s state stopped; done
fi
fork=$(c fork "$id")
ok 'a service becomes ready in a fork' c services wait --timeout 30s "$fork" web
c kill "$id" >/dev/null
ok 'a stopped sandbox has no process of a service' test -z "$(of "$id" web pid)"
c resume "$id" >/dev/null
ok 'a resumed sandbox starts its services' c services wait --timeout 30s "$id" web

# ---- with an ephemeral file they wait for it; events tell
cat >e.json <<'END'
{ "entries": { "key": { "type": "file", "content": "secret", "ephemeral": true } },
  "services": { "reader": { "command": "cat /workspace/key && exec sleep 1000", "restart": "no" } } }
END
timeout 90 "$cay" --json events </dev/null >events.txt 2>/dev/null &
ev=$!
told() { jq -r 'select(.kind == "service" and .reason == "ready" and .process == "reader") | .process' events.txt 2>/dev/null | head -1; }
for i in $(seq 20); do # the listener may not be there yet
    e=$(c create --manifest e.json)
    for j in $(seq 20); do [ -z "$(told)" ] || break 2; sleep 0.1; done
    c rm -f "$e" >/dev/null
done
kill "$ev"
ok 'a service has ephemeral files' same "$(of "$e" reader state) $(c logs "$e" reader)" 'ready secret'
ok 'an event names a service and its state' same "$(told)" reader
if [ "$(id -u)" = 0 ]; then # one that nobody uses is idle, whatever it serves
    i=$(c create --idle 300ms --manifest e.json)
    ok 'services are no use of a sandbox' same "$(c wait "$i")" stopped
fi
verdict
