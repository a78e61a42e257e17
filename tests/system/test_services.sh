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
ok 'a name' refused name '{"services":{"Web":{"command":"x"}}}'
ok 'no command' refused command '{"services":{"web":{}}}'
ok 'an empty command' refused command '{"services":{"web":{"command":[]}}}'
ok 'a field that is not known' refused unknown_field '{"services":{"web":{"command":"x","prot":1}}}'
ok 'a port' refused port '{"services":{"web":{"command":"x","port":70000}}}'
ok 'a restart' refused restart '{"services":{"web":{"command":"x","restart":"maybe"}}}'
ok 'after nobody' refused after '{"services":{"web":{"command":"x","after":["db"]}}}'
ok 'a circle' refused circle '{"services":{"a":{"command":"x","after":["b"]},"b":{"command":"x","after":["c"]},"c":{"command":"x","after":["a"]}}}'
ok 'after itself' refused circle '{"services":{"a":{"command":"x","after":["a"]}}}'
ok 'health of two kinds' refused health '{"services":{"a":{"command":"x","health":{"command":"x","tcp":1}}}}'
ok 'nothing was made' same "$(c ls -q)" ''
printf '{"services":{"a":{"command":"x"}}}' >bad.json
c --provider local create --isolation none --manifest bad.json >/dev/null
ok 'a provider without them says so' grep -q 'keeps no services running' err

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
ok 'made' test -n "$id"
ok 'web is ready' c services wait --timeout 30s "$id" web
ok 'and serves' same "$(c exec "$id" -- python3 -c 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:8000/").read().decode())')" 'hello from inside'
ok 'one waits for its health' same "$(of "$id" late state)" starting
ok 'who comes after it waits' same "$(of "$id" last state)" waiting
c exec "$id" -- touch /tmp/go
ok 'healthy' c services wait --timeout 30s "$id" late last
ok 'its variables' same "$(c logs "$id" --service late)" 'very late'
ok 'and its output' same "$(c logs "$id" last)" 'started'
ok 'the crashing one comes again and again' at_least "$id" crash restarts 3
ok 'with its code' same "$(of "$id" crash code)" 3
ok 'and a growing pause' at_least "$id" crash wait_ms 400
ok 'one ring for all its runs' test "$(c logs --stdout "$id" --service crash | grep -c boom)" -ge 3
ok 'and one for its errors' test "$(c logs --stderr "$id" --service crash | grep -c .)" = "$(c logs --stderr "$id" --service crash | grep -c bang)"
ok 'a missing command' same "$(of "$id" missing state) $(of "$id" missing code) $(of "$id" missing reason)" 'failed 127 no such command or directory'
ok 'done is done' same "$(of "$id" once state) $(of "$id" once ready)" 'done true'
ok 'failed is failed' same "$(of "$id" fails state) $(of "$id" fails reason)" 'failed ended with 4'
ok 'what went to the background is still its own' same "$(of "$id" forks state) $(c exec "$id" -- pgrep -c -f '^sleep 1002')" 'ready 1'
c services wait --timeout 1s "$id" never >/dev/null
ok 'one that is never ready' grep -q 'service never is starting, not ready' err
c services wait --timeout 5s "$id" missing >/dev/null
ok 'and one that will not be' grep -q 'service missing: no such command' err
c services wait "$id" nobody >/dev/null
ok 'and one that is not there' grep -q 'none of this name' err
ok 'inspect tells' same "$(c inspect "$id" | jq -r '.services[] | select(.name == "web") | .ready')" true
ok 'ps names it' same "$(c --json ps "$id" | jq -r '.[] | select(.tag == "web") | .user')" user

# ---- start, stop, restart
c services stop "$id" forks web
ok 'stopped' until_is "$id" web state stopped
ok 'with what it forked' until_is "$id" forks state stopped
ok 'all of it' test -z "$(c exec "$id" -- pgrep -f '^sleep 1002')"
ok 'started' c services start --wait "$id" web
pid=$(of "$id" web pid)
c services restart "$id" web
ok 'restarted' c services wait --timeout 30s "$id" web
ok 'as another process' test "$(of "$id" web pid)" != "$pid"
c services stop "$id" nobody >/dev/null
ok 'nobody cannot be stopped' grep -q 'none of this name' err
c exec "$id" --user root -- kill -9 "$(of "$id" web pid)" 2>/dev/null || c exec "$id" -- kill -9 "$(of "$id" web pid)"
ok 'killed, it comes again' at_least "$id" web restarts 1
ok 'and is ready' c services wait --timeout 30s "$id" web
c exec "$id" -- rm /tmp/well
ok 'no longer healthy' until_is "$id" late state unhealthy
c exec "$id" -- touch /tmp/well
ok 'healthy again' until_is "$id" late state ready

# ---- a keeper that dies changes nothing; the next one has the rings
pid=$(of "$id" web pid)
kill -9 "$(pgrep -f "^[^ ]*cay-keeper $CAY_HOME ")"
ok 'the same process after the keeper died' same "$(of "$id" web pid)" "$pid"
ok 'and what it printed before' same "$(c logs "$id" --service late)" 'very late'
ok 'supervised still' at_least "$id" crash restarts "$(($(of "$id" crash restarts) + 1))"
ok 'its ring goes on' test "$(c logs --stdout "$id" --service crash | grep -c boom)" -ge 4

# ---- pause, undo, fork, resume
c services stop "$id" crash never
c pause "$id" >/dev/null
ok 'told while it is paused' same "$(of "$id" web state)" ready
c resume "$id" >/dev/null
ok 'and ready after it' same "$(of "$id" web pid)" "$pid"
how= # without a group to freeze processes are stopped by signals
[ "$(id -u)" = 0 ] || how=--stop
# shellcheck disable=SC2086
snap=$(c snapshot $how "$id")
ok 'a snapshot of what runs' test -n "$snap"
ok 'ran on' same "$(of "$id" web pid)" "$pid"
c exec "$id" -- rm -rf /workspace/site
ok 'undo' test -n "$(c undo --to "$snap" "$id")"
ok 'started again' c services wait --timeout 30s "$id" web
ok 'as another process' test "$(of "$id" web pid)" != "$pid"
ok 'on the files of then' same "$(c exec "$id" -- cat /workspace/site/index.html)" 'hello from inside'
ok 'what was stopped stays so' same "$(of "$id" crash state)" stopped
if [ -n "$how" ]; then # a fork freezes, or finds nothing that runs
    c services stop "$id"
    for s in web late last forks; do until_is "$id" $s state stopped; done
fi
fork=$(c fork "$id")
ok 'in a fork' c services wait --timeout 30s "$fork" web
c kill "$id" >/dev/null
ok 'a stopped sandbox has none' test -z "$(of "$id" web pid)"
c resume "$id" >/dev/null
ok 'and has them again when it is started' c services wait --timeout 30s "$id" web

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
ok 'a service has the files that come last' same "$(of "$e" reader state) $(c logs "$e" reader)" 'ready secret'
ok 'an event names it and its state' same "$(told)" reader
if [ "$(id -u)" = 0 ]; then # one that nobody uses is idle, whatever it serves
    i=$(c create --idle 300ms --manifest e.json)
    ok 'services are no use of a sandbox' same "$(c wait "$i")" stopped
fi
verdict
