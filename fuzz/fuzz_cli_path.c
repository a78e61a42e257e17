/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What people type on the command line: ID:PATH, mounts, pairs, ports, modes, owners, sizes, times.
 * Whatever the text, the parsers end, stay inside their buffers, and what they accept keeps its
 * promises.
 */
#include <base/base.h>
#include <base/str.h>
#include <cli/parse.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void places(const char *text)
{
    cli_place p;
    if (cli_parse_place(text, &p, NULL) < 0)
        return;
    check(p.path >= text && p.path <= text + strlen(text));
    check(p.kind != CLI_REMOTE || (*p.id && *p.path && !strchr(p.id, '/') && !strchr(p.id, '\n')));
    check(p.kind != CLI_LOCAL || p.path == text);
}

static void mounts(const char *text)
{
    static cli_mount m;
    if (cli_parse_mount(text, &m, NULL) < 0)
        return;
    check(*m.source && m.target[0] == '/' && !strchr(m.target, '\n') && !strchr(m.source, '\n'));
    for (const char *s = m.target; (s = strstr(s, "/..")); s += 3)
        check(s[3] && s[3] != '/');
}

static void numbers(const char *text)
{
    uint64_t v;
    uint32_t mode = 0, uid, gid;
    uint16_t port = 0, local;
    int sig = 0;
    if (cli_parse_cpus(text, &v, NULL) == 0)
        check(v == CAY_UNLIMITED || (v >= 10 && v <= 1024000));
    if (cli_parse_forward(text, &port, &local, NULL) == 0)
        check(port != 0);
    if (cli_parse_port(text, &port, NULL) == 0)
        check(port != 0);
    if (cli_parse_mode(text, &mode, NULL) == 0)
        check(mode <= 07777);
    if (cli_parse_signal(text, &sig, NULL) == 0)
        check(sig > 0 && sig <= 64);
    cli_parse_owner(text, &uid, &gid, NULL);
    cay__str_to_size(text, &v);
    cay__str_to_ms(text, &v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = cay__alloc(size + 1), *key = NULL;
    const char *value;
    cay_err err = CAY_ERR_INIT;
    memcpy(text, data, size);
    places(text);
    mounts(text);
    numbers(text);
    if (cli_parse_pair(text, false, &key, &value, &err) == 0) {
        check(*key && !strchr(key, '=') && value);
        free(key);
    } else {
        check(err.code == CAY_EINVAL && err.msg[0]);
    }
    cli_check_name("name", text, &err);
    free(text);
    return 0;
}
