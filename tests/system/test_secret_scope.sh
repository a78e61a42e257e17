#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2086
# test_secret_scope.sh BUILD: S-68, a credential goes to its own name, port, method and path, and nowhere that a server or a program sends a
# request to. Run it in tests/support/netlab with tests/support/apiserver as its world.
set -u
build=$(realpath "$1")
[ -n "${NETLAB:-}" ] || { echo "test_secret_scope.sh runs inside tests/support/netlab"; exit 77; }
for tool in curl openssl; do
    command -v $tool >/dev/null || { echo "$tool is not installed: make deps"; exit 77; }
done
cay=$build/cay
export CAY_LIBEXEC="$build" CAY_POOL=1
. "$(dirname "$0")/lib.sh"
mkdir -m 700 "$CAY_HOME"
for i in $(seq 100); do
    [ -e "$NETLAB/ready" ] && break
    sleep 0.2
done
echo "roots $NETLAB/ca.pem" >"$CAY_HOME/egress.conf"
export KEY="sentinel-$$-VALUE-in-its-place-alone"

# $KEY inside is the placeholder: the program puts it where a credential stands, and follows wherever it is sent.
ask() { timeout -k1 40 "$cay" exec "$id" -- sh -c 'exec curl -skiL --location-trusted --path-as-is -m 15 -H "Authorization: Bearer $KEY" "$@" 2>&1' sh "$@" </dev/null; }
bare() { grep -F " path=$1 " "$NETLAB/seen" | grep -vqF "$KEY" && ! grep -F " path=$1 " "$NETLAB/seen" | grep -qF "$KEY"; } # it came, and had no value
same_but() { # WHAT PATH CURL-ARGUMENTS…: reaches the server without the value
    what=$1 path=$2
    shift 2
    ask "$@" >"$tmp/err"
    ok "S-68: $what" bare "$path"
}
api=https://api.test:8443 away=https://away.test:8443
id=$(timeout -k1 40 "$cay" create --net tls://api.test:8443,tls://away.test:8443,http://api.test:80 --secret "KEY=env:KEY@api.test:8443/v1,GET" </dev/null 2>"$tmp/err")
ok 'a sandbox with a binding is made' [ -n "$id" ]
ask "$api/v1/own" >"$tmp/own" 2>&1
ok 'S-68: a request to the bound path gets the value' grep -qF "GET api.test:8443 path=/v1/own auth=Bearer $KEY" "$NETLAB/seen"
ok 'S-68: what the server says back in a field and in the body is covered' not grep -qF "$KEY" "$tmp/own"
ok 'the server did say the value back' grep -q '^X-Echo: Bearer \*\*\*' "$tmp/own"
same_but 'another method does not get the value' /v1/post -X POST -d x "$api/v1/post"
same_but 'a method that a field overrides does not get the value' /v1/override -X POST -H 'X-HTTP-Method-Override: GET' -d x "$api/v1/override"
same_but 'another path does not get the value' /v2/path "$api/v2/path"
same_but 'a path with the same beginning does not get the value' /v1beside "$api/v1beside"
same_but 'a path that leads out does not get the value' /v1/../out "$api/v1/../out"
same_but 'a path that leads out when decoded does not get the value' /v1/%2e%2e/out "$api/v1/%2e%2e/out"
same_but 'another host does not get the value' /v1/name "$away/v1/name"
same_but 'a redirect to another host does not get the value' /v1/redirected "$api/v1/hop?to=$away/v1/redirected"
ok 'the redirect itself had the value' grep -qF "path=/v1/hop?to=$away/v1/redirected auth=Bearer $KEY" "$NETLAB/seen"
same_but 'a redirect to another path does not get the value' /v2/redirected "$api/v1/hop?to=$api/v2/redirected"
same_but 'a redirect to the bound path with another method does not get the value' /v1/kept -X PUT -d x "$api/v1/hop?to=$api/v1/kept"
ask "$api/v1/hop?to=http://api.test/v1/clear" >"$tmp/err"
ok 'S-68: a redirect to clear HTTP is followed' grep -q 'GET /v1/clear ' "$NETLAB/heads"
ok 'S-68: a redirect to clear HTTP does not get the value' not grep -qF "$KEY" "$NETLAB/heads"
ask -H 'Host: away.test:8443' "$api/v1/host" >"$tmp/err"
ok 'S-68: a request that names another host on its connection is refused' says http_host_mismatch
ask --connect-to away.test:8443:api.test:8443 "$away/v1/sni" >"$tmp/err"
ok 'S-68: a handshake that names another host is refused' not grep -q 'path=/v1/\(host\|sni\) ' "$NETLAB/seen"
ok 'S-68: nothing that was answered had the value' not grep -qF "$KEY" "$tmp/err"
timeout -k1 20 "$cay" net log "$id" </dev/null >"$tmp/log" 2>&1
ok 'uses of the binding are recorded, without the value' sh -c "grep -q credential '$tmp/log' && ! grep -qF '$KEY' '$tmp/log'"
verdict
