#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_e2b.sh BUILD: E2B's published SDKs, unmodified, against a server of ours.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "$1")
packages=$("$here/../support/npm" "$here") || exit $?
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cp "$here"/*.js "$packages/package.json" "$tmp" && ln -s "$packages/node_modules" "$tmp/node_modules"
cd "$tmp" || exit 1
# shellcheck disable=SC2016
"$here/../server/serve" "$build" sh -c 'E2B_API_KEY=$CAY_KEY E2B_API_URL=$CAY_URL E2B_SANDBOX_URL=$CAY_URL exec timeout -k 1 150 node --test --test-concurrency=1 e2b.js interpreter.js' </dev/null
