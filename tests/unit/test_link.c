/* SPDX-License-Identifier: Apache-2.0 */
/* lib/provider/native/client.c and proc.c against a peer of a few lines that answers by script. */
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <errno.h>
#include <lib/provider/native/client.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <cmocka.h>

typedef struct peer {
    int life; /* how many requests the next connection serves before it dies */
    int dialed;
    int served;   /* WRITE requests seen */
    int adopting; /* how many PAUSE requests find the sandbox not yet taken over */
    pthread_t threads[8];
} peer;

typedef struct conn {
    peer *p;
    int sock, life;
} conn;

static void answer(int sock, uint16_t type, const void *body, size_t len, const char *tail,
                   size_t tlen)
{
    cay_msg head = { CAY_MSG_MAGIC, CAY_MSG_VERSION, type, (uint32_t)tlen, 0 };
    struct iovec io[3] = { { &head, sizeof head }, { (void *)body, len }, { (void *)tail, tlen } };
    cay__fd_sendv(sock, io, 3, NULL, 0, 0);
}

static void serve(conn *c, const cay_msg *m)
{
    cay_m_error e = {
        .code = CAY_ENOENT, .sys = 2, .reason = "sandbox_not_found", .msg = "no such sandbox"
    };
    cay_m_error later = { .code = CAY_EBUSY, .reason = "sandbox_adopting", .msg = "not yet" };
    cay_m_proc proc = { .proc = "pabc", .pid = 42 };
    cay_m_exit ex = { .code = 7, .reason = "exit" };
    cay_m_data data = { .offset = 3, .lost = 3 };
    switch (m->type) {
    case CAY_MSG_HELLO:
        answer(c->sock, CAY_MSG_HELLO, &(cay_m_hello){ .pid = 9 }, sizeof(cay_m_hello), NULL, 0);
        break;
    case CAY_MSG_PROC_FIND:
        answer(c->sock, CAY_MSG_PROC, &proc, sizeof proc, "t\0c\0u", 6);
        answer(c->sock, CAY_MSG_EXIT, &ex, sizeof ex, NULL, 0);
        break;
    case CAY_MSG_PROCS:
        answer(c->sock, CAY_MSG_PROC, &proc, sizeof proc, "tag\0cmd\0me", 11);
        answer(c->sock, CAY_MSG_PROC, &proc, sizeof proc, "unended", 7);
        answer(c->sock, CAY_MSG_END, NULL, 0, NULL, 0);
        break;
    case CAY_MSG_READ: answer(c->sock, CAY_MSG_DATA, &data, sizeof data, "hello", 5); break;
    case CAY_MSG_RESUME:
        answer(c->sock, CAY_MSG_HELLO, &(cay_m_hello){ 0 }, sizeof(cay_m_hello), NULL, 0);
        break;
    case CAY_MSG_SIGNAL: cay__fd_send(c->sock, "short", 5, NULL, 0, 0); break;
    case CAY_MSG_STOP: break; /* never answers */
    case CAY_MSG_PAUSE:
        if (c->p->adopting-- > 0)
            answer(c->sock, CAY_MSG_ERROR, &later, sizeof later, NULL, 0);
        else
            answer(c->sock, CAY_MSG_OK, NULL, 0, NULL, 0);
        break;
    case CAY_MSG_WRITE:
        c->p->served++;
        answer(c->sock, CAY_MSG_OK, NULL, 0, NULL, 0);
        break;
    default: answer(c->sock, CAY_MSG_ERROR, &e, sizeof e, NULL, 0); break;
    }
}

static void *peer_main(void *arg)
{
    conn *c = arg;
    char buf[4096];
    ssize_t n = 0;
    while (c->life-- > 0 && (n = cay__fd_recv(c->sock, buf, sizeof buf, NULL, NULL, 0)) > 0) {
        cay_msg m;
        memcpy(&m, buf, sizeof m);
        serve(c, &m);
    }
    if (n > 0)
        cay__fd_recv(c->sock, buf, sizeof buf, NULL, NULL, 0); /* takes one more and dies over it */
    close(c->sock);
    free(c);
    return NULL;
}

static int dial(void *arg, const cay_call *call, int *sock, cay_err *err)
{
    (void)call, (void)err;
    peer *p = arg;
    int sv[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
    conn *c = cay__alloc(sizeof *c);
    *c = (conn){ p, sv[1], p->life };
    p->life = 1000;
    pthread_create(&p->threads[p->dialed++], NULL, peer_main, c);
    *sock = sv[0];
    return 0;
}

typedef struct fix {
    peer p;
    cay__link l;
} fix;

static int up(void **state)
{
    fix *f = cay__alloc(sizeof *f);
    f->p.life = 1000;
    cay__link_open(&f->l, dial, &f->p, "keeper");
    *state = f;
    return 0;
}

static int down(void **state)
{
    fix *f = *state;
    cay__link_close(&f->l);
    for (int i = 0; i < f->p.dialed; i++)
        pthread_join(f->p.threads[i], NULL);
    free(f);
    return 0;
}

static const cay_m_box nobox;
static cay__link_ask ask(uint16_t type)
{
    return (cay__link_ask){ .type = type, .body = &nobox, .len = sizeof nobox };
}

static void one_connection_serves_many_calls(void **state)
{
    fix *f = *state;
    cay__link_ask a = ask(CAY_MSG_HELLO);
    for (int i = 0; i < 20; i++) {
        cay__reply r = { 0 };
        assert_int_equal(cay__link_call(&f->l, NULL, &a, &r, NULL), 0);
        assert_int_equal(r.hello.pid, 9);
    }
    assert_int_equal(f->p.dialed, 1);
}

static void an_error_answer_becomes_a_cay_err(void **state)
{
    fix *f = *state;
    cay_err e = CAY_ERR_INIT;
    cay__link_ask a = ask(CAY_MSG_DESTROY);
    assert_int_equal(cay__link_call(&f->l, NULL, &a, NULL, &e), CAY_ENOENT);
    assert_string_equal(e.reason, "sandbox_not_found");
    assert_string_equal(e.msg, "no such sandbox");
    assert_int_equal(e.sys, 2);
    a = ask(CAY_MSG_READ); /* its body is shorter than an error's: the rest lands in the tail */
    char tail[512];
    cay__reply r = { .tail = tail, .tail_cap = sizeof tail };
    assert_int_equal(cay__link_call(&f->l, NULL, &a, &r, NULL), 0);
    assert_int_equal(r.tail_len, 5);
    a = ask(CAY_MSG_OUTPUT);
    assert_int_equal(cay__link_call(&f->l, NULL, &a, &r, &e), CAY_ENOENT);
    assert_string_equal(e.msg, "no such sandbox");
    assert_int_equal(f->p.dialed, 1);
}

static void a_request_is_repeated_when_the_peer_dies(void **state)
{
    fix *f = *state;
    cay__link_ask a = ask(CAY_MSG_HELLO);
    f->p.life = 1;
    assert_int_equal(cay__link_call(&f->l, NULL, &a, NULL, NULL), 0);
    assert_int_equal(cay__link_call(&f->l, NULL, &a, NULL, NULL), 0);
    assert_int_equal(f->p.dialed, 2);
}

static void a_write_is_not_repeated_once_sent(void **state)
{
    fix *f = *state;
    cay__link_ask a = ask(CAY_MSG_WRITE), h = ask(CAY_MSG_HELLO);
    f->p.life = 1;
    assert_int_equal(cay__link_call(&f->l, NULL, &h, NULL, NULL), 0);
    assert_int_equal(cay__link_call(&f->l, NULL, &a, NULL, NULL), CAY_EGONE);
    assert_int_equal(f->p.served, 0);
    assert_int_equal(cay__link_call(&f->l, NULL, &a, NULL, NULL), 0);
    assert_int_equal(f->p.served, 1);
}

/* "Gone" is said of a sandbox; where another keeper adopts it, the death of one says nothing of it.
 */
static void a_peer_that_is_adopted_from_is_not_the_sandbox(void **state)
{
    fix *f = *state;
    cay__link_ask a = ask(CAY_MSG_WRITE), h = ask(CAY_MSG_HELLO);
    cay_err e = CAY_ERR_INIT;
    f->l.adopts = true;
    f->p.life = 1;
    assert_int_equal(cay__link_call(&f->l, NULL, &h, NULL, NULL), 0);
    assert_int_equal(cay__link_call(&f->l, NULL, &a, NULL, &e), CAY_EUPSTREAM);
    assert_string_equal(e.reason, "peer_died");
}

static void a_request_is_repeated_while_the_keeper_adopts(void **state)
{
    fix *f = *state;
    cay__link_ask a = ask(CAY_MSG_PAUSE);
    f->p.adopting = 3;
    assert_int_equal(cay__link_call(&f->l, NULL, &a, NULL, NULL), 0);
    assert_int_equal(f->p.adopting, -1);
    cay_call c = { .size = sizeof c, .deadline_ms = cay__now_ms() + 50 };
    f->p.adopting = 1000;
    assert_int_equal(cay__link_call(&f->l, &c, &a, NULL, NULL), CAY_ETIMEOUT);
    assert_int_equal(f->p.dialed, 1);
}

static void deadline_and_cancel_end_a_call(void **state)
{
    fix *f = *state;
    cay__link_ask a = ask(CAY_MSG_STOP);
    cay_call c = { .size = sizeof c, .deadline_ms = cay__now_ms() + 50 };
    assert_int_equal(cay__link_call(&f->l, &c, &a, NULL, NULL), CAY_ETIMEOUT);
    int ev = eventfd(1, 0);
    c = (cay_call){ .size = sizeof c, .cancel_fd = ev };
    assert_int_equal(cay__link_call(&f->l, &c, &a, NULL, NULL), CAY_ECANCELED);
    close(ev);
    a = ask(CAY_MSG_HELLO); /* a fresh connection: the late answers are nobody's */
    assert_int_equal(cay__link_call(&f->l, NULL, &a, NULL, NULL), 0);
    assert_int_equal(f->p.dialed, 3);
}

static void wrong_packets_are_refused(void **state)
{
    fix *f = *state;
    cay__link_ask a = ask(CAY_MSG_RESUME);
    assert_int_equal(cay__link_call(&f->l, NULL, &a, NULL, NULL), CAY_EUPSTREAM);
    a = ask(CAY_MSG_SIGNAL);
    assert_int_equal(cay__link_call(&f->l, NULL, &a, NULL, NULL), CAY_EUPSTREAM);
}

static void exit_is_kept_and_its_descriptor_stays_readable(void **state)
{
    fix *f = *state;
    void *p = NULL;
    int pid = 0;
    cay_exit e;
    assert_int_equal(cay__proc_attach(&f->l, "cbox", NULL, "tag", &p, NULL), 0);
    assert_string_equal(cay__proc_id(p, &pid), "pabc");
    assert_int_equal(pid, 42);
    int fd = cay__proc_exit_fd(p, NULL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cay__proc_wait(p, NULL, &e, NULL), 0);
        assert_int_equal(e.code, 7);
        char c;
        assert_int_equal(recv(fd, &c, 1, MSG_DONTWAIT), 0);
    }
    assert_int_equal(cay__proc_breaks(p), 0);
    cay__proc_release(p);
}

static void polling_read_tells_what_was_lost(void **state)
{
    fix *f = *state;
    void *p = NULL;
    char buf[16];
    size_t n;
    uint64_t at = 0, lost;
    bool eof;
    assert_int_equal(cay__proc_attach(&f->l, "cbox", NULL, "tag", &p, NULL), 0);
    assert_int_equal(
        cay__proc_read(p, NULL, CAY_STDOUT, &at, buf, sizeof buf, &n, &lost, &eof, NULL), 0);
    assert_int_equal(n, 5);
    assert_int_equal(at, 8);
    assert_int_equal(lost, 3);
    assert_int_equal(cay__proc_read(p, NULL, CAY_STDOUT, &at, buf, 2, &n, &lost, &eof, NULL),
                     CAY_EUPSTREAM);
    cay__proc_release(p);
}

static int seen(const cay__kept *k, void *arg)
{
    int *n = arg;
    if ((*n)++ == 0) {
        assert_string_equal(k->tag, "tag");
        assert_string_equal(k->command, "cmd");
        assert_string_equal(k->user, "me");
    } else {
        assert_string_equal(k->tag, "unended");
        assert_string_equal(k->command, "");
    }
    free(k->labels);
    return 0;
}

static void kept_processes_are_listed(void **state)
{
    fix *f = *state;
    int n = 0;
    assert_int_equal(cay__procs_kept(&f->l, "cbox", NULL, seen, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_int_equal(f->l.nidle, 1);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, up, down)
    const struct CMUnitTest tests[] = {
        T(one_connection_serves_many_calls),
        T(an_error_answer_becomes_a_cay_err),
        T(a_request_is_repeated_when_the_peer_dies),
        T(a_write_is_not_repeated_once_sent),
        T(a_peer_that_is_adopted_from_is_not_the_sandbox),
        T(a_request_is_repeated_while_the_keeper_adopts),
        T(deadline_and_cancel_end_a_call),
        T(wrong_packets_are_refused),
        T(exit_is_kept_and_its_descriptor_stays_readable),
        T(polling_read_tells_what_was_lost),
        T(kept_processes_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
