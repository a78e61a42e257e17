// SPDX-License-Identifier: Apache-2.0
// Names below sbx.test are this machine, without a DNS server.
import dns from 'node:dns'
const real = dns.lookup
dns.lookup = (name, options, done) => {
  if (typeof options === 'function') [options, done] = [{}, options]
  if (!/(^|\.)sbx\.test$/.test(name)) return real(name, options, done)
  process.nextTick(() => options?.all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4))
}
