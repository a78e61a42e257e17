# SPDX-License-Identifier: Apache-2.0
"""E2B's protocol where its SDK cannot look: images of registries that want an account (AWS's, Google's, any), and templates for other tenants."""
import base64
import hashlib
import hmac
import http.server
import json
import os
import shutil
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, HERE + '/../support')
from images import MANIFEST, Layout, busybox, ent, many_layers  # noqa: E402
from serve import Server  # noqa: E402

BUILD = os.path.abspath(sys.argv.pop(1))
if busybox() is None:
    print('needs /bin/busybox (package busybox-static)')
    sys.exit(77)

KEY, SECRET, REGION = 'AKIDEXAMPLE', 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY', 'eu-central-1'
ACCOUNT = {'type': 'service_account', 'private_key': '-----BEGIN\nKEY-----\n', 'client_email': 'a@b'}


class Peer(http.server.BaseHTTPRequestHandler):
    def answer(self, status, data=b'', kind='application/json', **more):
        self.send_response(status)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(data)))
        for k, v in more.items():
            self.send_header(k.replace('_', '-'), v)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *a):
        pass


class Ecr(Peer):
    """Checks the signature as AWS describes it, and gives a password."""
    answers, asked = None, 0  # answers: instead of a good one

    def do_POST(self):
        Ecr.asked += 1
        body, h = self.rfile.read(int(self.headers['Content-Length'])), self.headers
        sha = lambda b: hashlib.sha256(b).hexdigest()
        names = ['content-type', 'host', 'x-amz-date', 'x-amz-target']
        canonical = '\n'.join(['POST', self.path, '', *('%s:%s' % (n, h[n].strip()) for n in names), '', ';'.join(names), sha(body)])
        date = h['x-amz-date']
        scope = '/'.join([date[:8], REGION, 'ecr', 'aws4_request'])
        key = b'AWS4' + SECRET.encode()
        for part in scope.split('/'):
            key = hmac.new(key, part.encode(), 'sha256').digest()
        good = hmac.new(key, '\n'.join(['AWS4-HMAC-SHA256', date, scope, sha(canonical.encode())]).encode(), 'sha256').hexdigest()
        want = 'AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s' % (KEY, scope, ';'.join(names), good)
        if h['Authorization'] != want or abs(time.time() - time.mktime(time.strptime(date, '%Y%m%dT%H%M%SZ')) + time.timezone) > 300:
            return self.answer(400, b'{"__type":"InvalidSignatureException"}')
        if self.answers:
            return self.answer(*self.answers)
        token = base64.b64encode(b'AWS:from-ecr').decode()
        self.answer(200, json.dumps({'authorizationData': [{'authorizationToken': token, 'proxyEndpoint': 'https://x'}]}).encode())


class Registry(Peer):
    layout, logins = None, {'aws/': 'AWS:from-ecr', 'gcp/': '_json_key:' + json.dumps(ACCOUNT, separators=(',', ':')), 'any/': 'me:secret'}

    def do_GET(self):
        name, kind, what = self.path[len('/v2/'):].rsplit('/', 2) if self.path.count('/') > 3 else ('', '', '')
        login = next((v for k, v in self.logins.items() if name.startswith(k)), None)
        if login and self.headers.get('Authorization') != 'Basic ' + base64.b64encode(login.encode()).decode():
            return self.answer(401, WWW_Authenticate='Basic realm="x"')
        path = self.layout.path + '/blobs/sha256/' + (what if what.startswith('sha256:') else self.layout.described['digest'])[7:]
        if not login or not os.path.exists(path):
            return self.answer(200 if self.path == '/v2/' else 404)
        with open(path, 'rb') as f:
            self.answer(200, f.read(), MANIFEST if kind == 'manifests' else 'application/octet-stream')


def serve(handler):
    s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    return s, '127.0.0.1:%d' % s.server_address[1]


class E2b(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.mkdtemp()
        Registry.layout = Layout(cls.tmp + '/layout', [many_layers(1)[0], [ent('mark', data=b'here')]], config={'Env': ['PATH=/bin']})
        cls.registry, cls.host = serve(Registry)
        cls.ecr, ecr = serve(Ecr)
        cls.s = Server(BUILD, env={'AWS_ENDPOINT_URL_ECR': 'http://%s/' % ecr}).start()
        cls.addClassCleanup(cls.s.__exit__)
        cls.s.cay('tenant', 'create', 'other')
        with open(cls.s.home + '/templates.conf', 'w') as f:
            f.write('registry %s plain private\n' % cls.host)
        cls.other = cls.s.make_key('--tenant', 'other', '--scope', 'tenant')

    @classmethod
    def tearDownClass(cls):
        cls.registry.shutdown()
        cls.ecr.shutdown()
        shutil.rmtree(cls.tmp)

    def ask(self, method, path, body=None, key=None):
        status, _, data = self.s.ask(method, '/e2b' + path, json.dumps(body).encode() if body is not None else None,
                                     headers={'Authorization': 'Bearer ' + (key or self.s.key), 'Content-Type': 'application/json'})
        return status, json.loads(data) if data else None

    def begin(self, name, key=None, **body):
        status, b = self.ask('POST', '/v3/templates', {'name': name}, key)
        self.assertEqual(status, 202, b)
        status, answer = self.ask('POST', '/v2/templates/%s/builds/%s' % (name, b['buildID']), {'steps': [], **body}, key)
        return status, answer, b['buildID']

    def build(self, name, key=None, **body):
        status, answer, id = self.begin(name, key, **body)
        self.assertEqual(status, 202, answer)
        for i in range(1200):
            b = self.ask('GET', '/templates/%s/builds/%s/status' % (name, id), key=key)[1]
            if b['status'] not in ('waiting', 'building'):
                return b
            time.sleep(0.1)
        self.fail('it does not end: %s' % b)

    def aws(self, **other):
        return {'type': 'aws', 'awsAccessKeyId': KEY, 'awsSecretAccessKey': SECRET, 'awsRegion': REGION, **other}

    def test_each_kind_of_account_opens_its_registry(self):
        for kind, account in (('aws', self.aws()), ('gcp', {'type': 'gcp', 'serviceAccountJson': json.dumps(ACCOUNT, indent=2)}),
                              ('any', {'type': 'registry', 'username': 'me', 'password': 'secret'})):
            b = self.build('from-' + kind, fromImage='%s/%s/tools:1' % (self.host, kind), fromImageRegistry=account)
            self.assertEqual(b['status'], 'ready', b)
        # Nothing of an account is kept once the image is here, and a wrong one is told.
        self.assertNotIn('E2B_BOX', self.s.cay('secret', 'ls'))
        b = self.build('from-none', fromImage='%s/any/never:1' % self.host, fromImageRegistry={'type': 'registry', 'username': 'me', 'password': 'no'})
        self.assertEqual(b['status'], 'error', b)

    def test_the_operators_rules_hold_for_asking_for_a_password(self):
        image = self.host + '/aws/tools:1'
        for text in ('deny 127.0.0.0/8\n', 'mode rules\nrule pypi\n', 'mode off\n'):
            with open(self.s.home + '/egress.conf', 'w') as f:
                f.write(text)
            try:
                before = Ecr.asked
                status, b, _ = self.begin('denied', fromImage=image, fromImageRegistry=self.aws())
                self.assertEqual((status, Ecr.asked), (403, before), (text, b))
                self.assertIn('egress.conf', b['message'])
            finally:
                os.unlink(self.s.home + '/egress.conf')

    def test_accounts_that_are_none_are_refused_at_once(self):
        image = self.host + '/aws/tools:1'
        for account, word in (
                (self.aws(awsSecretAccessKey='wrong'), 'does not take these keys'), (self.aws(awsRegion='evil.example/x'), 'region'), (self.aws(awsRegion=''), 'region'),
                (self.aws(awsAccessKeyId='a b'), 'awsAccessKeyId'), (self.aws(awsSecretAccessKey=''), 'awsSecretAccessKey'), ({'type': 'gcp'}, 'serviceAccountJson'),
                ({'type': 'gcp', 'serviceAccountJson': '{}'}, 'serviceAccountJson'), ({'type': 'gcp', 'serviceAccountJson': 'no json'}, 'serviceAccountJson'),
                ({'type': 'registry', 'username': 'a:b', 'password': 'x'}, 'username'), ({'type': 'azure'}, 'registry, aws or gcp'), ({}, 'registry, aws or gcp')):
            status, answer, _ = self.begin('refused', fromImage=image, fromImageRegistry=account)
            self.assertEqual(status, 400, answer)
            self.assertIn(word, answer['message'])
        for odd in ((200, b'no json'), (200, b'{"authorizationData":[]}'), (200, b'{"authorizationData":[{"authorizationToken":"AAAA"}]}'), (500, b'')):
            Ecr.answers = odd
            try:
                status, answer, _ = self.begin('refused', fromImage=image, fromImageRegistry=self.aws())
            finally:
                Ecr.answers = None
            self.assertEqual((status, 'ECR' in answer['message']), (500, True), answer)
        status, answer, _ = self.begin('refused', self.other, fromImage=image, fromImageRegistry=self.aws())
        self.assertEqual(status, 403, answer)

    def test_a_page_of_a_list_has_at_least_one_entry(self):
        self.assertEqual(self.ask('POST', '/secrets', {'name': 'LISTED', 'value': 'open sesame'})[0], 201)
        for path in ('/secrets', '/snapshots', '/v2/sandboxes'):
            self.assertEqual(self.ask('GET', path + '?limit=0')[0], 400, path)
        self.assertEqual(len(self.ask('GET', '/secrets?limit=1')[1]), 1)

    def test_builds_of_the_first_sdk_are_told_why_not(self):
        for path in ('/templates', '/v2/templates', '/templates/x', '/templates/x/builds/y'):
            status, answer = self.ask('POST', path, {'dockerfile': 'FROM x'})
            self.assertEqual((status, answer['error_code']), (400, 'old_build'), answer)

    def test_base_is_the_operators_where_there_is_one(self):
        say = lambda: self.s.cay('exec', self.ask('POST', '/v2/sandboxes', {'templateID': 'base', 'timeout': 60})[1]['sandboxID'], '--', 'sh', '-c', 'cat /mark 2>/dev/null || echo host').strip()
        self.assertEqual(say(), 'host')
        context = self.tmp + '/base'
        os.mkdir(context)
        with open(context + '/Dockerfile', 'w') as f:
            f.write('FROM host\nRUN echo made >/mark\n')
        self.s.cay('template', 'build', '-q', '-t', 'base', '-t', 'e2bdev/base', context)
        try:
            self.assertEqual(say(), 'made')
            self.assertEqual(self.build('upon', fromImage='e2bdev/base', steps=[{'type': 'RUN', 'args': ['test "$(cat /mark)" = made'], 'force': False}])['status'], 'ready')
        finally:
            self.s.cay('template', 'rm', 'base', 'e2bdev/base')

    def test_a_template_is_published_and_taken_back(self):
        self.assertEqual(self.build('for-all', fromImage='e2bdev/base', steps=[{'type': 'RUN', 'args': ['echo all >~/all'], 'force': False}])['status'], 'ready')
        seen = lambda key: [(t['templateID'], t['public']) for t in self.ask('GET', '/templates', key=key)[1] if t['templateID'] == 'for-all']
        make = lambda: self.ask('POST', '/v2/sandboxes', {'templateID': 'for-all', 'timeout': 60}, self.other)
        self.assertEqual((seen(None), seen(self.other)), ([('for-all', False)], []))
        self.assertEqual(make()[0], 404)
        self.assertEqual(self.ask('PATCH', '/v2/templates/for-all', {'public': True}), (200, {'names': ['for-all:default']}))
        self.assertEqual((seen(None), seen(self.other)), ([('for-all', True)], [('for-all', True)]))
        status, box = make()
        self.assertEqual(status, 201, box)
        # It can be used, and is not theirs to change.
        self.assertEqual(self.ask('PATCH', '/templates/for-all', {'public': False}, self.other)[0], 403)
        self.assertEqual(self.ask('DELETE', '/templates/for-all', key=self.other)[0], 403)
        self.assertEqual(self.ask('PATCH', '/templates/for-all', {'public': 'yes'})[0], 400)
        self.assertEqual(self.ask('PATCH', '/templates/for-all', {})[0], 200)
        self.assertEqual(self.ask('PATCH', '/templates/for-all', {'public': False})[0], 200)
        self.assertEqual((seen(None), seen(self.other), make()[0]), ([('for-all', False)], [], 404))
        self.assertEqual(self.ask('DELETE', '/sandboxes/' + box['sandboxID'], key=self.other)[0], 204)
        # What other tenants build stays theirs: a name of theirs stands in for nobody's image.
        self.assertEqual(self.build('theirs', self.other, fromImage='e2bdev/base')['status'], 'ready')
        self.assertEqual(self.ask('PATCH', '/templates/theirs', {'public': True}, self.other)[0], 403)
        self.assertEqual(self.ask('PATCH', '/templates/none', {'public': True})[0], 404)


if __name__ == '__main__':
    unittest.main(verbosity=1)
