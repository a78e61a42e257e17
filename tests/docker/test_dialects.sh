#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_dialects.sh BUILD ENGINE: a server whose sandboxes are containers, before the published SDK of E2B, and by the Cloudflare bridge and the native protocol as they
# are spoken elsewhere: nobody says which provider it is. Run by tests/docker/with.
set -eu
build=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/lib.sh"
engine=${2:-docker}
export CAY_PROVIDER="$engine" CAY_SECRET_KEY="$ENGINE_DIR/secret.key"
containers() { api "http://e/v1.41/containers/json?all=true" | grep -o '"Id":"[0-9a-f]*"' | wc -l; }
cay serve --listen 127.0.0.1:0 >"$ENGINE_DIR/serve" 2>&1 </dev/null &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null; for b in $(cay ls -q 2>/dev/null); do cay rm -f "$b" >/dev/null 2>&1; done' EXIT
n=0; until url=$(grep -oE 'http://127.0.0.1:[0-9]+' "$ENGINE_DIR/serve" | head -1) && [ -n "$url" ] || [ $((n += 1)) -gt 300 ]; do sleep 0.1; done
key=$(cay key create --scope admin 2>/dev/null | grep -o 'e2b_[0-9a-f]*' | head -1)
ask() { # METHOD PATH [BODY]
    curl -s --max-time 60 -X "$1" -H "Authorization: Bearer $key" -H "X-API-Key: $key" -H 'Content-Type: application/json' ${3+-d "$3"} "$url$2"
}
of() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" | head -1; }

# ------------------------------------------------------------------ Cloudflare's bridge
id=$(ask POST /cloudflare/v1/sandbox | of id)
[ -n "$id" ] && ok "the Cloudflare bridge makes a sandbox" || bad "the bridge: $(ask POST /cloudflare/v1/sandbox)"
ask POST "/cloudflare/v1/sandbox/$id/exec" '{"argv":["sh","-lc","echo by-bridge; uname -n"]}' >"$ENGINE_DIR/out"
python3 -c 'import base64,re,sys
print(b"".join(base64.b64decode(m) for m in re.findall(rb"event: stdout\r?\ndata: (\S+)", open(sys.argv[1],"rb").read())).decode())' "$ENGINE_DIR/out" | grep by-bridge >/dev/null && ok "the Cloudflare bridge runs a command" || bad "a command by it: $(head -c 300 "$ENGINE_DIR/out")"
same "the sandbox of the bridge is a container" "$(containers)" 1
ask DELETE "/cloudflare/v1/sandbox/$id" >/dev/null
same "the bridge removes its container" "$(containers)" 0

# ------------------------------------------------------------------ the native protocol, which may say so
id=$(ask POST /api/v1/sandboxes '{"net":{"mode":"off"}}' | of id)
[ -n "$id" ] && ok "the native API makes a container without a network" || bad "net off: $(ask POST /api/v1/sandboxes '{"net":{"mode":"off"}}')"
ask POST /api/v1/sandboxes '{"net":{"mode":"all"}}' >"$ENGINE_DIR/out"
grep -q 'CAY_DOCKER_NETWORK' "$ENGINE_DIR/out" && ok "a request for all networks names the remedy" || bad "net all: $(cat "$ENGINE_DIR/out")"
ask DELETE "/api/v1/sandboxes/$id?force=true" >/dev/null

# ------------------------------------------------------------------ E2B, by its SDK
if command -v node >/dev/null && packages=$("$here/../support/npm" "$here/../compat/e2b"); then
    mkdir -p "$ENGINE_DIR/sdk"
    ln -s "$packages/node_modules" "$ENGINE_DIR/sdk/node_modules"
    cp "$packages/package.json" "$ENGINE_DIR/sdk/"
    cat >"$ENGINE_DIR/sdk/try.js" <<'J'
import { Sandbox, CommandExitError } from 'e2b'
const box = await Sandbox.create({ timeoutMs: 120_000, envs: { COLOR: 'green' }, metadata: { team: 'a' } })
const say = (...w) => console.log(w.join(' '))
const r = await box.commands.run('echo $COLOR; id -un; pwd; echo err >&2')
say('run', JSON.stringify([r.exitCode, r.stdout, r.stderr]))
say('code', await box.commands.run('exit 7').catch(e => e instanceof CommandExitError && e.exitCode))
await box.files.write('dir/a', 'bytes')
say('files', await box.files.read('dir/a'), (await box.files.list('dir')).map(e => e.name).join())
const bg = await box.commands.run('for i in 1 2 3; do echo $i; done; sleep 300', { background: true, onStdout() {} })
say('list', (await box.commands.list()).some(p => p.pid === bg.pid), await bg.kill())
const pty = await box.pty.create({ cols: 80, rows: 24, onData() {} })
say('pty', pty.pid > 0, await box.pty.kill(pty.pid))
say('info', JSON.stringify((await box.getInfo()).metadata), (await box.isRunning()))
await box.setTimeout(200_000)
const id = box.sandboxId
say('pause', await box.pause())
const again = await Sandbox.connect(id)
say('again', await again.files.read('dir/a'))
say('kill', await again.kill())
J
    (cd "$ENGINE_DIR/sdk" && E2B_API_KEY=$key E2B_API_URL=$url E2B_SANDBOX_URL=$url timeout 120 node try.js) >"$ENGINE_DIR/out" 2>&1 || bad "E2B's SDK: $(tail -c 500 "$ENGINE_DIR/out")"
    same "E2B's SDK works unchanged" "$(cat "$ENGINE_DIR/out")" 'run [0,"green\nuser\n/home/user\n","err\n"]
code 7
files bytes a
list true true
pty true true
info {"team":"a"} true
pause true
again bytes
kill true'
else
    echo "no node, or E2B's SDK cannot be had from npm: left out"
fi
same "the server leaves no container" "$(containers)" 0
exit $failed
