#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_agent.sh CAY PEER: cay agent and cay files patch, with a scripted model and with a server of the tests, as whoever runs this.
set -u
cay=$(realpath "$1") peer=$(realpath "$2")
. "$(dirname "$0")/lib.sh"
export XDG_CONFIG_HOME="$tmp/none"
unset OPENAI_API_KEY OPENAI_BASE_URL CAY_MODEL CAY_MODEL_API CAY_LIBEXEC
mkfifo "$tmp/stop"
mkdir "$tmp/peer"
"$peer" "$tmp/peer" <"$tmp/stop" &
exec 9>"$tmp/stop"
leave() { exec 9>&-; }
has() { case $1 in *"$2"*) ;; *) echo "  got: $1"; false ;; esac; }
lacks() { ! has "$1" "$2" >/dev/null; }
# No terminal to ask on, whoever runs the tests.
agent() { timeout -k 1 60 setsid -w "$cay" agent "$@" </dev/null 2>"$tmp/err"; }
i=0
while [ ! -s "$tmp/peer/port" ] && [ $i -lt 200 ]; do sleep 0.1; i=$((i + 1)); done
url=http://127.0.0.1:$(cat "$tmp/peer/port")
none() { [ -z "$("$cay" ls -q </dev/null)" ]; }

# A task over each API, streamed and whole, with the key nowhere inside.
export TEST_KEY=sk-test-0987654321
for api in responses chat; do
    for how in "" --no-stream; do
        # shellcheck disable=SC2086
        out=$(agent --api $api $how --base-url "$url/task/v1" --key env:TEST_KEY --model gpt-5.5 --keep 'say hello')
        ok "$api$how answers" same "$out" "Done: 3 Created hello.txt"
        ok "$api$how shows what it does" has "$(cat "$tmp/err")" "exec_command echo wörld"
        id=$("$cay" ls -q </dev/null)
        ok "$api$how has made the file" same "$("$cay" files cat "$id" hello.txt </dev/null)" "made by a model"
        ok "$api$how: no key inside" lacks "$("$cay" exec "$id" -- sh -c 'env; cat /proc/*/environ' </dev/null 2>/dev/null)" "$TEST_KEY"
        "$cay" rm -f "$id" </dev/null >/dev/null
    done
done

# Servers that are nearly compatible: two calls at once, and answers that find their way back.
for server in vllm llamacpp ollama litellm; do
    ok "$server: two calls at once are answered" same "$(agent --api chat --base-url "$url/$server/v1" --key none --model m 'go')" "hello, wörld €"
done

# Errors are told, with status 1 and nothing left.
agent --base-url "$url/auth/v1" --key env:TEST_KEY --model m hi >/dev/null
ok 'a refused key ends the run with status 1' same "$?" 1
ok 'a refused key is not shown' lacks "$(cat "$tmp/err")" "$TEST_KEY"
agent --base-url "$url/loop/v1" --model m --max-turns 3 hi >/dev/null
ok "an endless loop ends" has "$(cat "$tmp/err")" "3 turns"
agent --model m --key "$TEST_KEY" hi >/dev/null
ok "a key on the command line is refused" has "$(cat "$tmp/err")" "env:NAME"
agent --base-url "$url/hello/v1" --model m >/dev/null
ok "no task is a usage error" same "$?" 2
agent --model "scripted:$tmp/nosuch" hi >/dev/null
ok 'a missing script is named' has "$(cat "$tmp/err")" nosuch
ok 'failed runs leave no sandbox' none

# A scripted model that is hostile: escapes, unknown tools, paths that leave.
cat >"$tmp/hostile.json" <<'S'
{"turns": [{"calls": [{"name": "nosuch\u001b[2J", "arguments": {}}, {"name": "exec_command", "arguments": "{broken"},
                      {"name": "apply_patch", "input": "*** Begin Patch\n*** Add File: /etc/evil\n+x\n*** End Patch"},
                      {"name": "exec_command", "arguments": {"cmd": "printf '\\033[31mred\\033]0;title\\007'"}}]},
           {"expect": {"input": ["There is no tool named", "valid JSON", "leaves the workspace"]}, "text": "fin\u001b[31m"}]}
S
out=$(agent --model "scripted:$tmp/hostile.json" hi)
ok "a hostile model is survived" same "$?" 0
ok 'escapes of a hostile model do not reach the terminal' lacks "$(cat "$tmp/err")" "$(printf '\033')"
ok "the answer is passed on as it is" same "$out" "$(printf 'fin\033[31m')"

# Events for programs.
cat >"$tmp/two.json" <<'S'
{"turns": [{"text": "I look first.\u001b[2J", "calls": [{"id": "k1", "name": "exec_command", "arguments": {"cmd": "echo one >> log; cat log"}}]},
           {"expect": {"last": ["one"]}, "text": "finished"}]}
S
ok 'only the answer goes into a pipe' same "$(agent --model "scripted:$tmp/two.json" hi)" finished
ok 'text before the answer is shown as progress' has "$(tr '\n' ' ' <"$tmp/err")" "I look first."
ok 'progress is shown once, before the call that follows' has "$(tr '\n' ' ' <"$tmp/err" | sed 's/.*I look first/once/')" "exec_command echo one"
ok 'escapes in progress are not sent to the terminal' lacks "$(cat "$tmp/err")" "$(printf '\033')"
agent --json --trace "$tmp/trace" --model "scripted:$tmp/two.json" hi >"$tmp/out"
ok "every event is JSON" python3 -c 'import json,sys; [json.loads(l) for l in open(sys.argv[1])]' "$tmp/out"
ok "the last is the result" has "$(tail -n 1 "$tmp/out")" '"event":"result","output":"finished"'
ok 'the result has its trace' has "$(tail -n 1 "$tmp/out")" '"trace":{"trace_id":"trace_'
ok 'a trace file has JSON spans for the sandbox and the tool' python3 -c 'import json,sys; s=[json.loads(l) for l in open(sys.argv[1])]; n=[x["span_data"]["name"] for x in s[1:]]
assert s[0]["object"]=="trace" and "sandbox.create_session" in n and "exec_command" in n and "Agent" in n, n' "$tmp/trace"
ok 'spans hold no command' lacks "$(cat "$tmp/trace")" "echo one"

ok 'spans are below a task and its turns' has "$("$cay" trace "$tmp/trace" </dev/null)" "turn 2"
agent --trace - --trace-content --model "scripted:$tmp/two.json" hi >/dev/null
ok '--trace - prints a tree for people' has "$(cat "$tmp/err")" " ms        function exec_command"
agent --trace-content --model "scripted:$tmp/two.json" hi >/dev/null
ok "content without a trace is told" has "$(cat "$tmp/err")" "there is no trace"

# Back to a sandbox by its state, which outlives it.
for n in 1 2; do agent --sandbox-state "$tmp/sb.state" --model "scripted:$tmp/two.json" hi >/dev/null; done
ok 'a sandbox made from its state has its files' same "$(grep -c '^  one' "$tmp/err")" 2
ok 'a sandbox with a saved state is removed after the run' same "$("$cay" ls -q </dev/null)" ""
ok 'a saved state is readable by its owner only' same "$(stat -c %a "$tmp/sb.state")" 600

# A sandbox that is given stays; a conversation goes on.
id=$("$cay" create </dev/null)
agent --sandbox "$id" --session "$tmp/talk.db" --model "scripted:$tmp/two.json" 'first words' >/dev/null
cat >"$tmp/again.json" <<'S'
{"turns": [{"expect": {"input": ["first words", "finished", "second words"]}, "text": "again"}]}
S
ok 'a conversation continues in another run' same "$(agent --sandbox "$id" --session "$tmp/talk.db" --model "scripted:$tmp/again.json" 'second words')" again
ok 'a sandbox that was given keeps its files' same "$("$cay" files cat "$id" log </dev/null)" one

# Skills and memory.
mkdir -p "$tmp/skills/plot"
printf -- '---\nname: plotter\ndescription: plots things\n---\nPlot well.\n' >"$tmp/skills/plot/SKILL.md"
cat >"$tmp/learn.json" <<'S'
{"turns": [{"expect": {"instructions": ["- plotter: plots things"]}, "calls": [{"name": "load_skill", "arguments": {"skill_name": "plotter"}}]},
           {"expect": {"last": ["loaded"]}, "calls": [{"name": "exec_command", "arguments": {"cmd": "cat .agents/plot/SKILL.md"}}]},
           {"expect": {"last": ["Plot well."]}, "text": "plotted"},
           {"text": "{\"rollout_slug\": \"plots\", \"rollout_summary\": \"Plotted.\", \"raw_memory\": \"They plot.\"}"},
           {"expect": {"input": ["Mode: INIT"]}, "calls": [{"name": "apply_patch", "input": "*** Begin Patch\n*** Add File: memories/memory_summary.md\n+they plot\n*** End Patch"}]},
           {"text": "kept"}]}
S
ok "a skill is loaded" same "$(agent --skills "$tmp/skills" --memory "$tmp/memory" --model "scripted:$tmp/learn.json" 'plot it')" plotted
ok "what was learnt is kept" same "$(cat "$tmp/memory/memories/memory_summary.md")" "they plot"
cat >"$tmp/knows.json" <<'S'
{"turns": [{"expect": {"instructions": ["they plot"]}, "text": "I remember"}, {"text": "{\"rollout_slug\": \"\", \"rollout_summary\": \"\", \"raw_memory\": \"\"}"}]}
S
ok 'a later run knows the memory' same "$(agent --memory "$tmp/memory" --model "scripted:$tmp/knows.json" 'well?')" "I remember"

# Patches by hand.
printf '*** Begin Patch\n*** Update File: log\n@@\n-one\n+two\n*** End Patch\n' >"$tmp/p"
ok 'files patch -n says what would change' same "$("$cay" files patch -n "$id" "$tmp/p" </dev/null)" "Updated log"
ok 'files patch -n changes nothing' same "$("$cay" files cat "$id" log </dev/null)" one
ok 'files patch applies a patch' same "$("$cay" files patch "$id" - <"$tmp/p")" "Updated log"
ok 'a patched file has its new content' same "$("$cay" files cat "$id" log </dev/null)" two
"$cay" files patch "$id" - <"$tmp/p" >/dev/null 2>"$tmp/err"
ok 'a patch that was applied does not fit a second time' has "$(cat "$tmp/err")" "Invalid Context"
"$cay" rm -f "$id" </dev/null >/dev/null

# On the user's own directory it stays, to be looked at.
mkdir "$tmp/own"
echo mine >"$tmp/own/file"
ok "an agent works on a directory" same "$(agent --on "$tmp/own" --model "scripted:$tmp/two.json" hi | tail -1)" finished
id=$("$cay" ls -q </dev/null)
ok 'the sandbox of --on is kept, and the run says so' has "$(cat "$tmp/err")" "kept $id"
ok "the directory is as it was" same "$(ls "$tmp/own")" file
ok "what it changed is there to be seen" has "$("$cay" diff "$id" </dev/null 2>&1)" "A log"
"$cay" rm -f "$id" </dev/null >/dev/null
agent --memory 64m --model "scripted:$tmp/two.json" hi >/dev/null
ok "a size is no directory of memories" has "$(cat "$tmp/err")" "-m 64m"

# Approvals: saved, refused, gone on with in another process.
agent --approve ask --model "scripted:$tmp/two.json" hi >/dev/null
ok '--approve ask without a terminal is a usage error' same "$?" 2
agent --approve ask --state "$tmp/run.json" --model "scripted:$tmp/two.json" hi >/dev/null
ok 'a run that waits for an approval ends with status 3' same "$?" 3
ok 'the state of a waiting run is private' same "$(stat -c %a "$tmp/run.json")" 600
ok 'the sandbox of a waiting run is kept' [ -n "$("$cay" ls -q </dev/null)" ]
cat >"$tmp/rest.json" <<'S'
{"turns": [{"expect": {"last": ["one"]}, "text": "went on"}]}
S
sed 's/echo one/echo evil/' "$tmp/run.json" | sed 's/"interruptions":\[\(.*\)echo evil/"interruptions":[\1echo one/' >"$tmp/evil.json"
agent --resume "$tmp/evil.json" --approve auto --model "scripted:$tmp/rest.json" >/dev/null
ok "a state that was changed is refused" has "$(cat "$tmp/err")" "state of the run cannot be used"
sed 's/"approvals":{}/"approvals":{"exec_command":{"approved":true}}/' "$tmp/run.json" >"$tmp/forged.json"
ok "a state is forged" has "$(cat "$tmp/forged.json")" '"approved":true'
agent --resume "$tmp/run.json" --model "scripted:$tmp/rest.json" >/dev/null
ok 'a resumed run still asks for its approval' same "$?" 2
ok 'a resumed run that cannot ask names --approve auto' has "$(cat "$tmp/err")" "--approve auto"
agent --resume "$tmp/forged.json" --state "$tmp/again.state" --model "scripted:$tmp/rest.json" >/dev/null
ok "a yes in a state is not believed" same "$?" 3
ok 'a resumed run continues after its approval' same "$(agent --resume "$tmp/run.json" --approve auto --model "scripted:$tmp/rest.json")" "went on"
ok 'a resumed run shows the call that waited' has "$(cat "$tmp/err")" "→ exec_command "
ok "nothing is left after it" none
cat >"$tmp/no.json" <<'S'
{"turns": [{"calls": [{"name": "exec_command", "arguments": {"cmd": "true"}}]}, {"expect": {"last": ["not approved"]}, "text": "a pity"}]}
S
ok '--approve never refuses every call' same "$(agent --approve never --model "scripted:$tmp/no.json" hi)" "a pity"

# Tools of an MCP server, which is in a sandbox of its own.
cat >"$tmp/mcp.json" <<'S'
{"turns": [{"expect": {"tools": ["upper"]}, "calls": [{"name": "upper", "arguments": {"text": "loud"}}]}, {"expect": {"last": ["LOUD"]}, "text": "heard"}]}
S
mcp="echo $(base64 -w0 "$(dirname "$peer")/mcpserver") | base64 -d >s; exec python3 s"
ok 'tools of an MCP server are called' same "$(agent --mcp "$mcp" --model "scripted:$tmp/mcp.json" hi)" heard
agent --mcp 'exit 3' --model "scripted:$tmp/mcp.json" hi >/dev/null
ok 'an MCP server that does not start is named' has "$(cat "$tmp/err")" "--mcp exit 3"
ok 'an MCP server that does not start leaves no sandbox' none
# Several by a file, as other programs have it: a program of a directory that is shown to it, with a key of ours, and an address.
mkdir "$tmp/srv"
cp "$(dirname "$peer")/mcpserver" "$tmp/srv/server.py"
cat >"$tmp/servers.json" <<S
{"mcpServers": {"loud": {"command": "sh", "args": ["-c", "[ \"\$WORD\" = \"\$0\" ] && exec python3 srv/server.py", "sk-mcp-1"], "env": {"WORD": "env:TEST_WORD"}, "mounts": ["$tmp/srv"]}}}
S
export TEST_WORD=sk-mcp-1
ok 'MCP servers of a file are started' same "$(agent --mcp "$tmp/servers.json" --model "scripted:$tmp/mcp.json" hi)" heard
cat >"$tmp/both.json" <<'S'
{"turns": [{"expect": {"tools": ["upper", "mcp2_upper"]}, "calls": [{"name": "mcp2_upper", "arguments": {"text": "loud"}}]}, {"expect": {"last": ["LOUD"]}, "text": "heard"}]}
S
ok 'two MCP servers may have a tool of the same name' same "$(agent --mcp "$tmp/servers.json" --mcp "$mcp" --model "scripted:$tmp/both.json" hi)" heard
ok 'a renamed tool is announced' has "$(cat "$tmp/err")" "tool upper of MCP server mcp2 is called mcp2_upper here"
cat >"$tmp/far.json" <<S
{"mcpServers": {"far": {"type": "http", "url": "$url/mcp-auth/", "headers": {"Authorization": "env:TEST_AUTH"}}}}
S
ok 'an MCP server at an address gets its key' same "$(TEST_AUTH='Bearer mcp-1' agent --mcp "$tmp/far.json" --model "scripted:$tmp/mcp.json" hi)" heard
for wrong in '{"x": {"command": "a", "disabled": true}}|disabled: is not known' '{"x": {"args": ["a"]}}|no command' '{"x": {"command": "a", "env": {"A": "env:NOT_SET_HERE"}}}|NOT_SET_HERE is not set' \
    '{"x": {"url": "https://a.example", "net": ["all"]}}|env, net and mounts' '{"x": {"command": "a", "mounts": ["/nosuch"]}}|/nosuch' '{}|mcpServers'; do
    printf '{"mcpServers": %s}' "${wrong%|*}" >"$tmp/wrong.json"
    agent --mcp "$tmp/wrong.json" --model "scripted:$tmp/mcp.json" hi >/dev/null
    ok "a server's ${wrong#*|} is told" has "$(cat "$tmp/err")" "${wrong#*|}"
done
ok 'wrong MCP servers leave no sandbox' none

# Several calls at once: each above what it gave.
cat >"$tmp/both.json" <<'S'
{"turns": [{"calls": [{"name": "exec_command", "arguments": {"cmd": "echo of one"}}, {"name": "nosuch", "arguments": {}}, {"name": "exec_command", "arguments": {"cmd": "echo of two"}}]}, {"text": "Both."}]}
S
agent --model "scripted:$tmp/both.json" hi >/dev/null
ok "calls have their outputs below them" same "$(grep -A1 '^→' "$tmp/err" | grep -v -- '^--$' | cut -c1-40)" "→ exec_command echo of one
  of one
→ nosuch {}
  There is no tool named \"nosuch\". Use o
→ exec_command echo of two
  of two"

# Interrupted in the middle of a command. What it says goes to a file of its own: in an older one the word that is waited for stands already, and the
# shell that is about to become the program ignores the signal.
cat >"$tmp/long.json" <<'S'
{"turns": [{"calls": [{"name": "exec_command", "arguments": {"cmd": "echo going; sleep 1000", "yield_time_ms": 30000}}]}, {"text": "never said"}]}
S
setsid "$cay" agent --json --model "scripted:$tmp/long.json" hi </dev/null >"$tmp/long.out" 2>"$tmp/err" &
pid=$!
i=0
while ! grep -q tool_called "$tmp/long.out" 2>/dev/null && [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done
kill -INT $pid
wait $pid
ok 'Ctrl-C ends a run with status 130' same "$?" 130
ok 'Ctrl-C removes the sandbox of the run' none

# Tools that the endpoint runs: shown, approved as the mode says, and what cannot be is told before a sandbox is made.
cat >"$tmp/hosted.json" <<'EOF'
{"turns": [
 {"expect": {"tools": ["web_search", "mcp", "code_interpreter"]}, "output": [{"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "tides of Sylt"}}, {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "tides", "name": "table", "arguments": "{\"day\":1}"}]},
 {"expect": {"input": ["mcp_approval_response", "ws_1"]}, "text": "At seven."}]}
EOF
sed 2d "$tmp/hosted.json" >"$tmp/rest.json"
set -- --model "scripted:$tmp/hosted.json" --hosted web_search --hosted code_interpreter --hosted mcp:tides=https://tides.example/mcp
ok "tools of the endpoint answer" same "$(agent "$@" --audit "$tmp/hosted.audit" --audit workspace: tide)" "At seven."
ok "calls of the endpoint's tools are shown" has "$(cat "$tmp/err")" "web_search tides of Sylt"
ok "calls of the endpoint's tools are in the audit" has "$(cat "$tmp/hosted.audit")" '"tool":"web_search","call_id":"ws_1","hosted":true'
ok "approvals of the endpoint's tools are in the audit" has "$(cat "$tmp/hosted.audit")" '"tool":"tides.table","call_id":"mcpr_1","verdict":"approved"'
agent "$@" --approve ask --state "$tmp/hosted.state" tide >/dev/null
ok "an approval of the endpoint's tools may wait" same $? 3
ok "an approval of the endpoint's tools is given later" same "$(agent --model "scripted:$tmp/rest.json" --hosted web_search --resume "$tmp/hosted.state" --approve auto)" "At seven."
wrong() { # WORDS OPTIONS…: refused with these words, and no sandbox was made
    words=$1
    shift
    agent "$@" hi >/dev/null
    ok "$*: the run ends with status 1" same $? 1
    ok "$*: the message names the mistake" has "$(cat "$tmp/err")" "$words"
    ok "$*: no sandbox is made" lacks "$(cat "$tmp/err")" "cay: sandbox"
}
wrong "want web_search" --model m --base-url "$url/hello/v1" --hosted wibble
wrong "vector_store_ids" --model m --base-url "$url/hello/v1" --hosted '{"type":"file_search"}'
wrong "endpoints of the Responses API" --model m --api chat --base-url "$url/hello/v1" --hosted web_search
wrong '"Name: value"' --model m --base-url "$url/hello/v1" --header wibble
wrong "NOT_SET_HERE" --model m --base-url "$url/hello/v1" --header 'api-key: env:NOT_SET_HERE'
wrong "No such file" --model "scripted:$tmp/hosted.json" --skills "$tmp/nowhere"
ok 'a run with more headers is answered' same "$(agent --model m --base-url "$url/hello/v1" --key none --header 'X-Team: env:TEST_KEY' hi)" "hello, wörld €"
ok 'the server sees the header' has "$(tail -n 1 "$tmp/peer/seen")" "\"team\": \"$TEST_KEY\""

# Servers of the audit have keys and spools of their own, which is said before anything is made.
echo '{"turns": [{"text": "Noted."}]}' >"$tmp/noted.json"
audited() { CAY_AUDIT_KEY=${usual-} FIRST=sk-first SECOND=sk-second agent --model "scripted:$tmp/noted.json" --audit "$url/sink/first" --audit http://127.0.0.1:1/ "$@" hi; }
ok 'a run with two audit servers is answered' same "$(audited --audit-key env:FIRST --audit-key env:SECOND --audit-spool none --audit-spool "$tmp/second")" "Noted."
ok 'the first audit server gets its key' has "$(grep sink/first "$tmp/peer/seen")" "Bearer sk-first"
ok 'entries for the second audit server wait in its spool' has "$(cat "$tmp/second")" '"state":"completed"'
ok 'entries of one audit server are not sent to another' same "$(grep -c '"state": "completed"' "$tmp/peer/seen")" 1
audited --audit-spool "$tmp/both" >/dev/null
ok 'one spool for two audit servers is refused' has "$?$(cat "$tmp/err")" "--audit names 2 servers"
usual=sk-usual
audited >/dev/null
ok 'one key for two audit servers is refused' has "$?$(cat "$tmp/err")" "CAY_AUDIT_KEY is the key of one server"
usual=
audited --audit-spool "$tmp/both" --audit-spool "$tmp/both" >/dev/null
ok 'one file for two spools is refused' has "$?$(cat "$tmp/err")" "belongs to another sink"
ok 'audited runs leave no sandbox' none

verdict
