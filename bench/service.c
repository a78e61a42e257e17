/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service SERVE [N]: from the request for a sandbox to the moment when its static HTTP server is
 * known to be ready. The floor: the same server started on the host and tried until it takes a
 * connection.
 */
#include "box.h"
#include <arpa/inet.h>
#include <cay/services.h>
#include <sys/socket.h>

#define PORT 18999

static bool dials(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons(PORT),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = connect(s, (struct sockaddr *)&a, sizeof a) == 0;
    close(s);
    return ok;
}

static double bare(const char *program)
{
    double t = now_us();
    int pid = fork();
    if (pid == 0) {
        execl(program, program, "18999", NULL);
        _exit(127);
    }
    while (!dials())
        if (now_us() - t > 5e6)
            give_up("%s does not listen", program);
    double spent = now_us() - t;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return spent;
}

static double once(cay_client *client)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb;
    cay_create c = { .size = sizeof c,
                     .life.ephemeral = true,
                     .services =
                         "{\"web\":{\"command\":[\"" INSIDE_TRUE "\",\"8000\"],\"port\":8000}}" };
    double t = now_us();
    need(cay_client_create(client, NULL, &c, &sb, &err), &err, "create");
    need(cay_sandbox_services_wait(sb, NULL, NULL, &err), &err, "wait");
    double spent = now_us() - t;
    need(cay_sandbox_remove(sb, NULL, &err), &err, "remove");
    cay_sandbox_unref(sb);
    return spent;
}

int main(int argc, char **argv)
{
    series floor = { 0 }, ready = { 0 };
    if (argc < 2)
        give_up("usage: service SERVE [N]");
    size_t n = rounds(argc, argv, 2, 100);
    prepare(argv[1]);
    cay_client *client = service();
    for (size_t i = 0; i < n + 3; i++) {
        double a = bare(argv[1]);
        sleep_ms(25);
        double b = once(client);
        if (i < 3)
            continue;
        add(&floor, a);
        add(&ready, b);
    }
    double ms = percentile(&ready, 50) / 1000;
    figure((fig){ "service-ready", "ms", ms, percentile(&floor, 50) / 1000, ms, "<=20", n });
    cay_client_close(client);
    return 0;
}
