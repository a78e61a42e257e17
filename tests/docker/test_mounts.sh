#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_mounts.sh BUILD: storage that a container mounts itself, by rclone of its image, against s3rver from npm; what an image without programs is told; and
# that keys stay out of reach. Run by tests/docker/with.
set -eu
build=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/lib.sh"
export CAY_PROVIDER=docker
[ -c /dev/fuse ] && (exec 3<>/dev/fuse) 2>/dev/null || { echo "no /dev/fuse here, or it may not be opened"; exit 77; }
for t in node npm; do command -v $t >/dev/null || { echo "$t is not installed"; exit 77; }; done
find_tool() { # NAME PACKAGE: its path, borrowed where it is not installed
    command -v "$1" && return
    "$here/../../tools/borrow" "$build/borrowed-mounts" "$2" >&2 || return 1
    find "$build/borrowed-mounts" -name "$1" -type f | head -1 | grep .
}
rclone=$(find_tool rclone rclone) || exit 77
fusermount=$(find_tool fusermount3 fuse3) || exit 77
peer=$build/s3rver
if [ ! -e "$peer/node_modules/s3rver/package.json" ]; then
    mkdir -p "$peer"
    (cd "$peer" && timeout 60 npm install --silent --no-audit --no-fund --fetch-retries=1 --fetch-timeout=20000 s3rver@3.7.1 >npm.log 2>&1) ||
        { echo "s3rver cannot be had from npm: $(tail -n 1 "$peer/npm.log")"; rm -rf "$peer"; exit 77; }
fi
tmp=$ENGINE_DIR/m
mkdir -p "$tmp/data" "$tmp/image"
api -d '{"Name":"cay-mounts","Driver":"bridge"}' "http://e/v1.41/networks/create" | grep -q '"Id"' || { echo "the engine makes no network here"; exit 77; }
trap 'kill $server 2>/dev/null; for b in $(cay ls -q 2>/dev/null); do cay rm -f "$b" >/dev/null 2>&1; done; api -X DELETE http://e/v1.41/networks/cay-mounts >/dev/null' EXIT
gateway=$(api "http://e/v1.41/networks/cay-mounts" | sed -n 's/.*"Gateway":"\([0-9.]*\)".*/\1/p')
cat >"$tmp/server.js" <<'J'
const S3rver = require('s3rver'), fs = require('fs');
const s = new S3rver({ address: '0.0.0.0', port: 0, directory: process.argv[2], silent: true, vhostBuckets: false, configureBuckets: [{ name: 'pub' }, { name: 'other' }] });
s.run().then((a) => fs.writeFileSync(process.argv[3], String(a.port)));
J
(cd "$peer" && NODE_PATH="$peer/node_modules" exec node "$tmp/server.js" "$tmp/data" "$tmp/port" >"$tmp/server.log" 2>&1) &
server=$!
n=0; until [ -s "$tmp/port" ] || [ $((n += 1)) -gt 200 ]; do sleep 0.1; done
port=$(cat "$tmp/port")
printf '[x]\ntype = s3\nprovider = Other\naccess_key_id = S3RVER\nsecret_access_key = S3RVER\nendpoint = http://127.0.0.1:%s\nno_check_bucket = true\n' "$port" >"$tmp/direct"
direct() { env -i PATH="$PATH" "$rclone" --config "$tmp/direct" "$@"; }
printf first | direct rcat x:pub/dir/one

cp "$rclone" "$tmp/image/rclone"; cp "$fusermount" "$tmp/image/fusermount3"; cp "$fusermount" "$tmp/image/fusermount" # Debian has both names
printf 'root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\nboss:x:0:0::/root:/bin/sh\n' >"$tmp/image/passwd"
printf 'FROM %s\nCOPY rclone fusermount3 fusermount /usr/bin/\nCOPY passwd /etc/passwd\n' "$CAY_DOCKER_IMAGE" >"$tmp/image/Dockerfile"
# One whose target is a volume already, and whose program never mounts.
mkdir "$tmp/false"; cp "$fusermount" "$tmp/false/fusermount3"; printf '#!/bin/sh\necho "not today" >&2\nexit 1\n' >"$tmp/false/rclone"; chmod +x "$tmp/false/rclone"
printf 'FROM %s\nCOPY rclone fusermount3 /usr/bin/\nVOLUME /workspace/ro\n' "$CAY_DOCKER_IMAGE" >"$tmp/false/Dockerfile"
entry() { # PATH BUCKET READ-ONLY PATTERN KEY
    printf '"%s":{"type":"s3_mount","bucket":"%s","access_key_id":%s,"secret_access_key":%s,"endpoint_url":"http://%s:%s","s3_provider":"Other","read_only":%s,"mount_strategy":{"type":"in_container","pattern":{"type":"%s"}}}' \
        "$1" "$2" "$5" "$5" "$gateway" "$port" "$3" "$4"
}
export KEY=S3RVER
ref='{"type":"ref","source":"env:KEY"}'
{ printf '{"entries":{'; entry ro pub true rclone "$ref"; printf ','; entry rw other false rclone "$ref"; printf ',"hello":{"type":"file","content":"hi"}},"services":{"look":{"command":"cat ro/dir/one >>seen 2>&1; echo >>seen","restart":"no"}}}'; } >"$tmp/m.json"
{ printf '{"entries":{'; entry mnt/ro pub true rclone "$ref"; printf '}}'; } >"$tmp/deep.json"
{ printf '{"services":{"of-root":{"command":"true","user":"00"}},"entries":{'; entry ro pub true rclone "$ref"; printf '}}'; } >"$tmp/of-root.json"
{ printf '{"acknowledge_credential_exposure":["/workspace/ro"],"entries":{'; entry ro pub true rclone "$ref"; printf '}}'; } >"$tmp/ack.json"
words=$(n=0; while [ $((n += 1)) -lt 40 ]; do printf '"--checkers=%d",' $n; done)
{ printf '{"entries":{'; entry ro pub true 'rclone","extra_args":['"$words"'"--use-mmap"],"remote_name":"x' "$ref"; printf '}}'; } >"$tmp/words.json"
{ printf '{"entries":{'; entry ro pub true mountpoint "$ref"; printf '}}'; } >"$tmp/s3.json"
{ printf '{"entries":{'; entry ro none true rclone '"wrong-key-of-mine"'; printf '}}'; } >"$tmp/wrong.json"
printf '{"entries":{"a":{"type":"azure_blob_mount","account":"x","container":"y","account_key":%s,"mount_strategy":{"type":"in_container","pattern":{"type":"fuse"}}}}}' "$ref" >"$tmp/blob.json"
net="--option network=cay-mounts"
containers() { api "http://e/v1.41/containers/json?all=true" | grep -o '"Id":"[0-9a-f]*"' | wc -l; }

refused "rclone that the image does not have" mount_missing_tool cay --json create $net --manifest "$tmp/m.json"
refused "mount-s3" mount_missing_tool cay --json create $net --manifest "$tmp/s3.json"
refused "blobfuse2" mount_missing_tool cay --json create $net --manifest "$tmp/blob.json"
refused "storage without a network" mount_config_invalid cay --json create --manifest "$tmp/m.json"
refused "keys that root inside could read" mount_credentials cay --json create $net --user root --manifest "$tmp/m.json"
refused "root as a number" mount_credentials cay --json create $net --user 00 --manifest "$tmp/m.json"
refused "a service of root" mount_credentials cay --json create $net --manifest "$tmp/of-root.json"
refused "root by another name" mount_credentials cay --json create $net --dockerfile "$tmp/image" --user boss --manifest "$tmp/m.json"
refused "more words than there is room for" mount_config_invalid cay --json create $net --dockerfile "$tmp/image" --manifest "$tmp/words.json"
sed 's|mnt/ro|ro|' "$tmp/deep.json" >"$tmp/flat.json"
refused "a volume in its place is not it" mount_failed cay --json create $net --dockerfile "$tmp/false" --manifest "$tmp/flat.json"
refused "a level above what mounting leaves" level_missing cay --json create $net --isolation process --manifest "$tmp/m.json"
same "nothing is left of them" "$(containers)" 0
cay create --name s $net --dockerfile "$tmp/image" --manifest "$tmp/m.json" >/dev/null 2>"$tmp/err" || { bad "create: $(tail -c 400 "$tmp/err")"; exit 1; }
same "a bucket is read" "$(cay exec s -- sh -c 'cat ro/dir/one hello')" firsthi
cay exec s -- sh -c 'echo x >ro/new' 2>/dev/null && bad "a read-only bucket is written" || ok "read-only is"
cay exec s -- sh -c 'echo written >rw/w'
n=0; until [ "$(direct cat x:other/w 2>/dev/null)" = written ] || [ $((n += 1)) -gt 100 ]; do sleep 0.1; done
same "what is written comes to the bucket" "$(direct cat x:other/w)" written
same "no key within reach" "$(cay exec s -- sh -c 'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /dev/shm/.cay-mounts/* 2>/dev/null | tr "\0" "\n" | grep -c "S3[R]VER"' || :)" 0
same "nor in the engine's record" "$(api "http://e/v1.41/containers/cay-$(cay ls -q | head -1)/json" | grep -c S3RVER || :)" 0
cay inspect s | grep -q SYS_ADMIN && ok "inspect tells what it costs" || bad "inspect says nothing of SYS_ADMIN"
same "others get no capability of it" "$(cay exec s -- grep CapEff /proc/self/status | tr -d '\t ')" CapEff:0000000000000000
seen() { n=0; until [ "$(cay exec s -- sh -c 'wc -l <seen' 2>/dev/null)" = "$1" ] || [ $((n += 1)) -gt 150 ]; do sleep 0.1; done; cay exec s -- sort -u seen; }
same "services come after it" "$(seen 1)" first
cay snapshot s --label saved >/dev/null
cay create --name f --from saved >/dev/null && same "a snapshot has neither bucket nor key" "$(cay exec f -u root -- sh -c 'ls /workspace/ro /dev/shm/.cay-mounts 2>/dev/null | grep -v "^/" | grep -c . ' || :)" 0
cay kill s >/dev/null
refused "a second life, where others were first" mount_restart cay --json resume s
refused "it stays stopped" sandbox_stopped cay --json exec s -- true
cay rm -f s >/dev/null; cay rm -f f >/dev/null 2>&1 || :
cay create --name a $net --user root --dockerfile "$tmp/image" --manifest "$tmp/ack.json" >/dev/null 2>"$tmp/err" || bad "acknowledged: $(tail -c 400 "$tmp/err")"
same "acknowledged: root has it" "$(cay exec a -- cat ro/dir/one)" first
cay rm -f a >/dev/null
if cay --json create $net --dockerfile "$tmp/image" --manifest "$tmp/wrong.json" >"$tmp/out" 2>&1; then
    cay exec "$(sed -n 's/.*"id": *"\([a-z2-7]*\)".*/\1/p' "$tmp/out" | head -1)" -- ls ro >/dev/null 2>&1 && bad "a wrong key opens a bucket" || ok "a wrong key opens nothing"
else
    grep -q '"reason": *"mount_failed"' "$tmp/out" && ! grep -q wrong-key "$tmp/out" && ok "a wrong key: mount_failed, and it is not told" || bad "a wrong key: $(head -c 300 "$tmp/out")"
fi
exit $failed
