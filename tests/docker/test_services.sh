#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_services.sh BUILD ENGINE: services and sudo in a container, by the code of native sandboxes. Run by tests/docker/with.
set -eu
build=$(realpath "$1")
. "$(dirname "$(realpath "$0")")/lib.sh"
engine=${2:-docker}
export CAY_PROVIDER="$engine"
state() { cay services "$1" --json | tr -d ' \n' | grep -o "\"name\":\"$2\"[^}]*" | sed 's/.*"state":"\([a-z]*\)".*/\1/'; }
number() { cay services "$1" --json | tr -d ' \n' | grep -o "\"name\":\"$2\"[^}]*" | sed -n "s/.*\"$3\":\([0-9]*\).*/\1/p"; }
until_is() { n=0; until [ "$(state "$1" "$2")" = "$3" ] || [ $((n += 1)) -gt 150 ]; do sleep 0.1; done; same "service $2 becomes $3" "$(state "$1" "$2")" "$3"; }

# ------------------------------------------------------------------ services
cat >"$ENGINE_DIR/m.json" <<'M'
{"version": 1, "entries": {"page": {"type": "file", "content": "from the manifest\n"}},
 "services": {
  "db": {"command": ["sh", "-c", "cat page; sleep 0.3; touch /tmp/db-ready; exec sleep 600"], "health": {"command": "test -e /tmp/db-ready"}},
  "web": {"command": "exec python3 -c 'import socket\ns=socket.socket(); s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1); s.bind((\"127.0.0.1\",8000)); s.listen()\nprint(\"up\",flush=True)\nwhile 1:\n c=s.accept()[0]; c.sendall(b\"hello\\n\"); c.close()'", "port": 8000, "after": ["db"], "restart": "always"},
  "once": {"command": "echo did it", "restart": "no"},
  "broken": {"command": ["/no/such/program"], "restart": "no"}}}
M
cay create --name srv --manifest "$ENGINE_DIR/m.json" >/dev/null 2>"$ENGINE_DIR/err" || bad "create: $(cat "$ENGINE_DIR/err")"
until_is srv db ready
until_is srv web ready
until_is srv once 'done'
until_is srv broken failed
same "the port of a service is reached" "$(printf '' | cay port connect srv 8000 | cat)" hello
same "logs shows the output of a service" "$(cay logs srv db | head -1)" "from the manifest"
same "logs shows the output of a service that ended" "$(cay logs srv once | head -1)" "did it"
same "a service runs as the user" "$(cay exec srv -- sh -c 'ps -o user= -p $(pgrep -f "sleep 600" | head -1)')" user
pid=$(number srv web pid)
cay exec srv -u root -- kill -KILL "$pid" || bad "kill $pid"
n=0; until [ "$(number srv web restarts)" = 1 ] && [ "$(state srv web)" = ready ] || [ $((n += 1)) -gt 150 ]; do sleep 0.1; done
same "a killed service is started again" "$(number srv web restarts)" 1
same "a killed service is reached again" "$(printf '' | cay port connect srv 8000 | cat)" hello
cay services stop srv web >/dev/null
until_is srv web stopped
cay services start srv web >/dev/null
cay services wait srv web >/dev/null || bad "a service started by hand does not become ready"
same "a service started by hand becomes ready" "$(state srv web)" ready
refused "a service that is not there" service_not_found cay --json services stop srv nobody
cay pause srv >/dev/null; cay resume srv >/dev/null
same "a service is reached after a pause" "$(printf '' | cay port connect srv 8000 | cat)" hello
cay kill srv >/dev/null; cay resume srv >/dev/null
cay services wait srv web >/dev/null || bad "wait after a stop"
same "a service is reached after a stop" "$(printf '' | cay port connect srv 8000 | cat)" hello
fork=$(cay fork srv)
cay services wait "$fork" web >/dev/null || bad "wait in a fork"
same "a service is reached in a fork" "$(printf '' | cay port connect "$fork" 8000 | cat)" hello
cay rm -f "$fork" >/dev/null
# All that is left of one that goes into the background is its own, and goes with it.
cay rm -f srv >/dev/null

# ------------------------------------------------------------------ sudo
refused "services through the engine alone" engine_remote cay --json create --manifest "$ENGINE_DIR/m.json" --option transport=engine
cay create --name su --sudo >/dev/null
same "sudo becomes root and other users" "$(cay exec su -- sh -c 'id -u; sudo id -u; sudo -u user id -un' | tr '\n' ' ')" "1000 0 user "
same "sudo gives the status of its command" "$(cay exec su -- sh -c 'sudo sh -c "exit 9"; echo $?')" 9
same "sudo passes all streams" "$(echo in | cay exec -i su -- sh -c 'sudo cat; sudo sh -c "echo err >&2" 2>&1' | tr '\n' ' ')" "in err "
same "root by sudo may write to /etc" "$(cay exec su -- sh -c 'sudo sh -c "echo x >/etc/of-root"; cat /etc/of-root; echo y >/etc/of-root' 2>/dev/null)" x
same "su becomes root" "$(cay exec su -- su -c 'id -u')" 0
same "sudo works in a terminal" "$(cay exec -t su -- sudo sh -c 'test -t 0 && echo yes' </dev/null | tr -d '\r')" yes
cay exec su -u root -- sh -c 'echo "svc:x:1700:1700::/:/bin/sh" >>/etc/passwd'
cay exec su -u svc -- sudo id -u >"$ENGINE_DIR/out" 2>&1 && bad "an account of its own becomes root" || ok "an account of its own does not become root: $(head -c 60 "$ENGINE_DIR/out")"
# What a tenant sends there hurts nobody.
cay exec su -- python3 -c 'import socket,os
for i in range(40):
    s=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET); s.connect("/run/cay/sudo"); s.send(os.urandom(i*50+1))
    try: s.recv(100)
    except OSError: pass' 2>/dev/null || :
same "sudo works after nonsense at its socket" "$(cay exec su -- sudo id -u)" 0
cay events --for 1s su >"$ENGINE_DIR/out" 2>&1 &
cay kill su >/dev/null; cay resume su >/dev/null
same "sudo works after a stop" "$(cay exec su -- sudo id -u)" 0
cay rm -f su >/dev/null
cay create --name none >/dev/null
cay exec none -- sh -c 'command -v sudo' >/dev/null 2>&1 && bad "sudo without being asked for" || ok "no sudo unless asked for"
cay rm -f none >/dev/null
exit $failed
