/* SPDX-License-Identifier: Apache-2.0 */
#include "main.h"
#include "cli.h"
#include <base/base.h>
#include <cay/access.h>
#include <cay/audit.h>
#include <cay/jobs.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/time.h>

enum { FILES_WANTED = 65536, BACKLOG_WANTED = 1024, PORT = 8090 };
#define DISK_WANTED (2ull << 30)

static void add_row(doctor_rows *d, const char *name, const char *state, const char *remedy,
                    const char *fmt, ...) __attribute__((format(printf, 5, 6)));
static void add_row(doctor_rows *d, const char *name, const char *state, const char *remedy,
                    const char *fmt, ...)
{
    va_list ap;
    if (d->n == DOCTOR_ROWS)
        return;
    va_start(ap, fmt);
    vsnprintf(d->why[d->n], DOCTOR_TEXT, fmt, ap);
    va_end(ap);
    d->row[d->n] = (cay_wall){ name, state, d->why[d->n], remedy };
    d->n++;
}

/* The server leaves its address in the state directory as long as it runs; else where one is unless
 * it is told otherwise. */
static uint16_t port_of(cay_client *client, bool *tls)
{
    char path[4096], url[512];
    uint64_t port = PORT;
    *tls = false;
    if (CAY_JOIN(path, cay_client_home(client), "/server.url") &&
        cay__fd_read_file(AT_FDCWD, path, url, sizeof url) > 0) {
        const char *colon = strrchr(url, ':');
        url[strcspn(url, "\n")] = 0;
        *tls = cay__str_starts(url, "https:");
        if (!colon || !cay__str_to_u64(colon + 1, &port) || !port || port > 65535)
            port = PORT;
    }
    return (uint16_t)port;
}

/* The first line of what is answered to a request for /health; false: nobody listens. */
static bool ask_health(uint16_t port, char *line, size_t cap)
{
    static const char ask[] =
        "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct timeval wait = { .tv_sec = 2 };
    CAY_AUTOFD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    line[0] = 0;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) < 0 ||
        connect(fd, (struct sockaddr *)&at, sizeof at) < 0)
        return false;
    ssize_t n = 0;
    if (send(fd, ask, sizeof ask - 1, MSG_NOSIGNAL) > 0)
        n = recv(fd, line, cap - 1, 0);
    line[CAY_MAX(n, (ssize_t)0)] = 0;
    line[strcspn(line, "\r\n")] = 0;
    return true;
}

static void ask_server(cay_client *client, doctor_rows *d)
{
    char line[64];
    bool tls;
    uint16_t port = port_of(client, &tls);
    int64_t began = cay__now_us();
    if (!ask_health(port, line, sizeof line))
        add_row(
            d, "server", "off",
            "`cay serve`, or `systemctl enable --now cay.socket`; one elsewhere: cay --host URL "
            "doctor --server",
            "nobody listens on 127.0.0.1:%u", port);
    else if (tls)
        add_row(
            d, "server", "on", "",
            "something listens on port %u, where the server of this state directory says that it "
            "is (https)",
            port);
    else if (!strcmp(line, "HTTP/1.1 200 OK"))
        add_row(d, "server", "on", "", "127.0.0.1:%u answers, in %.1f ms", port,
                (double)(cay__now_us() - began) / 1e3);
    else
        add_row(d, "server", "soft", "something else has this port: `cay serve --listen :PORT`",
                "127.0.0.1:%u answers \"%.40s\"", port, line);
}

typedef struct keys {
    size_t good, admin;
} keys;

static int count_key(const cay_key *k, void *arg)
{
    keys *n = arg;
    bool good = !k->revoked_ms && (!k->expires_ms || k->expires_ms > cay__clock_ms());
    n->good += good;
    n->admin += good && k->scope == CAY_KEY_ADMIN;
    return 0;
}

static void look_at_keys(cay_client *client, doctor_rows *d)
{
    keys n = { 0 };
    cay_err err = CAY_ERR_INIT;
    if (cay_key_list(client, NULL, count_key, &n, &err) < 0)
        add_row(d, "keys", "off", "", "%.150s", err.msg);
    else if (!n.good)
        add_row(d, "keys", "off", "`cay key create --scope admin` makes one and prints it once",
                "nobody can get in");
    else
        add_row(d, "keys", "on", "", "%zu good, %zu of scope admin", n.good, n.admin);
}

static int count_task(const cay_job *t, void *arg)
{
    ++*(size_t *)arg;
    return 0;
}

static void look_at_jobs(cay_client *client, doctor_rows *d)
{
    size_t dead = 0;
    cay_err err = CAY_ERR_INIT;
    if (cay_job_list(client, &(cay_job_filter){ .size = sizeof(cay_job_filter), .state = "dead" },
                     count_task, &dead, &err) < 0)
        add_row(d, "jobs", "off", "", "%.150s", err.msg);
    else if (dead)
        add_row(d, "jobs", "soft",
                "`cay jobs ls --state dead` tells why, `cay jobs replay ID` tries again",
                "%zu failed for good", dead);
    else
        add_row(d, "jobs", "on", "", "none failed for good");
}

static void look_at_audit(cay_client *client, doctor_rows *d)
{
    cay_audit_proof p = { .size = sizeof p };
    cay_err err = CAY_ERR_INIT;
    if (cay_audit_verify(client, NULL, &p, &err) < 0)
        add_row(d, "audit", "off",
                "who may write the state directory? `cay audit verify` tells the line", "%.150s",
                err.msg);
    else
        add_row(d, "audit", "on", "", "%ju lines follow each other",
                p.last ? p.last - p.first + 1 : 0);
}

static void look_at_disk(const char *home, doctor_rows *d)
{
    struct statvfs v;
    if (statvfs(home, &v) < 0) {
        add_row(d, "disk", "off", "", "%.120s: %s", home, strerror(errno));
        return;
    }
    uint64_t room = (uint64_t)v.f_bavail * v.f_frsize;
    double files = 100;
    if (v.f_files)
        files = 100.0 * (double)v.f_favail / (double)v.f_files;
    bool tight = room < DISK_WANTED || files < 5;
    add_row(d, "disk", tight ? "soft" : "on",
            "make room, or put the state directory elsewhere (--home)",
            "%.1f GiB and %.0f %% of the inodes are free in %.100s", (double)room / (1 << 30),
            files, home);
}

static void look_at_limits(doctor_rows *d)
{
    struct rlimit r;
    char text[32];
    uint64_t backlog = 0;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0)
        add_row(
            d, "descriptors", r.rlim_max >= FILES_WANTED ? "on" : "soft",
            "LimitNOFILE=1048576 in the unit, or `ulimit -Hn`: a connection and a stream want one "
            "each",
            "at most %ju", r.rlim_max);
    if (cay__fd_read_file(AT_FDCWD, "/proc/sys/net/core/somaxconn", text, sizeof text) > 0)
        backlog = strtoull(text, NULL, 10);
    if (backlog)
        add_row(d, "backlog", backlog >= BACKLOG_WANTED ? "on" : "soft",
                "sysctl net.core.somaxconn=4096", "%ju connections may wait to be taken", backlog);
}

/* What a fault in the server would open. */
static void look_at_rights(doctor_rows *d)
{
    if (geteuid() == 0)
        add_row(
            d, "privilege", "soft",
            "`cay serve --user NAME`, or cay-rootless.service, runs all of it as an ordinary user, "
            "at level 2 (docs/server.md)",
            "as root the server is root: a fault in it opens this host");
    else
        add_row(d, "privilege", "on", "",
                "uid %u: a fault in the server opens what this user may do", (unsigned)geteuid());
}

void doctor_server(cay_client *client, doctor_rows *out)
{
    bool far = cli_host() != NULL; /* it answered already, and the rest is of its host */
    if (far)
        add_row(out, "server", "on", "", "it answers, and takes the key");
    else
        ask_server(client, out);
    look_at_keys(client, out);
    look_at_jobs(client, out);
    look_at_audit(client, out);
    if (far)
        return;
    look_at_disk(cay_client_home(client), out);
    look_at_limits(out);
    look_at_rights(out);
}
