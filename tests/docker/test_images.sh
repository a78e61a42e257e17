#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_images.sh BUILD: where a container's image comes from: pulled from a registry of this test's own, told as it comes, cancelled. Run by tests/docker/with.
set -eu
here=$(dirname "$(realpath "$0")")
build=$(realpath "$1")
. "$(dirname "$(realpath "$0")")/lib.sh"
PATH=$ENGINE_DIR/bin:$PATH
export CAY_PROVIDER=docker DOCKER_CONFIG="$ENGINE_DIR/docker"
mkdir -p "$DOCKER_CONFIG" "$ENGINE_DIR/bin" "$ENGINE_DIR/registry"
containers() { api "http://e/v1.41/containers/json?all=true" | grep -o '"Id":"[0-9a-f]*"' | wc -l; }
images() { api "http://e/v1.41/images/json?all=true" | grep -o '"Id":"sha256:[0-9a-f]*"' | wc -l; }
wait_for() { n=0; until [ -e "$1" ] || [ $((n += 1)) -gt 300 ]; do sleep 0.1; done; [ -e "$1" ]; }

# Debian's own root, made while the rest goes on, once for each build tree.
debian=${BORROW_DIR:-$ENGINE_DIR}/debian.tar
{ [ -s "$debian" ] || { mmdebstrap --quiet --mode=root --variant=extract --include=base-files,base-passwd,bash,coreutils,dash,libc-bin bookworm "$ENGINE_DIR/debian.tar" http://deb.debian.org/debian \
    && mv "$ENGINE_DIR/debian.tar" "$debian"; }; } >"$ENGINE_DIR/mmdebstrap" 2>&1 &
mmdebstrap=$!

# ------------------------------------------------------------------ a registry
arch=$(api http://e/version | sed -n 's/.*"Arch":"\([a-z0-9]*\)".*/\1/p')
python3 "$here/registry.py" "$ENGINE_DIR/registry" "$arch" 2>"$ENGINE_DIR/registry/log" &
registry=$!
server=
trap 'kill $registry $server 2>/dev/null || :' EXIT
wait_for "$ENGINE_DIR/registry/port" || { echo "the registry does not start"; exit 1; }
reg=127.0.0.1:$(cat "$ENGINE_DIR/registry/port")

cay create --name pulled --user root --image "$reg/open" >"$ENGINE_DIR/id" 2>"$ENGINE_DIR/err" || bad "a pull: $(cat "$ENGINE_DIR/err")"
grep -q '^pull: latest: Pulling from open' "$ENGINE_DIR/err" && ok "the progress of a pull is shown" || bad "a pull says: $(cat "$ENGINE_DIR/err")"
same "create prints the id alone after a pull" "$(wc -w <"$ENGINE_DIR/id")" 1
same "a pulled image has its files" "$(cay cp pulled:/hello -)" world
cay rm -f pulled >/dev/null
cay -q create --name again --user root --image "$reg/open" >/dev/null 2>"$ENGINE_DIR/err"
same "an image that is there is not pulled again" "$(cat "$ENGINE_DIR/err")" ""
cay rm -f again >/dev/null
refused "an image of another architecture" image_architecture cay --json create --image "$reg/other"
refused "an image that the registry has not" image_not_found cay --json create --image "$reg/open/more/of"

# ------------------------------------------------------------------ who pulls
touch "$ENGINE_DIR/registry/closed"
refused "a pull without a password" registry_denied cay --json create --image "$reg/closed"
printf '#!/bin/sh\nread s\n[ "$s" = %s ] && [ "$1" = get ] && echo "{\\"Username\\":\\"me\\",\\"Secret\\":\\"pass word\\"}"\n' "$reg" >"$ENGINE_DIR/bin/docker-credential-test"
chmod +x "$ENGINE_DIR/bin/docker-credential-test"
printf '{"credHelpers":{"%s":"test"}}' "$reg" >"$DOCKER_CONFIG/config.json"
cay -q create --name mine --user root --image "$reg/closed" >/dev/null 2>"$ENGINE_DIR/err" && ok "a pull with the password of a credential helper succeeds" || bad "a credential helper: $(cat "$ENGINE_DIR/err")"
cay rm -f mine >/dev/null 2>&1 || :
printf '{"credHelpers":{"%s":"no-such"}}' "$reg" >"$DOCKER_CONFIG/config.json"
refused "a credential helper that is not there" credential_helper cay --json create --image "$reg/closed" --option pull=always
rm -f "$ENGINE_DIR/registry/closed" "$DOCKER_CONFIG/config.json"

# ------------------------------------------------------------------ whose images: what a tenant is not given
printf '{"credHelpers":{"%s":"test"}}' "$reg" >"$DOCKER_CONFIG/config.json"
touch "$ENGINE_DIR/registry/closed"
CAY_DOCKER_IMAGES="acme=$reg/closed*" cay serve --listen 127.0.0.1:0 >"$ENGINE_DIR/serve" 2>&1 </dev/null &
server=$!
n=0; until url=$(grep -oE 'http://127.0.0.1:[0-9]+' "$ENGINE_DIR/serve" | head -1) && [ -n "$url" ] || [ $((n += 1)) -gt 300 ]; do sleep 0.1; done
for t in acme other; do cay tenant create $t >/dev/null; cay key create --tenant $t 2>/dev/null | grep -o 'e2b_[0-9a-f]*' | head -1 >"$ENGINE_DIR/key-$t"; done
asks() { # WHAT TENANT STATUS REASON IMAGE [OPTION]
    got=$(curl -s --max-time 60 -o "$ENGINE_DIR/out" -w '%{http_code}' -H "Authorization: Bearer $(cat "$ENGINE_DIR/key-$2")" -H 'Content-Type: application/json' \
        -d "{\"provider\":\"docker\",\"user\":\"root\",\"options\":{\"image\":\"$5\"${6-}}}" "$url/api/v1/sandboxes")
    same "$1" "$got $(sed -n 's/.*"reason": *"\([a-z_]*\)".*/\1/p' "$ENGINE_DIR/out")" "$3 $4"
}
held=$(api "http://e/v1.41/images/$CAY_DOCKER_IMAGE/json" | grep -o '"Id":"sha256:[0-9a-f]*"' | head -1 | cut -d'"' -f4)
asks "a tenant gets no image of the engine by its id" other 403 image_not_allowed "$held"
asks "a tenant gets no image of the engine by its name" other 403 image_not_allowed "$CAY_DOCKER_IMAGE" ',"pull":"never"'
asks "a tenant does not pull with the operator's password" other 401 registry_denied "$reg/closed"
asks "a tenant gets no image that another pulled" other 403 image_not_allowed "$reg/closed" ',"pull":"never"'
same "a refused pull makes no container" "$(containers)" 0
asks "a tenant gets an image that the operator lists" acme 201 "" "$reg/closed"
rm -f "$ENGINE_DIR/registry/closed"
asks "what the registry gives to all" other 201 "" "$reg/open"
kill $server; wait $server 2>/dev/null || :
server=
for b in $(cay ls -q); do cay rm -f "$b" >/dev/null; done
rm -f "$DOCKER_CONFIG/config.json"

# ------------------------------------------------------------------ a slow one, cancelled
before=$(images)
cay create --image "$reg/slow" >"$ENGINE_DIR/out" 2>&1 &
pid=$!
wait_for "$ENGINE_DIR/registry/begun" || bad "the slow pull does not begin: $(cat "$ENGINE_DIR/out")"
kill -TERM $pid
wait $pid 2>/dev/null && bad "a cancelled pull made a sandbox"
n=0; until grep -q 'pull.*context canceled' "$ENGINE_DIR/log" || [ $((n += 1)) -gt 300 ]; do sleep 0.1; done
grep -q 'pull.*context canceled' "$ENGINE_DIR/log" && ok "the engine's pull ends with its caller" || bad "the engine pulls on"
same "a cancelled pull leaves no image" "$(images)" "$before"
same "a cancelled pull leaves no container" "$(containers)" 0
n=0 # the row of a killed maker is settled by who opens next
until cay ls | awk 'NR > 1 { print $1 }' | while read -r b; do cay rm -f "$b" >/dev/null 2>&1 || :; done; [ "$(cay ls | awk 'NR > 1' | wc -l)" = 0 ] || [ $((n += 1)) -gt 50 ]; do sleep 0.2; done
same "no sandbox is left" "$(cay ls | awk 'NR > 1' | wc -l)" 0

# ------------------------------------------------------------------ Debian, as people have it
if wait $mmdebstrap && api -X POST -H 'Content-Type: application/x-tar' --data-binary "@$debian" 'http://e/v1.41/images/create?fromSrc=-&repo=localhost/debian&tag=bookworm' >"$ENGINE_DIR/out"; then
    same "an image made by mmdebstrap runs" "$(cay run --image localhost/debian:bookworm -- sh -c 'id -u; cat /etc/debian_version' | tr '\n' ' ')" "1000 $(tar -xOf "$debian" ./etc/debian_version) "
else
    echo "skip: no Debian by mmdebstrap here: $(tail -1 "$ENGINE_DIR/mmdebstrap" | cut -c1-200)"
fi
exit $failed
