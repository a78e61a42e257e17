#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_old_state.sh CAY ARCHIVE: a state directory of an older build (make-old-state beside this) is opened, and its sandbox is
# listed, started, taken back to its snapshot and removed. `make upgrade-test` does the same with sandboxes that run.
set -u
cay=$(realpath "$1")
archive=$(realpath "$2")
[ "$(id -u)" = 0 ] || { echo 'the files in it belong to several users: needs root'; exit 77; }
. "$(dirname "$0")/lib.sh"
c() { timeout -k 1 60 "$cay" "$@" </dev/null 2>"$tmp/err"; }
zstd -dc "$archive" | tar -C "$tmp" --xattrs --xattrs-include='*' --numeric-owner -xpf - || exit 1
ok 'the sandbox is listed' same "$(c ls --json | tr -d ' \n' | grep -o '"name":"box"')" '"name":"box"'
ok 'the sandbox is stopped' sh -c "'$cay' inspect box </dev/null | tr -d ' ' | grep -q '\"state\":\"stopped\"'"
ok 'its label is kept' same "$(c ls -q -l kept=yes | wc -l)" 1
ok 'its metadata is kept' sh -c "'$cay' inspect box </dev/null | tr -d ' \n' | grep -q '\"metadata\":{\"n\":1}'"
ok 'its template is listed' sh -c "'$cay' template ls </dev/null | grep -q tiny"
ok 'its snapshot is listed' sh -c "'$cay' snapshots box </dev/null | grep -q ' one '"
ok 'the sandbox is started' c resume box >/dev/null
ok 'its files are kept' same "$(c files cat box d/f) $(c files cat box new)" 'two new'
ok 'a snapshot is taken on top of the old one' c snapshot --label two box >/dev/null
ok 'undo goes back to the old snapshot' c undo --to one box >/dev/null
ok 'undo brings the old files back' same "$(c files cat box d/f) $(c files cat box old)" 'one gone'
ok 'undo brings the old modes back' sh -c "'$cay' files stat box d/f </dev/null | grep -q 640"
ok 'undo removes what came later' not c files cat box new
ok 'a fork of the old snapshot has its files' same "$(c files cat "$(c fork --name twin one)" d/f)" one
ok 'the sandboxes are removed' c rm -f box twin >/dev/null
ok 'the snapshots are removed' c snapshot rm one two >/dev/null
c gc --settle >/dev/null
ok 'no sandbox is left' test -z "$(ls "$CAY_HOME/sandboxes")"
verdict
