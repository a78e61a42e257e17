#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_state.sh CAY: states of sessions, saved and resumed, as whoever runs this.
set -u
cay=$(realpath "$1")
. "$(dirname "$0")/lib.sh"
c() { timeout -k 1 30 "$cay" "$@" </dev/null 2>"$tmp/err"; }
fails() { ! c "$@" >/dev/null; }
how() { c --json resume --state "$@" | sed -n 's/.*"how": "\(.*\)".*/\1/p'; }

mkdir "$tmp/shared"
echo host >"$tmp/shared/f"
chmod -R a+rX "$tmp"
c volume create data >/dev/null

saved() { ls "$CAY_HOME/layers" | grep -c '^s'; c snapshots -q | wc -l; }
id=$(c create --name web -e PLAIN=yes)
c exec "$id" -- sh -c 'echo one >/workspace/f; mkdir /workspace/d; echo x >/workspace/d/g'
before=$(saved)
ok 'a state without a snapshot is written' c state "$id" >"$tmp/plain.json"
c kill "$id" >/dev/null
ok 'a state without a snapshot saves nothing, neither now nor when the sandbox stops' same "$(saved)" "$before"
c resume "$id" >/dev/null
ok 'a state is one JSON object' same "$(python3 -c 'import json,sys; s=json.load(open(sys.argv[1])); print(s["type"], s["session_id"], s["snapshot"]["type"])' "$tmp/plain.json")" "cay $id noop"
ok 'a state with a snapshot is written' c state --snapshot "$id" >"$tmp/s.json"
ok 'a state with a snapshot has a fingerprint' grep -q '"snapshot_fingerprint_version":"cay_layers_sha256_v1"' "$tmp/s.json"

p=$(c exec -d "$id" -- sleep 100 2>/dev/null | tail -n 1)
c exec "$id" -- sh -c 'echo two >/workspace/f'
ok 'a state finds a running sandbox' same "$(how "$tmp/s.json")" alive
ok 'a running sandbox is left as it is' same "$(c exec "$id" -- cat /workspace/f)" two
c pause "$id" >/dev/null
if [ $? = 0 ]; then
    ok 'a state resumes a paused sandbox' same "$(how "$tmp/s.json")" alive
    ok 'a resumed sandbox works' same "$(c exec "$id" -- cat /workspace/f)" two
fi
c kill "$id" >/dev/null
ok 'a stopped sandbox that changed is restored' same "$(how "$tmp/s.json")" restored
ok 'a restored sandbox has the files of its snapshot' same "$(c exec "$id" -- sh -c 'cat /workspace/f /workspace/d/g')" "one
x"
c kill "$id" >/dev/null
ok 'a stopped sandbox that did not change is only started' same "$(how "$tmp/s.json")" kept
c exec --user root "$id" -- sh -c 'echo elsewhere >/var/tmp/x' 2>/dev/null || c exec "$id" -- sh -c 'echo elsewhere >/tmp/x'
c kill "$id" >/dev/null
ok 'files outside of the workspace do not count as a change' same "$(how "$tmp/s.json")" kept
c rm -f "$id" >/dev/null
ok 'a removed sandbox is made again' same "$(how "$tmp/s.json")" rebuilt
ok 'a sandbox made again has its id, files and variables' same "$(c exec "$id" -- sh -c 'cat /workspace/f; echo $PLAIN')" "one
yes"
ok 'a state is read from standard input' same "$(timeout 30 "$cay" --json resume --state - <"$tmp/s.json" 2>"$tmp/err" | grep -c alive)" 1
c rm -f "$id" >/dev/null
ok 'a state without a snapshot cannot make a sandbox again' fails resume --state "$tmp/plain.json"
ok 'the refusal names the missing snapshot' says "no snapshot"
s=$(sed -n 's/.*"id":"\(s[a-z2-7]*\)".*/\1/p' "$tmp/s.json")
c snapshot rm "$s" >/dev/null
ok 'a state whose snapshot is gone is refused' fails resume --state "$tmp/s.json"

# Rights are named, not carried.
id=$(c create --mount "$tmp/shared:/shared" --volume data:/data --memory 4G)
c exec "$id" -- sh -c 'echo in >/data/f; echo kept >/workspace/f'
c state --snapshot "$id" >"$tmp/r.json"
ok 'a state has no path of the host' sh -c "! grep -q '$tmp' '$tmp/r.json'"
ok 'a state names rights that it does not carry' grep -q '"grants":\[{"target":"/shared","rw":false}\]' "$tmp/r.json"
ok 'a running sandbox needs no rights again' same "$(how "$tmp/r.json")" alive
c rm -f "$id" >/dev/null
ok 'a sandbox made again needs its rights' fails resume --state "$tmp/r.json"
ok 'a missing directory is named' says "--mount DIR:/shared"
ok 'a missing volume is named' says "--volume data:/data"
ok 'a missing limit is named' says memory
ok 'a sandbox is made again with all its rights' same "$(how "$tmp/r.json" --mount "$tmp/shared:/shared" --volume data:/data --memory 4G)" rebuilt
ok 'a sandbox made again can use its rights' same "$(c exec "$id" -- cat /shared/f /data/f /workspace/f)" "host
in
kept"
other=$(c create)
c state --snapshot "$other" >"$tmp/o.json"
c rm -f "$id" "$other" >/dev/null
o=$(sed -n 's/.*"id":"\(s[a-z2-7]*\)".*/\1/p' "$tmp/o.json")
sed "s/\"id\":\"s[a-z2-7]*\"/\"id\":\"$o\"/" "$tmp/s.json" >"$tmp/forged.json"
ok 'a snapshot of another sandbox is refused' fails resume --state "$tmp/forged.json"
ok 'the refusal names the other sandbox' says "is not one of sandbox"
for bad in ../x a/b s/../../x; do
    sed "s|\"id\":\"s[a-z2-7]*\"|\"id\":\"$bad\"|" "$tmp/o.json" >"$tmp/forged.json"
    ok "a snapshot $bad is refused" fails resume --state "$tmp/forged.json"
done
sed 's/"provider":"native"/"provider":"local"/' "$tmp/o.json" >"$tmp/forged.json"
ok "a weaker provider is refused" fails resume --state "$tmp/forged.json"
sed 's/"limits":{/"root":"\/","limits":{/' "$tmp/o.json" >"$tmp/forged.json"
ok "a path of the host is refused" fails resume --state "$tmp/forged.json"
ok 'the refusal of a path names the field' says "which no state may"
echo '{"type":"docker"}' >"$tmp/forged.json"
ok 'a state of another kind is refused' fails resume --state "$tmp/forged.json"
ok 'a state together with an id is a usage error' fails resume --state "$tmp/o.json" "$other"

# With a manifest: what is ephemeral is never saved, and written anew; what became of the rest counts.
cat >"$tmp/m.json" <<'M'
{"entries":{"a":{"type":"file","content":"base"},"tmp.txt":{"type":"file","content":"vanishing","ephemeral":true}},
 "environment":{"value":{"E":{"ephemeral":true,"value":"unsaid"},"P":"plain"}}}
M
id=$(c create --manifest "$tmp/m.json")
ok "a manifest is in place" same "$(c exec "$id" -- sh -c 'cat a tmp.txt; echo $E$P')" "basevanishingunsaidplain"
c exec "$id" -- sh -c 'printf changed >a'
c state --snapshot "$id" >"$tmp/e.json"
ok 'no ephemeral content is in a state' sh -c "! grep -q 'vanishing\|unsaid' '$tmp/e.json'"
ok 'names of ephemeral content are in a state' grep -q '"environment":\["E"\],"ephemeral":\["tmp.txt"\]' "$tmp/e.json"
c kill "$id" >/dev/null
c resume "$id" >/dev/null && c exec "$id" -- rm tmp.txt && c kill "$id" >/dev/null
ok 'a change of ephemeral files is no change' same "$(how "$tmp/e.json" --manifest "$tmp/m.json")" kept
ok 'a kept sandbox has its files, and the ephemeral one is written again' same "$(c exec "$id" -- cat a tmp.txt)" changedvanishing
ok 'ephemeral variables come from the manifest' same "$(c exec "$id" -- sh -c 'echo $E$P')" unsaidplain
ok 'a running sandbox takes no variables' fails resume -e E=new "$id"
c kill "$id" >/dev/null
ok 'a stopped sandbox takes no variable that its record has' fails resume -e P=new "$id"
ok 'the refusal names the variable' says "variable P:"
c resume "$id" >/dev/null
ok 'an ephemeral variable that is not given is named' says "not set now: E;"
ok 'an ephemeral variable that is not given is not set' same "$(c exec "$id" -- sh -c 'echo $E$P')" plain
c kill "$id" >/dev/null
c resume -e E=new "$id" >/dev/null
ok 'nothing is said when all ephemeral variables are given' test ! -s "$tmp/err"
ok 'an ephemeral variable that is given is set' same "$(c exec "$id" -- sh -c 'echo $E$P')" newplain
c kill "$id" >/dev/null
sed 's/"content":"base"/"content":"other"/' "$tmp/m.json" >"$tmp/m2.json"
ok "another manifest forces a restore" same "$(how "$tmp/e.json" --manifest "$tmp/m2.json")" restored
c rm -f "$id" >/dev/null
ok 'a sandbox made again needs its ephemeral content' fails resume --state "$tmp/e.json"
ok 'a missing ephemeral entry is named' says "tmp.txt"
ok 'a missing ephemeral variable is named' says "--env E="
ok 'a sandbox is made again with its manifest' same "$(how "$tmp/e.json" --manifest "$tmp/m.json")" rebuilt
ok 'saved files win, and ephemeral content comes back' same "$(c exec "$id" -- sh -c 'cat a tmp.txt; echo $E$P')" "changedvanishingunsaidplain"
c rm -f "$id" >/dev/null

# A directory of the host by its manifest: that is what it comes by again.
mkdir "$tmp/dir" && echo outside >"$tmp/dir/f" && chmod 755 "$tmp"
printf '{"entries":{"in":{"type":"mount","source":"dir","read_only":false,"mount_strategy":{"type":"local_bind"}}}}' >"$tmp/b.json"
id=$(c create --manifest "$tmp/b.json")
c exec "$id" -- sh -c 'echo saved >file'
c state --snapshot "$id" >"$tmp/bs.json"
c exec "$id" -- sh -c 'touch new; ln -sf in/f file'
echo later >"$tmp/dir/g"
c kill "$id" >/dev/null
ok 'changes next to a mount are taken back' same "$(how "$tmp/bs.json" --manifest "$tmp/b.json")" restored
ok 'a mounted directory stays as it was' same "$(ls "$tmp/dir"; c exec "$id" -- sh -c 'ls; cat in/f in/g')" "f
g
file
in
outside
later"
ok 'a file replaces the link of its name, not its target' same "$(c exec "$id" -- sh -c 'test ! -L file && cat file'; cat "$tmp/dir/f")" "saved
outside"
c rm -f "$id" >/dev/null
ok 'a bind mount of the manifest is needed again' fails resume --state "$tmp/bs.json"
ok 'the refusal names the manifest' says "--manifest FILE with its mounts"
ok 'the refusal does not name --mount, too' sh -c "! grep -q -e --mount '$tmp/err'"
ok 'a sandbox with a bind mount is made again with its manifest' same "$(how "$tmp/bs.json" --manifest "$tmp/b.json")" rebuilt
ok 'the bind mount of a sandbox made again is in place' same "$(c exec "$id" -- cat in/f)" outside
c rm -f "$id" >/dev/null

# The form of the SDK for JavaScript.
id=$(c create)
c exec "$id" -- sh -c 'echo one >f'
c state --js --snapshot "$id" >"$tmp/js.json"
ok 'state --js has the form of the SDK for JavaScript' grep -q '"backendId":"e2b"' "$tmp/js.json"
ok 'a JavaScript state finds a running sandbox' same "$(how "$tmp/js.json")" alive
c exec "$id" -- sh -c 'echo two >f'
c kill "$id" >/dev/null
ok 'a JavaScript state restores a stopped sandbox that changed' same "$(how "$tmp/js.json")" restored
c rm -f "$id" >/dev/null
ok 'a JavaScript state makes a removed sandbox again' same "$(how "$tmp/js.json")" rebuilt
ok 'a sandbox of a JavaScript state has the files of its snapshot' same "$(c exec "$id" -- cat f)" one
printf '{"version":5,"backendId":"e2b","manifest":{},"providerState":{"sandboxId":"%s"}}' "$id" >"$tmp/sdk.json"
ok 'a state written by the SDK itself finds a running sandbox' same "$(how "$tmp/sdk.json")" alive
c rm -f "$id" >/dev/null
ok 'a state written by the SDK itself cannot make a sandbox again' fails resume --state "$tmp/sdk.json"
ok "the refusal says that the SDK's state has no snapshot" says "has no snapshot"
sed 's/e2b/unix_local/' "$tmp/sdk.json" >"$tmp/ul.json"
ok 'a state of another client is refused' fails resume --state "$tmp/ul.json"
ok "the refusal of another client's state names the import" says "cay snapshot import"

verdict
