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
    if grep -q "\"reason\": *\"$reason\"" "$ENGINE_DIR/out"; then ok "$what is refused: $reason"; else bad "$what: $(head -c 300 "$ENGINE_DIR/out")"; fi
}
# plugin_free NAME: sets plugin, where the engine looks for a volume driver of that name; false: the machine has one of its own, which stays what it is.
plugin_free() {
    plugin=/run/docker/plugins/$1.sock
    [ "${CAY_PROVIDER-}" != podman ] || plugin=$ENGINE_DIR/$1.sock
    mkdir -p "$(dirname "$plugin")"
    [ ! -S "$plugin" ] || ! curl -s -o /dev/null --max-time 5 --unix-socket "$plugin" http://p/ || { echo "$plugin is the machine's own"; return 1; }
    rm -f "$plugin"
}
plugin_up() { n=0; until [ -S "$plugin" ] || [ $((n += 1)) -gt 100 ]; do sleep 0.1; done; }
