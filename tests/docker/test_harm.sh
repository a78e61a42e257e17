#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_harm.sh BUILD ENGINE: what a tenant may do to a container, and what happens to cay and the engine: limits hold, others go on, nothing is left by the
# word of tests/docker/judge. Run by tests/docker/with.
set -eu
[ -n "${CAY_SOAK-}" ] || { echo "minutes of it: runs with CAY_SOAK set, as make soak does"; exit 77; }
build=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/lib.sh"
engine=${2:-docker}
export CAY_PROVIDER="$engine"
alive() { # what a storm left is killed by and by
    n=0; until [ "$(timeout 60 cay exec bad -- echo alive 2>/dev/null)" = alive ] || [ $((n += 1)) -gt 100 ]; do sleep 0.2; done
    same "$1: the sandbox answers" "$(timeout 60 cay exec bad -- echo alive 2>&1)" alive; same "$1: another sandbox answers" "$(timeout 60 cay exec good -- echo alive 2>&1)" alive; }
cay ls >/dev/null # makes the state directory
before=$("$here/judge")

# ------------------------------------------------------------------ the judge sees what is left
body='{"Image":"'$CAY_DOCKER_IMAGE'","Cmd":["sleep","60"],"HostConfig":{"NetworkMode":"none"}}'
api -d "$body" "http://e/v1.41/containers/create?name=cay-left" >/dev/null
[ "$("$here/judge")" != "$before" ] && ok "the judge sees a container" || bad "the judge is blind for containers"
api -X DELETE "http://e/v1.41/containers/cay-left?force=true" >/dev/null
mkdir -p "$CAY_HOME/$engine/.old-caaaaaaaaaaaaaaaaaaa"
[ "$("$here/judge")" != "$before" ] && ok "the judge sees a directory" || bad "the judge is blind for directories"
rmdir "$CAY_HOME/$engine/.old-caaaaaaaaaaaaaaaaaaa"
api -d '{"Name":"left"}' "http://e/v1.41/volumes/create" >/dev/null
[ "$("$here/judge")" != "$before" ] && ok "the judge sees a volume" || bad "the judge is blind for volumes"
api -X DELETE "http://e/v1.41/volumes/left" >/dev/null
same "the judge sees nothing where nothing is" "$("$here/judge")" "$before"

# ------------------------------------------------------------------ limits
cay create --name good >/dev/null
[ "$("$here/judge" | grep -c 'process cay-pid1')" = 1 ] && ok "the judge sees pid 1" || bad "the judge is blind for processes"
cay create --name bad --pids 64 --memory 128M --nofile 256 >/dev/null
timeout 60 cay exec --timeout 3s bad -- sh -c 'b() { b | b & }; b; sleep 30' >/dev/null 2>&1 || :
alive "a fork storm"
most=$(cay exec bad -- python3 -c 'import os
n=0
try:
    while n < 5000:
        if os.fork() == 0: os._exit(os.read(0,1) and 0)
        n+=1
except OSError: pass
print(n)' </dev/null 2>/dev/null | head -1)
[ "${most:-5000}" -le 5000 ] && ok "processes that end at once do not pile up ($most)" || bad "pids: $most"
held=$(cay exec --timeout 20s bad -- python3 -c 'import os,time
n=0
try:
    while n < 500:
        if os.fork() == 0: time.sleep(60); os._exit(0)
        n+=1
except OSError: pass
print(n, flush=True); os.killpg(0, 9)' 2>/dev/null | head -1)
[ "${held:-500}" -lt 64 ] && ok "the limit of processes holds at $held" || bad "processes: ${held:-none told} of 64"
rc=0; timeout 60 cay exec bad -- python3 -c 'x = []
while True: x.append(bytearray(1 << 20))' >/dev/null 2>&1 || rc=$?
[ $rc != 0 ] && ok "the limit of memory ends a command with $rc" || bad "memory without end"
alive "a memory hog"
files=$(cay exec bad -- python3 -c 'import os
n=0
try:
    while n < 100000: os.open("/dev/null", 0); n+=1
except OSError: pass
print(n)')
[ "$files" -lt 256 ] && ok "the limit of open files holds at $files" || bad "open files: $files"
timeout 60 cay exec --timeout 2s bad -- yes >/dev/null 2>&1 || :
cay exec bad -d --tag flood -- sh -c 'yes | head -c 300000000; exec sleep 600' >/dev/null
pid=$(sed 's/.* //' "$CAY_HOME/$engine/$(basename "$(cay inspect bad | sed -n 's/.*"id": *"\([a-z2-7]*\)".*/\1/p' | head -1)")/container")
n=0; until [ "$(cay ps bad | grep -c 'sleep 600')" -ge 1 ] || [ $((n += 1)) -gt 100 ]; do sleep 0.1; done
rss=$(awk '/VmRSS/ { print $2 }' "/proc/$pid/status")
[ "$rss" -lt 32000 ] && ok "a flood of output is bounded: pid 1 has $rss kB" || bad "pid 1 has $rss kB"
cay exec bad -- sh -c 'i=0; while [ $i -lt 100 ]; do (sleep 0.01 &) ; i=$((i+1)); done; while ps -eo args= | grep -q "^sleep 0.01"; do sleep 0.05; done' >/dev/null 2>&1 || :
n=0; until [ "$(cay exec bad -- sh -c 'ps -eo stat= | grep -c ^Z' || :)" = 0 ] || [ $((n += 1)) -gt 50 ]; do sleep 0.1; done
same "no zombie stays in a container" "$(cay exec bad -- sh -c 'ps -eo stat= | grep -c ^Z' || :)" 0
cay exec --timeout 1s bad -- sh -c '(setsid sleep 711 &) ; sleep 60' >/dev/null 2>&1 || :
n=0; until [ "$(cay exec bad -- sh -c 'ps -eo args= | grep -c "^sleep 711"' || :)" = 0 ] || [ $((n += 1)) -gt 50 ]; do sleep 0.1; done
same "a time-out ends every process of its command" "$(cay exec bad -- sh -c 'ps -eo args= | grep -c "^sleep 711"' || :)" 0
timeout 60 cay exec bad -u root -- sh -c "kill -KILL -1" >/dev/null 2>&1 || :
alive "all processes killed by root inside"
for do in 'echo b >/proc/sysrq-trigger' 'mknod /tmp/disk b 8 0' 'mount -t tmpfs none /mnt' 'echo x >/proc/sys/kernel/core_pattern' 'cat /proc/kcore | head -c 1 | grep -q .' \
    'echo 1 >/proc/sys/kernel/panic' 'unshare -U -r true' 'chroot / true'; do
    cay exec bad -u root -- sh -c "$do" >/dev/null 2>&1 && bad "root inside may: $do" || ok "root inside may not: $do"
done
cay rm -f bad >/dev/null

# ------------------------------------------------------------------ kill -9 of ours and of the engine, while something is made, saved or taken away
settled() { # settled WHAT
    n=0
    until cay ls --json >/dev/null 2>&1; cay ls 2>/dev/null | awk 'NR > 1 && $2 != "good" { print $1 }' | while read -r b; do cay rm -f "$b" >/dev/null 2>&1 || :; done
        cay gc >/dev/null 2>&1; [ "$("$here/judge" | grep -v '^image')" = "$one" ] || [ $((n += 1)) -gt 40 ]; do sleep 0.3; done
    same "$1: nothing is left of it" "$("$here/judge" | grep -v '^image')" "$one"
    same "$1: another sandbox keeps its files" "$(timeout 60 cay exec good -- cat kept 2>&1)" kept
}
cay exec good -- sh -c 'echo kept >kept'
one=$("$here/judge" | grep -v '^image')
for wait in 0.05 0.15 0.3; do
    cay create >/dev/null 2>&1 & pid=$!
    sleep $wait; kill -KILL $pid 2>/dev/null || :; wait $pid 2>/dev/null || :
    settled "kill -9 of a maker after $wait s"
done
for what in snapshot rm; do
    cay create --name gone >/dev/null 2>&1 || bad "no sandbox is made"
    cay $what gone >/dev/null 2>&1 & pid=$!
    sleep 0.1; kill -KILL $pid 2>/dev/null || :; wait $pid 2>/dev/null || :
    settled "kill -9 over $what"
done
for wait in 0.05 0.2; do
    cay create >/dev/null 2>&1 & pid=$!
    sleep $wait
    "$ENGINE_DIR/restart" KILL || bad "the engine does not come back"
    wait $pid 2>/dev/null || :
    # Docker's containers of a killed engine stop unless it was told to keep them: their files are there.
    n=0; until cay exec good -- true >/dev/null 2>&1 || { cay resume good >/dev/null 2>&1 && cay exec good -- true >/dev/null 2>&1; } || [ $((n += 1)) -gt 60 ]; do sleep 0.3; done
    settled "kill -9 of the engine after $wait s of a create"
done
cay rm -f good >/dev/null
cay snapshots -q | while read -r s; do cay snapshot rm "$s" >/dev/null 2>&1 || :; done
n=0; until cay gc --settle >/dev/null 2>&1; [ "$("$here/judge")" = "$before" ] || [ $((n += 1)) -gt 50 ]; do sleep 2; done # an image of a killed maker is judged when it is a minute old
same "containers, directories and volumes are as before" "$("$here/judge")" "$before"
exit $failed
