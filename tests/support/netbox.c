/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netbox FD COMMAND…: runs the command in a net namespace as a sandbox has it, and sends what is
 * lent to egress over FD first: the listener, DNS by TCP, DNS by UDP, the name map; the packet is
 * how they are fed (daemon/keeper/netns.h) and the namespace's cookie. For tests that play keeper.
 */
#include <base/fd.h>
#include <daemon/keeper/netns.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    netns n;
    if (argc < 3)
        return 2;
    const char *step = netns_make(&n);
    if (step || n.how == CAY__NET_NONE || !netns_serve(n.fd)) {
        fprintf(stderr, "netbox: %s: %m\n", step ? step : "no way to redirect connections here");
        return 77;
    }
    uint64_t told[2] = { (uint64_t)n.how, n.cookie };
    int to = atoi(argv[1]);
    if (cay__fd_send(to, told, sizeof told, n.fd, CAY__NET_FDS, 0) < 0)
        return 1;
    netns_close(&n);
    close(to);
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
