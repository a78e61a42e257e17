#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_programs.sh BUILD BORROWED: programs that people use, inside a sandbox, against servers that its policy names. Run it in
# tests/support/netlab with tests/support/progworld as its world.
set -u
build=$(realpath "$1") borrowed=$(realpath "$2")
[ -n "${NETLAB:-}" ] || { echo "test_programs.sh runs inside tests/support/netlab"; exit 77; }
CAY_HOME=$(mktemp -d "${TMPDIR:-/tmp}/cay-prog.XXXXXX") CAY_LIBEXEC=$build CAY_POOL=2
export CAY_HOME CAY_LIBEXEC CAY_POOL
echo "roots ${NETLAB:-}/ca.pem" >"$CAY_HOME/egress.conf" # where a secret is bound, the other side is looked at by our own authority
cay="timeout -k1 90 $build/cay"
n=0 bad=0 id=
keeper() { pgrep -f "cay-keeper $CAY_HOME " | head -1; }
tidy() {
    [ -n "$id" ] && $cay rm -f "$id" >/dev/null 2>&1
    k=$(keeper)
    [ -n "$k" ] && kill "$k"
    for i in $(seq 40); do
        [ -n "$k" ] && kill -0 "$k" 2>/dev/null || break
        sleep 0.25
    done
    rm -rf "$CAY_HOME"
}
trap tidy EXIT
for i in $(seq 240); do
    [ -e "$NETLAB/ready" ] && break
    sleep 0.25
done
[ -e "$NETLAB/ready" ] || { echo "the servers did not start:"; tail -20 "$NETLAB/servers.log"; exit 1; }

# WHAT PROGRAM EXPECTED LINE: the line's output inside has the expected words. A program that the host has not is skipped aloud.
try() {
    n=$((n + 1))
    if ! $cay exec "$id" -- sh -c "command -v $2" >/dev/null 2>&1 </dev/null; then
        echo "ok $n - $1 # SKIP the host has no $2"
        return
    fi
    got=$($cay exec "$id" -- sh -c "$4" 2>&1 </dev/null)
    case $got in
    *"$3"*) echo "ok $n - $1" ;;
    *) echo "not ok $n - $1" && echo "$got" | sed 's/^/# /' && bad=1 ;;
    esac
}

rules=tls://srv.test:8443,tls://srv.test:8446,http://srv.test:8447,tcp://srv.test:5433,tcp://srv.test:6379,tcp://srv.test:2222
lib=/opt/b/usr/lib/$(uname -m)-linux-gnu:/opt/b/lib/$(uname -m)-linux-gnu
id=$($cay create --net $rules --mount "$borrowed:/opt/b" --env "LD_LIBRARY_PATH=$lib" --env PYTHONPATH=/opt/b/usr/lib/python3/dist-packages \
    --env SSL_CERT_FILE=/workspace/ca.pem --env REQUESTS_CA_BUNDLE=/workspace/ca.pem --env NODE_EXTRA_CA_CERTS=/workspace/ca.pem \
    --env GIT_SSL_CAINFO=/workspace/ca.pem --env npm_config_cafile=/workspace/ca.pem --env CURL_CA_BUNDLE=/workspace/ca.pem \
    --env "PATH=/usr/local/bin:/usr/bin:/bin:/opt/b/usr/bin" </dev/null) || exit 1
$cay cp "$NETLAB/ca.pem" "$id:/workspace/ca.pem" </dev/null || bad=1
$cay cp "$NETLAB/key" "$id:/workspace/key" </dev/null || bad=1
at=https://srv.test:8443

try "curl speaks HTTP/1.1" curl "hello from nginx" "curl -sS -m 20 --http1.1 $at/hello"
try "curl speaks HTTP/2" curl "2 hello" "curl -sS -m 20 --http2 -w '%{http_version} ' -o /tmp/h $at/hello; cat /tmp/h"
try "curl speaks TLS 1.2" curl "hello from nginx" "curl -sS -m 20 --tls-max 1.2 $at/hello"
try "curl speaks TLS 1.3" curl "hello from nginx" "curl -sS -m 20 --tlsv1.3 $at/hello"
try "curl waits for a slow server" curl "ok" "curl -sS -m 20 http://srv.test:8447/"
try "git clones over https" git "from the repository" "git clone -q $at/repo.git /tmp/https && cat /tmp/https/README"
try "git clones over ssh" git "from the repository" "chmod 600 key; GIT_SSH_COMMAND='ssh -q -F none -i key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/tmp/known' \
    git clone -q ssh://root@srv.test:2222/repo.git /tmp/ssh && cat /tmp/ssh/README"
try "pip installs a package" python3 "answer 42" "/usr/bin/python3 -m pip install -q --disable-pip-version-check --cert ca.pem --index-url $at/pip/simple --target /tmp/site tinypkg &&
    PYTHONPATH=/tmp/site /usr/bin/python3 -c 'import tinypkg; print(\"answer\", tinypkg.answer)'"
try "npm installs a package" npm "answer 42" "mkdir -p /tmp/n && cd /tmp/n && npm install --silent --no-audit --no-fund --no-update-notifier --cache /tmp/npm-cache --registry $at/npm/ tinynode 2>&1 &&
    node -e 'console.log(\"answer\", require(\"tinynode\"))'"
try "node fetches over https" node "hello from nginx" "node -e 'fetch(\"$at/hello\").then(r => r.text()).then(console.log)'"
try "python requests fetches over https" python3 "hello from nginx" "/usr/bin/python3 -c 'import requests; print(requests.get(\"$at/hello\", timeout=20).text)'"
try "a WebSocket echoes" python3 "echo me" "/usr/bin/python3 -c '
import asyncio, ssl, websockets
async def main():
    async with websockets.connect(\"wss://srv.test:8446/\", ssl=ssl.create_default_context(cafile=\"ca.pem\"), close_timeout=1) as ws:
        await ws.send(\"echo me\")
        print(await ws.recv())
asyncio.run(main())'"
try "psql queries a database" psql "six 6" "psql -X -A -t -F ' ' -h srv.test -p 5433 -U tester postgres -c \"select 'six', 2*3\""
try "redis-cli sets and gets a key" redis-cli "kept" "redis-cli -h srv.test -p 6379 set k kept >/dev/null && redis-cli -h srv.test -p 6379 get k"
# The same programs, one step beside the policy.
try "a name without a rule does not resolve" curl "Could not resolve" "curl -sS -m 20 https://other.test/ 2>&1"
try "a port without a rule is not reached" psql "port 5432 failed" "psql -X -h srv.test -p 5432 -U tester postgres -c 'select 1' 2>&1"
# git over https with a token that is bound outside and never comes in.
try "git without the token is refused" git "refused" "GIT_TERMINAL_PROMPT=0 git clone -q $at/private/repo.git /tmp/no 2>&1 || echo refused"
$cay rm -f "$id" >/dev/null
id=$(PAT=git-sentinel-7f3a $cay create --net tls://srv.test:8443 --secret PAT=env:PAT@srv.test:8443,basic:x-access-token </dev/null) || exit 1
try "git with a bound token clones" git "from the repository" "git clone -q $at/private/repo.git /tmp/repo && cat /tmp/repo/README"
try "the bound token is not inside" git "clean" "env | grep -q git-sentinel || grep -rqs git-sentinel /tmp /workspace /home /proc/self/environ || echo clean"
echo "1..$n"
exit $bad
