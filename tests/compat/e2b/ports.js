// SPDX-License-Identifier: Apache-2.0
// network.httpsPorts: programs in a sandbox that speak TLS themselves, reached through this server.
import { test, before, after } from 'node:test'
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { Agent, request } from 'node:http'
import { Sandbox } from 'e2b'

const server = `
import hashlib, http.server, ssl, sys
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *a): pass
    def say(self, code, body, *fields):
        self.send_response(code)
        for k, v in fields: self.send_header(k, v)
        self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def do_GET(self):
        if self.path == "/big": return self.say(200, b"0123456789abcdef" * 200000)
        if self.path == "/go": return self.say(302, b"", ("Location", "https://localhost:%d/there" % self.server.server_port))
        if self.path == "/chunks":
            self.send_response(200); self.send_header("Transfer-Encoding", "chunked"); self.end_headers()
            for i in range(300): self.wfile.write(b"5\\r\\nabcde\\r\\n")
            return self.wfile.write(b"0\\r\\n\\r\\n")
        if self.headers.get("Upgrade"):
            self.wfile.write(b"HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n")
            while data := self.rfile.read1(65536): self.wfile.write(data.upper())
            self.close_connection = True
            return
        self.say(200, ("%s %s" % (self.headers["Host"], self.headers.get("Origin"))).encode())
    def do_POST(self):
        n, h = int(self.headers["Content-Length"]), hashlib.sha256()
        while n: d = self.rfile.read(min(n, 65536)); h.update(d); n -= len(d)
        self.say(200, h.hexdigest().encode())
s = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), H)
if len(sys.argv) > 2:
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain("cert.pem", "key.pem"); s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
`
const own = Number(new URL(process.env.E2B_API_URL).port), agent = new Agent({ keepAlive: true, maxSockets: 2 })
let s
const ask = (port, path = '/', { method = 'GET', headers = {}, body } = {}) => new Promise((done, fail) => {
  const q = request({ agent, host: '127.0.0.1', port: own, path, method, headers: { host: `${port}-${s.sandboxId}.localhost:${own}`, ...headers } }, r => {
    const all = []
    r.on('data', d => all.push(d)); r.on('end', () => done([r.statusCode, Buffer.concat(all).toString(), r.headers])); r.on('error', fail)
  }).on('error', fail)
  q.end(body)
})
const ready = async port => { for (let i = 0; i < 600 && (await ask(port))[0] !== 200; i++) await new Promise(r => setTimeout(r, 50)) }
before(async () => {
  s = await Sandbox.create({ timeoutMs: 120_000, network: { httpsPorts: [8443, 8444] } })
  await s.files.write('s.py', server)
  await s.commands.run('openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key.pem -out cert.pem -subj /CN=own', { timeoutMs: 60_000 })
  for (const args of ['8443 tls', '8444', '8080']) await s.commands.run(`python3 s.py ${args}`, { background: true, timeoutMs: 0 })
  for (const port of [8443, 8080]) await ready(port)
})
after(async () => { agent.destroy(); await s?.kill() })

test('a program that speaks TLS is reached, whoever signed for it', async () => {
  const name = `8443-${s.sandboxId}.localhost:${own}`
  assert.deepEqual((await ask(8443)).slice(0, 2), [200, 'localhost:8443 None'])
  assert.equal((await ask(8443, '/', { headers: { origin: `http://${name}` } }))[1], 'localhost:8443 https://localhost:8443')
  assert.equal((await ask(8443, '/go'))[2].location, `http://${name}/there`)
  assert.equal((await ask(8080))[1], 'localhost:8080 None') // others are as ever
  assert.deepEqual((await s.getInfo()).network.httpsPorts, [8443, 8444])
  await s.updateNetwork({ denyOut: ['192.0.2.1'] })
  assert.equal((await ask(8443))[0], 200)
})
test('much of it, both ways, in pieces, and many at once', async () => {
  const big = Buffer.alloc(3_000_000, 'xyz')
  assert.equal((await ask(8443, '/big'))[1].length, 3_200_000)
  assert.equal((await ask(8443, '/chunks'))[1].length, 1500)
  assert.equal((await ask(8443, '/', { method: 'POST', body: big, headers: { 'content-length': big.length } }))[1], createHash('sha256').update(big).digest('hex'))
  const all = await Promise.all(Array.from({ length: 20 }, () => ask(8443, '/big')))
  assert.ok(all.every(r => r[0] === 200 && r[1].length === 3_200_000))
})
test('a WebSocket goes through', async () => {
  const text = await new Promise((done, fail) => {
    const q = request({ host: '127.0.0.1', port: own, path: '/', headers: { host: `8443-${s.sandboxId}.localhost:${own}`, connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==', 'sec-websocket-version': '13' } })
    q.on('upgrade', (r, socket) => { let got = ''; socket.on('data', d => { got += d; if (got.length === 400_000) { socket.destroy(); done(got) } }); socket.on('error', fail); socket.write('abcd'.repeat(100_000)) })
    q.on('response', r => fail(new Error(String(r.statusCode)))).on('error', fail).end()
  })
  assert.equal(text, 'ABCD'.repeat(100_000))
})
test('what does not speak it is named, and bad lists are refused', async () => {
  const [status, text] = await ask(8444)
  assert.equal(status, 502)
  assert.match(text, /TLS/)
  for (const httpsPorts of [[0], [70000], [49983], ['443'], [1.5], 443, Array(200).fill(443)]) await assert.rejects(Sandbox.create({ network: { httpsPorts } }), /400/)
})
