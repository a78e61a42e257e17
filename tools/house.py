# SPDX-License-Identifier: Apache-2.0
"""house.py: the counters of tools/measure-house and tools/check-names.

A counter finds offenders, each a place and a text; a figure is made from their number. Only counts
have budgets (tools/house-budget): a share would rise when somebody deletes good code.
"""
import fnmatch
import os
import re
from collections import defaultdict

from ctokens import count_tokens, drop_faults, read_file, split_tokens

MAX_COLUMNS = 100
SMALL_C = 60  # a C file below this is rarely an idea of its own
SMALL_H = 30  # a header up to this, neither
TOKENS_GOAL = 1349700  # 6 % fewer than the 1,435,857 of commit 48220fea
LONG_FILE = 700  # more is not read in a sitting
LONG_FUNCTION = 90  # more is not seen at once
KEYWORDS = {
    "if", "for", "while", "switch", "return", "sizeof", "else", "do", "case", "default", "goto", "_Static_assert",
    "static_assert", "__attribute__", "_Alignas", "alignas", "typeof", "__typeof__", "asm", "__asm__", "_Generic",
}
EQUAL = {"strcmp", "strncmp", "strcasecmp", "strncasecmp", "memcmp", "cay__str_starts"}
COMPARE = EQUAL | {"strstr", "strcasestr", "memmem", "fnmatch"}
REASONS = "include/cay/reason.h"  # the table of reasons, and
REASONS_C = "src/base/reason.c"  # the one file that compares their words

TERNARY_MACROS = {"CAY_IF", "CAY_TEXT_IF", "CAY_FLAG_IF"}  # of base/base.h


class Source:
    """One file of src/ or include/: its lines and tokens."""

    def __init__(self, root, path):
        self.path = path
        self.text = read_file(os.path.join(root, path))
        self.lines = self.text.split("\n")
        if self.lines and self.lines[-1] == "":
            self.lines.pop()
        self.all = split_tokens(self.text, comments=True)
        self.tokens = [t for t in self.all if t.kind != "comment"]
        self.code = [t for t in self.tokens if not t.directive]
        self.header = path.endswith(".h")
        self.folder = path.split("/")[1] if path.startswith("src/") and path.count("/") > 1 else ""
        self.find_definitions()

    def find_definitions(self):
        """Functions, types and variables that are defined at file level."""
        self.functions = []  # (name, line, static)
        self.lengths = []  # (name, first line, last line)
        self.types = []  # (name, line)
        self.globals = []  # (name, line)
        depth, paren = 0, 0
        branches = []
        piece = []  # tokens since the last end of a declaration, at file level
        i, toks = 0, self.tokens
        n = len(toks)
        while i < n:
            t = toks[i]
            if t.directive:
                if t.text == "#" and i + 1 < n and toks[i + 1].directive:
                    verb = toks[i + 1].text
                    if verb in ("if", "ifdef", "ifndef"):
                        branches.append((depth, paren, len(piece)))
                    elif verb in ("else", "elif") and branches:
                        depth, paren, keep = branches[-1]
                        del piece[keep:]
                    elif verb == "endif" and branches:
                        branches.pop()
                i += 1
                continue
            x = t.text
            if x == "{":
                if depth == 0 and paren == 0:
                    self.open_block(piece)
                depth += 1
            elif x == "}":
                depth = max(0, depth - 1)
                if depth == 0 and paren == 0:
                    if self.is_function(piece):
                        self.lengths.append((self.functions[-1][0], self.functions[-1][1], t.line))
                        piece = []
                    else:
                        piece.append(t)
            elif depth == 0:
                if x == "(":
                    paren += 1
                elif x == ")":
                    paren = max(0, paren - 1)
                if x == ";" and paren == 0:
                    self.end_declaration(piece)
                    piece = []
                else:
                    piece.append(t)
            i += 1

    @staticmethod
    def name_of_function(piece):
        level = 0
        for k, t in enumerate(piece):
            if t.text == "=" and level == 0:
                return None
            if t.text == "(":
                if piece[k + 1 : k + 2] and piece[k + 1].text == "*" and level == 0:
                    pass  # `int (*const kinds[])(…)`: a pointer's declarator, and `int` is no name
                elif (level == 0 and k and piece[k - 1].kind == "word" and piece[k - 1].text not in KEYWORDS
                        and not piece[k - 1].text.startswith("CAY_")):
                    return piece[k - 1]
                level += 1
            elif t.text == ")":
                level -= 1
        return None

    def is_function(self, piece):
        words = {t.text for t in piece}
        return "typedef" not in words and self.name_of_function(piece) is not None

    def open_block(self, piece):
        words = {t.text for t in piece}
        if "typedef" in words:
            return
        name = self.name_of_function(piece)
        if name is not None:
            self.functions.append((name.text, name.line, "static" in words))
            return
        for k, t in enumerate(piece[:-1]):  # struct NAME {
            if t.text in ("struct", "enum", "union") and k + 2 == len(piece) and piece[k + 1].kind == "word":
                self.types.append((piece[k + 1].text, piece[k + 1].line))

    def end_declaration(self, piece):
        if not piece:
            return
        words = [t.text for t in piece]
        if words[0] == "typedef":
            if "}" in words and piece[-1].kind == "word":
                self.types.append((piece[-1].text, piece[-1].line))
            return
        if "(" in words[: words.index("=") if "=" in words else len(words)] or "extern" in words or "const" in words:
            return
        stop = len(piece)
        for mark in ("=", "[", ","):
            if mark in words:
                stop = min(stop, words.index(mark))
        if stop > 1 and piece[stop - 1].kind == "word" and words[stop - 2] not in ("struct", "enum", "union"):
            self.globals.append((piece[stop - 1].text, piece[stop - 1].line))


class House:
    def __init__(self, root, alone=None, table=None):
        self.root = root
        self.alone = alone or []
        self.table = table
        self.sources = []
        for top in ("include", "src"):
            for folder, dirs, names in os.walk(os.path.join(root, top)):
                dirs.sort()
                for name in sorted(names):
                    if name.endswith((".c", ".h")):
                        path = os.path.relpath(os.path.join(folder, name), root)
                        self.sources.append(Source(root, path))
        self.src = [s for s in self.sources if s.path.startswith("src/")]

    # Names

    def static_functions(self):
        return [(s, name, line) for s in self.src for name, line, static in s.functions if static]

    def one_word_statics(self):
        return [(s.path, line, name) for s, name, line in self.static_functions() if is_one_word(name)]

    def double_types(self):
        """A type that a header or the prefix gives to the whole tree, and that another file defines, too."""
        return [
            o for o, name, paths in self.twice([(s.path, n, line) for s in self.sources for n, line in s.types])
            if name.startswith("cay_") or sum(p.endswith(".h") for p in paths) > 1
        ]

    def local_types(self):
        """Any other type name that two files define: a reader of both has to know which is meant."""
        shared = set(self.double_types())
        types = [(s.path, n, line) for s in self.sources for n, line in s.types]
        return [o for o, _, _ in self.twice(types) if o not in shared]

    def double_functions(self):
        """An external function that two files define; programs that link one of them differ unseen."""
        functions = [
            (s.path, name, line)
            for s in self.src
            for name, line, static in s.functions
            if not static and name != "main" and not s.header
        ]
        return [o for o, _, _ in self.twice(functions)]

    @staticmethod
    def twice(rows):
        """From (path, name, line): an offender, the name and its paths for each name of two files."""
        places = defaultdict(dict)
        for path, name, line in rows:
            places[name].setdefault(path, line)
        for name, where in sorted(places.items()):
            if len(where) > 1:
                (path, line), *rest = sorted(where.items())
                yield (path, line, name + ": also " + ", ".join(f"{p}:{n}" for p, n in rest)), name, set(where)

    def short_globals(self):
        """A variable of one letter at file level."""
        return [(s.path, line, name) for s in self.src for name, line in s.globals if len(name) == 1]

    # Lines

    @staticmethod
    def is_ternary(t):
        """?: itself, or a macro that stands for one."""
        return t.text == "?" and t.kind == "sign" or t.text in TERNARY_MACROS

    def ternary_lines(self, least=1):
        out = []
        for s in self.sources:
            lines = defaultdict(int)
            for t in s.tokens:
                if self.is_ternary(t) and (least == 1 or t.text == "?"):
                    lines[t.line] += 1
            out += [(s.path, n, s.lines[n - 1].strip()) for n, k in sorted(lines.items()) if k >= least]
        return out

    def count_ternaries(self):
        return sum(self.is_ternary(t) for s in self.sources for t in s.tokens)

    def nested_ternaries(self):
        out = []
        for s in self.sources:
            frames = [False]  # is a ternary open in the expression of this bracket?
            for t in s.code:
                x = t.text if t.kind == "sign" else ""
                if x == "?":
                    if any(frames):
                        out.append((s.path, t.line, s.lines[t.line - 1].strip()))
                    frames[-1] = True
                elif x in ("(", "[", "{"):
                    frames.append(False)
                elif x in (")", "]", "}"):
                    if len(frames) > 1:
                        frames.pop()
                    if x == "}" and len(frames) == 1:
                        frames[-1] = False
                elif x in (",", ";"):
                    frames[-1] = False
        return out

    def long_lines(self):
        return [
            (s.path, n, f"{columns(line)} columns")
            for s in self.sources
            for n, line in enumerate(s.lines, 1)
            if columns(line) > MAX_COLUMNS
        ]

    def banners(self):
        """A comment with a drawn line in it: a heading over a section."""
        drawn = re.compile(r"^\s*([-=*#~_─])\1{3,}|([-=*#~_─])\2{3,}\s*$", re.M)
        return [
            (s.path, t.line, t.text.split("\n")[0])
            for s in self.sources
            for t in s.all
            if t.kind == "comment" and t.text.startswith("/*") and drawn.search(t.text[2:-2])
        ]

    def long_files(self):
        return [(s.path, 1, f"{len(s.lines)} lines") for s in self.sources if len(s.lines) > LONG_FILE]

    def long_functions(self):
        return [
            (s.path, first, f"{name}: {last - first + 1} lines")
            for s in self.src
            for name, first, last in s.lengths
            if last - first + 1 > LONG_FUNCTION
        ]

    # The tree

    def folders(self):
        top = os.path.join(self.root, "src")
        names = sorted(os.listdir(top)) if os.path.isdir(top) else []
        return [(f"src/{d}", 0, "") for d in names if os.path.isdir(os.path.join(top, d))]

    def includes(self, source):
        """The headers of ours that a file includes, as paths."""
        known = self.known
        for k, t in enumerate(source.tokens):
            if t.kind == "string" and t.directive and k and source.tokens[k - 1].text == "include":
                name = t.text[1:-1]
                near = os.path.normpath(os.path.join(os.path.dirname(source.path), name))
                for path in (near, "src/" + name, "include/" + name):
                    if path in known:
                        yield path, t.line
                        break

    def graphs(self):
        """The includes of headers, and those between folders of src/ with the place of one each."""
        self.known = {s.path for s in self.sources}
        headers, folders = defaultdict(dict), defaultdict(dict)
        top = {s.path: s.folder for s in self.sources}
        for s in self.sources:
            for path, line in self.includes(s):
                if s.header:
                    headers[s.path][path] = (s.path, line)
                a, b = s.folder, top[path]
                if a and b and a != b:
                    folders[a].setdefault(b, (s.path, line))
        return headers, folders

    def folder_cycles(self):
        return self.cycles(self.graphs()[1])

    def header_cycles(self):
        return self.cycles(self.graphs()[0])

    @staticmethod
    def cycles(graph):
        """One offender for each edge that lies on a cycle and leads to an earlier name."""
        out = []
        for group in strong_groups(graph):
            if len(group) < 2:
                continue
            inside = set(group)
            text = " ".join(sorted(inside))
            for a in sorted(inside):
                for b, (path, line) in sorted(graph[a].items()):
                    if b in inside and a in graph.get(b, {}) and a < b:
                        out.append((path, line, f"{a} and {b} include each other (cycle of: {text})"))
            if not any(text in o[2] for o in out):
                a = min(inside)
                b = min(x for x in graph[a] if x in inside)
                out.append((*graph[a][b], f"cycle of: {text}"))
        return out

    def header_permissions(self):
        """Rows of tools/check-layers that allow a single header of ours."""
        path = self.table or os.path.join(self.root, "tools", "check-layers")
        if not os.path.exists(path):
            return []
        out = []
        for n, line in enumerate(read_file(path).split("\n"), 1):
            m = re.match(r"(?:src/)?[\w/]+/\*?\s+(.*)", line.split("#")[0])
            if m:
                out += [("tools/check-layers", n, w) for w in m.group(1).split() if w.endswith(".h")]
        return out

    # Decisions and copies

    def field_spellers(self, word="cpu_milli"):
        out = []
        for s in self.src:
            for t in s.tokens:
                if t.kind == "string" and word in t.text:
                    out.append((s.path, t.line, t.text))
                    break
        return out

    def reason_decisions(self):
        """A comparison of the text of an error's reason: of a variable or member that is a cay_err, or of
        anything with a word of the table of reasons; by the usual functions, or by one of ours that is given
        a reason and such a word."""
        words = {
            '"' + w + '"' for s in self.sources if s.path == REASONS for w in re.findall(r'ROW\(\w+, "(\w+)"\)', s.text)
        }
        anywhere = set()
        for s in self.sources:
            s.errors = {
                n.text
                for t, star, n in zip(s.code, s.code[1:], s.code[2:])
                if t.text == "cay_err" and star.text == "*"
            } | {n.text for t, n in zip(s.code, s.code[1:]) if t.text == "cay_err"}
            anywhere |= s.errors
        out = []
        for s in self.src:
            code = s.code
            for k, t in enumerate(code):
                if k + 1 == len(code) or code[k + 1].text != "(" or t.kind != "word" or s.path == REASONS_C:
                    continue
                if t.text == "cay_fail_why":
                    continue
                args = arguments(code, k + 1)
                known = any(len(a) == 1 and a[0].text in words for a in args)
                named = any(a and a[-1].text == "reason" for a in args)
                compared = t.text in COMPARE and any(is_reason(a, s.errors, anywhere) for a in args)
                if compared or (known and (named or t.text in EQUAL)):
                    out.append((s.path, t.line, s.lines[t.line - 1].strip()))
        return out

    def small_c(self):
        return self.small(SMALL_C - 1, False)

    def small_h(self):
        return self.small(SMALL_H, True)

    def small(self, most, header):
        return [
            (s.path, 1, f"{len(s.lines)} lines")
            for s in self.src
            if s.header == header and len(s.lines) <= most and not self.stands_alone(s.path)
        ]

    def stands_alone(self, path):
        return any(fnmatch.fnmatchcase(path, p) for p in self.alone)

    def tokens(self):
        return sum(count_tokens(drop_faults(s.tokens)) for s in self.src)

    def code_lines(self):
        """Lines with code on them: neither blank nor comment."""
        return sum(len({t.line for t in s.tokens}) for s in self.sources)

    def figures(self):
        """Every figure, in the order of tools/house-budget."""
        code, statics = self.code_lines(), len(self.static_functions())
        lines = sum(len(s.lines) for s in self.sources)
        return [
            Figure("one-word-statics", "static functions with a one-word name", self.one_word_statics(),
                   share=statics, goal=5, unit="%"),
            Figure("ternary-lines", "lines with ?: per 1,000 lines of code", self.ternary_lines(),
                   share=code / 10, goal=12, count=self.count_ternaries()),
            Figure("doubled-ternaries", "lines with two ?: or more", self.ternary_lines(2)),
            Figure("nested-ternaries", "?: inside of ?:", self.nested_ternaries()),
            Figure("long-lines", f"lines over {MAX_COLUMNS} columns", self.long_lines(),
                   extra=f"longest {max((columns(x) for s in self.sources for x in s.lines), default=0)}"),
            Figure("folders", "folders in src/", self.folders(), goal=11),
            Figure("folder-cycles", "folders that include each other", self.folder_cycles()),
            Figure("header-cycles", "headers that include each other", self.header_cycles()),
            Figure("header-permissions", "single headers allowed by check-layers", self.header_permissions()),
            Figure("field-spellers", 'files that spell "cpu_milli"', self.field_spellers(), goal=1),
            Figure("double-types", "types of headers with two meanings", self.double_types()),
            Figure("local-types", "type names of two files", self.local_types(), goal=None),
            Figure("double-functions", "external functions of one name in two files", self.double_functions()),
            Figure("reason-decisions", "comparisons of the text of an error's reason", self.reason_decisions()),
            Figure("small-c", f"C files below {SMALL_C} lines", self.small_c(), goal=15),
            Figure("small-h", f"headers of at most {SMALL_H} lines", self.small_h(), goal=50),
            Figure("long-files", f"files over {LONG_FILE} lines", self.long_files()),
            Figure("long-functions", f"functions over {LONG_FUNCTION} lines", self.long_functions()),
            Figure("banners", "comments with a drawn line", self.banners()),
            Figure("short-globals", "variables of one letter at file level", self.short_globals()),
            Figure("tokens", "C tokens in src/", [], value=self.tokens(), goal=TOKENS_GOAL,
                   extra=f"lines {lines}, of code {code}"),
        ]


class Figure:
    """A name, what it counts, who offends, and the goal.

    With share, the shown value is per 100 of it. The count is what has a budget: the number of
    offenders unless it is given, as for ternaries, whose number of lines hangs on line breaks.
    """

    def __init__(self, name, text, offenders, value=None, share=None, goal=0, unit="", extra="", count=None):
        self.name, self.text, self.offenders, self.goal, self.unit, self.extra = name, text, offenders, goal, unit, extra
        self.count = len(offenders) if count is None else count
        self.budgeted = value is None
        if value is not None:
            self.value = value
        elif share is None:
            self.value = self.count
        else:
            self.value = round(100 * len(offenders) / share, 1) if share else 0

    def is_met(self):
        return self.goal is None or self.value <= self.goal


def read_alone(table):
    """The patterns of small files that stand alone, from lines of PATTERN REASON."""
    out = []
    for line in table.strip().split("\n"):
        pattern, _, reason = line.strip().partition(" ")
        if not reason.strip():
            raise ValueError(f"no reason why it stands alone: {line}")
        out.append(pattern)
    return out


def read_budget(root):
    """tools/house-budget as {name: count}; {} where there is none."""
    path = os.path.join(root, "tools", "house-budget")
    out = {}
    if os.path.exists(path):
        for line in read_file(path).split("\n"):
            name, colon, value = line.split("#")[0].partition(":")
            if colon:
                out[name.strip()] = int(value)
    return out


def is_one_word(name):
    """take, do_take, handle_take and take_one say what happens in one word."""
    words = [w for w in name.split("_") if w]
    if words and words[0] in ("do", "handle"):
        words = words[1:]
    if words and words[-1] == "one":
        words = words[:-1]
    return len(words) < 2


def columns(line):
    return len(line.expandtabs(8))


def is_reason(argument, errors, members):
    """Is this argument the reason of an error: of one of these variables, or of one of these members?"""
    if len(argument) < 3 or argument[-1].text != "reason" or argument[-2].text not in (".", "->"):
        return False
    member = len(argument) > 3 and argument[-4].text in (".", "->")
    return argument[-3].text in (members if member else errors)


def arguments(code, k):
    """The arguments of the call whose bracket is code[k], as lists of tokens."""
    out, level = [[]], 0
    for t in code[k:]:
        if t.kind == "sign" and t.text in "([{":
            level += 1
            if level == 1:
                continue
        elif t.kind == "sign" and t.text in ")]}":
            level -= 1
            if level == 0:
                break
        if t.text == "," and level == 1:
            out.append([])
        else:
            out[-1].append(t)
    return out


def strong_groups(graph):
    """Tarjan's strongly connected components, without recursion."""
    index, low, on, stack, out = {}, {}, set(), [], []
    count = 0
    for start in sorted(graph):
        if start in index:
            continue
        work = [(start, iter(sorted(graph.get(start, {}))))]
        index[start] = low[start] = count
        count += 1
        stack.append(start)
        on.add(start)
        while work:
            node, rest = work[-1]
            for nxt in rest:
                if nxt not in index:
                    index[nxt] = low[nxt] = count
                    count += 1
                    stack.append(nxt)
                    on.add(nxt)
                    work.append((nxt, iter(sorted(graph.get(nxt, {})))))
                    break
                if nxt in on:
                    low[node] = min(low[node], index[nxt])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while True:
                        x = stack.pop()
                        on.discard(x)
                        group.append(x)
                        if x == node:
                            break
                    out.append(group)
    return out
