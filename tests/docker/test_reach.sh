#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_reach.sh BUILD: an engine over TCP and TLS, with certificates made here. Run by tests/docker/with.
set -eu
build=$(realpath "$1")
. "$(dirname "$(realpath "$0")")/lib.sh"
export CAY_PROVIDER=docker HOME="$ENGINE_DIR"
free_port() { python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])'; }

# ------------------------------------------------------------------ a root of ours, an engine, a user; and a stranger's root with a user
tls=$ENGINE_DIR/tls
mkdir -p "$tls/user" "$tls/stranger" "$tls/other"
pem() { # pem ROOT NAME FILE EXTENSIONS
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$2" -keyout "$3-key.pem" -out "$3.csr" 2>/dev/null
    printf '%s\n' "$4" >"$3.ext"
    openssl x509 -req -in "$3.csr" -CA "$1.pem" -CAkey "$1-key.pem" -CAcreateserial -days 2 -extfile "$3.ext" -out "$3.pem" 2>/dev/null
}
for r in root other-root; do
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$r" -keyout "$tls/$r-key.pem" -out "$tls/$r.pem" 2>/dev/null
done
pem "$tls/root" engine "$tls/engine" "subjectAltName=IP:127.0.0.1"
pem "$tls/root" user "$tls/mine" "extendedKeyUsage=clientAuth"
pem "$tls/other-root" stranger "$tls/theirs" "extendedKeyUsage=clientAuth"
give() { cp "$2.pem" "$1/ca.pem"; cp "$3.pem" "$1/cert.pem"; cp "$3-key.pem" "$1/key.pem"; }
give "$tls/user" "$tls/root" "$tls/mine"
give "$tls/stranger" "$tls/root" "$tls/theirs"
give "$tls/other" "$tls/other-root" "$tls/mine"

port=$(free_port)
DOCKERD_ARGS="-H tcp://127.0.0.1:$port --tlsverify --tlscacert $tls/root.pem --tlscert $tls/engine.pem --tlskey $tls/engine-key.pem" "$ENGINE_DIR/restart" ||
    { echo "the engine does not listen on TCP: $(tail -1 "$ENGINE_DIR/log")"; exit 77; }
export DOCKER_HOST="tcp://127.0.0.1:$port" DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH="$tls/user"

# ------------------------------------------------------------------ trust, and none
cay doctor >"$ENGINE_DIR/out" 2>&1 || :
grep -q "tcp://127.0.0.1:$port" "$ENGINE_DIR/out" && ok "doctor knows the engine by its address" || bad "doctor: $(cat "$ENGINE_DIR/out")"
same "a command runs by TLS" "$(cay run -- echo there)" there
refused "a user of another root" engine_tls env DOCKER_CERT_PATH="$tls/stranger" cay --json create
refused "an engine of another root" engine_tls env DOCKER_CERT_PATH="$tls/other" cay --json create
refused "another name than the certificate's" engine_tls env DOCKER_HOST="tcp://localhost:$port" cay --json create
refused "a connection without TLS" engine_tls env -u DOCKER_TLS_VERIFY -u DOCKER_CERT_PATH cay --json create
refused "an address where nobody listens" engine_down env DOCKER_HOST="tcp://127.0.0.1:$(free_port)" cay --json create

# ------------------------------------------------------------------ through the engine alone, by TLS
containers() { curl -s --unix-socket "$ENGINE_DIR/sock" "http://e/v1.41/containers/json?all=true" | grep -o '"Id":"[0-9a-f]*"' | wc -l; }
export CAY_DOCKER_TRANSPORT=engine
cay create --name far >/dev/null
cay inspect far >"$ENGINE_DIR/out"
grep -q 'engine: pid 1 is in' "$ENGINE_DIR/out" && ok "inspect says that the sandbox is reached through the engine" || bad "inspect: $(tail -c 300 "$ENGINE_DIR/out")"
rc=0; cay exec far -- sh -c 'echo out; echo err >&2; exit 7' >"$ENGINE_DIR/out" 2>"$ENGINE_DIR/err" || rc=$?
same "exec gives both streams and the status" "$(cat "$ENGINE_DIR/out") $(cat "$ENGINE_DIR/err") $rc" "out err 7"
head -c 3000000 /dev/urandom >"$ENGINE_DIR/blob"
same "bytes pass through a command unchanged" "$(cay exec -i far -- cat <"$ENGINE_DIR/blob" | cksum)" "$(cksum <"$ENGINE_DIR/blob")"
cay cp "$ENGINE_DIR/blob" far:/workspace/blob
same "bytes pass through files unchanged" "$(cay cp far:/workspace/blob - | cksum)" "$(cksum <"$ENGINE_DIR/blob")"
cay exec far -d --tag long -- sh -c 'echo begun; exec sleep 600' >/dev/null
same "logs finds a process by its tag" "$(cay logs far long)" begun
cay exec far -- ls /.cay/ctl >/dev/null 2>&1 && bad "the user sees pid 1's directory" || ok "the user does not see pid 1's directory"
cay exec far -- sh -c 'echo x >/.cay/pid1' 2>/dev/null && bad "the user changes pid 1"
same "the environment is not left inside" "$(cay exec far -u root -- ls -A /.cay/ctl | grep -c config)" 0
refused "a directory of this machine" engine_remote cay --json create --mount /usr/share:/mnt
refused "a read-only root" not_supported cay --json create --option read_only=true
cay kill far >/dev/null
cay resume far >/dev/null
same "files outlive a stop" "$(cay exec far -- sh -c 'wc -c </workspace/blob')" 3000000
cay rm -f far >/dev/null
same "no container is left" "$(containers)" 0
unset CAY_DOCKER_TRANSPORT

# ------------------------------------------------------------------ an engine that does not see this machine's files is seen to be one
"$ENGINE_DIR/stop"
rm -f "$ENGINE_DIR/sock"
if unshare -m sh -c "mount -t tmpfs none '$CAY_HOME' && exec '$ENGINE_DIR/start'" 2>/dev/null; then
    unset DOCKER_TLS_VERIFY DOCKER_CERT_PATH
    export DOCKER_HOST="unix://$ENGINE_DIR/sock"
    cay create --name blind >/dev/null
    cay inspect blind | grep -q 'engine: pid 1 is in' && ok "an engine with other files is reached through the engine" || bad "an engine with other files"
    same "a command runs on an engine with other files" "$(cay exec blind -- echo there)" there
    refused "a socket to an engine with other files" engine_remote cay --json create --option transport=socket
    cay rm -f blind >/dev/null
    same "no container is left on an engine with other files" "$(containers)" 0
fi
exit $failed
