/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the keeper: what each is answered. The fuzzer shows that nothing breaks; this, that
 * the answers help. */
#include "support/keeper.h"
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <cmocka.h>

static fake f;
static char answer[8192];

static int set_up(void **s)
{
    (void)s;
    fake_open(&f);
    return 0;
}

static int tear_down(void **s)
{
    (void)s;
    fake_close(&f);
    return 0;
}

/* Sends one request and gives the type of the answer; 0: none came. */
static int ask(uint16_t type, const void *body, size_t len, const char *tail, size_t tlen)
{
    char pkt[4096];
    cay_msg h = { CAY_MSG_MAGIC, CAY_MSG_VERSION, type, (uint32_t)tlen, 0 };
    memcpy(pkt, &h, sizeof h);
    memcpy(pkt + sizeof h, body, len);
    memcpy(pkt + sizeof h + len, tail, tlen);
    client_packet(f.c[0], pkt, sizeof h + len + tlen, NULL, 0);
    ssize_t n = cay__fd_recv(f.peer[0], answer, sizeof answer, NULL, NULL, MSG_DONTWAIT);
    return n < (ssize_t)sizeof h ? 0 : ((cay_msg *)answer)->type;
}

static void is_error(int code, const char *reason)
{
    const cay_m_error *e = (const cay_m_error *)(answer + sizeof(cay_msg));
    assert_int_equal(((cay_msg *)answer)->type, CAY_MSG_ERROR);
    assert_int_equal(e->code, code);
    assert_string_equal(e->reason, reason);
    assert_true(e->msg[0]);
}

static const char blob[] = "\0\0\0true"; /* user, cwd, tag, argv: with the last NUL */

static cay_m_spawn spawn_of(const char *in, const char *id)
{
    cay_m_spawn m = { .argc = 1, .blob = sizeof blob };
    cay__str_copy(m.id, sizeof m.id, in);
    cay__str_copy(m.proc, sizeof m.proc, id);
    return m;
}

static void what_must_run_is_looked_for_first(void **s)
{
    (void)s;
    cay_m_box nobody = { .id = "czzzzzzzzzzzzzzzzzzz" };
    static const uint16_t boxes[] = { CAY_MSG_PAUSE, CAY_MSG_RESUME,  CAY_MSG_EXTEND,
                                      CAY_MSG_USAGE, CAY_MSG_SESSION, CAY_MSG_PROCS };
    for (size_t i = 0; i < CAY_LEN(boxes); i++) {
        ask(boxes[i], &nobody, sizeof nobody, "", 0);
        is_error(CAY_ENOENT, "sandbox_not_found");
    }
    cay_m_stream st = { .id = FAKE_BOX, .proc = "pzzzzzzzzzzzzzzzzzzz" };
    static const uint16_t procs[] = { CAY_MSG_OUTPUT,      CAY_MSG_READ,   CAY_MSG_WRITE,
                                      CAY_MSG_CLOSE_STDIN, CAY_MSG_RESIZE, CAY_MSG_SIGNAL };
    for (size_t i = 0; i < CAY_LEN(procs); i++) {
        ask(procs[i], &st, sizeof st, "", 0);
        is_error(CAY_ENOENT, "process_not_found");
    }
}

static void a_spawn_that_is_not_whole_is_named(void **s)
{
    (void)s;
    cay_m_spawn m = spawn_of(FAKE_BOX, "pcccccccccccccccccca");
    ask(CAY_MSG_SPAWN, &m, sizeof m, blob, sizeof blob - 1); /* a byte is missing */
    is_error(CAY_EINVAL, "bad_request");
    char many[sizeof blob + CAY_LABELS_MAX + 1] = "";
    ask(CAY_MSG_SPAWN, &m, sizeof m, many, sizeof many); /* one byte of labels too many */
    is_error(CAY_EINVAL, "bad_request");
    m.ring = CAY__RING_MAX + 1;
    ask(CAY_MSG_SPAWN, &m, sizeof m, blob, sizeof blob);
    is_error(CAY_EINVAL, "bad_request");
    m = spawn_of(FAKE_BOX, "pcccccccccccccccccca");
    cay__str_copy(m.tag, sizeof m.tag, "tag");
    ask(CAY_MSG_SPAWN, &m, sizeof m, blob, sizeof blob);
    is_error(CAY_EEXIST, "tag_in_use");
}

static void no_room_is_told_as_such(void **s)
{
    (void)s;
    cay_m_spawn m = spawn_of(FAKE_BOX, "pcccccccccccccccccca");
    while (f.b->nprocs < PROCS_MAX) {
        char id[CAY_WIRE_ID];
        cay__id_make(id, 'p');
        proc_new(f.b, id)->started = true;
        f.b->nlive++;
    }
    ask(CAY_MSG_SPAWN, &m, sizeof m, blob, sizeof blob);
    is_error(CAY_ENOSPACE, "processes_full");
    keeper_proc *ended = proc_find(f.b, FAKE_PROC); /* one that ended makes room */
    ended->ended = ended->settled = true;
    f.b->nlive--;
    ask(CAY_MSG_SPAWN, &m, sizeof m, blob, sizeof blob);
    assert_null(proc_find(f.b, FAKE_PROC));
    assert_non_null(proc_find(f.b, "pcccccccccccccccccca"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_must_run_is_looked_for_first),
        CASE(a_spawn_that_is_not_whole_is_named),
        CASE(no_room_is_told_as_such),
    };
    return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
