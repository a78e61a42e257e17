# SPDX-License-Identifier: Apache-2.0
"""What the server counts, as Prometheus reads it."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve import Server  # noqa: E402

BUILD = sys.argv.pop(1)
LINE = re.compile(r'^([a-z_]+)(?:\{((?:[a-z]+="[^"\\\n]*",?)*)\})? ([0-9.e+-]+)$')


class Metrics(unittest.TestCase):
    def test_what_is_counted(self):
        with Server(BUILD) as s:
            box = s.cay('create').strip()
            for _ in range(3):
                s.ask('GET', '/health')
            s.ask('GET', '/nothing/here')
            self.assertEqual(s.ask('GET', '/metrics', key=None)[0], 401)
            self.assertEqual(s.ask('GET', '/metrics', key=s.make_key('--scope', 'tenant'))[0], 403)
            status, head, text = s.ask('GET', '/metrics')
            self.assertEqual((status, head['Content-Type']), (200, 'text/plain; version=0.0.4; charset=utf-8'))
            seen, typed = {}, set()
            for line in text.decode().splitlines():
                if line.startswith('# TYPE'):
                    typed.add(line.split()[2])
                if line.startswith('#'):
                    continue
                m = LINE.match(line)
                self.assertTrue(m, line)
                self.assertTrue(m.group(1) in typed or re.sub('_(bucket|sum|count)$', '', m.group(1)) in typed, line)
                seen[m.group(1), m.group(2) or ''] = float(m.group(3))
            health = 'dialect="root",method="GET",route="/health"'
            self.assertEqual(seen['cay_http_requests_total', health + ',status="2xx"'], 3)
            self.assertEqual(seen['cay_http_request_seconds_count', health], 3)
            self.assertEqual(seen['cay_http_request_seconds_bucket', health + ',le="+Inf"'], 3)
            self.assertEqual(seen['cay_http_requests_total', 'dialect="root",method="GET",route="/metrics",status="4xx"'], 2)
            self.assertEqual(seen['cay_sandboxes', 'state="running"'], 1)
            self.assertGreater(seen['process_resident_memory_bytes', ''], 1 << 20)
            s.cay('rm', '-f', box)


if __name__ == '__main__':
    unittest.main()
