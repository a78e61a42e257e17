#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_sdk.sh CAY PEER DIALOGUES: the test server before the published clients, and our runner beside the published one.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cay=$(realpath "$1") peer=$(realpath "$2") dialogues=$(realpath "$3")
packages=$("$here/../../support/npm" "$here") || exit $?
tmp=$(mktemp -d)
export CAY_HOME="$tmp/home" TMPDIR="$tmp"
unset OPENAI_API_KEY OPENAI_BASE_URL CAY_MODEL CAY_MODEL_API CAY_LIBEXEC CAY_PROVIDER
mkdir "$tmp/peer"
mkfifo "$tmp/stop"
"$peer" "$tmp/peer" "$dialogues" <"$tmp/stop" &
exec 9>"$tmp/stop"
trap 'exec 9>&-; wait; chmod -R u+rwx "$tmp" 2>/dev/null; rm -rf "$tmp"' EXIT
i=0
while [ ! -s "$tmp/peer/port" ] && [ $i -lt 200 ]; do sleep 0.1; i=$((i + 1)); done
url=http://127.0.0.1:$(cat "$tmp/peer/port")
status=0
timeout -k 1 60 node "$here/peer.js" "$packages" "$url" </dev/null || status=1
timeout -k 1 90 node "$here/compare.js" "$packages" "$url" "$tmp/peer/seen" "$cay" </dev/null || status=1
exit $status
