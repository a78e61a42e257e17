/* SPDX-License-Identifier: Apache-2.0 */
/* sudo: a socket of init's that every process of the tenant can reach. */
#include "attack.h"

static cay_sandbox *box(void)
{
    cay_create c = { .size = sizeof c, .isolation.sudo = true };
    return box_new(&c);
}

static bool gone(cay_sandbox *sb, const char *pattern, unsigned ms)
{
    char find[120];
    snprintf(find, sizeof find, "pgrep -f '%s'", pattern);
    for (int64_t end = now_ms() + ms; now_ms() < end; nap(100))
        if (command(sb, "root", find, NULL, 0) != 0)
            return true;
    return false;
}

static void s84_stranger(void)
{
    char out[400] = "";
    cay_sandbox *sb = box();
    CHECK(command(sb, NULL, "sudo -n true", out, sizeof out) == 0,
          "the sandbox's own user may not: %s", out);
    CHECK(command(sb, "nobody", "sudo -n id -u", out, sizeof out) != 0, "nobody became uid %s",
          out);
    CHECK(command(sb, "33", "sudo -n -u user id -u", out, sizeof out) != 0, "uid 33 became uid %s",
          out);
    box_remove(sb);
}

/* What is started by init is outside of the fence of who asks for it. */
static void s85_fence(void)
{
    cay_sandbox *sb = box();
    cay_err err = CAY_ERR_INIT;
    cay_result r = { .size = sizeof r };
    const char *const mine[] = { "/tmp", NULL };
    cay_fence f = { .size = sizeof f, .write = mine };
    cay_spawn s = { .size = sizeof s,
                    .shell = "sudo -n sh -c 'echo breach > /workspace/x'; cat /workspace/x",
                    .fence = &f };
    int rc = cay_sandbox_run(sb, within(20000), &s, NULL, 0, 0, &r, &err);
    if (rc == 0) {
        CHECK(!strstr(r.out, "breach"), "a fenced command wrote outside of its fence by sudo");
        cay_result_clear(&r);
    } else if (rc == CAY_ENOTSUP && !strcmp(err.reason, "fence_unsupported")) {
        skip("no Landlock of ABI 3 here");
    } else {
        CHECK(strstr(err.msg, "fence") != NULL, "a fence is refused without a reason: %s", err.msg);
    }
    box_remove(sb);
}

static void s86_orphan(void)
{
    cay_sandbox *sb = box();
    cay_err err = CAY_ERR_INIT;
    cay_result r = { .size = sizeof r };
    cay_spawn s = { .size = sizeof s,
                    .argv = (const char *[]){ "sudo", "sleep", "86086", NULL },
                    .timeout_ms = 1000 };
    command(sb, NULL,
            "sudo sleep 86087 & until pgrep -f '^sleep 86087' >/dev/null; do sleep 0.05; done; "
            "kill -9 $!",
            NULL, 0);
    CHECK(gone(sb, "^sleep 86087", 15000), "a command outlives the sudo that was killed");
    if (cay_sandbox_run(sb, within(30000), &s, NULL, 0, 0, &r, &err) == 0)
        cay_result_clear(&r);
    CHECK(gone(sb, "^sleep 86086", 15000), "a command outlives its time by sudo");
    box_remove(sb);
}

static void s87_places(void)
{
    char out[400] = "";
    cay_sandbox *sb = box();
    const char *hold = "python3 -c '\n"
                       "import socket, time\n"
                       "l = []\n"
                       "for i in range(16):\n"
                       "    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); "
                       "s.connect(\"/run/cay/sudo\"); l.append(s)\n"
                       "print(\"held\", flush=True)\n"
                       "time.sleep(60)' > /tmp/held & until grep -q held /tmp/held; do sleep 0.1; "
                       "done; timeout 30 sudo id -u; rc=$?; kill $!; exit $rc";
    CHECK(command(sb, NULL, hold, out, sizeof out) == 0 && out[0] == '0',
          "who holds every place keeps others out: %s", out);
    CHECK(command(sb, NULL, "true", NULL, 0) == 0, "init serves nobody any more");
    box_remove(sb);
}

/* Nothing of what is sent reaches further than one visit. */
static void s88_rubbish(void)
{
    char out[400] = "";
    cay_sandbox *sb = box();
    int init = box_init_pid(sb);
    const char *send =
        "python3 -c '\n"
        "import array, os, random, socket, struct\n"
        "random.seed(88)\n"
        "for i in range(400):\n"
        "    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); "
        "s.connect(\"/run/cay/sudo\")\n"
        "    b = bytearray(b\"root\\0/\\0\\0true\\0A=1\\0\")\n"
        "    for k in range(random.randrange(4)): b[random.randrange(len(b))] = "
        "random.randrange(256)\n"
        "    h = struct.pack(\"IIIII\", 0x6f647573, random.choice([0, 1, 7, 8]), random.choice([0, "
        "1, 2, 1 << 31]), random.choice([0, 1, 1 << 31]), random.choice([len(b), 0, 1 << 31]))\n"
        "    n = random.choice([0, 1, 3, 3, 3, 9])\n"
        "    s.sendmsg([h + b], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array(\"i\", [0] * "
        "n))] if n else [])\n"
        "    s.close()\n"
        "print(\"sent\")'";
    CHECK(command(sb, NULL, send, out, sizeof out) == 0 && strstr(out, "sent"),
          "sending failed: %s", out);
    CHECK(command(sb, NULL, "sudo id -u", out, sizeof out) == 0 && out[0] == '0',
          "sudo works no more: %s", out);
    CHECK(box_init_pid(sb) == init, "init is another one");
    box_remove(sb);
}

static void s89_single(void)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = NULL;
    cay_create c = { .size = sizeof c, .isolation.sudo = true };
    int rc = cay_client_create(W.client, within(20000), &c, &sb, &err);
    CHECK(rc == CAY_EINVAL && !strcmp(err.reason, "user_not_mapped"), "one id, and sudo is %s: %s",
          cay_code_name(rc), err.msg);
    if (rc == 0)
        box_remove(sb);
}

/* A connection whose other end does not read, told to linger for an hour: whoever closes it last
 * waits, be it of a good packet, one that is cut, one with too many descriptors or one that nobody
 * reads. */
static void s91_linger(void)
{
    char out[400] = "";
    cay_sandbox *sb = box();
    const char *send =
        "python3 -c '\n"
        "import array, signal, socket, struct, time\n"
        "signal.signal(signal.SIGALRM, lambda *a: None); signal.setitimer(signal.ITIMER_REAL, "
        "0.02, 0.02)\n"
        "kept, l = [], socket.socket()\n"
        "l.bind((\"127.0.0.1\", 0)); l.listen(64)\n"
        "def lingering():\n"
        "    c = socket.socket(); c.connect(l.getsockname()); kept.append(l.accept()[0])\n"
        "    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack(\"ii\", 1, 3600)); "
        "c.setblocking(False)\n"
        "    try:\n"
        "        while True: c.send(bytes(65536))\n"
        "    except BlockingIOError: return c\n"
        "b = b\"root\\0/\\0\\0true\\0\"\n"
        "good = struct.pack(\"IIIII\", 0x6f647573, 0, 1, 0, len(b)) + b\n"
        "for text, n, more in ((good, 3, 0), (b\"x\", 3, 0), (b\"x\", 40, 0), (b\"x\" * 100000, 3, "
        "0), (b\"x\", 0, 3)) * 3:\n"
        "    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); "
        "s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20); s.connect(\"/run/cay/sudo\")\n"
        "    c = lingering()\n"
        "    for data, k in ((text, n), (b\"y\", more)):\n"
        "        try:\n"
        "            if k or data == text: s.sendmsg([data], [(socket.SOL_SOCKET, "
        "socket.SCM_RIGHTS, array.array(\"i\", [c.fileno()] * k))] if k else [])\n"
        "        except BrokenPipeError: pass\n" /* init was faster */
        "    c.close(); kept.append(s)\n" /* at once, so that init is the last; where it was faster
                                             it is we who wait, until the next signal */
        "print(\"sent\", flush=True)\n"
        "time.sleep(120)' > /tmp/sent 2>&1 & for i in $(seq 200); do grep -q sent /tmp/sent && "
        "exit 0; sleep 0.1; done; cat /tmp/sent; exit 1";
    CHECK(command(sb, NULL, send, out, sizeof out) == 0, "sending failed: %s", out);
    for (int i = 0; i < 5; i++)
        CHECK(command(sb, NULL, "sudo id -u", out, sizeof out) == 0 && out[0] == '0',
              "init waits for what it was sent: %s", out);
    box_remove(sb);
}

/* Each is told or counted; those told are 64 and four a second at most. */
static void s92_flood(void)
{
    enum { ALL_OF_THEM = 400 };
    cay_sandbox *sb = box();
    cay_events *ev = NULL;
    cay_event e = { .size = sizeof e };
    int told = 0, counted = 0;
    cay_call call = { .size = sizeof call };
    if (cay_client_events(W.client, cay_sandbox_id(sb), &ev, NULL) < 0)
        give_up("no events");
    int64_t began = now_ms();
    CHECK(command(sb, NULL, "for i in $(seq 400); do sudo -n true || exit; done", NULL, 0) == 0,
          "sudo does not keep up");
    call.deadline_ms = now_ms() + 20000;
    while (told + counted < ALL_OF_THEM && cay_events_next(ev, &call, &e, NULL) == 0)
        if (!strcmp(e.kind, "sudo")) {
            counted += e.code;
            told += strstr(e.reason, "left out") == NULL;
        }
    int most = 64 + (int)((now_ms() - began) / 250) + 1;
    CHECK(told <= most, "%d events of sudo in %d ms", told, (int)(now_ms() - began));
    CHECK(told + counted == ALL_OF_THEM, "of %d uses of sudo %d are told and %d counted",
          ALL_OF_THEM, told, counted);
    cay_events_close(ev);
    box_remove(sb);
}

const attack sudo_attacks[] = {
    { "S-84", "sudo is for some users alone", MANY_IDS, "sudo-who", NULL, s84_stranger },
    { "S-85", "no way around a fence by sudo", MANY_IDS, "sudo-fence", NULL, s85_fence },
    { "S-86", "what sudo started ends with it", MANY_IDS, "sudo-gone", NULL, s86_orphan },
    { "S-87", "every place of sudo's taken", MANY_IDS, "sudo-idle", NULL, s87_places },
    { "S-88", "rubbish for sudo", MANY_IDS, NULL,
      "no one check: every field is judged, and nothing of the sender's is mapped", s88_rubbish },
    { "S-89", "sudo with one id", SINGLE, NULL,
      "nobody to become: the kernel refuses what we do not", s89_single },
    { "S-91", "connections that linger, sent to sudo", MANY_IDS, "sudo-linger", NULL, s91_linger },
    { "S-92", "a loop of sudo does not drown events", MANY_IDS, "sudo-flood", NULL, s92_flood },
    { 0 },
};
