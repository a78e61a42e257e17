/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preview CAY-SERVER UPSTREAM [quick]: requests a second and bytes through a preview into a
 * sandbox, beside haproxy in HTTP mode before the same program on the host, asked by the same
 * client in turns. haproxy goes from loopback to loopback; the preview comes out in another net
 * namespace and asks a token of each request.
 */
#include "http.h"

enum { PORT = 8000 };

/* 0 when it is not there. */
static int start_haproxy(const char *dir, int to, int port)
{
    char path[256];
    snprintf(path, sizeof path, "%s/haproxy.cfg", dir);
    FILE *f = fopen(path, "we");
    if (!f)
        return 0;
    fprintf(f,
            "global\n maxconn 4000\ndefaults\n mode http\n option http-keep-alive\n http-reuse "
            "always\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n"
            "listen l\n bind 127.0.0.1:%d\n server s 127.0.0.1:%d\n",
            port, to);
    fclose(f);
    int pid = start_peer("HAPROXY", (char *[]){ NULL, "-q", "-db", "-f", path, NULL });
    if (pid)
        await(port, pid);
    return pid;
}

static double median(const series *s)
{
    return percentile((series *)(uintptr_t)s, 50);
}

typedef struct row {
    const char *name, *service, *path;
    double (*fn)(int port, const char *path, bool keyed, double seconds);
} row;

static void measure(const row *r, int port, int by, const char *host, const char *token)
{
    series ours = { 0 }, theirs = { 0 };
    for (int i = quick ? 0 : -2; i < (quick ? 1 : 5);
         i++) { /* the first two are for connections to be made */
        http_host = host;
        http_more = token;
        double one = r->fn(port, r->path, false, quick ? 0.2 : 1.0);
        if (i >= 0)
            add(&ours, one);
        http_host = "localhost";
        http_more = "";
        one = by ? r->fn(by, r->path, false, quick ? 0.2 : 1.0) : 0;
        if (by && i >= 0)
            add(&theirs, one);
    }
    double a = median(&ours), b = by ? median(&theirs) : 0;
    figure((fig){ r->name, r->service, a, b, b ? a / b : 0, b ? ">=1.0" : NULL, ours.n });
    free(ours.v);
    free(theirs.v);
}

int main(int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    char dir[] = "/dev/shm/cay-bench-preview.XXXXXX", addr[64], host[64], token[128], word[16];
    cay_sandbox *sb = NULL;
    cay_proc *p = NULL;
    cay_exposed e = { .size = sizeof e };
    if (argc < 3 || !mkdtemp(dir))
        give_up("usage: preview CAY-SERVER UPSTREAM [quick]");
    quick = argc > 3;
    prepare(argv[2]);
    cay_client *client = service();
    need(cay_client_create(client, NULL, &(cay_create){ .size = sizeof(cay_create) }, &sb, &err),
         &err, "create");
    const char *const words[] = { INSIDE_TRUE, "8000", NULL };
    need(cay_sandbox_spawn(sb, NULL, &(cay_spawn){ .size = sizeof(cay_spawn), .argv = words }, &p,
                           &err),
         &err, "start the program inside");
    need(cay_port_expose(sb, PORT, 0, &e, &err), &err, "expose");
    int port = free_port(), bare = free_port(), by = free_port();
    snprintf(addr, sizeof addr, "127.0.0.1:%d", port);
    snprintf(word, sizeof word, "%d", bare);
    snprintf(host, sizeof host, "%d-%s.localhost", PORT, cay_sandbox_id(sb));
    snprintf(token, sizeof token, "X-Cay-Token: %s\r\n", e.token);
    int server = start((char *[]){ argv[1], "--listen", addr, NULL }),
        up = start((char *[]){ argv[2], word, NULL });
    await(port, server);
    await(bare, up);
    int ha = start_haproxy(dir, bare, by);
    const row rows[] = { { "preview-rate", "1/s", "/small", rate },
                         { "preview-bulk", "GB/s", "/large", download } };
    for (size_t i = 0; i < COUNT(rows); i++)
        measure(&rows[i], port, ha ? by : 0, host, token);
    if (ha)
        end(ha);
    end(up);
    end(server);
    cay_proc_unref(p);
    need(cay_sandbox_remove(sb, NULL, &err), &err, "remove");
    cay_sandbox_unref(sb);
    cay_client_close(client);
    execlp("rm", "rm", "-rf", dir, NULL);
    return 1;
}
