#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_state.sh BUILD ENGINE: what outlives a container: snapshots, forks, undo, session state; containers that others end or remove. Run by tests/docker/with.
set -eu
build=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$(dirname "$(realpath "$0")")/lib.sh"
engine=${2:-docker}
export CAY_PROVIDER="$engine"
containers() { api "http://e/v1.41/containers/json?all=true" | grep -o '"Id":"[0-9a-f]*"' | wc -l; }
images() { api "http://e/v1.41/images/json" | grep -o '"localhost/cay-[0-9a-f]*:s[a-z2-7]*"' | sort -u | wc -l; }
container() { sed 's/ .*//' "$CAY_HOME/$engine/$1/container"; }

# ------------------------------------------------------------------ snapshot, fork, undo
one=$(cay create --name one -e COLOR=red --label team=a --memory 300M)
cay exec one -- sh -c 'echo first > /workspace/f; echo home > ~/h'
cay exec one -u root -- sh -c 'echo etc > /etc/of-root; rm /usr/bin/mawk'
cay exec one -d --tag work -- sleep 600 >/dev/null
snap=$(cay snapshot one --label base)
same "a snapshot has an id" "$(echo "$snap" | cut -c1)" s
same "a process runs on after a snapshot" "$(cay ps one | grep -c 'sleep 600')" 1
same "a snapshot is listed" "$(cay snapshots | grep -c "$snap")" 1
same "a snapshot is an image of the engine" "$(images)" 1
refused "a quiet snapshot while a process runs" processes_running cay --json snapshot one --quiet
same "a refused snapshot leaves no image" "$(images)" 1
cay exec one -- sh -c 'echo second > /workspace/f; touch /workspace/new'
two=$(cay create --from "$snap" --name two)
same "a sandbox of a snapshot has its files" "$(cay exec two -- sh -c 'cat f ~/h /etc/of-root; ls /workspace; test -e /usr/bin/mawk || echo gone' | tr '\n' ' ')" "first home etc f gone "
same "a sandbox of a snapshot has no process" "$(cay ps two | grep -c 'sleep 600')" 0
three=$(cay fork one)
same "a fork has the latest files" "$(cay exec "$three" -- sh -c 'cat f; ls /workspace; echo $COLOR' | tr '\n' ' ')" "second f new red "
same "a fork has the same limits" "$(api "http://e/v1.41/containers/$(container "$three")/json" | grep -o '"Memory":[0-9]*' | head -1)" '"Memory":314572800'
cay exec "$three" -- sh -c 'echo third > f'
same "a fork does not change its parent" "$(cay exec one -- cat f)" second
refused "a snapshot with another image" snapshot_image cay --json create --from "$snap" --image other:1
held=$(api "http://e/v1.41/images/json" | grep -o '"localhost/cay-[0-9a-f]*:s[a-z2-7]*"' | head -1 | tr -d '"')
refused "a snapshot by the name of its image" image_not_found cay --json create --image "$held"
refused "a snapshot by the id of its image" image_not_found cay --json create --image "$(api "http://e/v1.41/images/$held/json" | grep -o '"Id":"sha256:[0-9a-f]*"' | head -1 | tr -d '"' | sed 's/^Id://')"
refused "a snapshot with another provider" snapshot_provider cay --json --provider native create --from "$snap"
refused "an export of a snapshot" snapshot_opaque cay --json snapshot export "$snap" -o "$ENGINE_DIR/x.tar.zst"
refused "a comparison of snapshots" snapshot_opaque cay --json diff "$snap" "$snap"
tags() { api "http://e/v1.41/images/json" | grep -o '"localhost/cay-[0-9a-f]*:s[a-z2-7]*"' | tr -d '"' | sort -u; } # podman tells each twice
tags >"$ENGINE_DIR/tags"
cay create --name four >/dev/null
lost=$(cay snapshot four --label lost)
api -X DELETE "http://e/v1.41/images/$(tags | grep -vxFf "$ENGINE_DIR/tags")?force=true" >/dev/null
refused "a snapshot whose image is gone" snapshot_gone cay --json create --from "$lost"
cay snapshot rm "$lost" >/dev/null && ok "a snapshot whose image is gone is removed" || bad "a snapshot whose image is gone stays"
cay rm -f four >/dev/null
cay create --name ro --option read_only=true >/dev/null
refused "a snapshot of a read-only root" snapshot_unsupported cay --json snapshot ro
cay rm -f ro >/dev/null
before=$(container "$one")
cay undo one --to "$snap" >/dev/null || bad "undo fails"
same "undo brings the files back" "$(cay exec one -- sh -c 'cat f; ls /workspace; echo $COLOR' | tr '\n' ' ')" "first f red "
[ "$(container "$one")" != "$before" ] && ok "undo makes another container" || bad "the same container"
same "undo leaves one container" "$(containers)" 3
same "undo keeps the limits" "$(api "http://e/v1.41/containers/$(container "$one")/json" | grep -o '"Memory":[0-9]*' | head -1)" '"Memory":314572800'

# ------------------------------------------------------------------ session state
cay state one >"$ENGINE_DIR/state"
cay exec one -- sh -c 'echo live > f'
cay resume --state "$ENGINE_DIR/state" >/dev/null
same "a state finds a running sandbox" "$(cay exec one -- cat f)" live
cay state --snapshot one >"$ENGINE_DIR/state"
cay rm -f one >/dev/null
cay resume --state "$ENGINE_DIR/state" --env COLOR=red >"$ENGINE_DIR/out" 2>&1 || bad "resume: $(cat "$ENGINE_DIR/out")"
same "a removed sandbox is made again under its id" "$(cay exec "$one" -- cat f)" live
api -X POST "http://e/v1.41/containers/$(container "$one")/restart?t=1" >/dev/null
same "a container that others restarted is found" "$(cay exec "$one" -- cat f)" live
api -X POST "http://e/v1.41/containers/$(container "$one")/stop?t=1" >/dev/null
refused "a command in a container that others stopped" sandbox_stopped cay --json exec "$one" -- true
cay resume "$one" >/dev/null
same "a container that others stopped is started again" "$(cay exec "$one" -- cat f)" live
cay kill "$one" >/dev/null
api -X POST "http://e/v1.41/containers/$(container "$one")/start" >/dev/null
cay resume "$one" >/dev/null
same "a container that others started is found" "$(cay exec "$one" -- cat f)" live
api -X DELETE "http://e/v1.41/containers/$(container "$one")?force=true" >/dev/null
cay --json exec "$one" -- true >"$ENGINE_DIR/out" 2>&1 && bad "a container that is gone runs" || ok "removed by others: $(cut -c1-100 "$ENGINE_DIR/out")"
cay rm -f "$one" >/dev/null 2>&1 || :
cay resume --state "$ENGINE_DIR/state" --env COLOR=red >"$ENGINE_DIR/out" 2>&1 || bad "resume: $(cat "$ENGINE_DIR/out")"
same "a container that others removed is made again by its state" "$(cay exec "$one" -- cat f)" live

# ------------------------------------------------------------------ one of our name, with our labels, that has a network
cay kill "$one" >/dev/null
owner=$(api "http://e/v1.41/containers/$(container "$one")/json" | grep -o '"io.cay.owner":"[^"]*"' | head -1)
api -X DELETE "http://e/v1.41/containers/$(container "$one")?force=true" >/dev/null
body="{\"Image\":\"$CAY_DOCKER_IMAGE\",\"Cmd\":[\"sleep\",\"600\"],\"Labels\":{$owner,\"io.cay.sandbox\":\"$one\"},\"HostConfig\":{\"NetworkMode\":\"host\"}}"
api -H 'Content-Type: application/json' -d "$body" "http://e/v1.41/containers/create?name=cay-$one" >/dev/null
api "http://e/v1.41/containers/cay-$one/json" | grep -q "$owner" && ok "somebody makes a container of our name" || bad "nobody makes one"
cay --json resume "$one" >"$ENGINE_DIR/out" 2>&1 && bad "a container that has lost its isolation is used" || ok "a container that has lost its isolation is not used: $(cut -c1-160 "$ENGINE_DIR/out")"
grep -q sandbox_gone "$ENGINE_DIR/out" && ok "a container that has lost its isolation is called gone" || bad "told: $(cat "$ENGINE_DIR/out")"
api "http://e/v1.41/containers/cay-$one/json" | grep -q '"Running":true' && bad "it runs" || ok "a container that has lost its isolation is not started"
api -X POST "http://e/v1.41/containers/cay-$one/start" >/dev/null
cay rm -f "$one" >"$ENGINE_DIR/out" 2>&1 || bad "rm: $(cat "$ENGINE_DIR/out")"
api "http://e/v1.41/containers/cay-$one/json" | grep -q "$owner" && bad "removed, and it runs on" || ok "rm removes a container that has lost its isolation"
stray=caaaaaaaaaaaaaaaaaaa
api -d "$(echo "$body" | sed "s/$one/$stray/")" "http://e/v1.41/containers/create?name=cay-$stray" >/dev/null
cay gc >/dev/null
api "http://e/v1.41/containers/cay-$stray/json" | grep -q "$owner" && bad "a stray that has a network stays" || ok "a stray that has a network is swept"
cay resume --state "$ENGINE_DIR/state" --env COLOR=red >"$ENGINE_DIR/out" 2>&1 || bad "resume: $(cat "$ENGINE_DIR/out")"
same "a state makes another container without a network" "$(cay exec "$one" -- sh -c 'cat f; ls /sys/class/net' | tr '\n' ' ')" "live lo "

# ------------------------------------------------------------------ one of our name, without our labels
cay kill "$one" >/dev/null
api -X DELETE "http://e/v1.41/containers/$(container "$one")?force=true" >/dev/null
api -H 'Content-Type: application/json' -d "{\"Image\":\"$CAY_DOCKER_IMAGE\",\"Cmd\":[\"sleep\",\"600\"],\"HostConfig\":{\"NetworkMode\":\"none\"}}" "http://e/v1.41/containers/create?name=cay-$one" >/dev/null
cay --json resume "$one" >"$ENGINE_DIR/out" 2>&1 && bad "a container that has lost its labels is used" || ok "a container that has lost its labels is not used: $(cut -c1-160 "$ENGINE_DIR/out")"
api "http://e/v1.41/containers/cay-$one/json" | grep -q '"Running":true' && bad "it runs" || ok "a container that has lost its labels is not started"
cay rm -f "$one" >"$ENGINE_DIR/out" 2>&1 || bad "rm: $(cat "$ENGINE_DIR/out")"
api "http://e/v1.41/containers/cay-$one/json" | grep -q '"Id"' && ok "a container that has lost its labels is not removed" || bad "it was removed"
api -X DELETE "http://e/v1.41/containers/cay-$one?force=true" >/dev/null
cay resume --state "$ENGINE_DIR/state" --env COLOR=red >"$ENGINE_DIR/out" 2>&1 || bad "resume: $(cat "$ENGINE_DIR/out")"
same "a state makes another container with labels" "$(cay exec "$one" -- cat f)" live

# ------------------------------------------------------------------ storage that a driver of the engine mounts
volume() { # OPTION: a manifest with it
    printf '{"entries":{"b":{"type":"s3_mount","bucket":"mine","prefix":"p","access_key_id":{"type":"ref","source":"env:KEY_ID"},"secret_access_key":{"type":"ref","source":"env:KEY"},"mount_strategy":{"type":"docker_volume","driver":"mountpoint","driver_options":{"%s":"1"}}}}}' "$1" >"$ENGINE_DIR/$1.json"
}
volumes() { api http://e/v1.41/volumes | grep -o '"Name":"cay-[^"]*"' | wc -l; }
export KEY=very-secret-word KEY_ID=an-id
if plugin_free mountpoint; then
    volume fast; volume fail; volume bucket
    [ "$engine" = docker ] || refused "a driver that the engine has not" volume_driver_unknown cay --json create --manifest "$ENGINE_DIR/fast.json"
    "$here/plugin.py" "$plugin" "$ENGINE_DIR/plugin" </dev/null >/dev/null 2>&1 &
    driver=$!
    trap 'kill $driver; rm -f "$plugin"' EXIT
    plugin_up
    refused "an option that says which storage it is" mount_config_invalid cay --json create --manifest "$ENGINE_DIR/bucket.json"
    refused "a driver that does not mount" mount_failed cay --json create --manifest "$ENGINE_DIR/fail.json"
    same "no key is in the message of a driver" "$(grep -c very-s "$ENGINE_DIR/out" || :)" 0
    same "refused storage leaves no volume" "$(volumes)" 0
    cay create --name vol --manifest "$ENGINE_DIR/fast.json" >/dev/null 2>"$ENGINE_DIR/out" || bad "create: $(cat "$ENGINE_DIR/out")"
    v=$(cay inspect vol | sed -n 's/.*"id": *"\(c[a-z2-7]*\)".*/\1/p' | head -1)
    same "files of the driver are read" "$(cay exec vol -- cat b/from)" "the driver"
    same "the driver gets its options" "$(cat "$ENGINE_DIR/plugin/cay-$v-0.json")" '{"access_key_id": "an-id", "bucket": "mine", "fast": "1", "prefix": "p", "secret_access_key": "very-secret-word"}'
    cay exec vol -- sh -c 'echo x >b/new' 2>/dev/null && bad "read-only storage is written" || ok "storage of a driver is read-only"
    same "no key is in the record of the container, nor in ours" "$(api "http://e/v1.41/containers/$(container "$v")/json" | grep -c "$KEY" || :) $(grep -rl "$KEY" "$CAY_HOME" | wc -l)" "0 0"
    cay snapshot vol --label volsnap >/dev/null
    cay undo vol >/dev/null || bad "undo fails"
    same "storage of a driver is there after undo" "$(cay exec vol -- cat b/from)" "the driver"
    cay kill vol >/dev/null; cay resume vol >/dev/null || bad "resume fails"
    same "storage of a driver is there after a restart" "$(cay exec vol -- cat b/from) $(volumes)" "the driver 1"
    cay rm -f vol >/dev/null; cay snapshot rm volsnap >/dev/null
    same "the volume of a driver goes with the sandbox" "$(volumes)" 0
    api -d "{\"Name\":\"cay-$v-0\",\"Labels\":{$owner,\"io.cay.sandbox\":\"$v\"}}" http://e/v1.41/volumes/create >/dev/null
    api -d "{\"Name\":\"cay-else-0\",\"Labels\":{\"io.cay.owner\":\"00\",\"io.cay.sandbox\":\"$v\"}}" http://e/v1.41/volumes/create >/dev/null
    cay gc >/dev/null
    same "a stray volume is swept, that of another is not" "$(api http://e/v1.41/volumes | grep -o '"Name":"cay-[^"]*"')" '"Name":"cay-else-0"'
    api -X DELETE http://e/v1.41/volumes/cay-else-0 >/dev/null
fi

# ------------------------------------------------------------------ killed over undo
cay exec "$two" -- sh -c 'echo later > f'
for wait in 0.05 0.2 0.4 0.7; do
    cay undo "$two" --to "$snap" >/dev/null 2>&1 &
    pid=$!
    sleep $wait
    kill -KILL $pid 2>/dev/null || :
    wait $pid 2>/dev/null || :
    n=0 # the engine may still do what the dead one asked for: a stop after we looked is no fault
    until said=$(cay exec "$two" -- cat f 2>"$ENGINE_DIR/out") || [ $((n += 1)) -gt 50 ]; do
        cay resume "$two" >/dev/null 2>&1 || :
        sleep 0.2
    done
    case $said in first | later) ok "undo killed after $wait s leaves the old or the new files" ;; *) bad "killed after $wait s: $said $(cat "$ENGINE_DIR/out")" ;; esac
done
cay undo "$two" --to "$snap" >/dev/null || bad "undo after all that"
same "undo works after killed ones" "$(cay exec "$two" -- cat f)" first

# ------------------------------------------------------------------ what is left
for b in "$one" "$two" "$three"; do cay rm -f "$b" >/dev/null; done
same "no container is left" "$(containers)" 0
cay snapshots -q | while read -r s; do cay snapshot rm "$s" >/dev/null || echo "FAIL: cannot remove $s"; done
n=0 # another program may be at it in the background
until cay gc --settle >/dev/null; [ -z "$(ls "$CAY_HOME/layers")" ] || [ $((n += 1)) -gt 50 ]; do sleep 0.2; done
same "no image is left" "$(images)" 0
same "no layer is left" "$(find "$CAY_HOME/layers" -mindepth 1 | wc -l)" 0
same "no record of a layer is left" "$(find "$CAY_HOME/$engine/.layers" -mindepth 1 | wc -l)" 0
same "no directory is left" "$(find "$CAY_HOME/$engine" -maxdepth 1 -name '*c??????????????????*' | wc -l)" 0
exit $failed
