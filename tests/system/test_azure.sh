#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_azure.sh BUILD SOURCE: a container of Azure Blob inside a sandbox, against Azurite from npm, which speaks the service's own protocol.
set -u
build=$(realpath "$1") source=$(realpath "$2") here=$(cd "$(dirname "$0")" && pwd)
[ "$(id -u)" = 0 ] || { echo "test_azure.sh wants root"; exit 77; }
[ -c /dev/fuse ] && (exec 3<>/dev/fuse) 2>/dev/null || { echo "no /dev/fuse here, or it may not be opened"; exit 77; }
for t in node npm; do command -v $t >/dev/null || { echo "$t is not installed"; exit 77; }; done
export PATH="$PATH:$build/borrowed-storage/usr/bin:$build/borrowed-storage/bin"
if ! command -v rclone >/dev/null; then
    "$source/tools/borrow" "$build/borrowed-storage" rclone || exit 77
fi
peer=${CAY_TEST_CACHE:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/cay-tests}/azurite-3.35.0
if [ ! -e "$peer/node_modules/azurite/package.json" ]; then
    mkdir -p "${peer%/*}" && new=$(mktemp -d "${peer%/*}/new.XXXXXX") || exit 77
    (cd "$new" && timeout 120 npm install --silent --no-audit --no-fund --ignore-scripts --omit=optional --fetch-retries=1 --fetch-timeout=20000 azurite@3.35.0 >npm.log 2>&1) ||
        { echo "azurite cannot be had from npm: $(tail -n 1 "$new/npm.log")"; rm -rf "$new"; exit 77; }
    mv "$new" "$peer" 2>/dev/null || rm -rf "$new"
fi
cay=$build/cay
. "$here/lib.sh"
export CAY_LIBEXEC="$build" CAY_POOL=1
server=
leave() { [ -z "$server" ] || kill "$server"; }
c() { timeout -k 1 60 "$cay" "$@" </dev/null 2>"$tmp/err"; }
eventually() { for i in $(seq 200); do "$@" && return 0; sleep 0.1; done; return 1; }

# ---- the server; account and key are those that Azure's documentation gives its emulator
KEY='Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='
export KEY
(exec node "$peer/node_modules/azurite/dist/src/blob/main.js" --blobHost 127.0.0.1 --blobPort 0 --location "$tmp/data" --skipApiVersionCheck --disableTelemetry >"$tmp/log" 2>&1) &
server=$!
address() { port=$(grep -o 'http://127.0.0.1:[0-9]*' "$tmp/log" | tail -n 1 | sed 's/.*://'); [ -n "$port" ] && [ "$port" != 0 ]; }
eventually address || { echo "azurite does not start:"; cat "$tmp/log"; exit 1; }
printf '[x]\ntype = azureblob\naccount = devstoreaccount1\nkey = %s\nuse_emulator = true\nendpoint = http://127.0.0.1:%s/devstoreaccount1\n' "$KEY" "$port" >"$tmp/direct"
direct() { env -i PATH="$PATH" rclone --config "$tmp/direct" "$@"; }
direct mkdir x:box || { echo "rclone does not reach azurite"; exit 1; }
printf first | direct rcat x:box/dir/one
object() { [ "$(direct cat "x:box/$1" 2>/dev/null)" = "$2" ]; }

manifest() { # READ-ONLY KEY
    printf '{"entries":{"data":{"type":"azure_blob_mount","account":"devstoreaccount1","container":"box","endpoint":"http://127.0.0.1:%s/devstoreaccount1","account_key":%s,"read_only":%s,"mount_strategy":{"type":"in_container","pattern":{"type":"rclone"}}}}}' "$port" "$2" "$1"
}
manifest true '{"type":"ref","source":"env:KEY"}' >"$tmp/ro.json"
manifest false '{"type":"ref","source":"env:KEY"}' >"$tmp/rw.json"
manifest true '"c2VudGluZWwtYXp1cmUta2V5"' >"$tmp/wrong.json"
ok 'a container of Azure is read' same "$(c run --manifest "$tmp/ro.json" -- sh -c 'cat data/dir/one; ls data')" firstdir
ok 'a container is read-only unless the manifest says otherwise' not c run --manifest "$tmp/ro.json" -- sh -c 'echo x >data/new'
ok 'the kernel refuses the write' says "Read-only file system"
id=$(c create --manifest "$tmp/rw.json")
ok 'files are written and removed in a mounted container' c exec "$id" -- sh -c 'mkdir -p data/deep; echo written >data/deep/w; rm data/dir/one'
ok 'a written file appears in the container' eventually object deep/w written
ok 'a removed file goes from the container' eventually not object dir/one first
ok "no key is inside, nor in the state directory" sh -c "! '$cay' exec $id -- sh -c 'cat /proc/self/mountinfo /proc/[0-9]*/environ 2>/dev/null' </dev/null | grep -aq 'Eby8vdM0' && ! grep -rsq 'Eby8vdM0' '$CAY_HOME'"
c rm -f "$id" >/dev/null
ok 'a wrong key is refused, as rclone would not use it' not c run --manifest "$tmp/wrong.json" -- ls data
ok 'a refused key is named by its field' says "account_key"
ok 'a refused key is in no message' not says "c2VudGluZWw"
verdict
