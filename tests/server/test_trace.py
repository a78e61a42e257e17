# SPDX-License-Identifier: Apache-2.0
"""Spans of requests and of what they do in sandboxes: to a collector, to a file, and shown by `cay trace`."""
import http.server
import json
import os
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve import Server  # noqa: E402

BUILD = sys.argv.pop(1)
TRACE, SPAN = '4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'


class Collector:
    """OTLP/HTTP, as far as a test needs it."""

    def __init__(self):
        got = self.got = []
        self.status = 200
        me = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length']))
                if me.status == 200:
                    got.append((self.path, dict(self.headers), json.loads(body)))
                self.send_response(me.status)
                self.send_header('Content-Length', '0')
                self.end_headers()

            def log_message(self, *a):
                pass

        self.http = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.url = 'http://127.0.0.1:%d' % self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def spans(self):
        return [s for _, _, body in self.got for r in body['resourceSpans'] for c in r['scopeSpans'] for s in c['spans']]

    def wait(self, fine):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if fine(self.spans()):
                return self.spans()
            time.sleep(0.05)
        raise AssertionError('the spans did not come: %s' % [s['name'] for s in self.spans()])


def attributes(span):
    return {a['key']: list(a['value'].values())[0] for a in span['attributes']}


class Near(Server):
    """Its sandboxes are another server's; its command line is its own all the same."""

    def cay(self, *words, timeout=60):
        return super().cay('--host', '', *words, timeout=timeout)


SHOW = '''
import http.server
class Show(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.headers.get('traceparent', '').encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(('127.0.0.1', 8000), Show).serve_forever()
'''


class Trace(unittest.TestCase):
    def test_spans_go_to_a_collector(self):
        c = Collector()
        env = {'OTEL_EXPORTER_OTLP_ENDPOINT': c.url, 'OTEL_EXPORTER_OTLP_HEADERS': 'x-team=sand%20box,x-other=1', 'OTEL_SERVICE_NAME': 'cay-test'}
        with Server(BUILD, env=env) as s:
            box = s.json('POST', '/api/v1/sandboxes', {})[2]['id']
            status, _, done = s.json('POST', '/api/v1/sandboxes/%s/run' % box, {'argv': ['echo', 'hidden-word']}, headers={'traceparent': '00-%s-%s-01' % (TRACE, SPAN)})
            self.assertEqual((status, done['code']), (200, 0))
            self.assertEqual(s.ask('GET', '/api/v1/sandboxes/%s/files?path=hidden-name' % box)[0], 404)
            s.ask('GET', '/api/v1/sandboxes', headers={'traceparent': '00-%s-%s-00' % (TRACE.replace('4', '5'), SPAN)})  # not wanted
            s.ask('GET', '/health')
            spans = c.wait(lambda all: any(x['name'] == 'GET /api/v1/sandboxes/{id}/files' for x in all))
            by = {x['name']: x for x in spans}
            run = by['POST /api/v1/sandboxes/{id}/run']
            self.assertEqual((run['traceId'], run['parentSpanId'], run['kind']), (TRACE, SPAN, 2))
            a = attributes(run)
            self.assertEqual((a['http.response.status_code'], a['cay.sandbox'], a['http.request.method']), ('200', box, 'POST'))
            start = next(x for x in spans if x['name'] == 'process.start' and x['traceId'] == TRACE)
            self.assertEqual(start['parentSpanId'], run['spanId'])
            self.assertEqual(attributes(start)['cay.sandbox'], box)
            self.assertRegex(attributes(start)['cay.process'], '^p[a-z2-7]{19}$')
            ran = next(x for x in spans if x['name'] == 'process.run' and x['traceId'] == TRACE)
            self.assertEqual((attributes(ran)['cay.process'], attributes(ran)['process.exit.code']), (attributes(start)['cay.process'], '0'))
            self.assertLessEqual(int(run['startTimeUnixNano']), int(start['startTimeUnixNano']) + 1000)
            self.assertLessEqual(int(start['endTimeUnixNano']), int(run['endTimeUnixNano']) + 1000)
            self.assertEqual(by['sandbox.create']['traceId'], by['POST /api/v1/sandboxes']['traceId'])
            self.assertEqual(attributes(by['sandbox.create'])['cay.sandbox'], box)
            failed = next(x for x in spans if x['name'].startswith('file.') and x['status']['code'] == 2)
            self.assertEqual(failed['status']['message'], 'ENOENT file_not_found')
            self.assertNotIn('GET /health', by)
            self.assertFalse([x for x in spans if x['traceId'].startswith('5bf')])
            text = json.dumps(c.got)
            self.assertNotIn('hidden-', text)
            self.assertNotIn(s.key, text)
            # What a preview serves stands below the preview's span, with a trace of the caller's or of ours.
            s.json('POST', '/api/v1/sandboxes/%s/processes' % box, {'argv': ['python3', '-c', SHOW]})
            for given in ({'traceparent': '00-%s-%s-01' % (TRACE, SPAN)}, {}):
                end, status = time.monotonic() + 30, 0
                while status != 200:
                    self.assertLess(time.monotonic(), end)
                    status, _, seen = s.ask('GET', '/preview/%s/8000/' % box, headers=given)
                version, trace, span, flags = seen.decode().split('-')
                self.assertEqual((version, flags, trace == TRACE), ('00', '01', bool(given)))
                c.wait(lambda all: any((x['name'], x['traceId'], x['spanId']) == ('GET /preview', trace, span) for x in all))
            path, headers, body = c.got[0]
            self.assertEqual((path, headers['x-team'], headers['x-other']), ('/v1/traces', 'sand box', '1'))
            self.assertEqual(body['resourceSpans'][0]['resource']['attributes'][0]['value']['stringValue'], 'cay-test')
            s.ask('DELETE', '/api/v1/sandboxes/' + box)

    def test_a_collector_that_is_away_holds_nobody_up(self):
        with Server(BUILD, '--otlp', 'http://127.0.0.1:1/v1/traces') as s:
            for _ in range(20):
                self.assertEqual(s.ask('GET', '/api/v1/sandboxes')[0], 200)
            end = time.monotonic() + 30
            while 'cay_spans_lost_total 0' in s.ask('GET', '/metrics')[2].decode():
                self.assertLess(time.monotonic(), end, 'lost spans are not counted')
                time.sleep(0.1)

    def test_what_a_command_reached_is_linked_to_it(self):
        s = Server(BUILD)
        file = os.path.join(s.tmp, 'spans')
        s.args = ('--trace', file)
        with s:
            box = s.json('POST', '/api/v1/sandboxes', {'net': ['allowed.example']})[2]['id']
            at = '/api/v1/sandboxes/%s' % box
            log = lambda name: [x for x in s.json('GET', at + '/net/log')[2]['items'] if x.get('name') == name]  # noqa: E731
            done = s.json('POST', at + '/run', {'argv': ['getent', 'hosts', 'one.example.org']}, headers={'traceparent': '00-%s-%s-01' % (TRACE, SPAN)})[2]
            self.assertNotEqual(done['code'], 0)  # it was refused
            ran = [p for p in s.json('GET', at + '/processes?ended')[2]['items'] if 'one.example.org' in p['command']]
            self.assertEqual(len(ran), 1)
            self.assertGreaterEqual(ran[0]['ended_ms'], ran[0]['started_ms'])
            got = log('one.example.org')
            self.assertTrue(got)
            for x in got:
                self.assertEqual((x['exec'], x['execs'], x['verdict']), (ran[0]['id'], 1, 'deny'))
            # Beside another command nobody knows which of them it was, and nothing is made up.
            time.sleep(0.5)  # one that began in the same moment could have been the first one's, too
            s.json('POST', at + '/processes', {'argv': ['sleep', '1000']})
            s.json('POST', at + '/run', {'argv': ['getent', 'hosts', 'two.example.org']})
            for x in log('two.example.org'):
                self.assertNotIn('exec', x)
                self.assertEqual(x['execs'], 2)
            self.assertTrue(log('two.example.org'))
            lines = s.cay('net', 'log', box).splitlines()
            self.assertTrue(any('one.example.org' in x and x.endswith(ran[0]['id']) for x in lines), lines)
            self.assertTrue(any('two.example.org' in x and x.endswith('one of 2 commands') for x in lines), lines)
            end = time.monotonic() + 30
            while ran[0]['id'] not in (open(file).read() if os.path.exists(file) else ''):
                self.assertLess(time.monotonic(), end, 'the span is not written')
                time.sleep(0.1)
            tree = json.loads(s.cay('--json', 'trace', file, TRACE[:8]))
            reached = [r for x in tree for r in x.get('reached', [])]
            self.assertIn(('one.example.org', 'deny'), [(r['host'], r['verdict']) for r in reached])
            self.assertIn('\u2192 one.example.org deny', s.cay('trace', '-w', '100', file, TRACE))

    def test_words_that_are_none(self):
        for words, env, said in ((['--otlp', 'collector:4318'], {}, 'no address'), ([], {'OTEL_EXPORTER_OTLP_ENDPOINT': 'http://127.0.0.1:1', 'OTEL_EXPORTER_OTLP_HEADERS': 'x'}, 'NAME=VALUE'),
                                 (['--trace', '/nonexistent/dir/file'], {}, 'trace file')):
            p = subprocess.run([os.path.join(BUILD, 'cay-server'), '--listen', '127.0.0.1:0', '--home', '/nonexistent', *words], env=dict(os.environ, **env),
                               stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            self.assertNotEqual(p.returncode, 0)
            self.assertIn(said, p.stderr)

    def test_a_chain_of_servers_is_one_trace_and_is_shown(self):
        far = Server(BUILD)
        far.args = ('--trace', os.path.join(far.tmp, 'spans'))
        near = Near(BUILD, env={'CAY_HOST': 'unix:' + far.unix})
        near.args = ('--provider', 'cay', '--trace', os.path.join(near.tmp, 'spans'))
        files = near.args[-1], far.args[-1]
        with far:
            near.env['CAY_API_KEY'] = far.key
            near.start()
            self.addCleanup(near.__exit__)
            status, _, made = near.json('POST', '/api/v1/sandboxes', {}, headers={'traceparent': '00-%s-%s-01' % (TRACE, SPAN)})
            self.assertEqual(status, 201, made)
            self.assertEqual(near.ask('DELETE', '/api/v1/sandboxes/' + made['id'])[0], 204)
            near.stop()
            far.stop()
            for f in files:
                with open(f) as g:
                    self.assertIn(TRACE, g.read())
            with open(files[0]) as a, open(files[1]) as b, open(files[0] + '.all', 'w') as c:
                c.write(a.read() + b.read())
            listed = near.cay('--json', 'trace', '--list', files[0] + '.all')
            self.assertIn(TRACE, [x['trace'] for x in json.loads(listed)])
            tree = json.loads(near.cay('--json', 'trace', files[0] + '.all', TRACE[:8]))
            names = [(x['depth'], x['name']) for x in tree]
            self.assertEqual(names[0], (0, 'POST /api/v1/sandboxes'))
            self.assertIn((1, 'POST /api/v1/sandboxes'), names, 'the request to the other server is below the one that it was made for')
            self.assertIn((2, 'sandbox.create'), names)
            shown = near.cay('trace', '-w', '100', files[0] + '.all', TRACE)
            self.assertRegex(shown, r'(?m)^POST /api/v1/sandboxes +[0-9.]+ m?s +\u2588')
            self.assertTrue(all(len(line) <= 140 for line in shown.splitlines()))


if __name__ == '__main__':
    unittest.main()
