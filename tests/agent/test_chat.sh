#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_chat.sh CAY PEER: cay chat on a real terminal (tmux) and from a pipe, with a scripted model and with a server of the tests.
set -u
cay=$(realpath "$1") peer=$(realpath "$2")
command -v tmux >/dev/null || { echo "SKIP: no tmux"; exit 77; }
tmp=$(mktemp -d)
export CAY_HOME="$tmp/home" XDG_CONFIG_HOME="$tmp/conf" TMUX_TMPDIR="$tmp" LC_ALL=C.UTF-8 TERM=screen
unset OPENAI_API_KEY OPENAI_BASE_URL CAY_MODEL CAY_MODEL_API CAY_LIBEXEC CAY_SANDBOX CAY_PROVIDER TMUX NO_COLOR VISUAL EDITOR
passed=0 failed=0
mkfifo "$tmp/stop"
mkdir "$tmp/peer" "$tmp/own"
echo mine >"$tmp/own/file"
printf 'some *text*\n' >"$tmp/own/notes.md"
cd "$tmp/own" || exit 1
"$peer" "$tmp/peer" <"$tmp/stop" &
exec 9>"$tmp/stop"
mux() { tmux -u -L cay -f /dev/null "$@"; }
finish() {
    mux kill-server 2>/dev/null
    exec 9>&-
    for id in $("$cay" ls -q 2>/dev/null </dev/null); do "$cay" rm -f "$id" >/dev/null 2>&1 </dev/null; done
    pid=$(pgrep -f "^[^ ]*cay-keeper $CAY_HOME ")
    [ -n "$pid" ] && kill "$pid" && while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
    cd /
    chmod -R u+rwx "$tmp" 2>/dev/null
    rm -rf "$tmp"
}
trap finish EXIT
trap 'exit 1' INT TERM HUP
ok() { # NAME CONDITION…
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        { pane || cat "$tmp/err"; } 2>/dev/null | sed 's/^/  /'
    fi
}
same() { [ "$1" = "$2" ] || { echo "  got: $1"; false; }; }
has() { case $1 in *"$2"*) ;; *) echo "  got: $1"; false ;; esac; }
lacks() { ! has "$1" "$2" >/dev/null; }
pane() { mux capture-pane -p -J -S - -t c; }
# Polls until the terminal shows a text.
sees() {
    i=0
    while [ $i -lt 300 ]; do
        case $(pane) in *"$1"*) return 0 ;; esac
        sleep 0.05
        i=$((i + 1))
    done
    echo "  never seen: $1"
    false
}
sees_soon() { sees "$1" >/dev/null || sees "$1" >/dev/null || sees "$1"; } # what takes a while on a busy machine
keys() { mux send-keys -t c "$@"; }
# Polls until there is a prompt: a key that comes before belongs to nobody.
ready() {
    i=0
    while [ $i -lt 300 ]; do
        case $(pane | sed 's/ *$//; /^$/d' | tail -n 1) in '>' | 'auto>') return 0 ;; esac
        sleep 0.05
        i=$((i + 1))
    done
    echo "  no prompt"
    false
}
reply() { mux send-keys -t c -l "$1" && mux send-keys -t c Enter; }
line() { ready; reply "$1"; }
# A chat in a terminal of its own: COLUMNS ARGUMENTS…
talk() {
    cols=$1
    shift
    mux kill-session -t =c 2>/dev/null
    mux new-session -d -s c -x "$cols" -y 40 "$cay chat $*; echo ended with \$?; exec cat"
}
printf '#!/bin/sh\ngrep -q before "$1" && echo "/tokens and more" >"$1"\n' >"$tmp/editor"
chmod +x "$tmp/editor"
export EDITOR="$tmp/editor"
mux new-session -d -s hold 'exec cat' # without a session the server would leave
script() { cat >"$tmp/$1.json"; }
i=0
while [ ! -s "$tmp/peer/port" ] && [ $i -lt 200 ]; do sleep 0.1; i=$((i + 1)); done
url=http://127.0.0.1:$(cat "$tmp/peer/port")

# Markdown, completion, approvals, patches, hostile words.
script first <<'S'
{"turns": [{"expect": {"input": ["look at", "some *text*"], "instructions": ["coding assistant"]},
            "text": "# Plan\n\nSome **bold** and `code`.\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
            "calls": [{"name": "exec_command", "arguments": {"cmd": "echo made > made; for i in 1 2 3 4 5 6 7 8; do echo line $i; done"}}]},
           {"expect": {"last": ["line 8"]}, "calls": [{"name": "apply_patch", "input": "*** Begin Patch\n*** Update File: file\n@@\n-mine\n+yours\n*** End Patch"}]},
           {"expect": {"last": ["use tabs"]}, "calls": [{"name": "exec_command", "arguments": {"cmd": "echo always > always"}}]},
           {"calls": [{"name": "exec_command", "arguments": {"cmd": "echo again >> always; cat always"}}]},
           {"expect": {"last": ["again"]}, "text": "Fin \u001b[31mred\u001b]0;stolen\u0007 \u202eback."},
           {"calls": [{"name": "exec_command", "arguments": {"cmd": "touch slow; sleep 60"}}]},
           {"expect": {"input": ["The user interrupted this before it was done.", "next words"]}, "text": "Here again."}]}
S
talk 80 --model "scripted:$tmp/first.json" --session one
ok 'a chat greets with the name of its session' sees "session one"
ready
keys /he Tab
ok "commands are completed" sees "> /help"
keys Enter
ok '/help explains the commands' sees "take the last turn back"
ready
mux send-keys -t c -l "look at @no"
keys Tab
ok "files are completed" sees "look at @notes.md"
keys Enter
ok 'a heading is shown without its mark' sees "Plan"
ok "markdown is laid out" sees "Some bold and code."
ok 'a table is shown in columns' sees "a | b"
ok "a command is asked for" sees "    | echo made > made"
keys y Enter
ok "what it says is folded" sees "more lines; /output shows all"
ok "a patch is asked for" sees "    | +yours"
ok 'a patch is shown in colour' has "$(mux capture-pane -p -e -S - -t c | grep '| +yours')" "$(printf '\033[32m')"
reply "use tabs"
ok "the model hears why not" sees "| echo always > always"
keys a Enter
ok "always is not asked again" sees 'Fin \x1b[31mred\x1b]0;stolen\x07 \xe2\x80\xaeback.'
ok "no title is stolen" lacks "$(mux display-message -p -t c '#{pane_title}')" stolen
ok "what it took is told" sees " out"
ok 'nothing moves any more once the answer is there' lacks "$(pane)" "Thinking"
line "/tokens"
ok "tokens are counted" sees "5 requests"
line "/diff"
ok "changes are shown" sees "+again"
line "/apply made"
ok "taking over asks" sees "apply?"
keys y Enter
ok '/apply applies after a yes' sees "1 applied"
ok '/apply writes into the directory' same "$(cat made)" made

# Ctrl+T asks or not; an editor of theirs.
ready
keys C-t
ok "Ctrl+T is seen in the prompt" sees "auto>"
keys C-t
ok 'Ctrl+T a second time asks again' ready
ready
mux send-keys -t c -l "before"
keys C-e
ok 'Ctrl+E opens the editor of the user' sees "> /tokens and more"
keys C-c
ready

echo hi | timeout -k 1 60 "$cay" chat --session one --model "scripted:$tmp/first.json" >/dev/null 2>"$tmp/err"
ok "a session is open once" has "$(cat "$tmp/err")" "open in another talk"

# Ctrl+C: a turn, then the talk.
line "be slow"
ok "a slow command runs" sees "● exec_command touch slow; sleep 60"
ok 'the chat shows that a command is running' sees "Running exec_command"
keys C-c
ok 'Ctrl+C interrupts a turn' sees "interrupted; /undo takes back"
line "next words"
ok 'a chat continues after an interruption' sees "Here again."
line "/undo"
ok "a turn is taken back" sees "the last turn is taken back"
line "!!ls"
ok '!! runs a command in the sandbox' sees "slow"
line '!!echo be""gun; sleep 60'
ok "what they print is seen as it comes" sees "begun"
keys C-c
ok 'Ctrl+C reaches a command of !!' sees "exit code 130"
line "!echo on the \$((1 + 1))nd side"
ok "one on this machine is named first" sees 'outside of the sandbox: echo on the $((1 + 1))nd side ?'
keys y Enter
ok 'a command on this machine runs after a yes' sees "on the 2nd side"
# What is pasted stays together; a terminal that changes its size is written to anew.
ready
printf '/tokens\nis not\r\nsent\n' >"$tmp/pasted"
mux load-buffer "$tmp/pasted"
mux paste-buffer -p -t c
ok "lines that are pasted wait" sees "sent"
ok 'none of the pasted lines was sent' same "$(pane | grep -c '^session   ')" 1
keys C-c
ready
# More than is taken: none of it becomes keys, here or in the shell.
{ head -c 4300000 /dev/zero | tr '\0' 'x'; printf '\n/tokens\nexit\n'; } >"$tmp/pasted"
mux load-buffer "$tmp/pasted"
mux paste-buffer -p -t c
ok "a paste that is too long is refused" sees_soon "more than 4 MiB at once are not taken"
ready
ok 'nothing of a paste that is too long was sent' same "$(pane | grep -c '^session   ')" 1
mux send-keys -t c -l "still here"
ok "the talk goes on" sees "> still here"
keys C-c
ready
mux send-keys -t c -l "words that are longer than the narrow terminal"
ok "a line is typed" sees "narrow terminal"
mux resize-window -t c -x 30
mux send-keys -t c -l " is"
ok 'a line that is typed continues in a narrow terminal' sees "narrow terminal is"
ok 'a line in a narrow terminal is shown once' same "$(pane | grep -c '> words that')" 1
mux resize-window -t c -x 80
keys C-c
ready
mux send-keys -t c -l "half a line"
keys C-c C-c
ok 'the first Ctrl+C at the prompt warns' sees "Ctrl+C once more"
keys C-c
ok 'the second Ctrl+C ends the chat' sees "ended with 0"
ok "the session is kept" has "$("$cay" chat list </dev/null)" one

# Resumed elsewhere, on a narrow terminal; undone with its files.
script more <<'S'
{"turns": [{"expect": {"input": ["look at", "Fin", "still", "here"], "input_not": ["next words"]}, "text": "A long line that does not fit into a narrow terminal at all.",
            "calls": [{"name": "exec_command", "arguments": {"cmd": "rm file; echo x > deep; echo y > notes.md"}}]},
           {"text": "Removed."}]}
S
talk 30 --model "scripted:$tmp/more.json" --session one --auto-approve --no-splash
ok "the mode is in the prompt" sees "auto>"
line 'still \'
reply 'here'
ok 'a session continues in another terminal' sees "Removed."
ok 'an answer is broken into a narrow terminal' sees "fit into a narrow terminal"
line "/diff list"
ok "a file is gone" sees "D file"
line "/undo"
ok '/undo says that the turn is taken back' sees "is taken back"
line "/undo call"
line "!!cat file; ls; cat notes.md"
ok '/undo brings back files that a turn removed' sees "some *text*"
ready
keys C-d
ok 'Ctrl+D ends the chat' sees "ended with 0"
id=$("$cay" chat list --json </dev/null | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["sandbox"])')
ok "what was undone is not there" lacks "$("$cay" diff "$id" </dev/null 2>&1)" deep
ok "what was not, is" has "$("$cay" diff "$id" </dev/null 2>&1)" "A always"

# From a pipe: plain, line by line; a server instead of a script; memory and sessions.
piped() { timeout -k 1 60 "$cay" chat "$@" 2>"$tmp/err"; }
ok "an answer is plain" same "$(echo 'say hello' | piped --empty --auto-approve --base-url "$url/task/v1" --model gpt-5.5)" "Let me look.
Done: 3 Created hello.txt"
ok "what it did is on the side" has "$(cat "$tmp/err")" "* exec_command echo w"
# Turn by turn, back to the start: files that are changed, replaced, linked, removed and made.
script turns <<'S'
{"turns": [{"calls": [{"name": "exec_command", "arguments": {"cmd": "echo 1 > n; mkdir -p d/e; echo deep > d/e/f; ln -s n link; chmod 600 file"}}]},
           {"calls": [{"name": "exec_command", "arguments": {"cmd": "echo 2 > n"}}]}, {"text": "First."},
           {"calls": [{"name": "exec_command", "arguments": {"cmd": "rm -r d link; mkdir link; echo 3 > n; rm file; mkdir file; touch file/x; chmod 755 notes.md"}}]}, {"text": "Second."},
           {"text": "Third."}]}
S
show="!!cat n; cat d/e/f; readlink link; stat -c %a,%F file notes.md"
out=$(printf 'go\ngo\ngo\n/undo\n/undo\n%s\n/undo\n/diff list\n!!ls -A\n' "$show" | piped --auto-approve --session turns --model "scripted:$tmp/turns.json" | tr '\n' ' ')
ok '/undo goes back turn by turn, files included' same "$out" "First. Second. Third. 2 deep n 600,regular file 644,regular file file made notes.md "
ok '/undo ends where nothing is changed' has "$(cat "$tmp/err")" "nothing changed"
script asks <<'S'
{"turns": [{"calls": [{"name": "exec_command", "arguments": {"cmd": "touch refused"}}]}, {"expect": {"last": ["nobody to ask"]}, "text": "As you wish."}]}
S
ok "nobody to ask is a no" same "$(echo hi | piped --empty --session two --model "scripted:$tmp/asks.json")" "As you wish."
ok 'a refusal for want of an answer names --auto-approve' has "$(cat "$tmp/err")" "--auto-approve"
script learns <<'S'
{"turns": [{"calls": [{"name": "remember", "arguments": {"text": "likes tea\n# not a heading"}}]}, {"text": "Noted."}]}
S
ok 'the remember tool is answered' same "$(echo hi | piped --empty --agent coder --auto-approve --model "scripted:$tmp/learns.json")" "Noted."
ok "a memory is one line of the agent's file" has "$(cat "$tmp/conf/cay/agents/coder/agent.md")" ": likes tea # not a heading"
script knows <<'S'
{"turns": [{"expect": {"instructions": ["likes tea"]}, "text": "Tea."}]}
S
ok 'a new chat of the agent knows its memory' same "$(echo hi | piped --empty --agent coder --model "scripted:$tmp/knows.json")" "Tea."
"$cay" chat reset --agent other --target coder </dev/null 2>/dev/null
ok "a copy knows it, too" has "$(cat "$tmp/conf/cay/agents/other/agent.md")" "likes tea"
"$cay" chat reset --agent coder </dev/null 2>/dev/null
ok 'chat reset removes the memory' test ! -e "$tmp/conf/cay/agents/coder/agent.md"
out=$(printf '/session list\n/nosuch\n/session save 3\n/session current\n' | piped --empty --model "scripted:$tmp/knows.json" --session x)
ok "sessions are listed" has "$out" two
ok "unknown commands are told" has "$(cat "$tmp/err")" "there is no /nosuch"
ok "a session has another name" has "$(cat "$tmp/err")" "session 3: 0 turns"
ok "nothing said, nothing kept" lacks "$("$cay" chat list </dev/null | cut -c1-2)" "3 "
script many <<'S'
{"turns": [{"expect": {"input": ["data:image/png;base64,iVBORw0KGgo"]}, "calls": [{"name": "exec_command", "arguments": {"cmd": "echo a > a"}}]}, {"text": "One."}, {"text": "Two."},
           {"expect": {"input_not": ["see"], "tools": ["upper"]}, "calls": [{"name": "upper", "arguments": {"text": "loud"}}]}, {"expect": {"last": ["LOUD"]}, "text": "Three."}]}
S
printf '\211PNG\r\n\032\n0000' >"$tmp/own/dot.png"
id=$("$cay" create </dev/null)
"$cay" cp "$tmp/own/dot.png" "$id:/workspace/dot.png" </dev/null
mcp="echo $(base64 -w0 "$(dirname "$peer")/mcpserver") | base64 -d >s; exec python3 s"
out=$(printf 'see @dot.png.\n!!ls\n/session create b\nhi\n/session connect a\n/session delete b\n/undo\n!!ls\nhi\n' |
    piped --sandbox-id "$id" --auto-approve --mcp "$mcp" --session a --model "scripted:$tmp/many.json")
ok "an image, two sessions, a snapshot, an MCP server" same "$(echo "$out" | tr '\n' ' ')" "One. a dot.png Two. dot.png Three. "
script prompted <<'S'
{"turns": [{"expect": {"input": ["hello Ada", "read me"], "tools": ["mcp_read_resource"]}, "text": "Hi."}]}
S
out=$(printf '/mcp\n/mcp read note://one\n/mcp prompt greet who=Ada\n/mcp prompt greet who\n/mcp prompt nosuch\n' |
    piped --empty --mcp "$mcp" --session p --model "scripted:$tmp/prompted.json")
said=$(cat "$tmp/err")
ok "it tells what MCP servers offer" has "$said" "resource note://one: the first"
ok '/mcp read shows a resource' has "$said" "read me"
ok '/mcp prompt begins a turn with a prompt' same "$out" "Hi."
ok '/mcp prompt asks for arguments by name' has "$said" '"who": want KEY=VALUE'
ok '/mcp prompt names a prompt that is missing' has "$said" "no such prompt"
echo hi | piped --empty --mcp nosuch-server --model "scripted:$tmp/prompted.json" >/dev/null
ok "a server that ends says why" has "$(cat "$tmp/err")" "it ended with status 127: sh: 1: nosuch-server: not found"
out=$(printf '/mcp\n/mcp mcp2 read note://one\n/mcp mcp2\n' | piped --empty --mcp "$mcp plain" --mcp "$mcp" --session p2 --model "scripted:$tmp/prompted.json")
said=$(cat "$tmp/err")
ok "two servers are asked at once, and told in order" has "$said" "tool mcp2_list_resources"
ok '/mcp with a name asks only that server' same "$(echo "$said" | grep -c 'resource note://one')" 2

# What a server asks for while its tool works: the model, once that is approved, and the user, field by field. A table that is wider than the terminal.
script curious <<'S'
{"turns": [{"text": "| left | right |\n|---|--:|\n| some words that have to be broken | 1 |", "calls": [{"name": "curious", "arguments": {}}]},
           {"expect": {"input": ["capital of France?"], "instructions": ["be brief"]}, "text": "Paris"},
           {"expect": {"last": ["Paris by", "accept", "\"colour\": \"blue\"", "\"size\": 3", "file:///workspace"]}, "text": "Fine."}]}
S
printf '%s\n' '#!/bin/sh' "exec '$cay' chat --empty --session cur --model 'scripted:$tmp/curious.json' --mcp '$mcp curious'" >"$tmp/curious.sh"
mux kill-session -t =c 2>/dev/null
mux new-session -d -s c -x 34 -y 60 "sh $tmp/curious.sh; echo ended with \$?; exec cat"
line "ask it"
ok "a cell is broken between words" sees "some words that have to   |     1"
ok 'a broken cell continues in its column' sees "be broken                 |"
ok "the tool is asked for, in few words" sees "run it? y, a, n, or why not:"
keys y Enter
ok "what it asks the model is in sight" sees "mcp_asks_the_model"
ok 'the question to the model is shown whole' sees "| be brief"
keys y Enter
ok "the form tells who asks" sees "MCP server mcp asks: which colour?"
reply green
ok "what does not fit is asked again" sees "that does not fit"
reply blue
ok 'a form asks for its next field' sees "size (integer, or nothing):"
reply 3
ok "the model hears it all" sees "Fine."
ready
keys C-d
ok 'a chat with an MCP server ends with status 0' sees "ended with 0"
"$cay" chat rm cur </dev/null
"$cay" chat rm a </dev/null
ok "a sandbox that was given stays" has "$("$cay" ls -q </dev/null)" "$id"
"$cay" rm -f "$id" </dev/null >/dev/null
(cd / && echo hi | piped --model "scripted:$tmp/knows.json")
ok "a directory that cannot be shown is told, with a remedy" has "$(cat "$tmp/err")" "--empty"
echo hi | piped --empty --base-url "$url/auth/v1" --model m >/dev/null
ok "an error is status 1" same "$?" 1
echo hi | piped --empty --session '../x' --model "scripted:$tmp/knows.json" >/dev/null
ok "a bad name is told" has "$(cat "$tmp/err")" "want letters"
# Without a wall it works where you are; the directory stays.
mkdir "$tmp/mine"
(cd "$tmp/mine" && echo 'do it' | piped --sandbox none --auto-approve --session walless --base-url "$url/task/v1" --key none --model m >"$tmp/out")
ok "without a wall files are changed at once" same "$(cat "$tmp/mine/hello.txt")" "made by a model"
ok 'without a wall the chat says that files change at once' has "$(cat "$tmp/err")" "files of $tmp/mine are changed at once"
(cd "$tmp" && echo /apply | piped --session walless --base-url "$url/task/v1" --key none --model m)
ok "there is nothing to apply" has "$(cat "$tmp/err")" "there is no wall here"
ok 'a resumed chat without a wall says it again' has "$(cat "$tmp/err")" "files of $tmp/mine are changed at once"
"$cay" chat rm walless </dev/null
ok "the directory outlives its session" [ -f "$tmp/mine/hello.txt" ]
echo /models | piped --empty --base-url "$url/hello/v1" --key none --model gpt-5.5
ok "models of the endpoint are listed" has "$(cat "$tmp/err")" "  gpt-5.5-mini"
ok 'names of models are escaped' has "$(cat "$tmp/err")" '  o9-\x1b[31m'
echo /models | piped --empty --base-url "$url/storm/v1" --key none --model gpt-5.5
ok 'an endpoint that lists no models is named' has "$(cat "$tmp/err")" "does not tell which models it has"
script hosted <<'S'
{"turns": [{"expect": {"tools": ["web_search"]}, "output": [{"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "tides \u001b[31m"}},
   {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "tides", "name": "table", "arguments": "{}"}]},
 {"expect": {"input": ["mcp_approval_response", "\"approve\":false"]}, "text": "Without it, then."}]}
S
ok "tools of the endpoint answer" same "$(echo hi | piped --empty --hosted web_search --hosted mcp:tides=https://t.example --model "scripted:$tmp/hosted.json")" "Without it, then."
ok "what they did is in sight, escaped" has "$(cat "$tmp/err")" '* web_search tides \x1b[31m'
echo hi | piped --empty --skills "$tmp/nowhere" --model "scripted:$tmp/hosted.json"
ok "skills that are nowhere are told at once" has "$(cat "$tmp/err")" "nowhere: No such file"
for s in $("$cay" chat list -q </dev/null); do "$cay" chat rm "$s" </dev/null; done
ok "no snapshot is left" same "$("$cay" snapshots -q </dev/null)" ""
ok "sessions go with their sandboxes" same "$("$cay" ls -q </dev/null)" ""

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
