/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

bool cay__item_is(const json_t *item, const char *type)
{
    return !strcmp(cay__json_str(item, "type", "message"), type);
}

bool cay__item_is_call(const json_t *item)
{
    return cay__item_is(item, "function_call") || cay__item_is(item, "custom_tool_call");
}

char *cay__item_text(const json_t *item)
{
    const json_t *c = json_object_get(item, "content");
    CAY_AUTOBUF b = CAY__BUF(CAY__TEXT_MAX);
    if (!cay__item_is(item, "message"))
        return NULL;
    if (json_is_string(c))
        return cay__strdup(json_string_value(c));
    cay__buf_str(&b, "");
    CAY_EACH_ITEM(p, c) {
        const json_t *t = json_object_get(p, "text");
        if (json_is_string(t))
            cay__buf_add(&b, json_string_value(t), json_string_length(t));
    }
    return CAY_STEAL(b.data);
}

json_t *cay__text_cut(const char *text, size_t most)
{
    size_t n = strlen(text), cut = CAY_MIN(n, most);
    while (cut && cut < n && (text[cut] & 0xc0) == 0x80)
        cut--;
    CAY_AUTOBUF b = CAY__BUF(most + 64);
    cay__buf_add(&b, text, cut);
    if (cut < n)
        cay__buf_fmt(&b, "… (%zu bytes more)", n - cut);
    json_t *v = json_stringn(CAY_OR(b.data, ""), b.len);
    return CAY_OR(v, json_null());
}

int cay__input_items(const char *input, json_t **out, cay_err *err)
{
    if (!input || !*input)
        return cay_fail(err, CAY_EINVAL, "a run needs an input; say what is to be done");
    if (input[strspn(input, " \t\r\n")] != '[') {
        json_t *m =
            json_pack("[{s:s, s:s, s:s}]", "type", "message", "role", "user", "content", input);
        if (!m)
            return cay_fail(err, CAY_EINVAL, "the input is no UTF-8 text");
        *out = m;
        return 0;
    }
    CAY_AUTOJSON *j = NULL;
    CAY_TRY(cay__json_any("the input", input, &j, err));
    if (!json_array_size(j))
        return cay_fail(err, CAY_EINVAL, "the input is an empty list");
    CAY_EACH_ITEM(item, j)
        if (!json_is_object(item))
            return cay_fail(err, CAY_EINVAL, "item %zu of the input is no object", item_at + 1);
    *out = CAY_STEAL(j);
    return 0;
}
