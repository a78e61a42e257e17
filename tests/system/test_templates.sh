#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_templates.sh CAY TEMPLATES [NAME…]: the templates that we ship are built from Debian and npm, and used. It takes minutes and needs the network, so it runs
# when CAY_TEMPLATES names what to build (`make templates-test`: all). Skips aloud where Debian's mirror or mmdebstrap is missing.
set -u
cay=$(realpath "$1") templates=$(realpath "$2") here=$(cd "$(dirname "$0")" && pwd)
shift 2
names=${*:-${CAY_TEMPLATES-}}
[ -n "$names" ] || { echo "set CAY_TEMPLATES to the templates to build, such as 'base codex'; make templates-test builds all"; exit 77; }
command -v mmdebstrap >/dev/null || { echo "mmdebstrap is not installed"; exit 77; }
timeout 20 python3 -c 'import urllib.request; urllib.request.urlopen("http://deb.debian.org/debian/dists/bookworm/InRelease", timeout=15)' 2>/dev/null ||
    { echo "Debian's mirror cannot be reached"; exit 77; }
tmp=$(mktemp -d)
export CAY_HOME="${CAY_TEMPLATES_HOME:-$tmp/home}"
passed=0 failed=0
finish() {
    rm -rf "$tmp/err"
    [ -z "${CAY_TEMPLATES_HOME-}" ] || { rm -rf "$tmp"; return; } # somebody's own state directory is left alone
    for id in $("$cay" ls -q 2>/dev/null </dev/null); do "$cay" rm -f "$id" >/dev/null 2>&1 </dev/null; done
    pid=$(pgrep -f "^[^ ]*cay-keeper $CAY_HOME ")
    [ -n "$pid" ] && kill "$pid" && while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
    rm -rf "$tmp" 2>/dev/null
}
trap finish EXIT
ok() { # NAME CONDITION…
    what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $what"
        tail -n 5 "$tmp/err" | sed 's/^/  err: /'
    fi
}
c() { timeout -k 1 120 "$cay" "$@" </dev/null 2>"$tmp/err"; }
not() { ! "$@"; }
same() { [ "$1" = "$2" ] || { echo "  got: $1"; false; }; }
in_() { # TEMPLATE LINE
    c run --template "$1" -- sh -c "$2"
}

use_base() {
    ok 'base: commands run as user in the home directory' same "$(in_ base 'id -un; pwd; touch f && stat -c %U f')" "user
/home/user
user"
    ok 'base: the programs of base run' in_ base 'python --version && python3 -m venv v && node -e "process.exit(0)" && npm --version && git init -q g && curl --version && make --version && tput -V' >"$tmp/out"
    ok 'base: ipykernel is there for code interpreters' same "$(in_ base 'python3 -c "import ipykernel.zmqshell as z; print(z.ZMQInteractiveShell.__name__)"')" ZMQInteractiveShell
    ok 'base: a C program is compiled and run' same "$(in_ base 'printf "#include <stdio.h>\nint main(void){puts(\"c\");}" >a.c && gcc a.c && ./a.out')" c
    ok 'base: sudo becomes root' same "$(in_ base 'sudo -n id -u; sudo -n sh -c "echo x >/etc/x" && cat /etc/x')" "0
x"
    ok 'base: root installs a package by apt' c run --template base --user root --net debian -- sh -c 'apt-get update && apt-get install -y --no-install-recommends tree && tree --version' >"$tmp/out"
    ok 'base: user and root install a package by pip' same "$(c run --template base --net pypi -- sh -c 'python3 -m venv v && v/bin/pip install -q six && v/bin/python -c "import six; print(six.__name__)"')
$(c run --template base --user root --net pypi -- sh -c 'cd /root && python3 -m venv v && v/bin/pip install -q six && v/bin/python -c "import six; print(six.__name__)"')" "six
six"
    ok 'base: the alias python-3.11 is Python 3.11' same "$(in_ python-3.11 'python -c "import sys; print(sys.version_info[:2])"')" "(3, 11)"
}
# apt and pip as the root profile of an ordinary user: with a range of ids they work, with one id alone the image is refused by name.
use_base_rootless() {
    [ "$(id -u)" = 0 ] && "$here/../../tools/test-users" >/dev/null 2>&1 || { echo "base: only root can become the users of tools/test-users; not tried as these"; return; }
    chmod 711 "$tmp"
    ok 'base: the template is exported' c template export base "$tmp/base.tar"
    chmod 644 "$tmp/base.tar"
    for user in cay-range cay-single; do
        timeout -k 1 600 "$here/../provider/run-as" "$user" /bin/sh -c 'export CAY_HOME="$HOME/home"
            "$1" --json template import "$2" base:1 && for line in "debian apt-get update && apt-get install -y --no-install-recommends tree && tree --version" \
                "pypi cd /root && python3 -m venv v && v/bin/pip install -q six && v/bin/python -c \"import six; print(six.__name__)\""; do
                "$1" run --template base:1 --user root --net "${line%% *}" -- sh -c "${line#* }" || echo "failed: $line"
            done' sh "$cay" "$tmp/base.tar" </dev/null >"$tmp/$user" 2>&1
        cp "$tmp/$user" "$tmp/err"
        case $user in
        cay-range) ok "base: apt and pip work as root of a user with a range" sh -c 'grep -q "^tree v" "$1" && grep -qx six "$1" && ! grep -q "^failed: " "$1"' sh "$tmp/$user" ;;
        cay-single) ok "base: an image is refused by name to one id" grep -q '"reason": *"template_needs_range"' "$tmp/$user" ;;
        esac
    done
    rm -f "$tmp/base.tar"
}
use_python_data_science() {
    ok 'python-data-science: numpy, pandas, scipy and matplotlib work' same "$(in_ python-data-science 'python3 -c "
import numpy, pandas, scipy.stats, matplotlib.pyplot as p
p.plot([1, 2]); p.savefig(\"x.png\")
print(int(pandas.DataFrame({\"a\": numpy.arange(4)}).a.sum()))"; head -c 4 x.png | tail -c 3')" "6
PNG"
}
use_claude() {
    ok 'claude: the program starts' in_ claude 'claude --version' >"$tmp/out"
    ok 'claude: permissions are not bypassed by default' same "$(in_ claude 'grep -c bypassPermissionsModeAccepted ~/.claude.json; python3 -c "import json, os; print(json.load(open(os.path.expanduser(\"~/.claude/settings.json\"))))"')" "0
{'permissions': {'defaultMode': 'default'}}"
    ok 'claude: permissions=bypass bypasses permissions' same "$(c run --template claude --set permissions=bypass --set model=m-1 -- python3 -c 'import json, os
at = os.path.expanduser("~/.claude")
print(json.load(open(at + ".json"))["bypassPermissionsModeAccepted"], json.load(open(at + "/settings.json")))')" "True {'permissions': {'defaultMode': 'bypassPermissions'}, 'model': 'm-1'}"
    ok 'claude: each sandbox has an id of its own' not same "$(in_ claude 'grep -o userID.* ~/.claude.json | cut -c1-80')" "$(in_ claude 'grep -o userID.* ~/.claude.json | cut -c1-80')" >/dev/null
}
use_codex() {
    ok 'codex: the program starts' in_ codex 'codex --version' >"$tmp/out"
    ok 'codex: only the workspace is trusted' same "$(in_ codex 'grep -c trust_level ~/.codex/config.toml')" 1
    ok 'codex: approvals are asked for by default' same "$(in_ codex 'grep -c "^approval_policy = .on-request" ~/.codex/config.toml')" 1
    ok 'codex: permissions=bypass asks for no approval' same "$(c run --template codex --set permissions=bypass --set model=m-1 --set mcp=https://cay.test/mcp -- python3 -c 'import tomllib, os
c = tomllib.load(open(os.path.expanduser("~/.codex/config.toml"), "rb"))
print(c["approval_policy"], c["model"], c["mcp_servers"]["cay"]["url"], list(c["projects"]))')" "never m-1 https://cay.test/mcp ['/workspace']"
    ok 'codex: the program reads its configuration' sh -c '"$1" run --template codex -- codex mcp list >/dev/null 2>"$2"' sh "$cay" "$tmp/err"
    # One task against a model's server of ours, which the sandbox reaches by the operator's word.
    mkdir -p "$tmp/peer" "$tmp/talk"
    cat >"$tmp/talk/codex.json" <<'END'
{"turns": [{"expect": {"tools": ["exec_command"], "input": ["write the word"]}, "calls": [{"name": "exec_command", "arguments": {"cmd": "echo from a model >word; cat word"}}]},
 {"expect": {"input": ["from a model"]}, "text": "The word is written."}]}
END
    mkfifo "$tmp/peer/in"
    python3 "$here/../support/modelpeer" "$tmp/peer" "$tmp/talk" <"$tmp/peer/in" >"$tmp/peer/log" 2>&1 &
    peer=$!
    exec 9>"$tmp/peer/in" # it ends when this does
    n=0
    until [ -s "$tmp/peer/port" ] || [ $n = 100 ]; do sleep 0.1; n=$((n + 1)); done
    port=$(cat "$tmp/peer/port")
    [ ! -e "$CAY_HOME/egress.conf" ] || mv "$CAY_HOME/egress.conf" "$tmp/egress.conf"
    echo "service model.test:$port 127.0.0.1:$port" >"$CAY_HOME/egress.conf"
    ok 'codex: a scripted task is done' same "$(c run --template codex --net "model.test:$port" -- sh -c "cd /workspace && timeout 100 codex exec --skip-git-repo-check -m scripted -c model_provider=peer \
        -c 'model_providers.peer={name=\"peer\",base_url=\"http://model.test:$port/codex/v1\",wire_api=\"responses\"}' 'write the word' 2>/dev/null </dev/null; cat word")" "The word is written.
from a model"
    exec 9>&-
    wait "$peer"
    rm -f "$CAY_HOME/egress.conf"
    [ ! -e "$tmp/egress.conf" ] || mv "$tmp/egress.conf" "$CAY_HOME/egress.conf"
}
use_code_server() {
    id=$(c create --template code-server)
    ok 'code-server: the service is ready' c services wait "$id"
    ok 'code-server: the service answers' same "$(c exec "$id" -- curl -sL -o /dev/null -w '%{http_code}' http://127.0.0.1:8080/)" 200
    # A file is edited and saved in a browser of this machine, through a forwarded port.
    if command -v chromium >/dev/null && packages=$("$here/../support/npm" "$here/../web"); then
        c exec "$id" -- sh -c 'echo before >/workspace/note.txt'
        "$cay" port forward "$id" 8080:0 >"$tmp/forward" 2>/dev/null </dev/null &
        forward=$!
        n=0
        until [ -s "$tmp/forward" ] || [ $n = 100 ]; do sleep 0.1; n=$((n + 1)); done
        ok 'code-server: the editor opens in a browser' env CAY_PACKAGES="$packages" timeout 300 node "$here/../web/editor.mjs" "http://$(head -n 1 "$tmp/forward")" 'typed in a browser' \
            "$cay" exec "$id" -- grep -q 'typed in a browser' /workspace/note.txt >"$tmp/out" 2>"$tmp/err"
        ok 'code-server: text typed in a browser is saved' same "$(c exec "$id" -- cat /workspace/note.txt)" "before
typed in a browser"
        kill "$forward"
    else
        echo "code-server: chromium or npm's packages cannot be had; not opened in a browser"
    fi
    c rm -f "$id" >/dev/null
}
use_browser() {
    id=$(c create --template browser)
    ok 'browser: the service is ready' c services wait "$id"
    ok 'browser: the service speaks CDP' c exec "$id" -- sh -c 'curl -s http://127.0.0.1:9222/json/version | grep -q webSocketDebuggerUrl'
    c rm -f "$id" >/dev/null
}

for name in $names; do
    began=$(date +%s)
    if [ "$name" = cloud ]; then # Debian has none of it: the build says what is missing
        ok "cloud: built, or what is missing is named" sh -c '"$1" --cay "$2" cloud >"$3" 2>&1 </dev/null || grep -q "^missing: .*kubectl\|exit code 1: missing:.*" "$3"' sh "$templates/make" "$cay" "$tmp/err"
        continue
    fi
    ok "$name is built" sh -c '"$1" --cay "$2" "$3" >/dev/null 2>"$4" </dev/null' sh "$templates/make" "$cay" "$name" "$tmp/err"
    echo "$name: built in $(($(date +%s) - began)) s"
    "use_$(echo "$name" | tr - _)"
    [ "$name" != base ] || use_base_rootless
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
