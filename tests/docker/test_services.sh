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
until_is() { n=0; until [ "$(state "$1" "$2")" = "$3" ] || [ $((n += 1)) -gt 150 ]; do sleep 0.1; done; same "$2 is $3" "$(state "$1" "$2")" "$3"; }

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
same "what it listens on is reached" "$(printf '' | cay port connect srv 8000 | cat)" hello
same "its output, by its name" "$(cay logs srv db | head -1)" "from the manifest"
same "of one that ended, too" "$(cay logs srv once | head -1)" "did it"
same "as the user" "$(cay exec srv -- sh -c 'ps -o user= -p $(pgrep -f "sleep 600" | head -1)')" user
pid=$(number srv web pid)
cay exec srv -u root -- kill -KILL "$pid" || bad "kill $pid"
n=0; until [ "$(number srv web restarts)" = 1 ] && [ "$(state srv web)" = ready ] || [ $((n += 1)) -gt 150 ]; do sleep 0.1; done
same "it is started again" "$(number srv web restarts)" 1
same "and reached again" "$(printf '' | cay port connect srv 8000 | cat)" hello
cay services stop srv web >/dev/null
until_is srv web stopped
cay services start srv web >/dev/null
cay services wait srv web >/dev/null || bad "wait"
same "by hand" "$(state srv web)" ready
refused "one that is not there" service_not_found cay --json services stop srv nobody
cay pause srv >/dev/null; cay resume srv >/dev/null
same "after a pause" "$(printf '' | cay port connect srv 8000 | cat)" hello
cay kill srv >/dev/null; cay resume srv >/dev/null
cay services wait srv web >/dev/null || bad "wait after a stop"
same "after a stop" "$(printf '' | cay port connect srv 8000 | cat)" hello
fork=$(cay fork srv)
cay services wait "$fork" web >/dev/null || bad "wait in a fork"
same "in a fork" "$(printf '' | cay port connect "$fork" 8000 | cat)" hello
cay rm -f "$fork" >/dev/null
# All that is left of one that goes into the background is its own, and goes with it.
cay rm -f srv >/dev/null

# ------------------------------------------------------------------ sudo
refused "services through the engine alone" engine_remote cay --json create --manifest "$ENGINE_DIR/m.json" --option transport=engine
cay create --name su --sudo >/dev/null
same "who one is" "$(cay exec su -- sh -c 'id -u; sudo id -u; sudo -u user id -un' | tr '\n' ' ')" "1000 0 user "
same "its status" "$(cay exec su -- sh -c 'sudo sh -c "exit 9"; echo $?')" 9
same "its streams" "$(echo in | cay exec -i su -- sh -c 'sudo cat; sudo sh -c "echo err >&2" 2>&1' | tr '\n' ' ')" "in err "
same "what root may" "$(cay exec su -- sh -c 'sudo sh -c "echo x >/etc/of-root"; cat /etc/of-root; echo y >/etc/of-root' 2>/dev/null)" x
same "su, too" "$(cay exec su -- su -c 'id -u')" 0
same "a terminal" "$(cay exec -t su -- sudo sh -c 'test -t 0 && echo yes' </dev/null | tr -d '\r')" yes
cay exec su -u root -- sh -c 'echo "svc:x:1700:1700::/:/bin/sh" >>/etc/passwd'
cay exec su -u svc -- sudo id -u >"$ENGINE_DIR/out" 2>&1 && bad "an account of its own becomes root" || ok "an account of its own does not: $(head -c 60 "$ENGINE_DIR/out")"
# What a tenant sends there hurts nobody.
cay exec su -- python3 -c 'import socket,os
for i in range(40):
    s=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET); s.connect("/run/cay/sudo"); s.send(os.urandom(i*50+1))
    try: s.recv(100)
    except OSError: pass' 2>/dev/null || :
same "nonsense at the door" "$(cay exec su -- sudo id -u)" 0
cay events --for 1s su >"$ENGINE_DIR/out" 2>&1 &
cay kill su >/dev/null; cay resume su >/dev/null
same "after a stop" "$(cay exec su -- sudo id -u)" 0
cay rm -f su >/dev/null
cay create --name none >/dev/null
cay exec none -- sh -c 'command -v sudo' >/dev/null 2>&1 && bad "sudo without being asked for" || ok "no sudo unless asked for"
cay rm -f none >/dev/null
exit $failed
