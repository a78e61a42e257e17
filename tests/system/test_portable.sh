#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test_portable.sh ARCHIVE: the programs of packaging/tarball in a root that has nothing but them, /proc and /dev. No library, shell or file of a
# distribution is there.
set -u
archive=$(realpath "$1")
command -v bwrap >/dev/null || { echo "bubblewrap is not installed"; exit 77; }
tmp=$(mktemp -d "${TMPDIR:-/tmp}/cay-portable.XXXXXX")
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$tmp"' EXIT
mkdir "$tmp/opt" "$tmp/state"
tar -xzf "$archive" -C "$tmp/opt" --strip-components=1
rc=0
inside() { # COMMAND…: a directory that is not the one the programs were built for
    bwrap --ro-bind "$tmp/opt" /any/where --bind "$tmp/state" /state --proc /proc --dev /dev --tmpfs /tmp --setenv CAY_HOME /state/home \
        --setenv XDG_RUNTIME_DIR /state/run --unsetenv CAY_LIBEXEC --setenv CAY_API_KEY "${key-cay_x}" --die-with-parent "$@" 2>&1
}
expect() { # NAME PATTERN COMMAND…
    local name=$1 pattern=$2 out
    shift 2
    out=$(inside "$@")
    if [[ $out =~ $pattern ]]; then
        echo "ok: $name"
    else
        echo "FAILED: $name: $out"
        rc=1
    fi
}
mkdir -m 700 "$tmp/state/home" "$tmp/state/run"
cay=/any/where/bin/cay
expect 'the program of hot verbs starts' '^cay [0-9]' $cay --version
expect 'the full program starts and finds the others' '"level"' $cay doctor --json
expect 'the store is made (SQLite)' '^(cay|e2b)_[0-9a-f]' $cay -q key create --scope tenant
expect 'no sandbox is listed' '^$' $cay -q ls
expect 'digests and archives (OpenSSL, zstd)' 'started by libcay' /any/where/libexec/cay/cay-pack
expect 'a talk starts (libedit, md4c)' 'cay chat' $cay chat --help
expect 'HTTP by the module that is linked in (libcurl)' '127.0.0.1:1.*(refuse|connect)' $cay --host http://127.0.0.1:1 ls
mkfifo "$tmp/said"
inside $cay serve --listen 127.0.0.1:0 >"$tmp/said" &
server=$!
url=
while [ -z "$url" ] && read -r line; do
    case $line in 'listening on http'*) url=${line#listening on } url=${url%% *} ;; *) echo "server: $line" ;; esac
done <"$tmp/said"
if [ -z "$url" ]; then
    echo 'FAILED: the server does not listen'
    rc=1
else
    key=$(inside $cay -q key create --scope tenant)
    expect 'the server answers its client' '"api"|"version"' /any/where/bin/cay --host "$url" doctor --json
fi
exit $rc
