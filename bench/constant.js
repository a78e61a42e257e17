// SPDX-License-Identifier: Apache-2.0
// constant.js URL: passes requests on to a server and keeps its answers; after GET /__constant it gives those again, in their order, and asks nobody. So a client's own
// time is measured: that of the same requests before a server that does nothing. Prints its address.
'use strict'
const http = require('node:http')
const to = new URL(process.argv[2]), agent = new http.Agent({ keepAlive: true }), kept = new Map()
let constant = false
const keyOf = q => `${q.method} ${q.url.replace(/[a-z2-7]{20}/g, 'ID')}`
const give = (a, r) => { a.writeHead(r.status, r.headers); a.end(r.body) }
http.createServer((q, a) => {
  if (q.url === '/__constant') { constant = true; return a.end() }
  const all = []
  q.on('data', d => all.push(d))
  q.on('end', () => {
    const key = keyOf(q), list = kept.get(key) ?? kept.set(key, []).get(key)
    if (constant) {
      const r = list.shift()
      if (!r) { a.writeHead(599); return a.end(`nothing was kept for ${key}`) }
      list.push(r)
      return give(a, r)
    }
    const body = Buffer.concat(all), { 'transfer-encoding': _, ...headers } = q.headers
    const ask = http.request({ agent, host: to.hostname, port: to.port, method: q.method, path: q.url, headers: { ...headers, 'content-length': body.length } }, r => {
      const got = []
      r.on('data', d => got.push(d))
      r.on('end', () => {
        const { 'transfer-encoding': chunked, connection, ...fields } = r.headers, answer = { status: r.statusCode, headers: fields, body: Buffer.concat(got) }
        if (chunked || answer.status !== 204) fields['content-length'] = answer.body.length
        list.push(answer)
        give(a, answer)
      })
    })
    ask.on('error', e => { a.writeHead(502); a.end(e.message) })
    ask.end(body)
  })
}).listen(0, '127.0.0.1', function () { console.log(`http://127.0.0.1:${this.address().port}`) })
