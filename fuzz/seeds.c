/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seeds CORPUS: writes the seeds of fuzz_guest_msg, and of fuzz_control and fuzz_init_msg those
 * below, whose packets follow the layouts of proto/init.h and proto/keeper.h. After a change
 * there:
 *
 *     ninja -C build fuzz-seeds
 */
#include <proto/init.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT "user\0/workspace\0\0\0LANG=C\0K=V\0"
#define PLAIN   "\0\0t\0true\0"
#define P       "paaaaaaaaaaaaaaaaaaa"

static FILE *out;

static void seed(const char *dir, const char *name)
{
    char path[512];
    if (out)
        fclose(out);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    out = fopen(path, "w");
    if (!out) {
        perror(path);
        exit(1);
    }
}

/* with: low half how many descriptors, high half which kind is first (0: a memfd with a blob, 1: a
 * file, 2: a directory) */
static void packet(unsigned with, uint16_t type, const void *body, size_t n, const void *tail,
                   size_t t)
{
    cay_msg h = { CAY_MSG_MAGIC, CAY_INIT_VERSION, type, (uint32_t)t, 0 };
    size_t whole = sizeof h + n + t;
    fputc((int)with, out);
    fputc((int)(whole & 255), out);
    fputc((int)(whole >> 8), out);
    fwrite(&h, sizeof h, 1, out);
    fwrite(body, n, 1, out);
    fwrite(tail, 1, t, out);
}

static void config(const char *blob, size_t n)
{
    cay_g_config m = { .nofile = 4096, .fsize = 1 << 30, .as_limit = UINT64_MAX, .cpus = 3 };
    packet(0, CAY_G_CONFIG, &m, sizeof m, blob, n);
}
#define CONFIG() config(DEFAULT, sizeof DEFAULT - 1)

static void spawn(unsigned with, uint32_t flags, uint32_t argc, uint32_t envc, const char *blob,
                  uint32_t n, const char *labels)
{
    cay_g_spawn m = { .proc = P,
                      .flags = flags,
                      .argc = argc,
                      .envc = envc,
                      .blob = n,
                      .ring = 65536,
                      .tag = "t",
                      .title = "true" };
    char tail[8192];
    size_t at = flags & CAY_SPAWN_BLOB_FD ? 0 : n, l = strlen(labels);
    memcpy(tail, blob, at);
    memcpy(tail + at, labels, l);
    packet(with, CAY_G_SPAWN, &m, sizeof m, tail, at + l);
}
#define SPAWN(with, flags, argc, envc, blob)                                                       \
    spawn(with, flags, argc, envc, blob, sizeof blob - 1, "")

static void proc(unsigned with, uint16_t type, const char *id, uint64_t a, uint64_t b)
{
    cay_g_proc m = { .a = a, .b = b };
    snprintf(m.proc, sizeof m.proc, "%s", id);
    packet(with, type, &m, sizeof m, "", 0);
}

static void spawns(const char *dir)
{
    const uint32_t io = CAY_GS_IN | CAY_GS_OUT | CAY_GS_ERR,
                   hold = CAY_GS_HOLD_IN | CAY_GS_HOLD_OUT | CAY_GS_HOLD_ERR;
    seed(dir, "spawn"), CONFIG(), SPAWN(0x17, io | hold | CAY_GS_GROUP, 1, 1, PLAIN "A=B\0");
    proc(0, CAY_G_SIGNAL, P, SIGTERM, 0), proc(0, CAY_G_SIGNAL, P, SIGTERM, 1),
        proc(0, CAY_G_SIGNAL, P, SIGKILL, 2), proc(0, CAY_G_FORGET, P, 0, 0);
    seed(dir, "spawn_into"), CONFIG(),
        SPAWN(0x28, io | hold | CAY_GS_GROUP | CAY_GS_INTO, 1, 0, PLAIN);
    seed(dir, "spawn_late"), CONFIG(), SPAWN(0x13, io | CAY_SPAWN_LATE, 1, 0, PLAIN),
        proc(0, CAY_G_SIGNAL, P, SIGKILL, 2);
    seed(dir, "spawn_labels"), CONFIG(),
        spawn(0x13, io, 1, 0, PLAIN, sizeof PLAIN - 1, "{\"team\":\"red\"}");
    proc(0, CAY_G_ADOPT, "", 0, 0);
    seed(dir, "spawn_blob"), CONFIG(), spawn(0x01, CAY_SPAWN_BLOB_FD, 1, 1, "", 20, "");
    seed(dir, "spawn_blob_none"), CONFIG(), spawn(0x00, CAY_SPAWN_BLOB_FD, 1, 1, "", 20, "");
    seed(dir, "spawn_blob_short"), CONFIG(), spawn(0x01, CAY_SPAWN_BLOB_FD, 1, 1, "", 200, "");
    seed(dir, "spawn_blob_dir"), CONFIG(), spawn(0x21, CAY_SPAWN_BLOB_FD, 1, 1, "", 0, "");
    seed(dir, "spawn_shell"), CONFIG(),
        SPAWN(0, CAY_SPAWN_SHELL | CAY_SPAWN_LOGIN, 1, 0, "root\0~/a\0t\0echo hi\0");
    seed(dir, "spawn_shell_given"), config("user\0/w\0h\0/bin/dash\0", 20),
        SPAWN(0, CAY_SPAWN_SHELL, 1, 0, "\0a/b\0t\0echo hi\0");
    seed(dir, "spawn_env"), CONFIG(),
        SPAWN(0, 0, 1, 3, "\0/\0t\0true\0PATH=/bin\0PATH=/usr/bin\0A=\0");
    seed(dir, "spawn_env_only"), CONFIG(), SPAWN(0, CAY_SPAWN_ENV_ONLY, 1, 1, PLAIN "A=B\0");
    seed(dir, "spawn_env_bad"), CONFIG(), SPAWN(0, 0, 1, 1, PLAIN "AB\0"),
        SPAWN(0, 0, 1, 1, PLAIN "=B\0"), SPAWN(0, 0, 1, 9000, PLAIN);
    seed(dir, "spawn_many_args"), CONFIG(), SPAWN(0, 0, 400, 0, PLAIN),
        SPAWN(0, 0, 40000000, 1, PLAIN);
    seed(dir, "spawn_no_end"), CONFIG(), spawn(0, 0, 1, 0, "\0\0t\0true", 8, ""),
        spawn(0, 0, 1, 0, "\0\0", 2, ""), spawn(0, 0, 1, 0, "x", 1, "");
    seed(dir, "spawn_no_command"), CONFIG(), SPAWN(0, 0, 1, 0, "\0\0t\0\0"),
        SPAWN(0, 0, 0, 0, "\0\0t\0");
    seed(dir, "spawn_reaper"), CONFIG(), SPAWN(0x13, io | CAY_GS_REAPER, 1, 0, PLAIN);
    seed(dir, "spawn_tty"), CONFIG(), SPAWN(0, CAY_SPAWN_TTY, 1, 0, PLAIN),
        proc(0x11, CAY_G_KEEP, P, 0, 0), proc(0, CAY_G_CLOSE, P, 0, 0),
        proc(0x11, CAY_G_KEEP, P, 1, 0), proc(0x12, CAY_G_KEEP, P, 1, 0),
        proc(0x11, CAY_G_KEEP, P, 7, 0);
    seed(dir, "spawn_user_id"), CONFIG(), SPAWN(0, 0, 1, 0, "1000\0\0t\0true\0");
    seed(dir, "spawn_user_unknown"), CONFIG(), SPAWN(0, 0, 1, 0, "nobody-here\0\0t\0true\0");
}

static void units(const char *dir)
{
    struct {
        char config[sizeof DEFAULT - 1 + sizeof CAY_SERVICES_MARK];
        cay_g_services head;
        cay_g_service web;
        char blob[18];
    } __attribute__((packed)) c = { .head = { 1, 0 },
                                    .web = { .name = "web",
                                             .flags = CAY_SPAWN_SHELL,
                                             .argc = 1,
                                             .envc = 1,
                                             .blob = 9,
                                             .check_argc = 1,
                                             .check = 8,
                                             .title = "x" } };
    memcpy(c.config, DEFAULT CAY_SERVICES_MARK, sizeof c.config);
    memcpy(c.blob, "\0\0\0x\0A=b\0\0\0\0ping\0", 18);
    seed(dir, "units"), config((const char *)&c, sizeof c), proc(0x11, CAY_G_SERVICE, "", 0, 0),
        proc(0, CAY_G_SERVICE, "web", CAY_GU_STOP, 0),
        proc(0, CAY_G_SERVICE, "web", CAY_GU_START, 0), proc(0, CAY_G_SERVICE, "", CAY_GU_HOLD, 0),
        proc(0, CAY_G_SERVICE, "no", CAY_GU_RESTART, 0), proc(0, CAY_G_SWAPPED, "", 0, 0);
    c.web.blob = 4000;
    seed(dir, "units_bad"), config((const char *)&c, sizeof c),
        config((const char *)&c, sizeof c.config + 3);
}

/* control: who (client 0 or 1; 4: no turn of the loop after it), descriptors as companion() of
 * that target has them ---- */

#define BOX "caaaaaaaaaaaaaaaaaaa"
#define TTY "pttttttttttttttttttt"

static void ask(unsigned who, unsigned with, uint16_t type, const void *body, size_t n,
                const void *tail, size_t t)
{
    cay_msg h = { CAY_MSG_MAGIC, CAY_MSG_VERSION, type, (uint32_t)t, 0 };
    size_t whole = sizeof h + n + t;
    fputc((int)who, out);
    fputc((int)with, out);
    fputc((int)(whole & 255), out);
    fputc((int)(whole >> 8), out);
    fwrite(&h, sizeof h, 1, out);
    fwrite(body, n, 1, out);
    fwrite(tail, 1, t, out);
}

static void ask_box(uint16_t type, const char *id, uint64_t a, uint64_t b)
{
    cay_m_box m = { .a = a, .b = b };
    snprintf(m.id, sizeof m.id, "%s", id);
    ask(0, 0, type, &m, sizeof m, "", 0);
}

static void ask_stream(unsigned with, uint16_t type, const char *p, uint32_t which, uint64_t a)
{
    cay_m_stream m = { .id = BOX, .which = which, .a = a };
    snprintf(m.proc, sizeof m.proc, "%s", p);
    ask(0, with, type, &m, sizeof m, "", 0);
}

static void control(const char *dir)
{
    cay_m_box box = { .id = BOX };
    cay_m_create create = { .id = "cbbbbbbbbbbbbbbbbbbb" };
    seed(dir, "of_nobody"), ask_box(CAY_MSG_STOP, "czzzzzzzzzzzzzzzzzzz", 0, 0),
        ask_box(CAY_MSG_BOX_WAIT, "czzzzzzzzzzzzzzzzzzz", 0, 0),
        ask_box(CAY_MSG_DESTROY, "x", 0, 0), ask_box(CAY_MSG_DESTROY, "czzzzzzzzzzzzzzzzzzz", 0, 0),
        ask_box(CAY_MSG_PROCS, "c", 0, 0), ask_box(CAY_MSG_PAUSE, "c", 0, 0),
        ask_box(CAY_MSG_RESUME, "c", 0, 0), ask_box(CAY_MSG_EXTEND, "c", 1, 1),
        ask_box(CAY_MSG_USAGE, "c", 0, 0), ask_box(CAY_MSG_SESSION, "c", 0, 0);
    seed(dir, "pause_twice"), ask_box(CAY_MSG_PAUSE, BOX, 0, 0), ask_box(CAY_MSG_PAUSE, BOX, 0, 0),
        ask_box(CAY_MSG_LIST, "c", 0, 0), ask_box(CAY_MSG_RESUME, BOX, 0, 0),
        ask_box(CAY_MSG_RESUME, BOX, 0, 0);
    seed(dir, "stop_then_list"), ask_box(CAY_MSG_STOP, BOX, 0, 0), ask_box(CAY_MSG_LIST, BOX, 0, 0),
        ask_box(CAY_MSG_LIST, "", 0, 0);
    seed(dir, "session_bad"), ask(0, 0, CAY_MSG_SESSION, &box, sizeof box, "user", 4),
        ask(0, 0x11, CAY_MSG_SESSION, &box, sizeof box, "user", 4),
        ask(1, 0x11, CAY_MSG_SESSION, &box, sizeof box, "user", 4),
        ask(0, 0x12, CAY_MSG_SESSION, &box, sizeof box, "user", 4);
    seed(dir, "stream_none"), ask_stream(0, CAY_MSG_OUTPUT, TTY, 2, 0),
        ask_stream(0, CAY_MSG_OUTPUT, P, 1, 0), ask_stream(0, CAY_MSG_READ, P, 9, 9),
        ask_stream(0x11, CAY_MSG_OUTPUT, P, 1, 0), ask_stream(0, CAY_MSG_READ, "pnone", 1, 9),
        ask_stream(0, CAY_MSG_CLOSE_STDIN, "pnone", 0, 0),
        ask_stream(0, CAY_MSG_CLOSE_STDIN, P, 0, 0);
    seed(dir, "create_nothing"),
        ask(0, 0, CAY_MSG_CREATE, &create, sizeof create, "u\0/w\0h\0s\0", 9);
    create.flags = CAY_CREATE_ROOT_FD;
    seed(dir, "create_no_path"),
        ask(0, 0x01, CAY_MSG_CREATE, &create, sizeof create, "u\0/w\0h\0s\0", 9),
        ask(0, 0x31, CAY_MSG_CREATE, &create, sizeof create, "u\0/w\0h\0s\0", 9);
    create.flags = CAY_CREATE_EPHEMERAL;
    memcpy(create.id, BOX, sizeof BOX);
    seed(dir, "create_own"), ask(0, 0, CAY_MSG_CREATE, &create, sizeof create, "u\0/w\0h\0s\0", 9),
        ask(3, 0, CAY_MSG_CREATE, &create, sizeof create, "", 0);
    cay_m_layer layer = { .id = BOX, .layer = "sabc" },
                none = { .id = BOX, .layer = "../x", .a = 2 };
    seed(dir, "snapshot"), ask(0, 0, CAY_MSG_SNAPSHOT, &none, sizeof none, "", 0),
        ask(0, 0, CAY_MSG_SNAPSHOT, &layer, sizeof layer, "", 0),
        ask(1, 0x11, CAY_MSG_SESSION, &box, sizeof box, "user", 4),
        ask(1, 0, CAY_MSG_SNAPSHOT, &layer, sizeof layer, "", 0), ask_box(CAY_MSG_STOP, BOX, 0, 0);
    layer.a = 2;
    seed(dir, "restack"), ask(0, 0, CAY_MSG_RESTACK, &none, sizeof none, "a\0", 2),
        ask(0, 0, CAY_MSG_RESTACK, &layer, sizeof layer, "a\0b\0", 4);
    seed(dir, "unlayer"), ask(0, 0, CAY_MSG_UNLAYER, &none, sizeof none, "", 0),
        ask(0, 0, CAY_MSG_UNLAYER, &layer, sizeof layer, "", 0);
    create.flags = 0;
    create.nlayers = 2;
    memcpy(create.id, "cbbbbbbbbbbbbbbbbbbb", CAY_WIRE_ID - 3);
    memcpy(create.layer, "host-1", 7);
    seed(dir, "create_stack"),
        ask(0, 0, CAY_MSG_CREATE, &create, sizeof create, "sa\0sb\0u\0/w\0h\0s\0", 15),
        ask(0, 0, CAY_MSG_CREATE, &create, sizeof create, "sa\0../x\0u\0/w\0h\0s\0", 17);
    seed(dir, "freeze"), ask_box(CAY_MSG_FREEZE, BOX, 0, 0),
        ask_box(CAY_MSG_FREEZE, BOX, CAY_FREEZE_STOP, 0), ask_box(CAY_MSG_FREEZE, BOX, 0, 0),
        ask_box(CAY_MSG_THAW, BOX, 0, 0);
    seed(dir, "units"), ask_stream(0, CAY_MSG_SERVICES, "web", CAY_GU_STOP, 0),
        ask_stream(0x11, CAY_MSG_SERVICES, "web", CAY_GU_STOP, 0),
        ask_stream(0x11, CAY_MSG_SERVICES, "web", 99, 0);
    cay_m_net net = { .id = BOX, .op = CAY_NET_WHY, .port = 443, .name = "host" };
    seed(dir, "net"), ask(0, 0, CAY_MSG_NET, &net, sizeof net, "", 0),
        ask(0, 0x31, CAY_MSG_NET, &net, sizeof net, "", 0);
    seed(dir, "unknown_type"), ask(0, 0, 77, "", 0, "", 0);
}

static void result(unsigned with, uint16_t type, const char *name, int sys, const char *step)
{
    cay_g_result m = { .pid = 3, .sys = sys };
    snprintf(m.proc, sizeof m.proc, "%s", name);
    snprintf(m.step, sizeof m.step, "%s", step);
    packet(with, type, &m, sizeof m, "", 0);
}

static void state(unsigned with, cay_g_state m, const char *labels)
{
    memcpy(m.spawn.proc, "pddddddddddddddddddd", CAY_WIRE_ID - 3);
    packet(0x40 | with, CAY_G_STATE, &m, sizeof m, labels, strlen(labels));
}

static void states(const char *dir)
{
    const cay_g_state plain = { .spawn = {
                                    .ring = 4096, .tag = "t", .title = "true", .started_ms = 1 } };
    cay_g_state m = plain;
    seed(dir, "state"), m.fds = 7, state(3, m, "{\"team\":\"red\"}"),
                        result(0x40, CAY_G_READY, "", 0, "");
    seed(dir, "state_rings"), m.fds = 31, state(5, m, ""), m.fds = 24, state(2 | 3 << 3, m, "");
    seed(dir, "state_ended"), m = plain, m.ended = 1, m.spawn.started_ms = INT64_MIN,
                              m.exit.status = 3 << 8, state(0, m, "not json");
    seed(dir, "state_exit_id_no_end"), memset(&m.exit.proc, 'x', sizeof m.exit.proc),
        memset(m.spawn.tag, 'x', sizeof m.spawn.tag), state(0, m, "");
    seed(dir, "state_time"), m = plain, m.spawn.timeout_ms = 1000, m.spawn.deadline = INT64_MAX,
                             state(0, m, "");
    seed(dir, "state_time_over"), m.spawn.deadline = INT64_MIN, m.spawn.started_ms = INT64_MIN,
                                  state(0, m, "");
    seed(dir, "state_tty"), m = plain, m.spawn.flags = CAY_SPAWN_TTY, m.fds = 2,
                            state(1 | 2 << 3, m, "");
    seed(dir, "state_tty_bad"), m.spawn.ring = UINT32_MAX, state(1 | 1 << 3, m, ""),
                                m.fds = UINT32_MAX, state(0, m, "");
}

static void init(const char *dir)
{
    states(dir);
    seed(dir, "united"), result(0, CAY_G_UNITED, "", 0, ""),
        result(0, CAY_G_UNITED, "web", 0, "running"), result(0, CAY_G_UNITED, "user", 1, "root");
    seed(dir, "taken_not"), result(0, CAY_G_TAKEN, "", 2, "user"),
        result(0, CAY_G_TAKEN, "", 0, "");
    seed(dir, "still"), result(0, CAY_G_STILL, "", 16, ""), result(1, CAY_G_STILL, "", 0, "");
    seed(dir, "net"), result(0x40, CAY_G_NET, "", 0, ""), result(4, CAY_G_NET, "", 0, "");
    seed(dir, "unknown_type"), result(0, 999, "", 0, "");
}

int main(int argc, char **argv)
{
    char dir[400], other[400], third[400];
    snprintf(dir, sizeof dir, "%s/guest_msg", argc == 2 ? argv[1] : ".");
    snprintf(other, sizeof other, "%s/control", argc == 2 ? argv[1] : ".");
    snprintf(third, sizeof third, "%s/init_msg", argc == 2 ? argv[1] : ".");
    control(other);
    init(third);
    cay_g_hello hello = { .version = CAY_INIT_VERSION, .instance = "iaaaaaaaaaaaaaaaaaaa" };
    cay_g_session session = { .seq = 7 };
    spawns(dir);
    seed(dir, "config"), CONFIG(), config("", 0);
    seed(dir, "adopt"), CONFIG(),
        SPAWN(0x17, CAY_GS_OUT | CAY_GS_HOLD_IN | CAY_GS_HOLD_OUT, 1, 0, PLAIN);
    packet(0, CAY_G_ADOPT, &hello, sizeof hello, "", 0);
    seed(dir, "session"), CONFIG(),
        packet(0x11, CAY_G_SESSION, &session, sizeof session, "user", 4);
    packet(0, CAY_G_SESSION, &session, sizeof session, "", 0),
        packet(0x11, CAY_G_SESSION, &session, sizeof session, "no-such-user", 12);
    seed(dir, "signal"), CONFIG(), proc(0, CAY_G_SIGNAL, "pbbbbbbbbbbbbbbbbbbb", 9, 0),
        SPAWN(0, 0, 1, 0, PLAIN), proc(0, CAY_G_SIGNAL, P, 65, 0);
    proc(0, CAY_G_FORGET, "none", 0, 0), proc(0, CAY_G_ACK, P, 0, 0);
    seed(dir, "quiet"), CONFIG(), proc(0, CAY_G_QUIET, "", 0, 0), proc(0, CAY_G_QUIET, "", 1, 0),
        proc(0, CAY_G_SWAPPED, "", 0, 0);
    units(dir);
    seed(dir, "short"), fwrite("\0\4\0cay1", 1, 7, out);
    packet(0, 999, "", 0, "", 0), packet(0, CAY_G_SPAWN, "x", 1, "", 0);
    return fclose(out) != 0;
}
