# SPDX-License-Identifier: Apache-2.0
# kernel_host.py LANGUAGE [PROGRAM]: the same lines in and out as kernel.py has, for languages whose programs run beside it: bash, and node with
# kernel.js. Code goes to the program by a pipe of its own and results come by another; what it prints comes by its streams, so that it
# cannot be taken for a result.
import json, os, queue, signal, subprocess, sys, threading, time

BASH = r'''
__cay_end() { printf '\036%s\036' "$__cay_mark"; printf '\036%s\036' "$__cay_mark" >&2; printf '{"type":"end","code":%d}\0' "$1" >&"$__cay_said"; }
__cay_code=$1 __cay_said=$2 __cay_mark=$3
set --
trap '__cay_end 130; continue 1000' INT
while IFS= read -r -d '' -u "$__cay_code" __cay_text; do
  eval "$__cay_text"
  __cay_end $?
done
'''
language = sys.argv[1]
out = os.fdopen(os.dup(1), "w", buffering=1)
lock = threading.Lock()
turn = threading.Lock()  # whose it is: an interrupt finds its execution waiting or at work, never in between
mark = os.urandom(16).hex()
waiting, said, dropped = queue.Queue(), queue.Queue(), set()
current = None
count = 0


def emit(**event):
    with lock:
        out.write(json.dumps(dict(event, id=current)) + "\n")


class Stream:
    """What the program prints becomes events; `seen` when all that came before a mark is told."""

    def __init__(self, fd, name):
        self.name, self.mark, self.seen = name, b"\x1e" + mark.encode() + b"\x1e", threading.Event()
        threading.Thread(target=self.run, args=(fd,), daemon=True).start()

    def tell(self, data):
        if data:
            emit(type=self.name, text=data.decode("utf-8", "replace"), timestamp=time.time_ns())

    def run(self, fd):
        held = b""
        while data := os.read(fd, 65536):
            held += data
            while self.mark in held:
                before, held = held.split(self.mark, 1)
                self.tell(before)
                self.seen.set()
            # What may be the begin of the mark, or of a character, waits for the rest.
            keep = next((n for n in range(min(len(self.mark) - 1, len(held)), 0, -1) if self.mark.startswith(held[-n:])), 0)
            if not keep:
                keep = next((n for n in range(1, min(4, len(held) + 1)) if held[-n] >= 0xC0 and n < (2 if held[-n] < 0xE0 else 3 if held[-n] < 0xF0 else 4)), 0)
            cut = len(held) - keep
            self.tell(held[:cut])
            held = held[cut:]


def quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


def bash_code(code, env):
    """Variables of one execution are of that one."""
    before = "".join(f'[ "${{{k}+x}}" ] && __cay_old_{k}=${k}; export {k}={quote(v)}\n' for k, v in env.items())
    after = "".join(f'if [ "${{__cay_old_{k}+x}}" ]; then {k}=$__cay_old_{k}; unset __cay_old_{k}; else unset {k}; fi\n' for k in env)
    return before + f"eval {quote(code)}\n__cay_code_of=$?\n" + after + "(exit $__cay_code_of)" if env else code


def listen():
    for line in sys.stdin:
        request = json.loads(line)
        if "interrupt" not in request:
            waiting.put(request)
            continue
        with turn:
            if request["interrupt"] == current:
                os.killpg(inner.pid, signal.SIGINT)
                threading.Timer(2, lambda id=current: current == id and os.killpg(inner.pid, signal.SIGKILL)).start()
            else:
                dropped.add(request["interrupt"])
    waiting.put(None)


def hear(fd):
    held = b""
    while data := os.read(fd, 65536):
        *whole, held = (held + data).split(b"\0")
        for one in whole:
            said.put(json.loads(one))
    said.put(None)


def run(request):
    global count
    count += 1
    emit(type="number_of_executions", execution_count=count)
    for s in streams:
        s.seen.clear()
    env = {k: str(v) for k, v in (request.get("env") or {}).items() if k.isidentifier()}
    text = bash_code(request["code"], env) if language == "bash" else json.dumps({"code": request["code"], "env": env, "typescript": language == "typescript"})
    left = text.replace("\0", "").encode() + b"\0"
    while left:
        left = left[os.write(to, left):]
    events = []
    while True:
        event = said.get()
        if event is None:  # the program ended
            os._exit(1)
        if event["type"] == "end":
            break
        events.append(event)
    for s in streams:
        s.seen.wait(5)
    if event.get("code"):
        events.append({"type": "error", "name": "", "value": str(event["code"]), "traceback": ""})
    for one in events:
        emit(**one)
    emit(type="end_of_execution")


code_r, to = os.pipe()
said_r, said_w = os.pipe()
argv = ["bash", "-c", BASH, "bash"] if language == "bash" else ["node", sys.argv[2]]
inner = subprocess.Popen([*argv, str(code_r), str(said_w), mark], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(code_r, said_w), start_new_session=True)
os.close(code_r)
os.close(said_w)
streams = [Stream(inner.stdout.fileno(), "stdout"), Stream(inner.stderr.fileno(), "stderr")]
threading.Thread(target=hear, args=(said_r,), daemon=True).start()
threading.Thread(target=listen, daemon=True).start()
emit(type="ready")
while (request := waiting.get()) is not None:
    with turn:
        current = None if request["id"] in dropped else request["id"]
    if current:
        run(request)
    with turn:
        current = None
os.killpg(inner.pid, signal.SIGKILL)
