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
# Mode nfs, by programs that say what they were told: no kernel of ours has to know nfs. And a file of the image that says more of a remote.
{ printf '{"entries":{'; entry ro pub true 'rclone","mode":"nfs","nfs_addr":"127.0.0.1:3049' "$ref"; printf ','; entry rw other false rclone "$ref"; printf '}}'; } >"$tmp/nfs.json" # with one that brings /dev/fuse
{ printf '{"entries":{'; entry ro pub true 'rclone","mode":"nfs","nfs_addr":"0.0.0.0:3049' "$ref"; printf '}}'; } >"$tmp/wide.json"
{ printf '{"entries":{'; entry ro pub true 'rclone","remote_name":"mine","config_file_path":"/etc/rclone.conf' "$ref"; printf '}}'; } >"$tmp/file.json"
sed 's|/etc/rclone.conf|/workspace/rclone.conf|' "$tmp/file.json" >"$tmp/theirs.json"
sed 's|"mine"|"other"|' "$tmp/file.json" >"$tmp/none.json"
{ printf '{"entries":{'; entry /.cay/x pub true rclone "$ref" | sed 's|"/.cay/x":{|"x":{"mount_path":"/.cay/x",|'; printf '}}'; } >"$tmp/own.json"
mkdir "$tmp/nfs"; cp "$rclone" "$tmp/nfs/rclone.real"; cp "$fusermount" "$tmp/nfs/fusermount3"; cp "$fusermount" "$tmp/nfs/fusermount"; cp "$(command -v mount)" "$tmp/nfs/mount"
cat >"$tmp/nfs/rclone" <<'S'
#!/bin/sh
[ "$1 $2" = "serve nfs" ] || exec rclone.real "$@"
echo "$*" >/run/served
while [ "$1" != --config ]; do shift; done
config=$2
while [ "$1" != --addr ]; do shift; done
for remote; do :; done
echo "$config $remote" >/run/what
exec rclone.real serve http --config "$config" --addr "$2" --read-only "$remote"
S
cat >"$tmp/nfs/mount.nfs" <<'S'
#!/bin/sh
echo "$*" >>/run/mounted
case $* in *vers=4.1*) echo "protocol not supported" >&2; exit 32 ;; esac
read -r config remote </run/what
exec rclone.real mount --daemon --allow-other --read-only --config "$config" "$remote" "$2"
S
printf '[mine]\nno_check_bucket = false\n\n[another]\ntype = local\n' >"$tmp/nfs/rclone.conf"
chmod +x "$tmp/nfs/rclone" "$tmp/nfs/mount.nfs"
printf 'FROM %s\nCOPY rclone rclone.real fusermount3 fusermount mount /usr/bin/\nCOPY mount.nfs /usr/sbin/\nCOPY rclone.conf /etc/\n' "$CAY_DOCKER_IMAGE" >"$tmp/nfs/Dockerfile"
printf '{"entries":{"a":{"type":"azure_blob_mount","account":"x","container":"y","account_key":%s,"mount_strategy":{"type":"in_container","pattern":{"type":"fuse"}}}}}' "$ref" >"$tmp/blob.json"
net="--option network=cay-mounts"
containers() { api "http://e/v1.41/containers/json?all=true" | grep -o '"Id":"[0-9a-f]*"' | wc -l; }

refused "rclone that the image does not have" mount_missing_tool cay --json create $net --manifest "$tmp/m.json"
refused "mount-s3 that the image does not have" mount_missing_tool cay --json create $net --manifest "$tmp/s3.json"
refused "blobfuse2 that the image does not have" mount_missing_tool cay --json create $net --manifest "$tmp/blob.json"
refused "nfs without its programs" mount_missing_tool cay --json create $net --dockerfile "$tmp/image" --manifest "$tmp/nfs.json"
refused "nfs where others could mount it" mount_config_invalid cay --json create $net --dockerfile "$tmp/nfs" --manifest "$tmp/wide.json"
refused "a configuration that others could write" mount_config_invalid cay --json create $net --dockerfile "$tmp/nfs" --manifest "$tmp/theirs.json"
refused "a configuration without the remote" mount_config_invalid cay --json create $net --dockerfile "$tmp/nfs" --manifest "$tmp/none.json"
refused "storage over what the container stands on" mount_target cay --json create $net --manifest "$tmp/own.json"
refused "storage without a network" mount_config_invalid cay --json create --manifest "$tmp/m.json"
refused "keys that root inside could read" mount_credentials cay --json create $net --user root --manifest "$tmp/m.json"
refused "root given as a number" mount_credentials cay --json create $net --user 00 --manifest "$tmp/m.json"
refused "a service that runs as root" mount_credentials cay --json create $net --manifest "$tmp/of-root.json"
refused "root by another name" mount_credentials cay --json create $net --dockerfile "$tmp/image" --user boss --manifest "$tmp/m.json"
refused "more words than there is room for" mount_config_invalid cay --json create $net --dockerfile "$tmp/image" --manifest "$tmp/words.json"
sed 's|mnt/ro|ro|' "$tmp/deep.json" >"$tmp/flat.json"
refused "a volume in place of a bucket" mount_failed cay --json create $net --dockerfile "$tmp/false" --manifest "$tmp/flat.json"
refused "a level above what mounting leaves" level_missing cay --json create $net --isolation process --manifest "$tmp/m.json"
same "refused storage leaves no container" "$(containers)" 0
cay create --name s $net --dockerfile "$tmp/image" --manifest "$tmp/m.json" >/dev/null 2>"$tmp/err" || { bad "create: $(tail -c 400 "$tmp/err")"; exit 1; }
same "a bucket is read" "$(cay exec s -- sh -c 'cat ro/dir/one hello')" firsthi
cay exec s -- sh -c 'echo x >ro/new' 2>/dev/null && bad "a read-only bucket is written" || ok "a read-only bucket is not written"
cay exec s -- sh -c 'echo written >rw/w'
n=0; until [ "$(direct cat x:other/w 2>/dev/null)" = written ] || [ $((n += 1)) -gt 100 ]; do sleep 0.1; done
same "a written file comes to the bucket" "$(direct cat x:other/w)" written
same "no key is within reach of the user" "$(cay exec s -- sh -c 'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /.cay/mounts/* 2>/dev/null | tr "\0" "\n" | grep -c "S3[R]VER"' || :)" 0
same "no key is in the engine's record" "$(api "http://e/v1.41/containers/cay-$(cay ls -q | head -1)/json" | grep -c S3RVER || :)" 0
cay inspect s | grep -q SYS_ADMIN && ok "inspect tells that a mount needs SYS_ADMIN" || bad "inspect says nothing of SYS_ADMIN"
same "commands get no capability of the mount" "$(cay exec s -- grep CapEff /proc/self/status | tr -d '\t ')" CapEff:0000000000000000
same "the directory of mounts belongs to root" "$(cay exec s -u root -- stat -f -c %T /.cay/mounts) $(cay exec s -u root -- stat -c '%u %a' /.cay/mounts)" "tmpfs 0 700"
cay exec s -- sh -c 'ls /.cay/mounts || touch /.cay/mounts/x || mv /.cay/mounts /.cay/m' 2>/dev/null && bad "others reach it" || ok "the user does not reach the directory of mounts"
seen() { n=0; until [ "$(cay exec s -- sh -c 'wc -l <seen' 2>/dev/null)" = "$1" ] || [ $((n += 1)) -gt 150 ]; do sleep 0.1; done; cay exec s -- sort -u seen; }
same "services start after the mount" "$(seen 1)" first
cay kill s >/dev/null
id=$(cay ls -q | head -1)
mv "$CAY_HOME/docker/$id/walls" "$tmp/walls"; : >"$CAY_HOME/docker/$id/walls" # what it was made with is not known any more: it is not gone by that
cay resume s >/dev/null 2>"$tmp/err" || bad "resume: $(cat "$tmp/err")"
mv "$tmp/walls" "$CAY_HOME/docker/$id/walls"
same "a restarted sandbox mounts its bucket" "$(cay exec s -- cat ro/dir/one)" first
same "a restarted sandbox starts services after the mount" "$(seen 2)" first
cay kill s >/dev/null
api -X POST "http://e/v1.41/containers/cay-$id/start" >/dev/null
cay resume s >/dev/null 2>"$tmp/err" || bad "resume: $(cat "$tmp/err")"
same "a sandbox that others started mounts its bucket" "$(seen 3) $(cay exec s -- cat ro/dir/one)" "first first"
cay snapshot s --label saved >/dev/null
cay create --name f --from saved >/dev/null && same "a snapshot has neither bucket nor key" "$(cay exec f -u root -- sh -c 'ls /workspace/ro /.cay/mounts 2>/dev/null | grep -v "^/" | grep -c . ' || :)" 0
cay undo s >/dev/null 2>"$tmp/err" || bad "undo: $(cat "$tmp/err")"
same "undo mounts the bucket again" "$(cay exec s -- cat ro/dir/one)" first
cay rm -f s >/dev/null; cay rm -f f >/dev/null 2>&1 || :
# A link that was planted in a former life, and who may read keys said so.
cay create --name l $net --dockerfile "$tmp/image" --manifest "$tmp/deep.json" >/dev/null 2>"$tmp/err" || bad "create: $(tail -c 400 "$tmp/err")"
same "a bucket below a directory is read" "$(cay exec l -- cat mnt/ro/dir/one)" first
cay exec l -- sh -c 'mv mnt old && mkdir mnt && ln -s /etc mnt/ro' || bad "no link planted"
cay kill l >/dev/null
refused "a link on the way to a bucket" mount_failed cay --json resume l
refused "a command in a sandbox that did not start" sandbox_stopped cay --json exec l -- true
cay rm -f l >/dev/null
cay create --name a $net --user root --dockerfile "$tmp/image" --manifest "$tmp/ack.json" >/dev/null 2>"$tmp/err" || bad "acknowledged: $(tail -c 400 "$tmp/err")"
cay kill a >/dev/null
cay resume a >/dev/null 2>"$tmp/err" || bad "acknowledged once is always: $(tail -c 400 "$tmp/err")"
same "acknowledged: root reads the bucket after a restart" "$(cay exec a -- cat ro/dir/one)" first
cay rm -f a >/dev/null
cay create --name n $net --dockerfile "$tmp/nfs" --manifest "$tmp/nfs.json" >/dev/null 2>"$tmp/err" || bad "nfs: $(tail -c 400 "$tmp/err")"
same "nfs: a bucket is read" "$(cay exec n -- cat ro/dir/one)" first
same "nfs: it is tried as the SDK does, then as rclone speaks it" "$(cay exec n -u root -- sh -c 'grep -o "vers=[0-9.]*.*port=[0-9]*" /run/mounted' | sed 's/,soft.*//')" "vers=4.1,tcp,port=3049
vers=3,tcp,port=3049,mountport=3049"
cay exec n -u root -- grep -q -- '--read-only' /run/served && ok "nfs: the server is read-only" || bad "nfs: $(cay exec n -u root -- cat /run/served)"
cay rm -f n >/dev/null
cay create --name c $net --dockerfile "$tmp/nfs" --manifest "$tmp/file.json" >/dev/null 2>"$tmp/err" || bad "config_file_path: $(tail -c 400 "$tmp/err")"
same "config_file_path: what the file says, and the manifest" "$(cay exec c -- cat ro/dir/one; cay exec c -u root -- grep -c . /.cay/mounts/0.conf)" "first11"
cay rm -f c >/dev/null
# The engine's own driver, which rclone is as well.
{ printf '{"entries":{'; entry ro pub true x "$ref"; printf ','; entry rw other false x "$ref"; printf '}}'; } | sed 's|"type":"in_container","pattern":{"type":"x"}|"type":"docker_volume","driver":"rclone"|g' >"$tmp/volume.json"
if plugin_free rclone && mkdir -p "$tmp/base" "$tmp/cache"; then
    env -i PATH="$(dirname "$fusermount"):$PATH" HOME="$tmp" "$rclone" serve docker --socket-addr "$plugin" --base-dir "$tmp/base" --cache-dir "$tmp/cache" --forget-state </dev/null >"$tmp/plugin.log" 2>&1 &
    driver=$!
    trap 'kill $driver $server 2>/dev/null; for b in $(cay ls -q 2>/dev/null); do cay rm -f "$b" >/dev/null 2>&1; done; api -X DELETE http://e/v1.41/networks/cay-mounts >/dev/null; rm -f "$plugin"' EXIT
    plugin_up
    cay create --name v --manifest "$tmp/volume.json" >/dev/null 2>"$tmp/err" || bad "docker_volume: $(tail -c 400 "$tmp/err"; tail -c 300 "$tmp/plugin.log")"
    same "docker_volume: a bucket is read, without a network inside" "$(cay exec v -- cat ro/dir/one)" first
    cay exec v -- sh -c 'echo by-volume >rw/v' || bad "docker_volume is not written"
    n=0; until [ "$(direct cat x:other/v 2>/dev/null)" = by-volume ] || [ $((n += 1)) -gt 100 ]; do sleep 0.1; done
    same "docker_volume: a written file comes to the bucket" "$(direct cat x:other/v)" by-volume
    cay exec v -- sh -c 'echo x >ro/new' 2>/dev/null && bad "docker_volume: a read-only bucket is written" || ok "docker_volume: a read-only bucket is not written"
    cay inspect v | grep -q SYS_ADMIN && bad "docker_volume costs SYS_ADMIN" || ok "docker_volume costs no capability"
    cay rm -f v >/dev/null
    same "docker_volume: no volume is left" "$(api http://e/v1.41/volumes | grep -c '"Name":"cay-' || :)" 0
fi
if cay --json create $net --dockerfile "$tmp/image" --manifest "$tmp/wrong.json" >"$tmp/out" 2>&1; then
    cay exec "$(sed -n 's/.*"id": *"\([a-z2-7]*\)".*/\1/p' "$tmp/out" | head -1)" -- ls ro >/dev/null 2>&1 && bad "a wrong key opens a bucket" || ok "a wrong key opens nothing"
else
    grep -q '"reason": *"mount_failed"' "$tmp/out" && ! grep -q wrong-key "$tmp/out" && ok "a wrong key: mount_failed, and it is not told" || bad "a wrong key: $(head -c 300 "$tmp/out")"
fi
exit $failed
