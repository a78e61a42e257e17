#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ctokens.py: splits C into tokens, for the counters of the house.

ctokens.py FILES… prints how many tokens all files hold together. Comments and white space are no
tokens; a string is one, in however many pieces it is written. Code of test builds alone (fault
points) is not counted.
"""
import re
import sys

SCAN = re.compile(
    r"""
    (?P<space>[ \t\r\f\v]+|\\\n)
  | (?P<line>\n)
  | (?P<comment>/\*.*?\*/|//(?:\\\n|[^\n])*)
  | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
  | (?P<char>[uUL]?'(?:\\.|[^'\\\n])*')
  | (?P<word>[A-Za-z_]\w*)
  | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
  | (?P<sign>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|.)
    """,
    re.X | re.S,
)
INCLUDE = re.compile(r"[ \t]*(<[^>\n]*>)")


class Token:
    __slots__ = ("kind", "text", "line", "directive")

    def __init__(self, kind, text, line, directive):
        self.kind, self.text, self.line, self.directive = kind, text, line, directive

    def __repr__(self):
        return f"{self.line}:{self.text}"


def split_tokens(text, comments=False):
    """The tokens of a file: kind, text, line, and whether they belong to a preprocessor line."""
    out = []
    line, pos, end = 1, 0, len(text)
    directive = False
    fresh = True  # nothing but space on this line yet
    match = SCAN.match
    while pos < end:
        m = match(text, pos)
        kind, word = m.lastgroup, m.group()
        pos = m.end()
        if kind == "space":
            line += word.count("\n")
            continue
        if kind == "line":
            line += 1
            directive, fresh = False, True
            continue
        if kind == "comment":
            if comments:
                out.append(Token(kind, word, line, directive))
            line += word.count("\n")
            continue
        if fresh and word == "#":
            directive = True
        fresh = False
        out.append(Token(kind, word, line, directive))
        if kind == "string":
            line += word.count("\n")
        if directive and word == "include":
            inc = INCLUDE.match(text, pos)
            if inc:
                out.append(Token("string", inc.group(1), line, True))
                pos = inc.end()
    return out


def read_file(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def drop_faults(tokens):
    """Without what #if … CAY_FAULTS guards, and without CAY_FAULT(…); calls."""
    out = []
    cut, depth = 0, 0
    i, n = 0, len(tokens)
    while i < n:
        t = tokens[i]
        if t.text == "#" and t.directive and i + 1 < n:
            row = i + 1
            while row < n and tokens[row].directive and not (tokens[row].text == "#" and tokens[row].line > t.line):
                row += 1
            verb = tokens[i + 1].text
            words = [x.text for x in tokens[i:row]]
            if verb.startswith("if"):
                depth += 1
                if not cut and "CAY_FAULTS" in words and "!" not in words and verb != "ifndef":
                    cut = depth
            elif verb in ("else", "elif") and cut == depth:
                cut, i = 0, row
                continue
            elif verb == "endif":
                if cut == depth:
                    cut, depth, i = 0, depth - 1, row
                    continue
                depth -= 1
            if not cut:
                out.extend(tokens[i:row])
            i = row
            continue
        if cut:
            i += 1
            continue
        if t.text == "CAY_FAULT" and i + 1 < n and tokens[i + 1].text == "(":
            level = 0
            i += 1
            while i < n:
                level += {"(": 1, ")": -1}.get(tokens[i].text, 0)
                i += 1
                if level == 0:
                    break
            if i < n and tokens[i].text == ";":
                i += 1
            continue
        out.append(t)
        i += 1
    return out


def count_tokens(tokens):
    """How many there are; pieces of one string count once, so that its line breaks cost nothing."""
    n, before = 0, ""
    for t in tokens:
        if t.kind != "string" or before != "string" or t.directive:
            n += 1
        before = t.kind
    return n


def main():
    files = sorted(set(sys.argv[1:]))
    print(sum(count_tokens(drop_faults(split_tokens(read_file(p)))) for p in files))


if __name__ == "__main__":
    main()
