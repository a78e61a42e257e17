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
ok "a state without snapshot" c state "$id" >"$tmp/plain.json"
c kill "$id" >/dev/null
ok "saves nothing, neither now nor when it stops" same "$(saved)" "$before"
c resume "$id" >/dev/null
ok "is one JSON object" same "$(python3 -c 'import json,sys; s=json.load(open(sys.argv[1])); print(s["type"], s["session_id"], s["snapshot"]["type"])' "$tmp/plain.json")" "cay $id noop"
ok "with a snapshot" c state --snapshot "$id" >"$tmp/s.json"
ok "it has a fingerprint" grep -q '"snapshot_fingerprint_version":"cay_layers_sha256_v1"' "$tmp/s.json"

p=$(c exec -d "$id" -- sleep 100 2>/dev/null | tail -n 1)
c exec "$id" -- sh -c 'echo two >/workspace/f'
ok "the living one is found" same "$(how "$tmp/s.json")" alive
ok "and left as it is" same "$(c exec "$id" -- cat /workspace/f)" two
c pause "$id" >/dev/null
if [ $? = 0 ]; then
    ok "a paused one goes on" same "$(how "$tmp/s.json")" alive
    ok "and works" same "$(c exec "$id" -- cat /workspace/f)" two
fi
c kill "$id" >/dev/null
ok "a stopped one that changed is taken back" same "$(how "$tmp/s.json")" restored
ok "to its snapshot" same "$(c exec "$id" -- sh -c 'cat /workspace/f /workspace/d/g')" "one
x"
c kill "$id" >/dev/null
ok "one that did not change is only started" same "$(how "$tmp/s.json")" kept
c exec --user root "$id" -- sh -c 'echo elsewhere >/var/tmp/x' 2>/dev/null || c exec "$id" -- sh -c 'echo elsewhere >/tmp/x'
c kill "$id" >/dev/null
ok "what is outside of the workspace does not count" same "$(how "$tmp/s.json")" kept
c rm -f "$id" >/dev/null
ok "one that is gone is made again" same "$(how "$tmp/s.json")" rebuilt
ok "under its id, with its files and variables" same "$(c exec "$id" -- sh -c 'cat /workspace/f; echo $PLAIN')" "one
yes"
ok "standard input" same "$(timeout 30 "$cay" --json resume --state - <"$tmp/s.json" 2>"$tmp/err" | grep -c alive)" 1
c rm -f "$id" >/dev/null
ok "without a snapshot it is lost" fails resume --state "$tmp/plain.json"
ok "and that is said" says "no snapshot"
s=$(sed -n 's/.*"id":"\(s[a-z2-7]*\)".*/\1/p' "$tmp/s.json")
c snapshot rm "$s" >/dev/null
ok "nor without its snapshot" fails resume --state "$tmp/s.json"

# Rights are named, not carried.
id=$(c create --mount "$tmp/shared:/shared" --volume data:/data --memory 4G)
c exec "$id" -- sh -c 'echo in >/data/f; echo kept >/workspace/f'
c state --snapshot "$id" >"$tmp/r.json"
ok "no path of the host is in it" sh -c "! grep -q '$tmp' '$tmp/r.json'"
ok "what was left out is named" grep -q '"grants":\[{"target":"/shared","rw":false}\]' "$tmp/r.json"
ok "the living one needs nothing" same "$(how "$tmp/r.json")" alive
c rm -f "$id" >/dev/null
ok "made again it does" fails resume --state "$tmp/r.json"
ok "a directory" says "--mount DIR:/shared"
ok "a volume" says "--volume data:/data"
ok "a limit beyond the default" says memory
ok "all of it given" same "$(how "$tmp/r.json" --mount "$tmp/shared:/shared" --volume data:/data --memory 4G)" rebuilt
ok "works" same "$(c exec "$id" -- cat /shared/f /data/f /workspace/f)" "host
in
kept"
other=$(c create)
c state --snapshot "$other" >"$tmp/o.json"
c rm -f "$id" "$other" >/dev/null
o=$(sed -n 's/.*"id":"\(s[a-z2-7]*\)".*/\1/p' "$tmp/o.json")
sed "s/\"id\":\"s[a-z2-7]*\"/\"id\":\"$o\"/" "$tmp/s.json" >"$tmp/forged.json"
ok "another's snapshot is refused" fails resume --state "$tmp/forged.json"
ok "and said" says "is not one of sandbox"
for bad in ../x a/b s/../../x; do
    sed "s|\"id\":\"s[a-z2-7]*\"|\"id\":\"$bad\"|" "$tmp/o.json" >"$tmp/forged.json"
    ok "a snapshot $bad is refused" fails resume --state "$tmp/forged.json"
done
sed 's/"provider":"native"/"provider":"local"/' "$tmp/o.json" >"$tmp/forged.json"
ok "a weaker provider is refused" fails resume --state "$tmp/forged.json"
sed 's/"limits":{/"root":"\/","limits":{/' "$tmp/o.json" >"$tmp/forged.json"
ok "a path of the host is refused" fails resume --state "$tmp/forged.json"
ok "named" says "which no state may"
echo '{"type":"docker"}' >"$tmp/forged.json"
ok "another's kind" fails resume --state "$tmp/forged.json"
ok "a usage error" fails resume --state "$tmp/o.json" "$other"

# With a manifest: what is ephemeral is never saved, and written anew; what became of the rest counts.
cat >"$tmp/m.json" <<'M'
{"entries":{"a":{"type":"file","content":"base"},"tmp.txt":{"type":"file","content":"vanishing","ephemeral":true}},
 "environment":{"value":{"E":{"ephemeral":true,"value":"unsaid"},"P":"plain"}}}
M
id=$(c create --manifest "$tmp/m.json")
ok "a manifest is in place" same "$(c exec "$id" -- sh -c 'cat a tmp.txt; echo $E$P')" "basevanishingunsaidplain"
c exec "$id" -- sh -c 'printf changed >a'
c state --snapshot "$id" >"$tmp/e.json"
ok "nothing ephemeral is in its state" sh -c "! grep -q 'vanishing\|unsaid' '$tmp/e.json'"
ok "but its names are" grep -q '"environment":\["E"\],"ephemeral":\["tmp.txt"\]' "$tmp/e.json"
c kill "$id" >/dev/null
c resume "$id" >/dev/null && c exec "$id" -- rm tmp.txt && c kill "$id" >/dev/null
ok "unchanged but for that it is kept" same "$(how "$tmp/e.json" --manifest "$tmp/m.json")" kept
ok "with its files, and the ephemeral one is written again" same "$(c exec "$id" -- cat a tmp.txt)" changedvanishing
ok "and ephemeral variables, by the manifest" same "$(c exec "$id" -- sh -c 'echo $E$P')" unsaidplain
ok "a running one takes none" fails resume -e E=new "$id"
c kill "$id" >/dev/null
ok "nor does a stopped one what its record has" fails resume -e P=new "$id"
ok "by name" says "variable P:"
c resume "$id" >/dev/null
ok "what nobody gives again is named" says "not set now: E;"
ok "and not set" same "$(c exec "$id" -- sh -c 'echo $E$P')" plain
c kill "$id" >/dev/null
c resume -e E=new "$id" >/dev/null
ok "of what is given nothing is said" test ! -s "$tmp/err"
ok "and it is set" same "$(c exec "$id" -- sh -c 'echo $E$P')" newplain
c kill "$id" >/dev/null
sed 's/"content":"base"/"content":"other"/' "$tmp/m.json" >"$tmp/m2.json"
ok "another manifest forces a restore" same "$(how "$tmp/e.json" --manifest "$tmp/m2.json")" restored
c rm -f "$id" >/dev/null
ok "made again it wants them" fails resume --state "$tmp/e.json"
ok "the entry" says "tmp.txt"
ok "the variable" says "--env E="
ok "with the manifest" same "$(how "$tmp/e.json" --manifest "$tmp/m.json")" rebuilt
ok "saved content wins, ephemeral comes back" same "$(c exec "$id" -- sh -c 'cat a tmp.txt; echo $E$P')" "changedvanishingunsaidplain"
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
ok "what changed around a mount is taken back" same "$(how "$tmp/bs.json" --manifest "$tmp/b.json")" restored
ok "and what is mounted is as it was" same "$(ls "$tmp/dir"; c exec "$id" -- sh -c 'ls; cat in/f in/g')" "f
g
file
in
outside
later"
ok "a file replaces the link of its name, not what that named" same "$(c exec "$id" -- sh -c 'test ! -L file && cat file'; cat "$tmp/dir/f")" "saved
outside"
c rm -f "$id" >/dev/null
ok "a bind of the manifest is asked for" fails resume --state "$tmp/bs.json"
ok "as a manifest" says "--manifest FILE with its mounts"
ok "and once" sh -c "! grep -q -e --mount '$tmp/err'"
ok "with it all is there" same "$(how "$tmp/bs.json" --manifest "$tmp/b.json")" rebuilt
ok "in place" same "$(c exec "$id" -- cat in/f)" outside
c rm -f "$id" >/dev/null

# The form of the SDK for JavaScript.
id=$(c create)
c exec "$id" -- sh -c 'echo one >f'
c state --js --snapshot "$id" >"$tmp/js.json"
ok "its form" grep -q '"backendId":"e2b"' "$tmp/js.json"
ok "a living one is found by it" same "$(how "$tmp/js.json")" alive
c exec "$id" -- sh -c 'echo two >f'
c kill "$id" >/dev/null
ok "a stopped one that changed is taken back" same "$(how "$tmp/js.json")" restored
c rm -f "$id" >/dev/null
ok "one that is gone is made again" same "$(how "$tmp/js.json")" rebuilt
ok "from its snapshot" same "$(c exec "$id" -- cat f)" one
printf '{"version":5,"backendId":"e2b","manifest":{},"providerState":{"sandboxId":"%s"}}' "$id" >"$tmp/sdk.json"
ok "what the SDK itself wrote names it" same "$(how "$tmp/sdk.json")" alive
c rm -f "$id" >/dev/null
ok "and cannot make it again" fails resume --state "$tmp/sdk.json"
ok "by name" says "has no snapshot"
sed 's/e2b/unix_local/' "$tmp/sdk.json" >"$tmp/ul.json"
ok "that of another client is refused" fails resume --state "$tmp/ul.json"
ok "with the remedy" says "cay snapshot import"

verdict
