#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_level1.sh CAY DENY: level 1 as an ordinary user on a host that refuses namespaces: what it says of itself, what it
# refuses, and what a hostile command inside can reach. Prints TAP.
set -u
cay=$(realpath "$1") deny=$(realpath "$2")
[ "$(id -u)" != 0 ] || { echo '1..0 # SKIP level 1 is for ordinary users'; exit 77; }
t=$(mktemp -d /tmp/cay-level1.XXXXXX)
export CAY_HOME="$t/home" XDG_RUNTIME_DIR="$t/run" HOME="$t/me" NO_COLOR=1
unset CAY_PROVIDER
mkdir -m 700 "$t/home" "$t/run" "$t/me" "$t/w"
echo 'the secret' >"$HOME/secret"
cd "$t/w" || exit 1
n=0 bad=0 code=0 victim=
cleanup() {
    "$deny" "$cay" ls -q 2>/dev/null | while read -r i; do "$deny" "$cay" rm -qf "$i" 2>/dev/null; done
    [ -z "$victim" ] || kill "$victim"
    cd / && chmod -R u+rwx "$t"
    rm -rf "$t"
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP

ok() {
    if [ $? = 0 ]; then r=ok; else r='not ok' bad=1; fi
    n=$((n + 1))
    echo "$r $n - $1"
    [ "$r" = ok ] || { sed 's/^/# out: /' "$t/out"; sed 's/^/# err: /' "$t/err"; echo "# status: $code"; } | head -30
}
skip() { n=$((n + 1)); echo "ok $n - $1 # SKIP $2"; }
run() { code=0; timeout -k1 30 "$deny" "$@" >"$t/out" 2>"$t/err" </dev/null || code=$?; }
is() { [ "$code" = "$1" ]; }
says() { grep -qF -- "$1" "$t/out"; }
errs() { grep -qF -- "$1" "$t/err"; }
row() { awk -v s="$1" -v l="$2" '$1 == s && $2 == l { f = 1 } END { exit !f }' "$t/out"; }

"$deny" unshare -U true 2>/dev/null && { echo '1..0 # SKIP namespaces cannot be refused here'; exit 77; }

# ---- what it says
run "$cay" doctor --need process
if ! is 0 && says 'off  landlock'; then echo '1..0 # SKIP no Landlock on this kernel'; exit 77; fi
is 0 && says 'isolation 1 process' && row off user-namespace && row on landlock && row on seccomp && row off file-metadata
ok 'doctor tells level 1, each layer, and what it does not cover'
run "$cay" doctor --need rootless; is 1 && errs 'less than'; ok 'doctor --need rootless fails'
run "$cay" run -- true; is 0 && errs 'isolation process (1)'; ok 'a weaker wall is said aloud'
run "$cay" run --isolation rootless -- true; is 125 && errs 'gives level 1'; ok 'a request for more is refused'
run "$cay" run --require pids-limit -- true; is 125 && errs 'pids-limit is soft'; ok 'a feature that does not hold is refused'
run "$cay" create -q; id=$(cat "$t/out"); is 0 && [ ${#id} = 20 ]; ok 'create makes a sandbox of level 1'
run "$cay" ls -q; is 0 && [ "$(cat "$t/out")" = "$id" ]; ok 'nothing half-made stays in the list'
run "$cay" inspect "$id"
is 0 && says '"isolation": "process"' && says '"level": 1' && says "\"path\": \"$CAY_HOME/process/$id/root/workspace\""
ok 'inspect tells level and path'
ws=$CAY_HOME/process/$id/root/workspace
for o in "--mount $t/w" "--root /" "--user root" "--hostname other"; do
    run "$cay" run $o -- true
    [ "$code" -ge 2 ] && grep -q 'level 1 (process) cannot give\|root /' "$t/err"; ok "refused by name: $o"
done

# ---- what works
x() { run "$cay" exec "$id" -- "$@"; }
x sh -c 'echo made >f && cat f && pwd'; is 0 && says made && says "$ws" && [ "$(cat "$ws/f")" = made ]; ok 'the workspace is a real directory'
run "$cay" files cat "$id:f"; [ "$code" = 0 ] || run "$cay" cp "$id:f" -; is 0 && says made; ok 'files of the workspace are reached from outside'
x sh -c 'echo x >"$TMPDIR/a" && echo x >"$HOME/b"'; is 0; ok 'a temporary and a home directory of its own'
x sh -c 'cc --version || git --version || ls --version'; is 0; ok 'programs of the host run'

# ---- what does not
x cat "$HOME/secret"; ! is 0 && ! says secret; ok 'the home of the user cannot be read'
x ls "$HOME"; ! is 0; ok 'the home of the user cannot be listed'
x cat /etc/shadow; ! is 0; ok '/etc/shadow cannot be read'
for d in "$HOME" /tmp /var/tmp /dev/shm "$CAY_HOME" "$CAY_HOME/process/$id"; do
    x sh -c 'echo x >"$1/escaped"' sh "$d"; ! is 0 && [ ! -e "$d/escaped" ]; ok "no file can be made in ${d#"$t"/}"
done
x sh -c 'ln -s "$1" link && cat link; mv f "$2"' sh "$HOME/secret" "$HOME/"; ! is 0 && ! says secret && [ -e "$ws/f" ]; ok 'nothing outside is reached by a link or a rename'
x rm "$HOME/secret"; ! is 0 && [ -e "$HOME/secret" ]; ok 'nothing outside can be removed'
run "$cay" cp "$id:link" -; ! is 0 && ! says secret; ok 'the file worker does not follow a link out'
x grep -E '^(Seccomp|NoNewPrivs|CapEff|CapPrm):' /proc/self/status
says 'Seccomp:	2' && says 'NoNewPrivs:	1' && [ "$(grep -c '0000000000000000' "$t/out")" = 2 ]; ok 'commands have the filter, no new privileges and no capability'
x unshare -U true; ! is 0; ok 'no user namespace can be made'
x ipcmk -M 4096; ! is 0; ok 'no shared memory of the host can be made'
sleep 300 & victim=$!
x kill -TERM "$victim"; ! is 0; kill -0 "$victim"; ok 'no process outside can be signalled'
x cat "/proc/$victim/environ"; ! is 0; ok 'the environment of a process outside cannot be read'
run "$cay" create -q; other=$(cat "$t/out")
p=$("$deny" "$cay" exec -d "$other" -- sleep 301 2>/dev/null </dev/null); run "$cay" ps "$other"
pid=$(awk '/sleep 301/ { for (i = 1; i < NF; i++) if ($i ~ /^[0-9]+$/) { print $i; exit } }' "$t/out")
x kill -KILL "${pid:-none}"; ! is 0; kill -0 "$pid"; ok 'no process of another sandbox can be signalled'
x cat "$CAY_HOME/process/$other/root/home/x" "$CAY_HOME/process/$other/config"; ! is 0 && ! [ -s "$t/out" ]; ok 'no file of another sandbox can be read'
if command -v python3 >/dev/null; then
    cat >"$ws/attack.py" <<'P'
import ctypes, errno, os, socket, sys
bad = []
def refused(what, f):
    try:
        f()
        bad.append(what)
    except OSError:
        pass
for name in ("AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG"):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
        refused(name, lambda: socket.socket(getattr(socket, name), kind))
refused("datagram pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
a, b = socket.socketpair()
a.send(b"x")
assert b.recv(1) == b"x"
libc = ctypes.CDLL(None, use_errno=True)
victim = int(sys.argv[1])
def call(nr, *args):
    if libc.syscall(nr, *args) < 0:
        raise OSError(ctypes.get_errno(), "")
refused("ptrace attach", lambda: call(101, 16, victim, 0, 0))
refused("ptrace seize", lambda: call(101, 0x4206, victim, 0, 0))
refused("process_vm_readv", lambda: call(310, victim, 0, 0, 0, 0, 1))
refused("prlimit", lambda: __import__("resource").prlimit(victim, 7, (10, 10)))
refused("io_uring", lambda: call(425, 8, 0))
fd = os.pidfd_open(victim)
refused("pidfd signal", lambda: call(424, fd, 15, 0, 0))
refused("pidfd_getfd", lambda: call(438, fd, 0, 0))
refused("mem", lambda: open("/proc/%d/mem" % victim, "rb").read(1))
refused("own parent's mem", lambda: open("/proc/%d/mem" % os.getppid(), "rb+"))
refused("truncate", lambda: os.truncate(sys.argv[2], 0))
refused("link", lambda: os.link(sys.argv[2], "linked"))
print("reached: " + ", ".join(bad) if bad else "nothing reached")
P
    if [ "$(uname -m)" = x86_64 ]; then
        x python3 attack.py "$victim" "$HOME/secret"; is 0 && says 'nothing reached'; ok 'no socket, tracing or descriptor of another is reached'
    else
        skip 'no socket, no tracing' 'system call numbers of x86_64'
    fi
else
    skip 'no socket, tracing or descriptor of another is reached' 'python3 is not here'
fi
kill -0 "$victim" && [ "$(cat "$HOME/secret")" = 'the secret' ]; ok 'the victims are unharmed'

# ---- limits
run "$cay" run -q --disk 1m -- sh -c 'head -c 3000000 /dev/zero >big; ls -l big'; ! grep -q 3000000 "$t/out"; ok 'no file grows beyond the disk limit'
# The kernel counts all of the user's processes, so the limit is as many more as there were: others that end meanwhile leave room.
run "$cay" run -q --pids 12 -- sh -c 'for i in $(seq 400); do sleep 20 & done; wait'
errs 'fork' || errs 'temporarily'; ok 'no fork succeeds beyond the process limit'
run "$cay" run -q --memory 64m -- sh -c 'head -c 200000000 /dev/zero | tail >/dev/null'; ! is 0; ok 'no memory is given beyond the limit'
run "$cay" run -q -- sh -c 'ulimit -c'; says 0; ok 'core files are off'

# ---- the end
run "$cay" rm -f "$id" "$other"; is 0 && [ ! -e "$CAY_HOME/process/$id" ] && [ ! -e "$CAY_HOME/process/$other" ]; ok 'rm leaves no directory'
! kill -0 "$pid" 2>/dev/null; ok 'rm leaves no process'
echo "1..$n"
exit "$bad"
