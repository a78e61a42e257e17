/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/holder/stream.c: what is kept of a command's output, and who gets it. */
#include "support/keeper.h"
#include <fcntl.h>
#include <linux/memfd.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <cmocka.h>

enum { RING = 4096 }; /* of the fake command */

static fake f;
static keeper_proc *p;
static holder_stream *out;
static char buf[65536];

static int set_up(void **s)
{
    (void)s;
    fake_open(&f);
    p = proc_find(f.b, FAKE_PROC);
    out = &p->out[0];
    return 0;
}

static int tear_down(void **s)
{
    (void)s;
    fake_close(&f);
    return 0;
}

static void turn(void)
{
    for (int i = 0; i < 24; i++) /* half a ring at once */
        cay__loop_step(&keeper.loop, 0);
}

/* Byte number i of the output, so that a byte out of place is seen. "some output\n" of the fake
 * comes first. */
static char byte_at(uint64_t i)
{
    return i < 12 ? "some output\n"[i] : (char)('a' + i % 23);
}

static void print(uint64_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf[i] = byte_at(*at + i);
    assert_int_equal(write(f.out, buf, n), n);
    *at += n;
}

static void is_output(const char *got, uint64_t from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(got[i], byte_at(from + i));
}

/* A kill after the bytes were taken and before that was written down: the memfd's own offset knows.
 */
static void what_was_taken_before_a_kill_is_found(void **s)
{
    (void)s;
    uint64_t at = 12;
    cay_m_data d;
    turn();
    for (int round = 0; round < 40; round++) {
        size_t size;
        uint64_t before = out->head;
        print(&at, 333);
        turn();
        int copy = fcntl(out->ring.fd, F_DUPFD_CLOEXEC, 3);
        assert_int_equal(pwrite(copy, &before, sizeof before, 8),
                         sizeof before); /* what stands in the header */
        keeper_proc *next = proc_new(f.b, "pbbbbbbbbbbbbbbbbbbb");
        assert_true(cay__ring_adopt(&next->out[0], copy));
        assert_int_equal(next->out[0].head, at);
        next->started = next->ended = next->settled = true;
        size = cay__stream_read(&next->out[0], at - 300, buf, sizeof buf, false, &d);
        assert_int_equal(size, 300);
        is_output(buf, at - 300, 300);
        proc_free(next);
    }
}

static void the_oldest_bytes_go_first_and_are_counted(void **s)
{
    (void)s;
    uint64_t at = 12;
    cay_m_data d;
    turn();
    assert_int_equal(cay__stream_read(out, 0, buf, sizeof buf, false, &d), 12);
    assert_true(d.offset == 0 && d.lost == 0 && !d.eof);
    is_output(buf, 0, 12);
    while (at < 3 * RING + 100) {
        print(&at, 700);
        turn();
    }
    size_t n = cay__stream_read(out, 0, buf, sizeof buf, false, &d);
    assert_int_equal(n, RING);
    assert_int_equal(d.offset, at - RING);
    assert_int_equal(d.lost, at - RING);
    is_output(buf, d.offset, n);
    assert_int_equal(f.b->kept, RING);
    n = cay__stream_read(out, at - 10, buf, sizeof buf, false, &d);
    assert_int_equal(n, 10);
    assert_int_equal(d.lost, 0);
    is_output(buf, at - 10, n);
}

static void a_write_larger_than_the_ring_keeps_its_end(void **s)
{
    (void)s;
    uint64_t at = 12;
    cay_m_data d;
    print(&at, 3 * RING + 1);
    turn();
    assert_int_equal(cay__stream_read(out, 0, buf, sizeof buf, false, &d), RING);
    is_output(buf, at - RING, RING);
    assert_int_equal(out->lost, at - RING);
}

static void offsets_still_to_come_and_beyond(void **s)
{
    (void)s;
    cay_m_data d;
    turn();
    assert_int_equal(cay__stream_read(out, CAY_FROM_NOW, buf, sizeof buf, false, &d), 0);
    assert_int_equal(d.offset, 12);
    assert_int_equal(cay__stream_read(out, 1000, buf, sizeof buf, false, &d), 0);
    assert_true(d.offset == 1000 && d.lost == 0);
    assert_int_equal(cay__stream_read(out, UINT64_MAX - 1, buf, sizeof buf, false, &d), 0);
    assert_int_equal(cay__stream_read(out, 0, buf, 5, false, &d),
                     5); /* no more than there is room for */
    assert_int_equal(cay__stream_read(&p->out[1], 0, buf, sizeof buf, false, &d),
                     0); /* nothing was ever printed there */
    assert_int_equal(p->out[1].ring.fd, -1);
}

static void two_readers_get_the_same(void **s)
{
    (void)s;
    int a[2], b[2];
    uint64_t at = 12;
    cay_m_data d;
    assert_true(pipe2(a, O_CLOEXEC | O_NONBLOCK) == 0 && pipe2(b, O_CLOEXEC | O_NONBLOCK) == 0);
    turn();
    assert_true(cay__stream_attach(out, 0, a[1], &d) &&
                cay__stream_attach(out, CAY_FROM_NOW, b[1], &d));
    assert_int_equal(d.offset, 12);
    print(&at, 1000);
    turn();
    assert_int_equal(read(a[0], buf, sizeof buf), at);
    is_output(buf, 0, at);
    assert_int_equal(read(b[0], buf, sizeof buf), at - 12);
    is_output(buf, 12, at - 12);
    close(a[0]); /* one that goes takes nothing with it */
    print(&at, 100);
    turn();
    assert_int_equal(read(b[0], buf, sizeof buf), 100);
    assert_non_null(out->readers);
    assert_null(out->readers->next);
    close(f.out);
    f.out = -1;
    turn();
    assert_int_equal(read(b[0], buf, sizeof buf), 0); /* the end */
    close(b[0]);
}

static void drop_runs_on_past_a_reader_that_sleeps(void **s)
{
    (void)s;
    int a[2];
    uint64_t at = 12;
    cay_m_data d;
    assert_true(pipe2(a, O_CLOEXEC | O_NONBLOCK) == 0);
    fcntl(a[0], F_SETPIPE_SZ, 4096);
    assert_true(cay__stream_attach(out, 0, a[1], &d));
    for (int i = 0; i < 40; i++) {
        print(&at, 1000);
        turn();
    }
    assert_int_equal(out->head, at);
    assert_false(out->paused);
    assert_true(out->lost > 0);
    ssize_t first = read(a[0], buf, sizeof buf);
    assert_true(first > 0);
    is_output(buf, 0, (size_t)first);
    turn();
    ssize_t second = read(a[0], buf, sizeof buf); /* goes on with the oldest that is left */
    assert_int_equal(second, RING);
    is_output(buf, at - RING, RING);
    close(a[0]);
}

static void block_waits_for_its_reader(void **s)
{
    (void)s;
    int a[2];
    uint64_t at = 12, got = 0;
    cay_m_data d;
    out->flags |= CAY_SPAWN_BLOCK;
    assert_true(pipe2(a, O_CLOEXEC | O_NONBLOCK) == 0);
    fcntl(a[0], F_SETPIPE_SZ, 4096);
    assert_true(cay__stream_attach(out, 0, a[1], &d));
    while (at < 30000)
        print(&at, 1000);
    turn();
    assert_true(out->paused);
    assert_true(out->head < at); /* the rest waits in the command's own pipe */
    for (int i = 0; i < 200 && got < at; i++) {
        ssize_t n = read(a[0], buf, sizeof buf);
        if (n > 0) {
            is_output(buf, got, (size_t)n);
            got += (uint64_t)n;
        }
        turn();
    }
    assert_int_equal(got, at);
    assert_int_equal(out->lost, 0);
    assert_false(out->paused);
    close(a[0]);
}

static void block_gives_up_on_a_reader_after_half_a_minute(void **s)
{
    (void)s;
    int a[2];
    uint64_t at = 12;
    cay_m_data d;
    out->flags |= CAY_SPAWN_BLOCK;
    assert_true(pipe2(a, O_CLOEXEC | O_NONBLOCK) == 0);
    fcntl(a[0], F_SETPIPE_SZ, 4096);
    assert_true(cay__stream_attach(out, 0, a[1], &d));
    while (at < 30000)
        print(&at, 1000);
    turn();
    assert_true(out->paused && out->readers->stalled_ms);
    cay__stream_resume(out); /* as the sweep does every few seconds */
    turn();
    assert_true(out->paused);
    out->readers->stalled_ms -= 30001;
    cay__stream_resume(out);
    turn();
    assert_int_equal(out->head, at);
    assert_true(out->lost > 0);
    close(a[0]);
}

static void block_without_a_reader_does_not_wait(void **s)
{
    (void)s;
    uint64_t at = 12;
    out->flags |= CAY_SPAWN_BLOCK;
    while (at < 30000)
        print(&at, 1000);
    turn();
    assert_int_equal(out->head, at);
}

typedef struct head {
    uint32_t magic, size;
    uint64_t head, lost;
} head;

static int ring_of(head h, off_t size, int seals)
{
    int fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0 && ftruncate(fd, size) == 0);
    assert_true(size == 0 || pwrite(fd, &h, sizeof h, 0) == sizeof h);
    assert_true(!seals || fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static void a_hostile_header_is_refused(void **s)
{
    (void)s;
    const head good = { 0x72796163u, 4096, 100, 0 };
    const int both = F_SEAL_SHRINK | F_SEAL_GROW;
    const struct {
        head h;
        off_t size;
        int seals;
    } bad[] = {
        { good, 8192, 0 }, /* can be cut while it is mapped */
        { good, 8192, F_SEAL_GROW },
        { { 1, 4096, 100, 0 }, 8192, both },
        { { good.magic, 0, 100, 0 }, 4096, both },    /* a division by zero */
        { { good.magic, 8192, 100, 0 }, 8192, both }, /* more than the file has */
        { { good.magic, 2048, 100, 0 }, 8192, both },
        { { good.magic, UINT32_MAX, 100, 0 }, 8192, both },
        { { good.magic, CAY__RING_MAX + 4096, 100, 0 }, CAY__RING_MAX + 8192, both },
        { { good.magic, 4096, UINT64_MAX, 0 }, 8192, both }, /* a sum that wraps */
        { { good.magic, 4096, 100, 101 }, 8192, both },
        { good, 0, both },
    };
    holder_stream *empty = &p->out[1];
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        CAY_AUTOFD fd = ring_of(bad[i].h, bad[i].size, bad[i].seals);
        assert_false(cay__ring_adopt(empty, fd));
        assert_int_equal(empty->ring.fd, -1);
    }
    CAY_AUTOFD plain = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    assert_false(cay__ring_adopt(empty, plain));
    assert_int_equal(f.b->kept, 0);
    assert_true(cay__ring_adopt(empty, ring_of(good, 8192, both)));
    assert_int_equal(f.b->kept, 100);
}

static void an_adopted_ring_goes_on_where_it_was(void **s)
{
    (void)s;
    uint64_t at = 12;
    cay_m_data d;
    while (at < 5000)
        print(&at, 997);
    turn();
    int kept = fcntl(out->ring.fd, F_DUPFD_CLOEXEC, 3); /* as init holds it */
    uint64_t lost = out->lost;
    holder_stream *other = &p->out[1];
    assert_true(kept >= 0 && cay__ring_adopt(other, kept));
    assert_true(other->head == at && other->lost == lost);
    assert_int_equal(cay__stream_read(other, 0, buf, sizeof buf, false, &d), RING);
    assert_int_equal(d.offset, at - RING);
    is_output(buf, d.offset, RING);
}

/* What came together is read together, with its time; whoever does not ask for times gets all at
 * once. */
static void bytes_have_the_time_when_they_came(void **s)
{
    (void)s;
    uint64_t at = 12;
    cay_m_data d, then;
    out->began_ms = cay__clock_ms() - 5000;
    turn();
    poll(NULL, 0, 30);
    print(&at, 100);
    turn();
    assert_int_equal(cay__stream_read(out, 0, buf, sizeof buf, true, &then), 12);
    assert_in_range(then.ms, 5001, 5001 + 600000);
    assert_int_equal(cay__stream_read(out, 5, buf, sizeof buf, true, &d), 7);
    assert_int_equal(d.ms, then.ms);
    assert_int_equal(cay__stream_read(out, 12, buf, sizeof buf, true, &d), 100);
    assert_true(d.ms >= then.ms + 30);
    is_output(buf, 12, 100);
    assert_int_equal(cay__stream_read(out, 12, buf, 40, true, &d), 40);
    assert_int_equal(cay__stream_read(out, 0, buf, sizeof buf, false, &d), 112);
    assert_int_equal(d.ms, 0);
    assert_int_equal(cay__stream_read(&p->out[1], 0, buf, sizeof buf, true, &d),
                     0); /* nothing was ever printed there */
    assert_int_equal(d.ms, 0);
    int kept = fcntl(out->ring.fd, F_DUPFD_CLOEXEC, 3);
    assert_true(kept >= 0 &&
                cay__ring_adopt(&p->out[1], kept)); /* times live as long as the bytes */
    assert_int_equal(cay__stream_read(&p->out[1], 0, buf, sizeof buf, true, &d), 12);
    assert_int_equal(d.ms, then.ms);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_oldest_bytes_go_first_and_are_counted),
        CASE(what_was_taken_before_a_kill_is_found),
        CASE(a_write_larger_than_the_ring_keeps_its_end),
        CASE(offsets_still_to_come_and_beyond),
        CASE(two_readers_get_the_same),
        CASE(drop_runs_on_past_a_reader_that_sleeps),
        CASE(block_waits_for_its_reader),
        CASE(block_gives_up_on_a_reader_after_half_a_minute),
        CASE(block_without_a_reader_does_not_wait),
        CASE(a_hostile_header_is_refused),
        CASE(an_adopted_ring_goes_on_where_it_was),
        CASE(bytes_have_the_time_when_they_came),
    };
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
