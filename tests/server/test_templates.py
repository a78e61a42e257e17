# SPDX-License-Identifier: Apache-2.0
"""Templates over HTTP: an archive is sent, sandboxes are made of it, tenants see their own, and it is forgotten."""
import base64
import gzip
import http.server
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, HERE + '/../support')
from images import MANIFEST, Layout, busybox, digest, ent, many_layers, tar  # noqa: E402
from serve import Server  # noqa: E402
from test_api import BUILD, Document  # noqa: E402

API = '/api/v1'

if busybox() is None:
    print('needs /bin/busybox (package busybox-static)')
    sys.exit(77)


class Templates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Server(BUILD).start()
        cls.doc = Document(cls.s.json('GET', API + '/openapi.json')[2])
        cls.doc.seen = Pulls.doc.seen  # who came before

    @classmethod
    def tearDownClass(cls):
        cls.s.__exit__()

    def ask(self, method, path, body=None, key=None, more=None):
        h = dict({'Content-Type': 'application/x-tar'} if body is not None else {}, **more or {})
        h['Authorization'] = 'Bearer ' + (key or self.s.key)
        status, head, data = self.s.ask(method, API + path, body, headers=h)
        self.doc.check(method, API + path, status, head, data)
        return status, json.loads(data) if data else None

    def test_an_archive_becomes_a_template(self):
        status, list_ = self.ask('GET', '/templates')
        self.assertEqual((status, list_['items'][0]['name']), (200, 'host'))
        status, t = self.ask('POST', '/templates/import?name=sent:1', tar(many_layers(1)[0] + [ent('mark', data=b'from afar')]))
        self.assertEqual(status, 201, t)
        self.assertEqual((t['names'], t['base'], t['source'], len(t['layers'])), (['sent:1'], 'image', 'tar:upload', 1))
        name = 'sent:1'
        for ref in (t['id'], name):
            status, one = self.ask('GET', '/templates/' + ref)
            self.assertEqual((status, one['id']), (200, t['id']))
        status, list_ = self.ask('GET', '/templates?name=sent')
        self.assertEqual([x['id'] for x in list_['items']], [t['id']])
        status, b = self.s.json('POST', API + '/sandboxes', {'template': 'sent:1'})[::2]
        self.assertEqual((status, b['template']), (201, 'sent:1'), b)
        r = self.s.json('POST', API + '/sandboxes/%s/run' % b['id'], {'argv': ['/bin/cat', '/mark']})[2]
        self.assertEqual(r['stdout'], 'from afar')
        self.assertEqual(self.ask('DELETE', '/templates/' + name)[0], 204)
        self.assertEqual(self.ask('GET', '/templates/' + t['id'])[0], 404)
        r = self.s.json('POST', API + '/sandboxes/%s/run' % b['id'], {'argv': ['/bin/cat', '/mark']})[2]
        self.assertEqual(r['stdout'], 'from afar')  # who stands on it stays
        self.s.json('DELETE', API + '/sandboxes/' + b['id'])

    def test_what_is_no_template_is_refused(self):
        for body, reason in ((b'', 'archive_corrupt'), (b'no tar', 'archive_corrupt'), (tar([ent('../x', data=b'x')]), 'archive_path'), (tar([ent('x', 'b')]), 'archive_special')):
            status, e = self.ask('POST', '/templates/import', body)
            self.assertEqual((status // 100, e['reason']), (4, reason), e)
        status, e = self.ask('POST', '/templates/import?name=..', tar([ent('x')]))
        self.assertEqual((status, e['reason']), (400, 'template_name'))
        self.assertEqual(self.ask('GET', '/templates/none:1')[0], 404)
        self.assertEqual(self.ask('DELETE', '/templates/none:1')[0], 404)
        self.assertEqual(self.ask('GET', '/templates?after=x')[0], 400)
        self.assertEqual(self.ask('GET', '/templates?after=t' + 'a' * 19)[0], 404)
        self.assertEqual(self.ask('GET', '/templates?after=t%s.99999999999999' % ('a' * 19))[1]['items'], [])
        self.assertEqual(self.s.json('POST', API + '/sandboxes', {'template': 'none:1'})[0], 404)

    def test_another_tenant_uses_what_is_shared_and_removes_it_not(self):
        self.s.cay('tenant', 'create', 'other')
        other = self.s.make_key('--tenant', 'other')
        status, t = self.ask('POST', '/templates/import?name=ours:1', tar([ent('mark', data=b'x')]))
        self.assertEqual(status, 201, t)
        self.assertEqual(self.ask('GET', '/templates/ours:1', key=other)[0], 200)
        self.assertEqual(self.ask('DELETE', '/templates/ours:1', key=other)[0], 403)
        self.assertEqual(self.ask('DELETE', '/templates?name=ours:1', key=other)[0], 403)
        status, theirs = self.ask('POST', '/templates/import?name=theirs:1', tar([ent('mark', data=b'y')]), key=other)
        self.assertEqual((status, theirs['shared']), (201, False), theirs)
        # A name of theirs stands in for nobody else's image: what all see is the operator's to say. Names of their own are theirs.
        patch = lambda ref, body, key: self.ask('PATCH', '/templates/' + ref, json.dumps(body).encode(), key, {'Content-Type': 'application/json'})
        status, e = patch('theirs:1', {'shared': True, 'name': 'node:22'}, other)
        self.assertEqual((status, e['reason']), (403, 'admin_only'), e)
        self.assertEqual(self.ask('GET', '/templates/node:22', key=other)[0], 404)
        self.assertEqual(patch('theirs:1', {'shared': False, 'name': 'node:22'}, other)[1]['names'], ['node:22', 'theirs:1'])
        self.assertEqual(self.ask('GET', '/templates/node:22')[0], 404)
        self.assertEqual(patch('ours:1', {'shared': False}, other)[0], 403)
        self.assertEqual(patch(theirs['id'], {'shared': True}, None)[1]['shared'], True)
        self.assertEqual(patch(theirs['id'], {'shared': False}, None)[1]['shared'], False)
        self.assertEqual(self.ask('DELETE', '/templates/node:22', key=other)[0], 204)
        # so many names and no more
        for n in range(31):
            self.assertEqual(patch('theirs:1', {'name': 'more:%d' % n}, other)[0], 200, n)
        status, e = patch('theirs:1', {'name': 'more:31'}, other)
        self.assertEqual((status, e['reason']), (400, 'template_name'), e)
        self.assertEqual(patch('theirs:1', {'name': 'more:3'}, other)[0], 200)
        for n in range(31):
            self.assertEqual(self.ask('DELETE', '/templates/more:%d' % n, key=other)[0], 204, n)
        self.assertEqual(self.ask('DELETE', '/templates/theirs:1', key=other)[0], 204)
        self.assertEqual(self.ask('DELETE', '/templates/ours:1')[0], 204)

    def layout_tar(self, layout, without=()):
        """The layout as one tar, without some of its blobs."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode='w') as t:
            for f in ('oci-layout', 'index.json', *('blobs/sha256/' + b for b in os.listdir(layout.path + '/blobs/sha256') if 'sha256:' + b not in without)):
                t.add(layout.path + '/' + f, f)
        return out.getvalue()

    def docker_tar(self, layers, claimed, tag):
        """What docker save makes, and what its config claims that the layers are."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode='w') as t:
            conf = {'architecture': 'amd64', 'os': 'linux', 'config': {}, 'rootfs': {'type': 'layers', 'diff_ids': claimed}}
            names = ['%d/layer.tar' % n for n in range(len(layers))]
            for name, data in [('c.json', json.dumps(conf).encode()), *zip(names, layers),
                               ('manifest.json', json.dumps([{'Config': 'c.json', 'RepoTags': [tag], 'Layers': names}]).encode())]:
                i = tarfile.TarInfo(name)
                i.size = len(data)
                t.addfile(i, io.BytesIO(data))
        return out.getvalue()

    def test_a_digest_gives_nobody_anothers_layer(self):
        keys = {}
        for who in ('alice', 'mallory'):
            self.s.cay('tenant', 'create', who)
            keys[who] = self.s.make_key('--tenant', who)
        tmp = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, tmp)
        secret = [ent('secret', data=b'of alice')]
        l = Layout(tmp + '/l', [many_layers(1)[0], secret], name='private:1', packs=('plain',))
        layer = [x['digest'] for x in l.manifest['layers']]
        sent = self.ask('POST', '/templates/import', self.layout_tar(l), key=keys['alice'])
        self.assertEqual((sent[0], sent[1]['shared']), (201, False), sent)
        # Who knows the digests, from a manifest or a log, and has not the bytes.
        for missing in (layer, layer[1:]):
            status, e = self.ask('POST', '/templates/import?name=stolen:1', self.layout_tar(l, missing), key=keys['mallory'])
            self.assertEqual((status, e['reason']), (400, 'image_invalid'), e)
        ids = [digest(tar(x)) for x in (many_layers(1)[0], secret)]
        for wrong in (b'', b'\0' * 1024, tar([ent('x')]), gzip.compress(tar([ent('x')]))):
            status, e = self.ask('POST', '/templates/import?name=stolen:1', self.docker_tar([tar(many_layers(1)[0]), wrong], ids, 'stolen:2'), key=keys['mallory'])
            self.assertEqual((status, e['reason']), (400, 'image_digest'), e)
        self.assertEqual([t for t in self.ask('GET', '/templates', key=keys['mallory'])[1]['items'] if t['name'] != 'host' and 'ours:1' not in t['names']], [])
        # Who has them shares the layers, and needs them no more; so does alice by what she sees.
        status, t = self.ask('POST', '/templates/import', self.layout_tar(l), key=keys['mallory'])
        self.assertEqual((status, t['layers']), (201, sent[1]['layers']), t)
        self.assertEqual(self.ask('POST', '/templates/import?name=again:1', self.layout_tar(l, layer), key=keys['mallory'])[0], 201)
        self.assertEqual(self.ask('POST', '/templates/import?name=again:1', self.layout_tar(l, layer), key=keys['alice'])[0], 201)
        # What is shared by the operator is seen by all.
        shared = Layout(tmp + '/s', [[ent('shared', data=b'by all')]], name='seen:1')
        self.assertEqual(self.ask('POST', '/templates/import', self.layout_tar(shared))[0], 201)
        status, t = self.ask('POST', '/templates/import?name=mine:1', self.layout_tar(shared, [x['digest'] for x in shared.manifest['layers']]), key=keys['mallory'])
        self.assertEqual(status, 201, t)
        for who, names in (('alice', ('private:1', 'again:1')), ('mallory', ('private:1', 'again:1', 'mine:1'))):
            for n in names:
                self.assertEqual(self.ask('DELETE', '/templates/' + n, key=keys[who])[0], 204, n)
        self.assertEqual(self.ask('DELETE', '/templates/seen:1')[0], 204)

    def built(self, build, key):
        for i in range(600):
            build = self.ask('GET', '/builds/' + build['id'], key=key)[1]
            if build['state'] not in ('waiting', 'building'):
                break
            time.sleep(0.1)
        return build['state']

    def test_a_cache_of_builds_is_its_tenants(self):
        keys = {None: self.s.key}
        for who in ('ann', 'bob'):
            self.s.cay('tenant', 'create', who)
            keys[who] = self.s.make_key('--tenant', who)
        text = b'FROM host\nRUN --mount=type=cache,target=/c echo of ann >>/c/f && cp /c/f /seen\n'
        status, build = self.ask('POST', '/builds?name=cached:1', text, keys['ann'], {'Content-Type': 'text/plain'})
        self.assertEqual(self.built(build, keys['ann']), 'ready', build)
        name = 'build.%s.%s' % (digest(b'ann')[7:23], digest(b'/c')[7:31])
        self.assertEqual([v['name'] for v in self.ask('GET', '/volumes')[1]['items'] if v['name'].startswith('build.')], [name])
        for who, seen in ((None, [('/c', name, 'ann')]), ('ann', [('/c', name, 'ann')]), ('bob', [])):
            items = self.ask('GET', '/builds/caches', key=keys[who])[1]['items']
            self.assertEqual([(c['id'], c['volume'], c['tenant']) for c in items], seen, who)
            self.assertTrue(all(c['limit'] and c['used_ms'] for c in items), items)
        listed = json.loads(self.s.cay('--host', self.s.url, '--json', 'template', 'caches', key=keys['ann']))
        self.assertEqual([c['id'] for c in listed], ['/c'])
        make = lambda who: self.ask('POST', '/sandboxes', json.dumps({'volumes': [{'name': name, 'target': '/x'}]}).encode(), keys[who], {'Content-Type': 'application/json'})
        for who in (None, 'bob'):
            status, e = make(who)
            self.assertEqual((status, e['reason']), (403, 'tenant_shared'), e)
        status, box = make('ann')
        self.assertEqual(status, 201, box)
        self.ask('DELETE', '/sandboxes/' + box['id'], key=keys['ann'])
        # One of a step that failed goes with its tenant, at the latest: another of that name begins with nothing.
        self.s.cay('tenant', 'create', 'eve')
        eve = self.s.make_key('--tenant', 'eve')
        status, build = self.ask('POST', '/builds', b'FROM host\nRUN --mount=type=cache,target=/c false\n', eve, {'Content-Type': 'text/plain'})
        self.assertEqual(self.built(build, eve), 'failed')
        caches = lambda: [v['name'] for v in self.ask('GET', '/volumes')[1]['items'] if v['name'].startswith('build.%s.' % digest(b'eve')[7:23])]
        self.assertEqual(len(caches()), 1)
        self.s.cay('tenant', 'rm', 'eve')
        self.assertEqual(caches(), [])
        # Each forgets its own.
        self.assertEqual(self.ask('POST', '/builds/prune', b'', keys['bob'])[1]['removed'], 0)
        self.assertEqual(self.ask('POST', '/builds/prune', b'', keys['ann'])[0], 200)
        self.assertEqual([v for v in self.ask('GET', '/volumes')[1]['items'] if v['name'].startswith('build.')], [])

    def test_a_template_goes_out_and_comes_back(self):
        status, t = self.ask('POST', '/templates/import?name=out:1', tar(many_layers(1)[0] + [ent('mark', data=b'out and in', uid=7)]))
        self.assertEqual(status, 201, t)
        status, head, data = self.s.ask('GET', API + '/templates/out:1/export', headers={'Authorization': 'Bearer ' + self.s.key})
        self.doc.check('GET', API + '/templates/out:1/export', status, head, data)
        self.assertEqual(status, 200)
        self.assertIn('oci-layout', tarfile.open(fileobj=io.BytesIO(data)).getnames())
        status, back = self.ask('POST', '/templates/import?name=back:1', data)
        self.assertEqual((status, back['files']), (201, t['files']), back)
        status, b = self.s.json('POST', API + '/sandboxes', {'template': 'back:1'})[::2]
        r = self.s.json('POST', API + '/sandboxes/%s/run' % b['id'], {'shell': '/bin/cat /mark; /bin/stat -c %u /mark'})[2]
        self.assertEqual(r['stdout'], 'out and in7\n', r)
        self.s.json('DELETE', API + '/sandboxes/' + b['id'])
        self.assertEqual(self.ask('GET', '/templates/none:1/export')[0], 404)
        status, id = self.s.json('POST', API + '/sandboxes', {})[::2]
        self.s.cay('template', 'save', id['id'], 'hosts:1')
        self.assertEqual(self.ask('GET', '/templates/hosts:1/export')[0], 501)  # nothing without this machine's programs
        self.s.cay('tenant', 'create', 'nosy')
        self.s.cay('template', 'save', '--hidden', id['id'], 'hidden:1')
        self.assertEqual(self.ask('GET', '/templates/hidden:1/export', key=self.s.make_key('--tenant', 'nosy'))[0], 404)
        self.s.json('DELETE', API + '/sandboxes/' + id['id'])
        for n in ('out:1', 'back:1', 'hosts:1', 'hidden:1'):
            self.assertEqual(self.ask('DELETE', '/templates/' + n)[0], 204)

    def test_a_sandbox_becomes_a_template(self):
        js = {'Content-Type': 'application/json', 'Idempotency-Key': 'save-1'}
        b = self.s.json('POST', API + '/sandboxes', {})[2]['id']
        self.s.json('POST', API + '/sandboxes/%s/run' % b, {'shell': 'echo kept >/workspace/f'})
        body = json.dumps({'from': b, 'names': ['saved:1'], 'config': {'env': {'A': 'b'}}}).encode()
        status, t = self.ask('POST', '/templates', body, more=js)
        self.assertEqual((status, t['names'], t['config']['env']), (201, ['saved:1'], {'A': 'b'}), t)
        self.assertEqual(self.ask('POST', '/templates', body, more=js)[1]['id'], t['id'])  # nothing is made twice
        made = self.s.json('POST', API + '/sandboxes', {'template': 'saved:1'})[2]['id']
        r = self.s.json('POST', API + '/sandboxes/%s/run' % made, {'shell': 'cat /workspace/f; echo $A'})[2]
        self.assertEqual(r['stdout'], 'kept\nb\n')
        js = {'Content-Type': 'application/json'}
        self.assertEqual(self.ask('POST', '/templates', b'{"from":"none"}', more=js)[0], 404)
        self.assertEqual(self.ask('POST', '/templates', json.dumps({'from': b, 'names': ['..']}).encode(), more=js)[0], 400)
        self.s.cay('tenant', 'create', 'third')
        third = self.s.make_key('--tenant', 'third')
        self.assertEqual(self.ask('POST', '/templates', json.dumps({'from': b}).encode(), key=third, more=js)[0], 404)  # not theirs to copy
        status, t = self.ask('PATCH', '/templates/saved:1', b'{"name":"more:1","shared":false}', more=js)
        self.assertEqual((status, sorted(t['names']), t['shared']), (200, ['more:1', 'saved:1'], False), t)
        self.assertEqual(self.ask('PATCH', '/templates/saved:1', b'{"name":"mine:1"}', key=third, more=js)[0], 404)
        status, t = self.ask('PATCH', '/templates/saved:1', b'{"shared":true}', more=js)
        self.assertEqual((status, t['shared'], len(t['names'])), (200, True, 2), t)
        self.assertEqual(self.ask('PATCH', '/templates/saved:1', b'{"name":"mine:1"}', key=third, more=js)[0], 403)
        self.assertEqual(self.ask('PATCH', '/templates/saved:1', b'{"name":".."}', more=js)[0], 400)
        for id in (b, made):
            self.s.json('DELETE', API + '/sandboxes/' + id)
        for n in ('more:1', 'saved:1'):
            self.assertEqual(self.ask('DELETE', '/templates/' + n)[0], 204)

    def test_an_upload_that_is_sent_again_makes_nothing_twice(self):
        more, body = {'Idempotency-Key': 'up-1'}, tar([ent('mark', data=b'once')])
        status, t = self.ask('POST', '/templates/import?name=once:1', body, more=more)
        self.assertEqual(status, 201, t)
        self.assertEqual(self.ask('POST', '/templates/import?name=once:1', body, more=more)[1]['id'], t['id'])
        for path, other in (('?name=once:1', body + b'\0' * 512), ('?name=twice:1', body)):
            status, head, data = self.s.ask('POST', API + '/templates/import' + path, other, headers=dict(more, **{'Content-Type': 'application/x-tar', 'Authorization': 'Bearer ' + self.s.key}))
            self.assertEqual((status, json.loads(data)['reason']), (409, 'idempotency_conflict'), data)
        self.assertEqual(self.ask('DELETE', '/templates/once:1')[0], 204)

    def test_an_archive_that_is_too_large_is_refused_by_its_length(self):
        c = self.s.socket()
        c.sendall(('POST %s/templates/import HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-tar\r\nContent-Length: %d\r\n\r\n'
                   % (API, self.s.key, 1 << 40)).encode())
        status = int(c.makefile('rb').readline().split()[1])
        c.close()
        self.assertEqual(status, 413)
        self.doc.seen['importTemplate'].add(status)

    def test_zz_every_status_that_is_declared_was_seen(self):
        missing = ['%s %s' % (op['operationId'], status) for _, _, op, _ in self.doc.ops if op.get('tags', [''])[0] == 'templates' for status in op['responses']
                   if status != 'default' and int(status) not in self.doc.seen[op['operationId']]]
        self.assertEqual(missing, [])


class Registry(http.server.BaseHTTPRequestHandler):
    """Two images: what it has, in a directory of a layout; one whose blobs never end."""
    layout = None
    held = threading.Event()

    def do_GET(self):
        name, kind, what = self.path[len('/v2/'):].rsplit('/', 2) if self.path.count('/') > 3 else ('', '', '')
        digest = what if what.startswith('sha256:') else self.layout.described['digest']
        path = self.layout.path + '/blobs/sha256/' + digest[7:]
        if name.startswith('team/closed') and self.headers.get('Authorization') != 'Basic ' + base64.b64encode(b'me:pass:word').decode():
            self.send_response(401)
            self.send_header('WWW-Authenticate', 'Basic realm="x"')
            self.send_header('Content-Length', '0')
            return self.end_headers()
        if not name.startswith('team/') or not os.path.exists(path):
            self.send_response(200 if self.path == '/v2/' else 404)
            self.send_header('Content-Length', '0')
            return self.end_headers()
        with open(path, 'rb') as f:
            data = f.read()
        self.send_response(200)
        self.send_header('Content-Type', MANIFEST if kind == 'manifests' else 'application/octet-stream')
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        if name == 'team/slow' and kind == 'blobs':
            self.held.wait(60)
        self.wfile.write(data)

    def log_message(self, *a):
        pass


class Pulls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.mkdtemp()
        Registry.layout = Layout(cls.tmp + '/layout', [[ent('mark', data=b'here')], [ent('more', data=b'm')]], config={'Env': ['A=b']})
        cls.registry = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Registry)
        threading.Thread(target=cls.registry.serve_forever, daemon=True).start()
        cls.host = '127.0.0.1:%d' % cls.registry.server_address[1]
        cls.s = Server(BUILD).start()
        cls.doc = Document(cls.s.json('GET', API + '/openapi.json')[2])

    @classmethod
    def tearDownClass(cls):
        Registry.held.set()
        cls.s.__exit__()
        cls.registry.shutdown()
        shutil.rmtree(cls.tmp)

    def ask(self, method, path, body=None, key=None):
        status, head, data = self.s.ask(method, API + path, json.dumps(body).encode() if body is not None else None,
                                        headers={'Authorization': 'Bearer ' + (key or self.s.key), 'Content-Type': 'application/json'})
        self.doc.check(method, API + path, status, head, data)
        return status, json.loads(data) if data else None

    def pull(self, key=None, **body):
        status, b = self.ask('POST', '/templates/pull', body, key)
        self.assertEqual(status, 202, b)
        return b['id']

    def ended(self, id, key=None):
        for i in range(600):
            b = self.ask('GET', '/builds/' + id, key=key)[1]
            if b['state'] not in ('waiting', 'building'):
                return b
            time.sleep(0.1)
        self.fail('it does not end: %s' % b)

    def test_image_comes_by_the_queue(self):
        # nobody said that this registry may be at a private address
        b = self.ended(self.pull(image=self.host + '/team/tools:1'))
        self.assertEqual((b['state'], b['reason']), ('failed', 'registry_private'), b)
        with open(self.s.home + '/templates.conf', 'w') as f:
            f.write('registry %s plain private\n' % self.host)
        id = self.pull(image=self.host + '/team/tools:1')
        b = self.ended(id)
        self.assertEqual((b['state'], b['names']), ('ready', self.host + '/team/tools:1'), b)
        name = urllib.parse.quote(self.host + '/team/tools:1', safe='')
        status, items = self.ask('GET', '/templates?name=' + name)
        self.assertEqual(len(items['items']), 1, items)
        t = items['items'][0]
        self.assertEqual((status, t['id'], t['config']['env'], len(t['layers'])), (200, b['template'], {'A': 'b'}, 2), t)
        log = self.s.ask('GET', API + '/builds/%s/log' % id, headers={'Authorization': 'Bearer ' + self.s.key})[2].decode()
        for word in ('event: step', 'pull ' + self.host, 'unpack layer 2 of 2', Registry.layout.described['digest'], 'event: end'):
            self.assertIn(word, log)
        b = self.ended(self.pull(image=self.host + '/team/tools:1', names=['mine:1', 'mine:2']))
        self.assertEqual(b['state'], 'ready', b)
        self.assertEqual(self.ask('GET', '/templates/mine:2')[1]['id'], b['template'])
        self.assertEqual(self.ask('DELETE', '/templates?name=' + name)[0], 204)
        self.assertEqual(self.ask('DELETE', '/templates?name=' + name)[0], 404)
        self.assertEqual(self.ask('DELETE', '/templates')[0], 400)
        b = self.ended(self.pull(image=self.host + '/other/none:1'))
        self.assertEqual((b['state'], b['reason']), ('failed', 'image_unknown'), b)
        # one that hangs is canceled
        Registry.layout = Layout(self.tmp + '/slow', [[ent('slow', data=b'slow')]])
        id = self.pull(image=self.host + '/team/slow:1')
        for i in range(600):
            if self.ask('GET', '/builds/' + id)[1]['state'] == 'building':
                break
            time.sleep(0.1)
        self.assertEqual(self.ask('POST', '/builds/%s/cancel' % id)[0], 200)
        self.assertEqual(self.ended(id)['state'], 'canceled')
        self.assertEqual(self.ask('GET', '/templates?name=%s/team/slow' % self.host)[1]['items'], [])

    def test_pulled_layers_are_for_who_can_pull_them(self):
        with open(self.s.home + '/templates.conf', 'w') as f:
            f.write('registry %s plain private\n' % self.host)
        keys = {}
        for who in ('alice', 'mallory'):
            self.s.cay('tenant', 'create', who)
            keys[who] = self.s.make_key('--tenant', who)
        former = Registry.layout
        Registry.layout = Layout(self.tmp + '/private', [[ent('secret', data=b'of alice')]])
        b = self.ended(self.pull(key=keys['alice'], image=self.host + '/team/private:1'), keys['alice'])
        self.assertEqual(b['state'], 'ready', b)
        blob = Registry.layout.path + '/blobs/sha256/' + Registry.layout.manifest['layers'][0]['digest'][7:]
        os.rename(blob, blob + '.away')  # a registry that knows the digest and not the bytes
        b = self.ended(self.pull(key=keys['mallory'], image=self.host + '/team/stolen:1'), keys['mallory'])
        self.assertEqual((b['state'], b['reason']), ('failed', 'image_unknown'), b)
        b = self.ended(self.pull(key=keys['alice'], image=self.host + '/team/again:1'), keys['alice'])
        self.assertEqual(b['state'], 'ready', b)
        os.rename(blob + '.away', blob)
        b = self.ended(self.pull(key=keys['mallory'], image=self.host + '/team/same:1'), keys['mallory'])
        self.assertEqual(b['state'], 'ready', b)
        self.assertEqual(os.listdir(self.s.home + '/blobs'), [])
        Registry.layout = former

    def test_log_ins_are_a_tenants_own_and_never_told(self):
        with open(self.s.home + '/templates.conf', 'w') as f:
            f.write('registry %s plain private\n' % self.host)
        for who in ('ann', 'bob'):
            self.s.cay('tenant', 'create', who)
        ann, bob = (self.s.make_key('--tenant', who) for who in ('ann', 'bob'))
        image, at, me = self.host + '/team/closed:1', '/registries/' + self.host, {'username': 'me', 'password': 'pass:word'}
        b = self.ended(self.pull(key=ann, image=image), ann)
        self.assertEqual((b['state'], b['reason']), ('failed', 'registry_auth'), b)
        self.assertEqual(self.ask('PUT', at, {'username': 'me', 'password': 'wrong'}, ann), (204, None))
        self.assertEqual(self.ended(self.pull(key=ann, image=image), ann)['reason'], 'registry_auth')
        self.assertEqual(self.ask('PUT', at, me, ann)[0], 204)
        b = self.ended(self.pull(key=ann, image=image), ann)
        self.assertEqual(b['state'], 'ready', b)
        # a build's FROM is a pull, too
        status, _, data = self.s.ask('POST', API + '/builds?name=on:1', ('FROM %s/team/closed:2\n' % self.host).encode(), headers={'Authorization': 'Bearer ' + ann, 'Content-Type': 'text/plain'})
        b = self.ended(json.loads(data)['id'], ann)
        self.assertEqual((status, b['state']), (202, 'ready'), b)
        # nobody else has it, and nobody is told
        self.assertEqual(self.ended(self.pull(key=bob, image=image), bob)['reason'], 'registry_auth')
        self.assertEqual(self.ended(self.pull(image=image))['reason'], 'registry_auth')
        self.assertEqual([x['registry'] for x in self.ask('GET', '/registries', key=ann)[1]['items']], [self.host])
        self.assertEqual(self.ask('GET', '/registries', key=bob)[1]['items'], [])
        self.assertEqual(self.ask('DELETE', at, key=bob)[0], 404)
        self.assertEqual([(x['registry'], x['tenant']) for x in self.ask('GET', '/registries')[1]['items']], [(self.host, 'ann')])
        for word in ('pass:word', base64.b64encode(b'me:pass:word').decode()):
            for place, _, files in os.walk(self.s.home):
                for name in files:
                    if os.path.isfile(os.path.join(place, name)):
                        with open(os.path.join(place, name), 'rb') as f:
                            self.assertNotIn(word.encode(), f.read(), name)
        # a secret of the store is another thing: no sandbox can name a log-in
        status, e = self.ask('POST', '/sandboxes', {'secrets': [{'name': 'X', 'source': 'store:ann/' + self.host, 'destination': 'example.org'}]})
        self.assertEqual(status // 100, 4, e)
        # an admin sets one for a tenant
        self.assertEqual(self.ask('PUT', at + '?tenant=bob', me)[0], 204)
        self.assertEqual(self.ended(self.pull(key=bob, image=image), bob)['state'], 'ready')
        self.assertEqual(self.ask('DELETE', at, key=ann)[0], 204)
        self.assertEqual(self.ask('DELETE', at, key=ann)[0], 404)
        for host, body in (('a%2Fb', me), ('none', me), (self.host, {'username': 'a:b', 'password': 'x'}), (self.host, {'username': 'a', 'password': ''}), (self.host, {'username': 'a'}),
                           (self.host, {'username': 'a', 'password': 'x\ny'})):
            self.assertEqual(self.ask('PUT', '/registries/' + host, body, ann)[0], 400, (host, body))
        self.assertEqual(self.ask('DELETE', '/registries/none', key=ann)[0], 400)
        # so many and no more; what is there can still be changed
        for n in range(64):
            self.assertEqual(self.ask('PUT', f'/registries/r{n}.test', me, ann)[0], 204, n)
        status, problem = self.ask('PUT', '/registries/one-more.test', me, ann)[:2]
        self.assertEqual((status, problem['reason']), (400, 'registry_logins_many'), problem)
        self.assertEqual(self.ask('PUT', '/registries/r0.test', me, ann)[0], 204)
        # the same at the command line
        run = lambda *a, i='': subprocess.run([BUILD + '/cay', *a], input=i, text=True, capture_output=True, env=self.s.env)
        p = run('template', 'login', '-u', 'me', '--tenant', 'bob', self.host, i='pass:word\n')
        self.assertEqual((p.returncode, p.stderr), (0, ''), p)
        p = run('template', 'pull', '--login', 'me', image, '--as', 'cli:1', i='nonsense')
        self.assertIn('does not give', p.stderr)
        self.assertNotIn('default', run('template', 'logins').stdout)
        self.assertEqual(run('template', 'pull', '--login', 'me', image, '--as', 'cli:1', i='pass:word').returncode, 0)
        self.assertIn('default', run('template', 'logins').stdout)
        self.assertEqual(run('template', 'logout', self.host).returncode, 0)
        self.assertEqual(run('template', 'logout', self.host).returncode, 1)

    def test_quota_of_the_bytes_of_templates(self):
        with open(self.s.home + '/templates.conf', 'w') as f:
            f.write('registry %s plain private\n' % self.host)
        self.s.cay('tenant', 'create', 'small', '--templates', '3m')
        key = self.s.make_key('--tenant', 'small')
        former, mib = Registry.layout, 1 << 20

        def image(name, *layers):
            Registry.layout = Layout(self.tmp + '/' + name, [[ent(name + str(n), data=d)] for n, d in enumerate(layers)])
            return self.ended(self.pull(key=key, image='%s/team/%s:1' % (self.host, name), names=[name + ':1']), key)

        base = os.urandom(mib)
        self.assertEqual(image('one', base)['state'], 'ready')
        used = lambda: self.ask('GET', '/usage', key=key)[1]['used']['templates']
        self.assertEqual(used(), mib)
        # by what the registry says, by what comes out of it, and when it is recorded
        for layers in ((os.urandom(4 * mib),), (b'zeros and more' * mib,)):
            b = image('big', *layers)
            self.assertEqual((b['state'], b['reason']), ('failed', 'quota_exceeded'), b)
            self.assertIn('3 MiB of templates', b['error'])
        self.assertEqual((used(), [t['names'] for t in self.ask('GET', '/templates?name=big', key=key)[1]['items']]), (mib, []))
        self.assertEqual(image('two', os.urandom(mib))['state'], 'ready')
        # built on one of them: its layers count once, what is new counts
        for n, (text, state) in enumerate((('FROM one:1\nCOPY <<f /f\n%s\nf\n' % ('x' * 1000), 'ready'), ('FROM one:1\nCOPY <<f /f\n%s\nf\n' % ('y' * 1000 * 1000), 'ready'),
                            ('FROM two:1\nCOPY <<f /f\n%s\nf\n' % ('z' * 900 * 1000), 'failed'))):
            status, _, data = self.s.ask('POST', API + '/builds?name=on-%d:1' % n, text.encode(), headers={'Authorization': 'Bearer ' + key, 'Content-Type': 'text/plain'})
            self.assertEqual(status, 202, data)
            b = self.ended(json.loads(data)['id'], key)
            self.assertEqual((b['state'], b.get('reason') or 'quota_exceeded'), (state, 'quota_exceeded'), (used(), b))
        self.assertGreater(used(), 2 * mib + 1000 * 1000)
        # room again, or a larger bound
        self.assertEqual(self.ask('DELETE', '/templates/two:1', key=key)[0], 204)
        self.assertEqual(image('three', os.urandom(mib // 2))['state'], 'ready')
        self.s.cay('tenant', 'set', 'small', '--templates', 'unlimited')
        self.assertEqual(image('big', os.urandom(4 * mib))['state'], 'ready')
        Registry.layout = former

    def test_bad_requests(self):
        for body in ({}, {'image': ''}, {'image': 'a b'}, {'image': 7}, {'image': 'a', 'names': 'x'}, {'image': 'a', 'other': 1}):
            self.assertEqual(self.ask('POST', '/templates/pull', body)[0], 400, body)
        b = self.ended(self.pull(image='../..'))
        self.assertEqual(b['state'], 'failed', b)


if __name__ == '__main__':
    unittest.main()
