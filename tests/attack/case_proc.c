/* SPDX-License-Identifier: Apache-2.0 */
/* S-16, S-18 to S-21: /proc, /dev, descriptors, terminals. */
#include "attack.h"
#include <fcntl.h>
#include <sys/resource.h>

static void s16_masks(void)
{
    static const char *const kept[] = { "/proc/sys/kernel/core_pattern",
                                        "/proc/sys/kernel/hostname",
                                        "/proc/sys/vm/overcommit_memory" };
    char boot[64], was[3][256], is[256];
    host_get("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    boot[strcspn(boot, "\n")] = 0;
    for (int i = 0; i < 3; i++)
        host_get(kept[i], was[i], sizeof was[i]);
    cay_sandbox *sb = box_new(NULL);
    inside(sb, NULL, "masks", boot, NULL);
    if (W.mode & MANY_IDS) {
        inside(sb, "root", "masks", boot, NULL);
        inside(sb, "root", "readonly-proc", NULL);
    }
    for (int i = 0; i < 3; i++) {
        host_get(kept[i], is, sizeof is);
        CHECK(!strcmp(was[i], is), "%s is now %s", kept[i], is);
    }
    box_remove(sb);
}

static void s18_descriptors(void)
{
    static const char *const plain[] = { "/tmp/probe", "fds", NULL }, *const tty[] = { "/tmp/probe",
                                                                                       "fds", "tty",
                                                                                       NULL };
    cay_err err = CAY_ERR_INIT;
    cay_exit end = { .size = sizeof end };
    cay_sandbox *sb = box_new(NULL);
    cay_proc *p = NULL;
    inside_spec(sb, &(cay_spawn){ .argv = plain });
    inside_spec(sb, &(cay_spawn){
                        .shell = "exec /tmp/probe fds", .argv = NULL, .login = true, .tag = "s" });
    inside_spec(sb, &(cay_spawn){ .argv = plain, .timeout_ms = 20000 });
    inside_spec(sb, &(cay_spawn){ .argv = tty, .tty = true });
    inside_spec(sb, &(cay_spawn){ .argv = tty, .tty = true, .timeout_ms = 20000 });
    if (W.mode & MANY_IDS)
        inside_spec(sb, &(cay_spawn){ .argv = plain, .user = "root", .profile = "root" });
    /* in the background, with a pipe for stdin, nobody attached; descriptors of other commands are
     * around then */
    cay_spawn bg = { .size = sizeof bg, .argv = plain, .stdin_mode = CAY_STDIN_PIPE };
    char text[4096];
    uint64_t offset = 0, lost = 0;
    bool eof = false;
    size_t n = 0;
    cay_proc *cat = NULL;
    cay_spawn wait = { .size = sizeof wait,
                       .argv = (const char *[]){ "cat", NULL },
                       .stdin_mode = CAY_STDIN_PIPE };
    if (cay_sandbox_spawn(sb, within(5000), &wait, &cat, &err) < 0 ||
        cay_sandbox_spawn(sb, within(5000), &bg, &p, &err) < 0 ||
        cay_proc_wait(p, within(10000), &end, &err) < 0 ||
        cay_proc_read(p, within(5000), CAY_STDOUT, &offset, text, sizeof text - 1, &n, &lost, &eof,
                      &err) < 0)
        give_up("background: %s", err.msg);
    text[n] = 0;
    judge_output(text, "fds in the background");
    cay_proc_unref(p);
    cay_proc_unref(cat);
    box_remove(sb);
}

/* A crash inside must not start the host's core handler. */
static void s18_cores(void)
{
    struct rlimit r = { 1, 1 };
    cay_sandbox *sb = box_new(NULL);
    getrlimit(RLIMIT_CORE, &r);
    const char *want = W.mode != ROOT && r.rlim_max == 0 ? "0" : "1";
    inside(sb, NULL, "core", want, NULL);
    if (W.mode & MANY_IDS)
        inside(sb, "root", "core", want, NULL);
    box_remove(sb);
}

static void s19_secrets(void)
{
    cay_sandbox *sb = box_new(NULL); /* the worker that took the probe is there too */
    inside(sb, NULL, "secrets", SECRET, W.home, W.dir, "CAY_ATTACK", NULL);
    box_remove(sb);
    if (!(W.mode & MANY_IDS))
        return;
    /* As root, with init's own capabilities, and first: a command of another user makes init's
     * memory, which its child shares until it executes, unreadable all by itself. */
    sb = box_new(NULL);
    inside(sb, "root", "secrets", SECRET, W.home, W.dir, NULL);
    inside(sb, NULL, "secrets", SECRET, W.home, W.dir, NULL);
    box_remove(sb);
}

static void s20_terminal(void)
{
    static const char *const argv[] = { "/tmp/probe", "sti", NULL };
    cay_sandbox *sb = box_new(NULL);
    inside_spec(sb, &(cay_spawn){ .argv = argv, .tty = true });
    inside_spec(sb, &(cay_spawn){ .argv = argv });
    inside_spec(sb, &(cay_spawn){ .argv = (const char *[]){ "/tmp/probe", "terminals", "2", NULL },
                                  .tty = true });
    box_remove(sb);
}

static void s21_devices(void)
{
    cay_sandbox *sb = box_new(NULL);
    inside(sb, NULL, "devices", NULL);
    inside(sb, NULL, "nodes", NULL);
    inside(sb, NULL, "flags", NULL);
    if (W.mode & MANY_IDS) {
        inside(sb, "root", "devices", NULL);
        inside(sb, "root", "nodes", NULL);
    }
    box_remove(sb);
}

const attack proc_attacks[] = {
    { "S-16", "masked and read-only paths of /proc", ALL, "masks proc-ro boot-id", NULL,
      s16_masks },
    { "S-18", "exactly three descriptors", ALL, "close-fds", NULL, s18_descriptors },
    { "S-18b", "no crash inside reaches the host's core handler", ALL, "seccomp-core", NULL,
      s18_cores },
    { "S-19", "init and helpers give nothing away", ALL, "dumpable", NULL, s19_secrets },
    { "S-20", "terminals cannot be typed into", ALL, "seccomp-tiocsti", NULL, s20_terminal },
    { "S-21", "only harmless devices", ALL, "nodev", NULL, s21_devices },
    { 0 },
};
