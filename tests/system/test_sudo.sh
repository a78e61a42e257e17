#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_sudo.sh CAY: our own sudo and su inside, as whoever runs this.
set -u
cay=$(realpath "$1")
command -v python3 >/dev/null && command -v jq >/dev/null || { echo "needs python3 and jq"; exit 77; }
. "$(dirname "$0")/lib.sh"
c() { timeout -k 1 60 "$cay" "$@" </dev/null 2>"$tmp/err"; }
in_() { c exec "$id" -- sh -c "$1"; }
cd "$tmp" || exit 1

if [ "$(id -u)" != 0 ] && ! grep -q "^$(id -un):" /etc/subuid; then # one id: there is nobody to become
    c --json create --sudo >/dev/null
    ok 'a user with one id is refused by name' grep -q '"reason":"user_not_mapped"' err
    ok 'a refused --sudo makes no sandbox' same "$(c ls -q)" ''
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
    exit
fi
id=$(c create)
in_ 'PATH=/run/cay/bin:$PATH; sudo true' >/dev/null
ok 'a sandbox without --sudo has no sudo' same "$(in_ 'ls /run/cay 2>/dev/null')" ''
c rm -f "$id" >/dev/null
id=$(c create --sudo)
ok 'create --sudo makes a sandbox' test -n "$id"

# ---- who, where, what
ok 'sudo becomes root' same "$(in_ 'sudo -n id -u')" 0
ok 'sudo is found in a login shell' same "$(c exec "$id" -- bash -l -c 'sudo -n id -u')" 0
ok 'sudo -u becomes another user' same "$(in_ 'sudo -u nobody id -un')" nobody
ok 'sudo -u takes a number' same "$(in_ 'sudo -u 1234 id -u')" 1234
ok 'sudo takes combined options' same "$(in_ 'sudo -nEu nobody -- id -un')" nobody
ok 'sudo keeps the working directory' same "$(in_ 'cd /tmp && sudo pwd')" /tmp
ok 'sudo -i begins in the home of root' same "$(in_ 'cd /tmp && sudo -i pwd')" /root
ok 'sudo -i quotes its words for the shell' same "$(in_ 'sudo -i echo "a  b;c" "\$HOME"')" 'a  b;c /root'
ok 'sudo resets the environment' same "$(in_ 'X=1 sudo sh -c "echo \$HOME \${X:-none} \$USER \$SUDO_USER \$SUDO_UID"')" '/root none root user 1000'
ok 'sudo -E keeps the environment' same "$(in_ 'X=1 sudo -E sh -c "echo \$HOME \$X \$USER"')" '/home/user 1 root'
ok 'sudo -H sets the home' same "$(in_ 'X=1 sudo -EH sh -c "echo \$HOME \$X"')" '/root 1'
ok 'sudo takes variables on its line' same "$(in_ 'sudo A=1 B="x y" sh -c "echo \$A \$B"')" '1 x y'
ok 'sudo passes all three streams' same "$(in_ 'echo in | sudo sh -c "cat; echo err >&2" 2>&1')" "$(printf 'in\nerr')"
ok 'sudo passes the exit code' same "$(in_ 'sudo sh -c "exit 37"; echo $?')" 37
ok 'sudo passes the end by a signal' same "$(in_ 'sudo sh -c "kill -9 \$\$"; echo $?')" 137
ok 'sudo names a command that is not there' same "$(in_ '{ sudo nonesuch 2>&1; echo $?; } | tail -2')" "$(printf 'sudo: command not found: nonesuch\n127')"
ok 'sudo names a user that is not there' same "$(in_ 'sudo -u nonesuch true 2>&1; echo $?')" "$(printf 'sudo: nonesuch: no such user\n1')"
ok 'sudo names an unknown option' same "$(in_ 'sudo --wat true 2>&1 >/dev/null | cut -c1-38')" 'sudo: --wat: this option is not known;'
ok 'su becomes root' same "$(in_ 'su -c "id -un; pwd"')" "$(printf 'root\n/workspace')"
ok 'su - becomes another user' same "$(in_ 'su - nobody -s /bin/sh -c "id -un"')" nobody
ok 'sudo -v is quiet' same "$(in_ 'sudo -v; echo $?')" 0
ok 'root by sudo may change owners' same "$(in_ 'sudo chown nobody /workspace && stat -c %U /workspace; sudo chown user /workspace')" nobody

# ---- as the root profile, and no more
ok 'filter, rights and no_new_privs of the root profile' same "$(in_ "sudo grep -E '^(Cap|Seccomp:|NoNewPrivs)' /proc/self/status")" \
    "$(c exec --user root "$id" -- grep -E '^(Cap|Seccomp:|NoNewPrivs)' /proc/self/status)"
ok 'root by sudo may not mount' same "$(in_ 'sudo mount -t tmpfs x /mnt >/dev/null 2>&1; echo $?' | grep -vc '^0$')" 1
ok 'sudo is refused to another user' same "$(c exec --user nobody "$id" -- sh -c 'sudo id 2>&1; echo $?')" "$(printf "sudo: you may not; root, the sandbox's own user and user 1000 may\n1")"
ok 'sudo passes no descriptor but three' same "$(in_ 'exec 9</etc/passwd; sudo ls /proc/self/fd | tr "\n" " "')" '0 1 2 3 '

# ---- signals, terminals, ends
ok 'sudo relays a signal' same "$(in_ 'sudo sleep 100 & until pgrep -f "^sleep 100" >/dev/null; do sleep 0.05; done; kill -TERM $!; wait $!; echo $?')" 143
ok 'a relayed signal can be caught' same "$(in_ 'sudo sh -c "trap \"echo caught; exit 5\" INT; echo up; while :; do sleep 0.1; done" >/tmp/o & until grep -q up /tmp/o; do sleep 0.1; done; kill -INT $!; wait $!; echo $?; tail -1 /tmp/o')" "$(printf '5\ncaught')"
cat >inner.py <<'END'
import os, pty, sys
print(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
END
c cp inner.py "$id:/tmp/inner.py"
ok 'sudo works in a terminal made inside' same "$(in_ 'python3 /tmp/inner.py sh -c "a=\$(tty); sudo sh -c \"tty; stty size >/dev/null && echo sized; test -t 0 && test -t 1 && test -t 2 && echo all\" >/tmp/t; b=\$(sudo tty); [ \$a != \$b ] && echo other; sudo sh -c \"exit 9\"" | tr -d "\r" | xargs')" 'other 9'
ok 'sudo works with one stream that is no terminal' same "$(in_ 'head -c 9 /tmp/t; sed -n 2p /tmp/t')" '/dev/pts/sized'
in_ 'sudo sleep 1234 & until pgrep -f "^sleep 1234" >/dev/null; do sleep 0.05; done; kill -9 $!' >/dev/null
for i in $(seq 100); do
    [ -z "$(in_ 'pgrep -f "^sleep 1234"')" ] && break
    sleep 0.1
done
ok 'a killed sudo ends its command' test -z "$(in_ 'pgrep -f "^sleep 1234"')"
c exec --timeout 1s "$id" -- sudo sleep 1235
for i in $(seq 100); do
    [ -z "$(in_ 'pgrep -f "^sleep 1235"')" ] && break
    sleep 0.1
done
ok 'a time-out of sudo ends its command' test -z "$(in_ 'pgrep -f "^sleep 1235"')"

# ---- what comes over the socket is hostile
cat >foul.py <<'END'
import array, os, socket, struct, sys, time
def dial():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect('/run/cay/sudo')
    return s
def told(s):
    s.settimeout(20)
    try:
        d = s.recv(64)
    except OSError:
        return 'silence'
    return struct.unpack('ii', d[:8]) if len(d) >= 8 else 'end'
def fds(s, data, n):
    s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0] * n))] if n else [])
blob = b'root\0/\0\0true\0'
head = lambda argc, envc, n, magic=0x6f647573, tty=0: struct.pack('IIIII', magic, tty, argc, envc, n)
bad = [(b'x', 3), (b'', 3), (head(1, 0, len(blob)), 3), (head(1, 0, len(blob)) + blob, 0), (head(1, 0, len(blob)) + blob, 2), (head(1, 0, len(blob)) + blob, 8),
       (head(1, 0, len(blob), 1) + blob, 3), (head(0, 0, len(blob)) + blob, 3), (head(9, 0, len(blob)) + blob, 3), (head(1, 9, len(blob)) + blob, 3),
       (head(1 << 30, 0, len(blob)) + blob, 3), (head(1, 0, len(blob), tty=8) + blob, 3), (head(1, 0, len(blob), tty=1) + blob, 3), (head(1, 0, 4) + b'root', 3),
       (head(1, 0, 60000) + b'a' * 60000, 3)]
for data, n in bad:
    s = dial()
    fds(s, data, n)
    t = told(s)
    assert t in ('end', 'silence') or t[0] in (3, 4), (data[:40], n, t)
s = dial()
fds(s, head(1, 0, len(blob)) + blob, 3)
assert told(s)[0] == 1 and told(s) == (2, 0)
s = dial() # signals that are none
sleep = b'root\0/\0\0sleep\x00100\0'
fds(s, head(2, 0, len(sleep)) + sleep, 3)
assert told(s)[0] == 1
for sig in (0, -1, 65, 1 << 30):
    s.send(struct.pack('i', sig))
s.send(b'abc')
s.send(b'x' * 5000)
s.send(struct.pack('i', 15))
assert told(s) == (2, 15)
hold = [dial() for i in range(16)] # every place, and nothing is said
if len(sys.argv) > 1:
    print('held', flush=True)
    time.sleep(60)
print('sound')
END
c cp foul.py "$id:/tmp/foul.py"
ok 'hostile messages to the socket of sudo do no harm' same "$(in_ 'python3 /tmp/foul.py')" sound
ok 'sudo works after hostile messages' same "$(in_ 'sudo id -u')" 0
ok 'a client that holds every place blocks nobody' same "$(in_ 'python3 /tmp/foul.py hold >/tmp/h & until grep -q held /tmp/h; do sleep 0.1; done; sudo id -u; kill $!')" 0
printf 'cay\n' >big
ok 'arguments that are too long are named' same "$(in_ 'sudo echo "$(head -c 70000 /dev/zero | tr "\0" a)" 2>&1 | cut -c1-54')" 'sudo: arguments and environment are longer than 64 kB:'

# ---- audited; as long as the sandbox
timeout 60 "$cay" --json events </dev/null >events.txt 2>/dev/null &
ev=$!
for i in $(seq 100); do
    in_ 'sudo -u nobody /bin/true'
    grep -q '"sudo"' events.txt && break
    sleep 0.1
done
c exec --user nobody "$id" -- sudo ls >/dev/null
for i in $(seq 100); do
    grep -q refused events.txt && break
    sleep 0.1
done
kill "$ev"
ok 'an event tells who became whom' same "$(jq -r 'select(.kind == "sudo") | .reason + " " + .process' events.txt | head -1)" 'uid 1000 nobody true'
ok 'an event tells who was refused' same "$(jq -r 'select(.kind == "sudo" and (.reason | test("refused"))) | .reason + " " + .process' events.txt | head -1)" 'uid 65534 refused ls'
kill -9 "$(pgrep -f "^[^ ]*cay-keeper $CAY_HOME ")"
ok 'sudo works after the keeper was killed' same "$(in_ 'sudo id -u')" 0
c pause "$id" >/dev/null
c resume "$id" >/dev/null
ok 'sudo works after a pause' same "$(in_ 'sudo id -u')" 0
c kill "$id" >/dev/null
c resume "$id" >/dev/null
ok 'sudo works after a restart' same "$(in_ 'sudo id -u')" 0
printf '{"sudo":true}' >m.json
m=$(c create --manifest m.json)
ok 'a manifest gives sudo' same "$(c exec "$m" -- sudo id -u)" 0
c --provider local create --isolation none --sudo >/dev/null
ok 'a provider without users refuses sudo by name' grep -q 'sudo: provider local' err
verdict
