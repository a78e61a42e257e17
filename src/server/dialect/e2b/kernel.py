# SPDX-License-Identifier: Apache-2.0
# Runs inside a sandbox: lines of JSON in, {"id","code","env"} or {"interrupt": id}; lines of JSON out, as E2B's code interpreter tells what
# happens. What the code itself prints, by whatever way, goes through pipes and comes out as events, so that it cannot be taken for one.
import ast, asyncio, base64, json, os, queue, signal, sys, threading, time, traceback, types

out = os.fdopen(os.dup(1), "w", buffering=1)
requests = os.fdopen(os.dup(0), "r")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
lock = threading.Lock()
current = None
space = {"__name__": "__main__", "__builtins__": __builtins__}
sys.modules["__main__"].__dict__.update(space)
space = sys.modules["__main__"].__dict__
count = 0


def emit(**event):
    with lock:
        out.write(json.dumps(dict(event, id=current)) + "\n")


class Pipe:
    """What is written to a descriptor becomes events; drain() returns when all that came before is told."""

    def __init__(self, fd, name):
        r, w = os.pipe()
        os.dup2(w, fd)
        os.close(w)
        self.fd, self.name, self.mark, self.seen = fd, name, os.urandom(16), threading.Event()
        threading.Thread(target=self.run, args=(r,), daemon=True).start()

    def tell(self, data):
        if data:
            emit(type=self.name, text=data.decode("utf-8", "replace"), timestamp=time.time_ns())

    def run(self, r):
        held = b""
        while data := os.read(r, 65536):
            held += data
            while self.mark in held:
                before, held = held.split(self.mark, 1)
                self.tell(before)
                self.seen.set()
            # What may be the begin of the mark, or of a character, waits for the rest.
            keep = next((n for n in range(min(15, len(held)), 0, -1) if self.mark.startswith(held[-n:])), 0)
            if not keep:
                keep = next((n for n in range(1, min(4, len(held) + 1)) if held[-n] >= 0xC0 and n < (2 if held[-n] < 0xE0 else 3 if held[-n] < 0xF0 else 4)), 0)
            cut = len(held) - keep
            self.tell(held[:cut])
            held = held[cut:]

    def drain(self):
        self.seen.clear()
        os.write(self.fd, self.mark)
        self.seen.wait(5)


KINDS = {"html": "_repr_html_", "markdown": "_repr_markdown_", "svg": "_repr_svg_", "png": "_repr_png_", "jpeg": "_repr_jpeg_", "pdf": "_repr_pdf_",
         "latex": "_repr_latex_", "json": "_repr_json_", "javascript": "_repr_javascript_"}


def result(value, main):
    text = repr(value)
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    event = dict.fromkeys(["text", *KINDS, "data", "chart", "extra"])
    event["text"] = text
    for kind, name in KINDS.items():
        try:
            made = getattr(value, name)() if hasattr(value, name) and not isinstance(value, type) else None
        except Exception:
            made = None
        made = made[0] if isinstance(made, tuple) else made
        event[kind] = base64.b64encode(made).decode() if isinstance(made, bytes) else made
    if hasattr(value, "to_dict") and type(value).__name__ == "DataFrame":
        try:
            event["data"] = json.loads(value.to_json(orient="split")) and {str(c): json.loads(value[c].to_json(orient="values")) for c in value.columns}
        except Exception:
            pass
    emit(type="result", is_main_result=main, **event)


def display(*values, **_):
    for v in values:
        result(v, False)


def label(ax, what):
    return getattr(ax, f"get_{what}label")() or None


def elements(ax):
    lines = [l for l in ax.get_lines() if len(l.get_xdata())]
    bars = [c for c in ax.containers if type(c).__name__ == "BarContainer"]
    points = [c for c in ax.collections if type(c).__name__ == "PathCollection"]
    pies = [p for p in ax.patches if type(p).__name__ == "Wedge"]
    plain = lambda v: v.item() if hasattr(v, "item") else v
    pair = lambda x, y: [[plain(a) if isinstance(plain(a), (int, float)) else str(a), plain(b)] for a, b in zip(x, y)]
    if pies:
        return "pie", [{"label": p.get_label(), "angle": float(p.theta2 - p.theta1), "radius": float(p.r)} for p in pies]
    if bars:
        names = [t.get_text() for t in ax.get_xticklabels()]
        return "bar", [{"label": names[i] if i < len(names) else str(i), "group": c.get_label(), "value": float(b.get_height())} for c in bars for i, b in enumerate(c)]
    if points:
        return "scatter", [{"label": c.get_label(), "points": [[float(x), float(y)] for x, y in c.get_offsets()]} for c in points]
    if lines:
        return "line", [{"label": l.get_label(), "points": pair(l.get_xdata(), l.get_ydata())} for l in lines]
    return "unknown", []


def axes_chart(ax):
    kind, found = elements(ax)
    chart = {"type": kind, "title": ax.get_title() or None, "elements": found}
    if kind not in ("pie", "unknown"):
        chart.update(x_label=label(ax, "x"), y_label=label(ax, "y"), x_unit=None, y_unit=None)
    if kind in ("line", "scatter"):
        for a in "xy":
            chart[a + "_ticks"] = [float(t) for t in getattr(ax, f"get_{a}ticks")()]
            chart[a + "_tick_labels"] = [t.get_text() for t in getattr(ax, f"get_{a}ticklabels")()]
            chart[a + "_scale"] = getattr(ax, f"get_{a}scale")()
    return chart


def figures(main=False):
    plt = sys.modules.get("matplotlib.pyplot")
    if not plt:
        return
    import io
    for n in plt.get_fignums():
        fig, png = plt.figure(n), io.BytesIO()
        fig.savefig(png, format="png", bbox_inches="tight")
        charts = [axes_chart(a) for a in fig.axes]
        chart = charts[0] if len(charts) == 1 else {"type": "superchart", "title": None, "elements": charts} if charts else None
        event = dict.fromkeys(["text", *KINDS, "data", "chart", "extra"])
        event.update(text=repr(fig), png=base64.b64encode(png.getvalue()).decode(), chart=chart)
        emit(type="result", is_main_result=main, **event)
    plt.close("all")


class Inline(types.ModuleType):
    """A backend of matplotlib that shows figures as results."""

    show = staticmethod(lambda *a, **k: figures())

    def __getattr__(self, name):
        from matplotlib.backends import backend_agg
        return {"FigureCanvas": backend_agg.FigureCanvasAgg}[name] if name == "FigureCanvas" else getattr(backend_agg, name)


sys.modules["cay_inline"] = Inline("cay_inline")
os.environ["MPLBACKEND"] = "module://cay_inline"


def drain():
    sys.stdout.flush()
    sys.stderr.flush()
    for p in pipes:
        p.drain()


def execute(code):
    tree = ast.parse(code, "<cell>")
    last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";") else None
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for part, mode in ((tree, "exec"), (last, "eval")):
        if part is None:
            continue
        value = eval(compile(part, "<cell>", mode, flags), space)
        if asyncio.iscoroutine(value):
            value = loop.run_until_complete(value)
        if mode == "eval" and value is not None:
            space["_"] = value
            drain()
            result(value, True)


def run(request):
    global count
    count += 1
    emit(type="number_of_executions", execution_count=count)
    before = dict(os.environ)
    os.environ.update(request.get("env") or {})
    try:
        execute(request["code"])
        figures()
    except BaseException as e:
        drain()
        frames = traceback.TracebackException(type(e), e, e.__traceback__.tb_next.tb_next if e.__traceback__ and e.__traceback__.tb_next else None)
        emit(type="error", name=type(e).__name__, value=str(e), traceback="".join(frames.format()))
    os.environ.clear()
    os.environ.update(before)
    drain()
    emit(type="end_of_execution")


waiting, dropped = queue.Queue(), set()
turn = threading.Lock()  # whose it is: an interrupt finds its execution waiting or at work, never in between


def listen():
    for line in requests:
        request = json.loads(line)
        if "interrupt" not in request:
            waiting.put(request)
            continue
        with turn:
            if request["interrupt"] == current:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # wakes it from what it waits for, too
            else:
                dropped.add(request["interrupt"])
    waiting.put(None)


space["display"] = display
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
pipes = [Pipe(1, "stdout"), Pipe(2, "stderr")]
sys.stdout = os.fdopen(1, "w", buffering=1)
sys.stderr = os.fdopen(2, "w", buffering=1)
threading.Thread(target=listen, daemon=True).start()
emit(type="ready")
while True:
    try:
        request = waiting.get()
        if request is None:
            os._exit(0)
        with turn:
            current = None if request["id"] in dropped else request["id"]
        if current:
            run(request)
        current = None
    except KeyboardInterrupt:
        pass  # it came between two executions
