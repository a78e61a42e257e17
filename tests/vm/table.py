# SPDX-License-Identifier: Apache-2.0
"""The table system × user × capability, for a terminal and for docs/platforms.md."""
import re

from systems import SYSTEMS

USERS = ('root', 'session', 'plain', 'cron')


class Seen:
    """The report of one run of a system."""

    def __init__(self, system, date):
        self.system, self.date = system, date
        self.kernel, self.facts, self.rows, self.complete = '', '', [], False

    def counts(self):
        return tuple(sum(r['verdict'] == v for r in self.rows) for v in ('ok', 'no', 'FAIL'))

    def failures(self):
        return self.counts()[2]

    def capabilities(self):
        return list(dict.fromkeys(r['capability'] for r in self.rows))

    def cell(self, user, capability):
        """(verdict, why, remedy) of all its cases: the worst one counts. None: it concerns other users."""
        rows = [r for r in self.rows if r['user'] == user and r['capability'] == capability]
        for verdict in ('FAIL', 'no', 'ok'):
            for r in rows:
                if r['verdict'] == verdict:
                    return verdict, r['why'], r['remedy']
        return None


def text(all_seen):
    lines = []
    for seen in all_seen:
        users = [u for u in USERS if any(r['user'] == u for r in seen.rows)]
        lines.append('\n%s, Linux %s' % (SYSTEMS[seen.system].title, seen.kernel))
        lines.append('%-16s' % '' + ''.join('%-9s' % u for u in users))
        for capability in seen.capabilities():
            cells = [seen.cell(u, capability) for u in users]
            lines.append('%-16s' % capability + ''.join('%-9s' % (c[0] if c else '-') for c in cells))
    return '\n'.join(lines)


def section(seen):
    """One system of docs/platforms.md: a table, and below it why something is not there and what would help."""
    users = [u for u in USERS if any(r['user'] == u for r in seen.rows)]
    notes = []

    def mark(capability, cell):
        if cell is None and any(seen.cell(u, capability) for u in users if u != 'root'):
            return 'not tried'
        if cell is None:
            return 'for root alone'
        verdict, why, remedy = cell
        if verdict == 'ok':
            return 'yes'
        note = '%s. Remedy: %s' % (one_line(why), one_line(remedy) or 'none')
        if verdict == 'FAIL':
            note = 'a known defect: ' + one_line(why)
        if note not in notes:
            notes.append(note)
        return '%s [%d]' % ('**defect**' if verdict == 'FAIL' else 'no', notes.index(note) + 1)

    lines = ['## %s' % SYSTEMS[seen.system].title, '',
             'Tried on %s with Linux %s (%s).' % (seen.date, seen.kernel, seen.facts), '',
             '| | %s |' % ' | '.join(users), '|---|%s' % ('---|' * len(users))]
    for capability in seen.capabilities():
        lines.append('| %s | %s |' % (capability, ' | '.join(mark(capability, seen.cell(u, capability)) for u in users)))
    lines.append('')
    lines += ['%d. %s' % (i + 1, n) for i, n in enumerate(notes)]
    return '\n'.join(lines).rstrip() + '\n'


def one_line(s):
    """Without the names of one run: ids of sandboxes, directories of cases."""
    s = re.sub(r'\b(create|snapshot|import|fork) (c[a-z2-7]{19}|\S*/case-\S+): ', '', s)
    return re.sub(r'\s+', ' ', s).strip().rstrip('.').replace('|', '\\|')[:300]


def record(path, seen):
    """Replaces the section of one system, or appends it."""
    with open(path) as f:
        page = f.read()
    title = '## %s\n' % SYSTEMS[seen.system].title
    parts = re.split(r'(?m)^(?=## )', page)
    fresh = section(seen)
    for i, part in enumerate(parts):
        if part.startswith(title):
            parts[i] = fresh + ('\n' if i + 1 < len(parts) else '')
            break
    else:
        parts[-1] = parts[-1].rstrip() + '\n\n'
        parts.append(fresh)
    with open(path, 'w') as f:
        f.write(''.join(parts))
