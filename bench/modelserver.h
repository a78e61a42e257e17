/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/modelserver.h - a model's server that costs next to nothing, for us and for peers alike, in
 * a process of its own.
 *
 *   /turns/N/v1/responses  a tool call for each of N turns, then the word
 *   /first/0/v1/responses  a stream whose first piece is the time it was sent: CLOCK_MONOTONIC, in
 *                          nanoseconds
 */
#pragma once
#include "measure.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>

enum { SERVED_MAX = 4 << 20 };

static inline size_t served_count(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, part)); p += strlen(part))
        n++;
    return n;
}

static inline void served_write(int fd, const char *text, size_t n)
{
    for (ssize_t k; n; text += k, n -= (size_t)k)
        if ((k = write(fd, text, n)) <= 0)
            _exit(0);
}

#define SERVED_USAGE                                                                               \
    "\"usage\":{\"input_tokens\":10,\"input_tokens_details\":{\"cached_tokens\":0},\"output_"      \
    "tokens\":1,\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":11}"
#define SERVED_HEAD                                                                                \
    "\"object\":\"response\",\"created_at\":1700000000,\"model\":\"m\",\"status\":\"completed\","  \
    "\"error\":null,\"incomplete_details\":null,\"instructions\":null,\"metadata\":{},\"parallel_" \
    "tool_calls\":true,\"tool_choice\":\"auto\",\"tools\":[],\"temperature\":1,\"top_p\":"         \
    "1," SERVED_USAGE
#define SERVED_WORD                                                                                \
    "{\"type\":\"message\",\"id\":\"msg_1\",\"role\":\"assistant\",\"status\":\"completed\","      \
    "\"content\":[{\"type\":\"output_text\",\"text\":\"done\",\"annotations\":[]}]}"

static inline void served_answer(int fd, const char *path, const char *body)
{
    static char doc[4096], head[256];
    size_t at = served_count(body, "\"function_call_output\"");
    int n;
    if (!strncmp(path, "/first/", 7)) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        n = snprintf(
            doc, sizeof doc,
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
            "data: "
            "{\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\","
            "\"output\":[]," SERVED_HEAD "}}\n\n"
            "data: "
            "{\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"output_index\":0,"
            "\"content_index\":0,\"item_id\":\"msg_1\",\"logprobs\":[],\"delta\":\"%lld\"}\n\n"
            "data: "
            "{\"type\":\"response.completed\",\"sequence_number\":2,\"response\":{\"id\":\"resp_"
            "1\",\"output\":[" SERVED_WORD "]," SERVED_HEAD "}}\n\n",
            (long long)t.tv_sec * 1000000000ll + t.tv_nsec);
        served_write(fd, doc, (size_t)n);
        _exit(0);
    }
    if (at < strtoul(path + 7, NULL, 10))
        n = snprintf(doc, sizeof doc,
                     "{\"id\":\"resp_%zu\",\"output\":[{\"type\":\"function_call\",\"id\":\"fc_%"
                     "zu\",\"call_id\":\"call_%zu\",\"name\":\"add\",\"arguments\":\"{\\\"a\\\":1}"
                     "\",\"status\":\"completed\"}]," SERVED_HEAD "}",
                     at, at, at);
    else
        n = snprintf(doc, sizeof doc,
                     "{\"id\":\"resp_%zu\",\"output\":[" SERVED_WORD "]," SERVED_HEAD "}", at);
    int h = snprintf(
        head, sizeof head,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", n);
    served_write(fd, head, (size_t)h);
    served_write(fd, doc, (size_t)n);
}

static inline void served_connection(int fd)
{
    static char buf[SERVED_MAX];
    size_t have = 0;
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (;;) {
        char *end = have ? memmem(buf, have, "\r\n\r\n", 4) : NULL,
             *len = end ? strcasestr(buf, "\ncontent-length:") : NULL;
        size_t want =
            end ? (size_t)(end - buf) + 4 + (len && len < end ? strtoul(len + 16, NULL, 10) : 0)
                : SIZE_MAX;
        if (have >= want) {
            char path[128] = "";
            sscanf(buf, "POST %127s", path);
            char kept = buf[want];
            buf[want] = 0;
            served_answer(fd, path, end + 4);
            buf[want] = kept;
            memmove(buf, buf + want, have - want);
            have -= want;
            continue;
        }
        ssize_t n = have < sizeof buf - 1 ? read(fd, buf + have, sizeof buf - 1 - have) : 0;
        if (n <= 0)
            _exit(0);
        have += (size_t)n;
        buf[have] = 0;
    }
}

/* Its port. It ends with this process. */
static inline int serve_model(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&a, sizeof a) < 0 || listen(s, 64) < 0 ||
        getsockname(s, (struct sockaddr *)&a, &len) < 0)
        give_up("listen: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0)
        give_up("fork: %s", strerror(errno));
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGCHLD, SIG_IGN);
        for (;;) {
            int c = accept(s, NULL, NULL);
            if (c >= 0 && !fork()) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                served_connection(c);
            }
            close(c);
        }
    }
    close(s);
    return ntohs(a.sin_port);
}
