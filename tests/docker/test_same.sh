#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_same.sh BUILD ENGINE: one agent, one manifest, one script of a model, and one set of expectations on native, local and a container engine: what the
# model is told, what it answers and the files that it leaves are the same. Run by tests/docker/with.
set -eu
build=$(realpath "$1")
. "$(dirname "$(realpath "$0")")/lib.sh"
engine=${2:-docker}
tmp=$ENGINE_DIR/same
mkdir -p "$tmp"

cat >"$tmp/manifest.json" <<'M'
{"version": 1, "environment": {"COLOR": "green"},
 "entries": {"README.md": {"type": "file", "content": "# Count\nTwo files.\n"},
             "src/count.sh": {"type": "file", "content": "#!/bin/sh\nwc -l <\"$1\"\n", "permissions": {"owner": 7, "group": 5, "other": 5}},
             "data/list.txt": {"type": "file", "content": "one\ntwo\nthree\n"},
             "empty": {"type": "dir"}}}
M
# It sees streams apart, statuses, the environment, a directory of its own choice, a terminal, standard input, what a patch changed, what is not there.
cat >"$tmp/script.json" <<'S'
{"turns": [
  {"expect": {"input": ["count the lines"], "tools": ["exec_command", "apply_patch", "file_read", "grep"]},
   "text": "I will look.", "calls": [{"name": "exec_command", "arguments": {"cmd": "ls -1; sh src/count.sh data/list.txt; echo $COLOR; echo to-err >&2"}}]},
  {"expect": {"last": ["README.md", "3", "green", "to-err", "code 0"]},
   "calls": [{"name": "exec_command", "arguments": {"cmd": "echo in $(basename \"$PWD\"); cat no-such-file; exit 7", "workdir": "data"}}]},
  {"expect": {"last": ["in data", "No such file", "code 7"]},
   "calls": [{"name": "apply_patch", "input": "*** Begin Patch\n*** Update File: data/list.txt\n@@\n two\n-three\n+THREE\n+four\n*** Add File: notes/new.md\n+made by a patch\n*** End Patch"}]},
  {"expect": {"last": ["data/list.txt"]},
   "calls": [{"name": "apply_patch", "input": "*** Begin Patch\n*** Update File: data/list.txt\n@@\n-not there\n+x\n*** End Patch"}]},
  {"calls": [{"name": "file_read", "arguments": {"file": "data/list.txt"}}]},
  {"expect": {"last": ["THREE", "four"]}, "calls": [{"name": "file_edit", "arguments": {"file": "README.md", "old_str": "Two files.", "new_str": "Three files."}}]},
  {"calls": [{"name": "grep", "arguments": {"pattern": "files", "path": "."}}]},
  {"expect": {"last": ["Three files"]}, "calls": [{"name": "file_read", "arguments": {"file": "../../etc/no-such"}}]},
  {"calls": [{"name": "exec_command", "arguments": {"cmd": "test -t 0 && echo a terminal; read x; echo got $x", "tty": true, "yield_time_ms": 500}}]},
  {"expect": {"last": ["a terminal"]}, "text": "It waits; that will do.", "calls": [{"name": "exec_command", "arguments": {"cmd": "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done | tail -2; ln -s data/list.txt link; chmod 600 notes/new.md; rmdir empty"}}]},
  {"expect": {"last": ["line 1999", "code 0"]}, "calls": [{"name": "exec_command", "arguments": {"cmd": "sh src/count.sh link"}}]},
  {"expect": {"last": ["4"]}, "text": "There are 4 lines."}]}
S
look='find . -mindepth 1 -not -path "*/.*" -printf "%p %y %m %l\n" | sort; find . -type f -not -path "*/.*" -exec sha256sum {} + | sort -k2'
# What is different by nature is not told: times, numbers of processes, ids.
plain() { grep -v "^cay: isolation none" | sed -E 's/[0-9]+([.][0-9]+)? (ms|s)\b/TIME/g; s/"?(session_id|process|pid|session ID|session)"?:? ?[0-9]+/\1 N/g; s/\b[cp][a-z2-7]{19}\b/ID/g; s/[0-9.]+ seconds/TIME/g'; }
run() {
    p=$1
    rc=0
    timeout 120 cay --provider "$p" agent --model "scripted:$tmp/script.json" --tools file_read,file_edit,grep --manifest "$tmp/manifest.json" --keep \
        "count the lines" >"$tmp/$p.answer" 2>"$tmp/$p.err" || rc=$?
    [ $rc = 0 ] || bad "$p: the run ends with $rc: $(tail -n 3 "$tmp/$p.err")"
    id=$(cay --provider "$p" ls -q | head -n 1)
    cay exec "$id" -- sh -c "$look" >"$tmp/$p.files" 2>&1 || bad "$p: $(tail -n 1 "$tmp/$p.files")"
    cay rm -f "$id" >/dev/null || bad "$p: it cannot be removed"
    { cat "$tmp/$p.answer"; plain <"$tmp/$p.err"; cat "$tmp/$p.files"; } >"$tmp/$p.all"
    ok "$p: $(wc -l <"$tmp/$p.files") lines of files, answer: $(tail -n 1 "$tmp/$p.answer")"
}
for p in native local "$engine"; do run "$p"; done
grep -q "There are 4 lines." "$tmp/native.answer" || bad "native: no answer"
grep -q "notes/new.md f 600" "$tmp/native.files" || bad "native: $(cat "$tmp/native.files")"
for p in local "$engine"; do
    for what in answer files all; do
        if cmp -s "$tmp/native.$what" "$tmp/$p.$what"; then ok "$what of $p as of native"; else bad "$what of $p is another: $(diff "$tmp/native.$what" "$tmp/$p.$what" | head -20)"; fi
    done
done
exit $failed
