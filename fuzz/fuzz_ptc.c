/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tools as Python text, of definitions that an MCP server gave, and calls as code in a sandbox
 * sends them. The first line is read as a call, the rest as {"name", "description", "inputSchema"}.
 * What comes out has no line but those that we wrote.
 */
#include <agent/capability/ptc.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void look_at(const char *text)
{
    static const char *const begin[] = { "\"", "from ", "def ", "    \"", "    return call(" };
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        bool known = !n;
        for (size_t i = 0; i < CAY_LEN(begin); i++)
            known = known || !strncmp(p, begin[i], strlen(begin[i]));
        if (!known)
            abort();
        p += n + (p[n] == '\n');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = malloc(len + 1), fn[80];
    if (!text)
        abort();
    memcpy(text, data, len);
    text[len] = 0;
    char *rest = strchr(text, '\n');
    if (rest)
        *rest++ = 0;
    cay__relay_call c = { 0 };
    if (cay__relay_parse(text, &c))
        json_decref(c.message);
    json_t *def = rest ? json_loads(rest, 0, NULL) : NULL;
    cay__py_tool t = { .name = cay__json_str(def, "name", ""),
                       .about = cay__json_str(def, "description", NULL),
                       .schema = json_object_get(def, "inputSchema") };
    if (def && cay__py_name(t.name, fn, sizeof fn)) {
        CAY_AUTOBUF b = CAY__BUF(4 << 20);
        CAY_AUTOBUF doc = CAY__BUF(4 << 20);
        cay__py_head(t.name, &b);
        cay__py_function(&t, fn, &b);
        cay__py_document(&t, "m", fn, &doc);
        if (!b.full)
            look_at(b.data);
    }
    json_decref(def);
    free(text);
    return 0;
}
