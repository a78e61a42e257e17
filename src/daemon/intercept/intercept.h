/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/intercept/intercept.h - the parts of cay-intercept and what they share.
 *
 *   main.c    start, and what the keeper says
 *   vault.c   a sandbox: its bindings and their values
 *   ca.c      its authority and certificates
 *   flow.c    a connection between two sides
 *   side.c    one side, with TLS or without
 *   relay.c   requests up, answers down
 *   trust.c   what the sandbox has to trust
 *   egress.c  flows come, records go
 *   inject.c  what a request gets, and loses
 *   mask.c    what an answer must not carry back
 *
 * One thread. The only process that ever holds the value of a secret; it dials nobody, opens no
 * file besides the roots that it trusts, and gives every answer through a mask that covers the
 * values it added.
 */
#pragma once
#include <proto/intercept.h>
#include <base/base.h>
#include <base/loop.h>
#include <daemon/egress/bucket.h>
#include <openssl/ssl.h>
#include <policy/binding.h>
#include <policy/policy.h>

enum {
    HEAD_MAX = 32 << 10,
    IN_MAX = 36 << 10, /* a head and something behind it */
    DOWN_MAX = 32 << 10,
    FLOWS_MAX = 1024,
    RESERVE_FDS = 64,
    FLOWS_EACH = FLOWS_MAX / 4,
    SHAKE_MS = 15000,  /* both handshakes and the first head */
    IDLE_MS = 3600000, /* not a byte in either direction */
    PAUSE_MS = 10,     /* until a bucket is looked at again */
    LEAVES_MAX = 256,
    ALONE_MS = 60000,
};

typedef struct vault vault;
typedef struct intercept_flow intercept_flow;

typedef struct leaf {
    struct leaf *next;
    X509 *cert;
    char name[256];
} leaf;
typedef struct authority {
    EVP_PKEY *key, *leaf_key;
    X509 *cert;
    leaf *leaves;
    unsigned nleaves;
    char *pem; /* of the certificate */
    size_t pem_len;
} authority;
bool ca_open(authority *a, int vault_fd); /* reads it, or makes it and writes it there */
X509 *ca_leaf(authority *a, const char *name);
void ca_close(authority *a);
/* trust.c: a sealed memfd as proto.h says, or -1. */
int trust_files(const authority *a, const char *roots);

typedef struct secret {
    char *name;
    char *value; /* locked, zeroed when it goes */
    size_t len;
} secret;
struct vault {
    vault *next;
    char id[CAY_WIRE_ID];
    uint64_t revision;
    cay__policy policy;
    secret *secrets;
    size_t nsecrets;
    authority ca;
    SSL_CTX *ctx; /* for the sandbox's side */
    intercept_flow *flows;
    unsigned nflows;
    uint32_t lost;  /* notes that egress did not take */
    bucket rate[2]; /* up, down */
};
vault *vault_find(const char *id);
int vault_bind(const cay_n_box *m, const int fds[3], vault **out, cay_err *err);
int vault_policy(vault *v, int fd, cay_err *err); /* another policy, the same values */
void vault_judge(vault *v);                       /* ends the flows that may be no more */
void vault_drop(vault *v);
const secret *vault_secret(const vault *v, const char *name);

typedef struct needle {
    struct needle *next;
    size_t len;
    char bytes[]; /* the value, or its base64 form; zeroed when it goes */
} needle;
typedef struct mask {
    needle *needles;
} mask;
void mask_add(mask *m, const char *bytes, size_t len);
void mask_clear(mask *m);
/* Covers whole values in p with `*`, byte for byte, so that no length changes. Returns how many
 * bytes are safe to pass on: the rest may be the beginning of a value. `end`: nothing will follow.
 */
size_t mask_apply(const mask *m, char *p, size_t len, bool end);

SSL_CTX *tls_context(const SSL_METHOD *method); /* as either side wants it; NULL: none */
enum { SIDE_AGAIN = -1, SIDE_BROKEN = -2 };
typedef struct side {
    cay__watch w;
    SSL *ssl; /* NULL: plain */
    bool shaking, eof, shut, watched;
    bool bare;         /* it ended without saying so in TLS: what came may not be all */
    uint64_t got, put; /* bytes of the connection, TLS included */
    uint32_t want;     /* EPOLL… that the last call waited for */
} side;
void side_count(side *s); /* sets got and put */
bool side_shake(side *s); /* true when done; else want, or broken with want 0 */
ssize_t side_read(side *s, void *p, size_t n); /* 0: an orderly end */
ssize_t side_write(side *s, const void *p, size_t n);
void side_finish(side *s); /* says that no more comes */
void side_wait(side *s);   /* for what it wants */
void side_close(side *s, bool orderly);

typedef struct relay {
    char *in;         /* from the sandbox, not yet judged or not yet sent */
    size_t len, pass; /* in `in`; of them, what may go as it is */
    char *head;       /* a rewritten head on its way up */
    size_t head_len, head_at;
    char *down;
    size_t down_len, down_ok;
    uint64_t left;       /* of a body, beyond `len` */
    uint8_t next, heads; /* http_state */
    bool tunnel;
    mask mask;
} relay;

struct intercept_flow {
    intercept_flow *next, **prev;
    vault *v;
    side in, out;
    relay r;
    cay__timer late, pause; /* pause: a bucket was empty */
    int64_t began_ms;       /* by egress */
    int64_t moved_ms;       /* when a byte last did */
    char why[40];           /* it ends, or will, for this; "": nobody knows yet */
    uint64_t number;        /* egress's, for the record */
    char name[256];
    uint8_t addr[16]; /* where the other side is */
    uint16_t port;
    bool tls, begun; /* begun: the first request was taken */
    char *page;      /* our own answer instead of the server's */
    size_t page_len, page_at;
};
void flow_start(const cay_n_flow *m, const char *name, size_t len, int in, int out);
/* Ends it and tells egress. orderly: both sides finished; else they are reset. */
void intercept_flow_end(intercept_flow *f, const char *reason, bool orderly);
void flow_say(intercept_flow *f, int status, const char *reason,
              const char *text);                      /* an own answer, then the end */
void flow_why(intercept_flow *f, const char *reason); /* the first one stays */
void flow_begun(intercept_flow *f);
void flow_pause(intercept_flow *f); /* comes again when its bandwidth may have some left */
/* Moves what can be moved. False: the flow is over (and freed). */
bool relay_step(intercept_flow *f);

typedef struct injected {
    char *head; /* malloc() */
    size_t len;
    const cay__binding *use[CAY__BINDINGS_MAX]; /* those that were used */
    size_t n;
    mask *mask; /* in: gets what must not come back */
} injected;
/* p..len is one whole request head. 0, or a code with a reason that the page tells. */
/* Covers in m whatever is bound to that destination. */
void mask_bound(const vault *v, const char *name, uint16_t port, bool tls, mask *m);
int inject(const vault *v, const char *name, uint16_t port, bool tls, const char *p, size_t len,
           injected *out, cay_err *err);

typedef struct intercept_state {
    cay__loop loop;
    cay__watch listen, egress;
    SSL_CTX *up; /* for the other side: the host's roots */
    cay__policy op;
    vault *vaults;
    unsigned nflows, flows_max, nlinks;
    int64_t alone_since;
} intercept_state;
extern intercept_state intercept;

void egress_take(int fd); /* another one; it hears of every flow that is here */
void note(const intercept_flow *f, const cay__binding *b, bool allowed, const char *reason);
void note_end(const intercept_flow *f, const char *reason, bool closed); /* f->in is counted */
void note_spent(vault *v); /* of its bandwidth, when that is worth it */
