# SPDX-License-Identifier: Apache-2.0
# For the tests beside this file, which source it: a state directory below $ENGINE_DIR, and how they judge. $build is the build tree.
PATH=$build:$PATH
export CAY_LIBEXEC="$build" CAY_HOME="$ENGINE_DIR/home" XDG_RUNTIME_DIR="$ENGINE_DIR/runtime"
mkdir -p "$CAY_HOME" "$XDG_RUNTIME_DIR"
sock=$ENGINE_DIR/sock
failed=0
bad() { echo "FAIL: $*"; failed=1; }
ok() { echo "ok: $*"; }
same() { if [ "$2" = "$3" ]; then ok "$1"; else bad "$1: \"$2\", not \"$3\""; fi; }
api() { curl -s --unix-socket "$sock" -H 'Content-Type: application/json' "$@"; }
refused() { # WHAT REASON COMMAND…
    what=$1 reason=$2
    shift 2
    if "$@" >"$ENGINE_DIR/out" 2>&1; then bad "$what is accepted"; return; fi
    if grep -q "\"reason\": *\"$reason\"" "$ENGINE_DIR/out"; then ok "$what: $reason"; else bad "$what: $(head -c 300 "$ENGINE_DIR/out")"; fi
}
