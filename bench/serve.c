/* SPDX-License-Identifier: Apache-2.0 */
/* serve [PORT]: a static HTTP server, as small as one can be: every request gets the same answer.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static const char answer[] = "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nhi\n";
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons((unsigned short)atoi(argc > 1 ? argv[1] : "8000")) };
    int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    char buf[2048];
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (s < 0 || bind(s, (struct sockaddr *)&a, sizeof a) < 0 || listen(s, 64) < 0)
        return 1;
    for (int c; (c = accept(s, NULL, NULL)) >= 0; close(c))
        if (read(c, buf, sizeof buf) > 0 && write(c, answer, sizeof answer - 1) < 0)
            continue;
    return 1;
}
