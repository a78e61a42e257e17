#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_docker.sh BUILD: the commands on a real engine: bad requests, tenants who reach for pid 1, programs and engines that are killed, and
# what is left. Run by tests/docker/with.
set -eu
build=$(realpath "$1")
. "$(dirname "$(realpath "$0")")/lib.sh"
engine=${2:-docker}
export CAY_PROVIDER="$engine"
image=$CAY_DOCKER_IMAGE

# refused WHAT REASON COMMAND…: it fails, for that reason, and makes no container.
containers() { api "http://e/v1.41/containers/json?all=true" | grep -o '"Id":"[0-9a-f]*"' | wc -l; }

# ------------------------------------------------------------------ a command, its streams and its status
same "run prints the output of its command" "$(cay run -- sh -c 'echo out; echo err >&2' 2>/dev/null)" out
rc=0; cay run -- sh -c 'exit 7' || rc=$?
same "run gives the status of its command" $rc 7
same "commands run as user 1000" "$(cay run -- id -u)" 1000
same "run -u root runs as root" "$(cay run -u root -- id -u)" 0
same "run -e sets variables" "$(cay run -e A=b -- sh -c 'echo $A $HOME $USER')" "b /home/user user"
same "commands have no capability" "$(cay run -- grep CapEff /proc/self/status | tr -d '\t ')" CapEff:0000000000000000
same "commands have no_new_privs" "$(cay run -- grep NoNewPrivs /proc/self/status | tr -d '\t ')" NoNewPrivs:1
same "commands have the engine's filter, and with seccomp=strict cay's own" "$(cay run -- grep Seccomp_filters /proc/self/status | tr -dc 0-9) $(cay run --option seccomp=strict -- grep Seccomp_filters /proc/self/status | tr -dc 0-9)" "1 2"
same "commands have no network" "$(cay run -- sh -c 'ls /sys/class/net')" lo
same "run leaves no container" "$(containers)" 0

# ------------------------------------------------------------------ bad requests
refused "a sandbox without an image" image_missing env -u CAY_DOCKER_IMAGE cay --json create
refused "an image that is not there" image_not_found cay --json create --image no-such-image --option pull=never
refused "an image's bad name" option_invalid cay --json create --image '../x'
refused "an unknown option" option_unknown cay --json create --option color=red
refused "an option of another provider" option_unknown cay --json --provider native create --option image=x
refused "the host's network" option_invalid cay --json create --option network=host
refused "a network that is not there" network_not_found cay --json create --option network=no-such-network
refused "the capability SYS_ADMIN" capability_refused cay --json create --option cap_add=SYS_ADMIN
refused "a disk limit that nobody holds" disk_unsupported cay --json create --disk 1G
refused "a level that is not given" level_missing cay --json create --isolation vm
refused "a network policy" not_supported cay --json create --net pypi
refused "an absent engine" engine_absent env DOCKER_HOST=unix:///no/such CONTAINER_HOST=unix:///no/such cay --json create
# Somebody who may not use the engine's socket: the directory and what is in it are root's.
stranger=$(mktemp -d /tmp/stranger.XXXXXX)
chown 65534:65534 "$stranger"
chmod 711 "$ENGINE_DIR"
if setpriv --reuid=65534 --regid=65534 --clear-groups cay --version >/dev/null 2>&1; then
    refused "a socket that is not for this user" engine_denied setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$stranger" CAY_HOME="$stranger/home" XDG_RUNTIME_DIR="$stranger" cay --json create
else
    echo "skip: another user does not reach $build"
fi
chmod 700 "$ENGINE_DIR"
rm -rf "$stranger"
elsewhere() { what=$1 reason=$2 url=$3; shift 3; refused "$what" "$reason" env DOCKER_HOST="$url" CONTAINER_HOST="$url" "$@" cay --json create; }
elsewhere "an engine that does not answer" engine_down tcp://127.0.0.1:1 A=b
elsewhere "an engine by ssh" engine_ssh ssh://somebody@there A=b
elsewhere "an engine of another machine without TLS" engine_plain tcp://192.0.2.1:2375 A=b
elsewhere "TLS without a root" engine_certs tcp://192.0.2.1:2376 DOCKER_TLS_VERIFY=1 HOME=/nonexistent
refused "a user that is not there" user_not_found cay --json run -u nobody-here -- true
refused "a runtime that is not there" "$([ "$engine" = podman ] && echo not_supported || echo runtime_unknown)" cay --json create --option runtime=no-such
[ "$engine" = podman ] || refused "a volume driver that is not there" volume_driver_unknown cay --json create --option volumes=v:/v:driver=no-such
same "bad requests leave no container" "$(containers)" 0
same "bad requests leave no directory" "$(find "$CAY_HOME/$engine" -maxdepth 1 -name 'c*' | wc -l)" 0

# ------------------------------------------------------------------ a life
id=$(cay create --name one --label team=a)
[ -n "$id" ] || bad "create prints no id"
cay exec one -- sh -c 'echo kept > /workspace/f; echo here > ~/g'
cay pause one >/dev/null
refused "a command in a paused sandbox" sandbox_paused cay --json exec one -- true
cay resume one >/dev/null
same "files are there after a pause" "$(cay exec one -- cat f)" kept
cay kill one >/dev/null
same "ls shows a stopped sandbox" "$(cay ls | awk '$2 == "one" { print $3 }')" stopped
cay resume one >/dev/null
same "files outlive a stop" "$(cay exec one -- sh -c 'cat f ~/g' | tr '\n' ' ')" "kept here "
cay exec one -d --tag long -- sh -c 'echo begun; exec sleep 600' >/dev/null
same "logs finds a process by its tag" "$(cay logs one long)" begun
printf 'x%.0s' 1 2 3 | cay cp - one:/workspace/piped
same "cp copies a file out" "$(cay cp one:/workspace/piped -)" xxx

# ------------------------------------------------------------------ the tenant reaches for pid 1
ask='import socket,sys
s=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET); s.connect("/.cay/ctl/sock")
s.send(b"x"*64); sys.exit(0 if s.recv(100)==b"" else 3)'
cay exec one -- sh -c 'ls /.cay/ctl' 2>/dev/null && bad "the user sees the control directory"
if cay exec one -u root -- python3 -c 'pass' 2>/dev/null; then
    if cay exec one -u root -- python3 -c "$ask" 2>/dev/null; then ok "root inside is hung up on"; else
        rc=$?; [ $rc = 3 ] && bad "root inside is answered by pid 1" || ok "root inside is refused"; fi
fi
for s in KILL STOP SEGV; do cay exec one -u root -- sh -c "kill -$s 1" 2>/dev/null || :; done
same "signals do not reach pid 1" "$(cay exec one -- echo alive)" alive
cay exec one -u root -- sh -c 'cat /proc/1/environ /proc/1/mem' >/dev/null 2>&1 && bad "root inside reads pid 1"
cay exec one -u root -- sh -c 'echo x > /.cay/pid1' 2>/dev/null && bad "pid 1 can be written"
# Connections that linger for an hour, sent to pid 1: it hangs up on who sent them, and does not wait for the one who never reads.
cay exec one -u root -d --tag linger -- python3 -c 'import array, os, socket, struct, threading, time
kept, l = [], socket.socket()
cpus = os.sched_getaffinity(0); one = {min(cpus)}
def beside(on): # on one CPU, where pid 1 does not interrupt us: what is sent waits when it looks
    for p in (0, 1):
        try: os.sched_setaffinity(p, one if on else cpus)
        except OSError: pass
    try: os.sched_setscheduler(1, os.SCHED_BATCH if on else os.SCHED_OTHER, os.sched_param(0))
    except OSError: pass
beside(True)
l.bind(("127.0.0.1", 0)); l.listen(64)
for i in range(8):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    c = socket.socket(); c.connect(l.getsockname()); kept += [s, l.accept()[0]]
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600)); c.setblocking(False)
    try:
        while True: c.send(bytes(65536))
    except BlockingIOError: pass
    try:
        s.connect("/.cay/ctl/sock"); s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [c.fileno()]))])
    except OSError: pass
    threading.Thread(target=c.close, daemon=True).start()
beside(False); print("sent", flush=True); time.sleep(600)' >/dev/null
n=0; until [ "$(timeout 10 cay logs one linger 2>/dev/null)" = sent ] || [ $((n += 1)) -gt 10 ]; do sleep 0.2; done
same "connections that linger do not keep pid 1" "$(timeout 20 cay exec one -- echo alive)" alive
# What the host shows it there is to be read: nothing is filled, put in the way or taken away, by root either.
for do in 'echo x >/.cay/ctl/x' 'mkdir /.cay/ctl/d' 'rm -f /.cay/ctl/sock; test ! -e /.cay/ctl/sock' 'mv /.cay/ctl/sock /.cay/ctl/old' 'echo x >>/.cay/ctl/meta' \
    'chmod 777 /.cay/ctl' 'mount -o remount,rw /.cay/ctl' 'umount /.cay/ctl' 'for f in /proc/1/fd/*; do readlink $f && exit 0; done; exit 1' 'cd /proc/1/cwd' 'ln -s / /.cay/ctl/l'; do
    cay exec one -u root -- sh -c "$do" >/dev/null 2>&1 && bad "root inside may: $do" || ok "root inside may not: $do"
done
# No descriptor of pid 1 leads to a directory of the host: those are the container's own, and its root, which it shows to commands anyway.
own=$(readlink "/proc/$(sed 's/.* //' "$CAY_HOME/$engine/$id/container")/fd/"* 2>/dev/null | grep -c "$CAY_HOME.*ctl$" || :)
same "pid 1 keeps no directory of the host" "$own" 0
at=$CAY_HOME/$engine/$id/ctl
# Another socket in its place, one that takes nobody, by whoever could do that on the host: it holds up nobody.
(cd "$at" && exec python3 -c 'import socket,os,time
os.rename("sock","real"); s=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET); s.bind("sock"); s.listen(0)
c=[socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET) for i in range(4)]
for x in c:
    x.setblocking(False)
    try: x.connect("sock")
    except BlockingIOError: pass
os.mkdir("full"); time.sleep(4); os.rename("real","sock")') &
other=$!
n=0; until [ -d "$at/full" ] || [ $((n += 1)) -gt 100 ]; do sleep 0.1; done
same "ls asks the engine for the state" "$(timeout 20 cay ls | awk '$2 == "one" { print $3 }')" running
timeout 20 cay events --for 1s one >"$ENGINE_DIR/events" 2>&1 || bad "events: $(cat "$ENGINE_DIR/events")"
same "a full queue in place of pid 1 is waited out" "$(timeout 40 cay exec one -- echo alive)" alive
wait $other || :
# Another socket in its place: who answers is looked at.
(cd "$at" && exec python3 -c 'import socket,os
os.rename("sock","old"); s=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET); s.bind(".false"); s.listen(); os.rename(".false","sock")
while True: s.accept()') &
other=$!
n=0; until [ -S "$at/old" ] && [ -S "$at/sock" ] || [ $((n += 1)) -gt 100 ]; do sleep 0.1; done
refused "a false pid 1" peer_false timeout 20 cay --json exec one -- true
kill $other; wait $other 2>/dev/null || :
# Who comes to the door that a client opens is looked at, too: a process of the tenant's gets nothing there.
rm -f "$at/sock"; mv "$at/old" "$at/hidden"
cay exec one -- true >"$ENGINE_DIR/out" 2>&1 &
client=$!
n=0; until [ -S "$at/hello" ] || [ $((n += 1)) -gt 100 ]; do sleep 0.1; done
got=$(python3 -c 'import socket,sys,array
s=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET); s.settimeout(5); s.connect(sys.argv[1])
try: m=s.recvmsg(64, 64)
except OSError: m=(b"",[])
print(len(m[0]), len(m[1]))' "$at/hello" 2>/dev/null || echo "0 0")
same "a stranger at the door gets nothing" "$got" "0 0"
mv "$at/hidden" "$at/sock"
wait $client && ok "a client that waited at the door is answered" || bad "the client: $(cat "$ENGINE_DIR/out")"
cay rm -f one >/dev/null
same "a sandbox with a stranger at its door is removed" "$(containers)" 0

# ------------------------------------------------------------------ killed in the middle; somebody else's containers
cay create --name two >/dev/null
body="{\"Image\":\"$image\",\"Cmd\":[\"sleep\",\"600\"],\"Labels\":{\"io.cay.owner\":\"somebody-else\",\"io.cay.sandbox\":\"caaaaaaaaaaaaaaaaaaa\"},\"HostConfig\":{\"NetworkMode\":\"none\"}}"
api -d "$body" "http://e/v1.41/containers/create?name=cay-caaaaaaaaaaaaaaaaaaa" >/dev/null
i=0
while [ $i -lt 4 ]; do
    cay create >/dev/null 2>&1 &
    pid=$!
    sleep 0.$((i * 13 + 4))
    kill -KILL $pid 2>/dev/null || :
    wait $pid 2>/dev/null || :
    i=$((i + 1))
done
n=0 # a row of a killed maker is settled by who opens next
until cay ls --json >/dev/null 2>&1; cay ls | awk 'NR > 1 && $2 != "two" { print $1 }' | while read -r b; do cay rm -f "$b" >/dev/null 2>&1 || :; done
    cay gc >/dev/null 2>&1; [ "$(containers)" = 2 ] || [ $((n += 1)) -gt 30 ]; do sleep 0.3; done
same "killed creates leave no container but ours and a stranger's" "$(containers)" 2
same "another sandbox still runs" "$(cay exec two -- echo alive)" alive
api "http://e/v1.41/containers/cay-caaaaaaaaaaaaaaaaaaa/json" | grep -q somebody-else && ok "a stranger's container is not touched" || bad "a stranger's container is gone"
api -X DELETE "http://e/v1.41/containers/cay-caaaaaaaaaaaaaaaaaaa?force=true" >/dev/null
# Removed behind our back.
two=$(basename "$(ls -d "$CAY_HOME/$engine"/c*)")
api -X DELETE "http://e/v1.41/containers/cay-$two?force=true" >/dev/null
cay exec two -- true 2>"$ENGINE_DIR/out" && bad "a container that is gone runs" || ok "removed behind our back: $(head -1 "$ENGINE_DIR/out" | cut -c1-80)"
cay rm -f two >/dev/null 2>&1 || :

# ------------------------------------------------------------------ started anew by somebody else, while nobody of ours is there
cay create --name again --ttl 1h >/dev/null
again=$(cay inspect again | sed -n 's/.*"id": *"\([a-z2-7]*\)".*/\1/p' | head -1)
api -X POST "http://e/v1.41/containers/cay-$again/restart?t=0" >/dev/null
same "a container that was not let in is let in by its next user" "$(timeout 30 cay exec again -- echo alive)" alive
cay rm -f again >/dev/null

# ------------------------------------------------------------------ the engine is killed
if [ "$engine" = docker ]; then
    cay create --name three >/dev/null
    kill -KILL "$(cat "$ENGINE_DIR/pid")"
    same "commands need no engine" "$(cay exec three -- echo alive 2>&1)" alive
    "$ENGINE_DIR/restart" KILL
    n=0; until cay resume three >/dev/null 2>&1 || [ $((n += 1)) -gt 50 ]; do sleep 0.2; done
    same "a sandbox works after the engine came back" "$(cay exec three -- echo again 2>&1)" again
    cay rm -f three >/dev/null
fi

# ------------------------------------------------------------------ what is left
cay gc >/dev/null 2>&1 || :
same "no container is left" "$(containers)" 0
same "no sandbox is left" "$(cay ls | awk 'NR > 1' | wc -l)" 0
same "no directory is left" "$(find "$CAY_HOME/$engine" -maxdepth 1 -name '*c??????????????????*' | wc -l)" 0
exit $failed
