// SPDX-License-Identifier: Apache-2.0
// The published code interpreter SDK, unmodified, against a cay server.
import { test, before, after } from 'node:test'
import assert from 'node:assert/strict'
import { Sandbox } from '@e2b/code-interpreter'

let box
before(async () => { box = await Sandbox.create({ timeoutMs: 120_000 }) })
after(async () => { await box?.kill() })

test('state lasts from one execution to the next', async () => {
  await box.runCode('x = 41')
  const r = await box.runCode('print("out"); x + 1')
  assert.equal(r.text, '42')
  assert.deepEqual(r.logs.stdout, ['out\n'])
  assert.equal(r.results[0].isMainResult, true)
})
test('an error has a name, a value and where it was', async () => {
  const r = await box.runCode('def f():\n  return 1/0\nf()')
  assert.equal(r.error.name, 'ZeroDivisionError')
  assert.match(r.error.traceback, /line 2, in f/)
})
test('what children print is told, and comes as it is made', async () => {
  const got = []
  await box.runCode('import os, time\nos.system("echo child")\nprint("ä€")', { onStdout: m => { got.push(m.line) } })
  assert.equal(got.join(''), 'child\nä€\n')
})
test('variables of one execution are of that one', async () => {
  assert.equal((await box.runCode('import os; os.environ["A"]', { envs: { A: 'b' } })).text, 'b')
  assert.equal((await box.runCode('os.environ.get("A", "gone")')).text, 'gone')
})
test('rich results by kind', async () => {
  const r = await box.runCode('class T:\n  def _repr_html_(self): return "<b>x</b>"\n  def _repr_png_(self): return b"\\x89PNG"\n  def __repr__(self): return "T"\nT()')
  assert.deepEqual([r.results[0].html, r.results[0].png, r.text], ['<b>x</b>', Buffer.from('\x89PNG', 'latin1').toString('base64'), 'T'])
})
const kinds = { markdown: '# x', svg: '<svg/>', jpeg: 'ÿØ', pdf: '%PDF', javascript: 'alert(1)', latex: '$x$' }, packed = ['jpeg', 'pdf'], of = k => packed.includes(k) ? Buffer.from(kinds[k], 'latin1').toString('base64') : kinds[k]
test('every other kind, of an object and of a bundle, one by one and together', async () => {
  const literal = k => packed.includes(k) ? `b"${[...kinds[k]].map(c => '\\x' + c.charCodeAt(0).toString(16)).join('')}"` : JSON.stringify(kinds[k])
  const mime = { markdown: 'text/markdown', svg: 'image/svg+xml', jpeg: 'image/jpeg', pdf: 'application/pdf', javascript: 'application/javascript', latex: 'text/latex' }
  const all = Object.keys(kinds), told = r => Object.fromEntries(all.filter(k => r[k] != null).map(k => [k, r[k]]))
  for (const k of all) {
    const [r] = (await box.runCode(`class K:\n  def _repr_${k}_(self): return ${literal(k)}\n  def __repr__(self): return "K"\nK()`)).results
    assert.deepEqual([told(r), r.text, r.formats()], [{ [k]: of(k) }, 'K', [k]], k)
    const [shown] = (await box.runCode(`display({"${mime[k]}": ${literal(k)}}, raw=True)`)).results
    assert.deepEqual([told(shown), shown.isMainResult], [{ [k]: of(k) }, false], k)
  }
  const [r] = (await box.runCode(`class A:\n${all.map(k => `  def _repr_${k}_(self): return ${literal(k)}\n`).join('')}A()`)).results
  assert.deepEqual(told(r), Object.fromEntries(all.map(k => [k, of(k)])))
  const [js] = (await box.runCode(`({ [Symbol.for("Jupyter.display")]() { return { "text/markdown": "# x", "image/svg+xml": "<svg/>", "image/jpeg": "${of('jpeg')}", "application/pdf": "${of('pdf')}", "application/javascript": "alert(1)", "text/latex": "$x$" } } })`, { language: 'javascript' })).results
  assert.deepEqual(told(js), Object.fromEntries(all.map(k => [k, of(k)])))
})
test('default contexts are there from the start', async () => {
  const fresh = await Sandbox.create({ timeoutMs: 60_000 })
  try {
    assert.deepEqual((await fresh.listCodeContexts()).map(c => [c.id, c.language, c.cwd]), [['default-python', 'python', '/home/user'], ['default-javascript', 'javascript', '/home/user']])
    await fresh.restartCodeContext('default-javascript')
    assert.equal((await fresh.runCode('6 * 7', { context: { id: 'default-javascript', language: 'javascript', cwd: '' } })).text, '42')
    assert.equal((await fresh.listCodeContexts()).length, 2)
    await fresh.removeCodeContext('default-python')
    await assert.rejects(fresh.removeCodeContext('default-cobol'))
  } finally { await fresh.kill() }
})
test('contexts are apart, listed, restarted and removed', async () => {
  const c = await box.createCodeContext({ cwd: '/tmp' })
  assert.equal((await box.runCode('import os; os.getcwd()', { context: c })).text, '/tmp')
  assert.equal((await box.runCode('x', { context: c })).error.name, 'NameError')
  await box.runCode('y = 1', { context: c })
  await box.restartCodeContext(c)
  assert.equal((await box.runCode('y', { context: c })).error.name, 'NameError')
  assert.ok((await box.listCodeContexts()).some(o => o.id === c.id))
  await box.removeCodeContext(c)
  await assert.rejects(box.removeCodeContext(c), /404|not found/)
  await assert.rejects(box.runCode('1', { context: c, requestTimeoutMs: 2000 }))
})
test('a kernel that dies is told with what was printed before, and the next execution has a new one', async () => {
  for (const [language, die, next] of [['python', 'import os; print("first", flush=True); import time; time.sleep(0.2); os._exit(1)', 'print("new")'], ['python', 'import os, signal; os.kill(os.getpid(), signal.SIGKILL)', 'print("new")'],
    ['javascript', 'process.exit(1)', 'console.log("new")'], ['bash', 'exit 3', 'echo new']]) {
    const told = [], r = await box.runCode(die, { language, onError: e => { told.push(e.name) } })
    assert.deepEqual([r.error?.name, told, r.results], ['UnexpectedEndOfExecution', ['UnexpectedEndOfExecution'], []], `${language}: ${die}`)
    assert.match(r.error.value, /SIGKILL/.test(die) ? /ended by signal 9/ : /ended with code 1/)
    if (/first/.test(die)) assert.deepEqual(r.logs.stdout, ['first\n'])
    const again = await box.runCode(next, { language })
    assert.deepEqual([again.error, again.logs.stdout.join('')], [undefined, 'new\n'], language)
  }
  const c = await box.createCodeContext({ cwd: '/tmp' })
  assert.equal((await box.runCode('import os; os._exit(1)', { context: c })).error.name, 'UnexpectedEndOfExecution')
  await box.restartCodeContext(c)
  assert.equal((await box.runCode('import os; os.getcwd()', { context: c })).text, '/tmp')
  await box.removeCodeContext(c)
})
test('too long is interrupted, and the context goes on', async () => {
  await assert.rejects(box.runCode('import time\ntime.sleep(60)', { timeoutMs: 800 }))
  assert.equal((await box.runCode('"back"')).text, 'back')
})
test('many at once on one context are all answered, in turn', async () => {
  const long = 100_000 // such a request goes to the kernel in pieces
  for (const [language, comment, print] of [['python', '#', i => `print(${i})`], ['javascript', '//', i => `console.log(${i})`], ['bash', '#', i => `echo ${i}`]]) {
    const c = await box.createCodeContext({ language })
    const got = await Promise.all([...Array(8).keys()].map(i => box.runCode(`${print(i)} ${comment}${i % 2 ? 'x'.repeat(long) : ''}`, { context: c })))
    assert.deepEqual(got.map(r => [r.error, r.logs.stdout.join('')]), [...Array(8).keys()].map(i => [undefined, `${i}\n`]), language)
    assert.equal((await box.runCode(print(9), { context: c })).logs.stdout.join(''), '9\n')
    await box.removeCodeContext(c)
  }
})
test('what is long comes whole; a result beyond any use is named', async () => {
  for (const [language, made] of [['python', n => `'x' * ${n}`], ['javascript', n => `'x'.repeat(${n})`]]) {
    const own = { language, timeoutMs: 60_000 }
    const [long, short] = await Promise.all([box.runCode(made(3_000_000), own), box.runCode('1 + 1', own)]) // who waits does not get the other's
    assert.deepEqual([long.text.length, short.text], [3_000_000, '2'], language)
    const big = await box.runCode(made(9_000_000), own)
    assert.deepEqual([big.error?.name, big.results], ['ResultTooBig', []], language)
    assert.equal((await box.runCode('2 + 2', own)).text, '4')
  }
})
test('javascript: state, await, objects, errors, what children print', async () => {
  const run = (code, o) => box.runCode(code, { language: 'javascript', ...o })
  assert.equal((await run('const x = 41; console.log("out"); x + 1')).text, '42')
  const r = await run('console.log("ä€"); require("child_process").execSync("echo child", { stdio: "inherit" }); await Promise.resolve({ x })')
  assert.deepEqual([r.logs.stdout.join(''), r.text], ['ä€\nchild\n', '{ x: 41 }'])
  assert.deepEqual([(await run('null.x')).error.name, (await run('(')).error.name], ['TypeError', 'SyntaxError'])
  assert.equal((await run('process.env.A', { envs: { A: 'b' } })).text, 'b')
  assert.equal((await run('typeof process.env.A')).text, 'undefined')
  assert.equal((await run('({ [Symbol.for("Jupyter.display")]() { return { "text/html": "<i>x</i>" } } })')).results[0].html, '<i>x</i>')
  for (const endless of ['while (true);', 'await new Promise(() => {})']) await assert.rejects(run(endless, { timeoutMs: 800 }))
  assert.equal((await run('x')).text, '41')
})
test('bash: state, output on both streams, codes, an own directory', async () => {
  const c = await box.createCodeContext({ language: 'bash', cwd: '/tmp' })
  const run = (code, o) => box.runCode(code, { context: c, ...o })
  const r = await run('X=4; pwd; echo oops >&2; f() { echo "f $1"; }')
  assert.deepEqual([r.logs.stdout.join(''), r.logs.stderr.join(''), r.error], ['/tmp\n', 'oops\n', undefined])
  assert.deepEqual((await run('f $X; false')).error.value, '1')
  assert.equal((await run('echo "$A"', { envs: { A: "it's ä" } })).logs.stdout.join(''), "it's ä\n")
  assert.equal((await run('echo "[$A]"; head -c 200000 /dev/zero | tr "\\0" x')).logs.stdout.join('').length, 200003)
  await assert.rejects(run('sleep 60; echo never', { timeoutMs: 800 }))
  assert.equal((await run('f $X')).logs.stdout.join(''), 'f 4\n')
  await box.restartCodeContext(c)
  assert.equal((await run('pwd; echo "[$X]"')).logs.stdout.join(''), '/tmp\n[]\n')
  assert.equal((await box.listCodeContexts()).find(o => o.id === c.id).language, 'bash')
})
test('bash: what code does to its own shell is told or harmless', async () => {
  const c = await box.createCodeContext({ language: 'bash' }), run = code => box.runCode(code, { context: c, timeoutMs: 30_000 }), printed = async code => (await run(code)).logs.stdout.join('')
  for (const word of ['break', 'continue']) assert.deepEqual([(await run(`echo a; ${word}; echo b`)).logs.stdout.join(''), await printed('echo on')], ['a\n', 'on\n'], word)
  await run('declare -A m=([k]=v); printf() { :; }')
  assert.equal(await printed('for i in 1 2 3; do [ $i = 2 ] && continue; echo "$i ${m[k]}"; done'), '1 v\n3 v\n')
  const since = Date.now()
  await run('exec 7>&1 >/tmp/elsewhere; echo kept')
  await run('exec >&-')
  assert.equal(await printed('exec >&7 7>&-; cat /tmp/elsewhere'), 'kept\n')
  assert.ok(Date.now() - since < 9000, 'its marks are seen at once')
  // What it leaves behind holds its pipes, and does not hide its death.
  const dead = await run('echo before; sleep 300 & kill -9 $$')
  assert.deepEqual([dead.error?.name, dead.logs.stdout.join('')], ['UnexpectedEndOfExecution', 'before\n'])
  await box.restartCodeContext(c)
  assert.equal(await printed('echo new'), 'new\n')
  await box.removeCodeContext(c)
})
test('a language that is not there is named', async () => {
  for (const language of ['java', 'r']) await assert.rejects(box.runCode('1', { language, timeoutMs: 5000, requestTimeoutMs: 5000 }), /501/)
  for (const language of ['cobol', 'pythonx']) await assert.rejects(box.runCode('1', { language, timeoutMs: 5000, requestTimeoutMs: 5000 }), /400/)
})

test('python: lines that are no Python: commands and magics, with what they give and how they fail', async () => {
  const run = async c => { const r = await box.runCode(c); return [r.logs.stdout.join('') + r.logs.stderr.join(''), r.text, r.error?.name] }
  assert.deepEqual(await run('n = 4\nx = !echo a; echo {n + 1} $n\nx'), ['', "['a', '5 4']", undefined])
  assert.deepEqual(await run('for i in range(2):\n    !echo $i; echo err >&2\n!exit 3\n_exit_code'), ['0\n1\nerr\nerr\n', '3', undefined])
  assert.deepEqual(await run('%cd /tmp\n%pwd'), ['/tmp\n', '/tmp', undefined])
  assert.deepEqual(await run('%%bash\necho "in $0"\nexit 4'), ['in bash\n', undefined, 'CalledProcessError'])
  assert.deepEqual(await run('%env MINE=1\nimport os\nos.environ["OWN"] = "2"'), ['env: MINE=1\n', undefined, undefined])
  assert.deepEqual(await run('os.environ["MINE"] + os.environ["OWN"]'), ['', '12', undefined])
  assert.deepEqual(await run('%%writefile /tmp/w.txt\nkept'), ['Writing /tmp/w.txt\n', undefined, undefined])
  assert.deepEqual(await run('open("/tmp/w.txt").read()'), ['', 'kept', undefined])
  assert.equal((await run('%nothing'))[2], 'UsageError')
  assert.equal((await run('%%nothing\nx'))[2], 'UsageError')
  assert.equal((await run('x = = 1'))[2], 'SyntaxError')
  assert.deepEqual(await run('(7\n% 4)'), ['', '3', undefined]) // this is Python
  assert.deepEqual(await run('"""\n!no command\n"""'), ['', '\\n!no command\\n', undefined])
  assert.match((await run('%time sum(range(9))'))[0], /Wall time/)
  assert.match((await run('%pip --version'))[0], /pip|No module/)
})
test('python: what was shown, by whatever kind; no input; lines in a traceback', async () => {
  const r = await box.runCode('class B:\n  def _repr_mimebundle_(self, include=None, exclude=None): return {"text/plain": "t", "x/y": {"a": 1}, "image/png": b"abc"}\ndisplay({"text/latex": "$x$"}, raw=True)\nB()')
  assert.equal(r.results[0].latex, '$x$')
  assert.deepEqual([r.results[1].text, r.results[1].png, r.results[1].extra], ['t', 'YWJj', { 'x/y': { a: 1 } }])
  assert.equal((await box.runCode('%%html\n<i>')).results[0].html, '<i>')
  const odd = await box.runCode('class O:\n  def _repr_json_(self): return object()\nO()')
  assert.match(odd.text, /O object/)
  assert.equal((await box.runCode('input("name?")')).error.name, 'StdinNotImplementedError')
  const deep = (await box.runCode('def f():\n    return 1 / 0\nf()')).error
  assert.match(deep.traceback, /line 3[^]*f\(\)[^]*line 2[^]*return 1 \/ 0[^]*ZeroDivisionError/)
  // Names of the code's own are not the kernel's.
  await box.runCode('result = count = out = space = cell = run = emit = drain = json = os = time = 1')
  assert.equal((await box.runCode('result + count')).text, '2')
  await box.runCode('6 * 7')
  assert.equal((await box.runCode('_ + 1')).text, '43')
  assert.equal((await box.runCode('import asyncio\nawait asyncio.sleep(0)\nawait asyncio.sleep(0, 8)')).text, '8')
})

const post = (path, body) => `import json, urllib.request as u
r = u.urlopen(u.Request("http://localhost:49999${path}", ${body ? `json.dumps(${body}).encode(), {"content-type": "application/json"}` : ''}))
print(r.status, r.read().decode())`
const inside = async code => (await box.commands.run(`python3 - <<'E'\n${code}\nE`)).stdout
test('programs inside find it at its port, and share its contexts', async () => {
  await box.runCode('shared = 40')
  assert.equal(await inside(post('/health')), '200 "OK"\n')
  assert.match(await inside(post('/execute', '{"code": "shared += 2\\nshared"}')), /^200 .*"number_of_executions"[^]*"text":"42"[^]*"end_of_execution"}\n\n$/)
  assert.equal((await box.runCode('shared')).text, '42')
  const own = await box.runCode(post('/execute', '{"code": "echo from $((20 + 1))", "language": "bash"}')) // code may ask for other code
  assert.match(own.logs.stdout.join(''), /from 21/)
  await box.files.write('mine.py', 'x = 7')
  assert.equal((await box.runCode('import mine; mine.x', { context: await box.createCodeContext() })).text, '7') // of the directory that code runs in
  await assert.rejects(box.commands.run(`python3 -c 'import urllib.request as u; u.urlopen(u.Request("http://localhost:49999/health", headers={"host": "evil.example"}))'`), e => /403/.test(e.stderr))
})
test('one that is killed takes its kernels along, and the next request has another', async () => {
  const s = await Sandbox.create({ timeoutMs: 60_000 })
  try {
    const pid = (await s.runCode('import os; os.getpid()')).text, busy = s.runCode('while True: pass', { timeoutMs: 30_000 }).catch(e => e)
    await s.commands.run('pkill -9 -x interpreter')
    assert.ok(await busy instanceof Error)
    assert.equal((await s.runCode('"new"')).text, 'new')
    assert.equal((await s.commands.run(`kill -0 ${pid} || echo gone`)).stdout, 'gone\n')
  } finally { await s.kill() }
})
test('contexts are still there after a pause; a fork has an interpreter of its own', async () => {
  const s = await Sandbox.create({ timeoutMs: 60_000 })
  try {
    await s.runCode('kept = 1')
    await s.pause()
    await s.connect()
    assert.equal((await s.runCode('kept')).text, '1')
    const [f] = await s.fork({ count: 1, timeoutMs: 60_000 })
    try { assert.equal((await f.runCode('6 * 7')).text, '42') } finally { await f.kill() }
  } finally { await s.kill() }
})
test('pages of other origins may ask, with the token', async () => {
  const headers = { 'e2b-sandbox-id': box.sandboxId, 'e2b-sandbox-port': '49999', origin: 'http://page.example' }, url = `${process.env.E2B_SANDBOX_URL}/contexts`
  for (const [token, status] of [[box.trafficAccessToken, 200], ['none', 401]]) {
    const r = await fetch(url, { headers: { ...headers, 'e2b-traffic-access-token': token } })
    assert.deepEqual([r.status, r.headers.get('access-control-allow-origin'), r.headers.get('access-control-allow-credentials')], [status, '*', null])
  }
})
test('a program that takes the port harms nobody but who asks it, and is told no token', async () => {
  const own = `import socket, sys, time
s = socket.create_server(("127.0.0.1", 49999))
print("there", flush=True)
while True:
    c, _ = s.accept()
    head = c.recv(65536)
    if sys.argv[1] == "garbage": c.sendall(b"\\x00\\xff" * 3000)
    if sys.argv[1] == "tells": c.sendall(b"HTTP/1.1 200 OK\\r\\nset-cookie: a=b\\r\\naccess-control-allow-origin: http://evil.example\\r\\ncontent-type: text/html\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(head) + head)
    if sys.argv[1] == "lies": c.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-length: 5\\r\\ntransfer-encoding: chunked\\r\\n\\r\\nhello")
    if sys.argv[1] == "endless":
        c.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n")
        try:
            while True: c.sendall(b"x" * 65536)
        except OSError: pass
    if sys.argv[1] != "silent": c.close()
    else: held = c`
  for (const how of ['garbage', 'lies', 'tells', 'endless', 'silent']) {
    const s = await Sandbox.create({ timeoutMs: 60_000 }), stop = new AbortController()
    try {
      await s.files.write('own.py', own)
      const h = await s.commands.run(`exec python3 own.py ${how}`, { background: true })
      while (!h.stdout.includes('there')) await new Promise(r => setTimeout(r, 20))
      const asked = fetch(`${process.env.E2B_SANDBOX_URL}/execute`, { method: 'POST', body: '{"code":"1"}', signal: stop.signal, headers: { 'content-type': 'application/json', 'e2b-sandbox-id': s.sandboxId,
        'e2b-sandbox-port': '49999', 'x-access-token': s.envdAccessToken, 'e2b-traffic-access-token': s.trafficAccessToken ?? 'none', cookie: 'mine=1', authorization: 'Bearer mine' } })
      if (how === 'garbage' || how === 'lies') assert.equal((await asked).status, 502, how)
      if (how === 'tells') {
        const r = await asked, told = await r.text()
        assert.match(told, /^POST \/execute HTTP\/1\.1/)
        assert.ok(!/access-token|authorization|cookie|mine/i.test(told), told)
        assert.deepEqual([r.headers.get('set-cookie'), r.headers.get('access-control-allow-origin'), /sandbox/.test(r.headers.get('content-security-policy'))], [null, null, true])
      }
      if (how === 'endless') {
        const from = (await asked).body.getReader()
        for (let n = 0; n < 30e6;) n += (await from.read()).value.length // as much as is wanted; the rest is not read
      }
      assert.equal((await box.runCode('1 + 1')).text, '2', how) // others meanwhile
      stop.abort()
      await asked.catch(() => {})
    } finally { await s.kill() }
  }
})
