/* SPDX-License-Identifier: Apache-2.0 */
/* A request's body, read by a table that has a row of every kind; what was read is written as JSON
 * that is sound. */
#include <base/base.h>
#include <cay/client.h>
#include <wire/shape.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

typedef struct inner {
    const char *name;
    uint64_t limit;
} inner;
typedef struct outer {
    const char *str, *path, *json, *any, *bytes, *choice;
    size_t nbytes, size;
    bool flag;
    uint16_t u16;
    uint32_t u32, mode;
    uint64_t u64;
    int num, word, sig;
    int64_t i64;
    const char *const *strs;
    const cay_pair *pairs;
    inner in;
    const inner *list;
    size_t nlist;
} outer;

static const char *const words[] = { "one", "two", NULL };
static const cay__field inner_fields[] = {
    { "name", CAY__F_STR, offsetof(inner, name), 0, CAY__F_REQUIRED, .min = 1, .max = 8 },
    { "limit", CAY__F_LIMIT, offsetof(inner, limit) },
};
static const cay__shape inner_shape =
    CAY__SHAPE("Inner", inner, inner_fields, CAY__F_IN | CAY__F_OUT, "inside");
#define AT(f) offsetof(outer, f)
static const cay__field outer_fields[] = {
    { "str", CAY__F_STR, AT(str), 0, CAY__F_MAYBE },
    { "path", CAY__F_PATH, AT(path), 0, CAY__F_MAYBE },
    { "json", CAY__F_JSON, AT(json), 0, CAY__F_MAYBE, .max = 64 },
    { "any", CAY__F_JSON, AT(any), 0, CAY__F_MAYBE | CAY__F_ANY },
    { "base64", CAY__F_BASE64, AT(bytes), 0, .count = AT(nbytes) },
    { "bytes", CAY__F_BYTES, AT(bytes), 0, CAY__F_MAYBE, .count = AT(nbytes) },
    { "choice", CAY__F_CHOICE, AT(choice), 0, CAY__F_MAYBE, .more = words },
    { "flag", CAY__F_BOOL, AT(flag), 0 },
    { "u16", CAY__F_U16, AT(u16), 0 },
    { "u32", CAY__F_U32, AT(u32), 0, .min = 2, .max = 9 },
    { "u64", CAY__F_U64, AT(u64), 0 },
    { "size", CAY__F_SIZE, AT(size), 0 },
    { "num", CAY__F_INT, AT(num), 0 },
    { "i64", CAY__F_I64, AT(i64), 0 },
    { "mode", CAY__F_MODE, AT(mode), 0 },
    { "word", CAY__F_WORD, AT(word), 0, .more = words },
    { "signal", CAY__F_SIGNAL, AT(sig), 0 },
    { "strs", CAY__F_STRS, AT(strs), 0, .max = 8 },
    { "pairs", CAY__F_PAIRS, AT(pairs), 0 },
    { "in", CAY__F_OBJECT, AT(in), 0, .more = &inner_shape },
    { "list", CAY__F_LIST, AT(list), 0, .count = AT(nlist), .max = 4, .more = &inner_shape },
};
static const cay__shape outer_shape =
    CAY__SHAPE("Outer", outer, outer_fields, CAY__F_IN | CAY__F_OUT, NULL);

/* base64 is read and not written, bytes the other way. */
static void write_out(const outer *o)
{
    static cay__field told[CAY_LEN(outer_fields)];
    cay__shape s = { "Told", told, 0, sizeof(outer), CAY__F_OUT, NULL };
    for (size_t i = 0; i < CAY_LEN(outer_fields); i++)
        if (outer_fields[i].kind != CAY__F_BASE64)
            told[s.n++] = outer_fields[i];
    CAY_AUTOBUF b = CAY__BUF(64 << 20);
    cay__shape_put(&b, &s, CAY__F_OUT, o);
    json_t *j = json_loads(b.data, JSON_ALLOW_NUL, NULL); /* a zero byte is text, too */
    if (!json_is_object(j))
        abort();
    json_decref(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    cay_err err = CAY_ERR_INIT;
    json_t *j = json_loadb((const char *)data, len,
                           JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    cay__arena mem = { 0 };
    outer o = { .num = 1 };
    if (!j)
        return 0;
    int rc = cay__shape_read(&mem, j, &outer_shape, CAY__F_IN, &o, &err);
    if (rc < 0 && (!*err.reason || !*err.msg || strpbrk(err.msg, "\n\033")))
        abort();
    for (size_t i = 0; rc == 0 && o.strs && o.strs[i]; i++)
        if (i > 8)
            abort();
    if (rc == 0)
        write_out(&o);
    outer answer = { .num = 1 }; /* as an answer: whatever comes, it ends */
    (void)cay__shape_read(&mem, j, &outer_shape, CAY__F_OUT, &answer, NULL);
    json_t *schema = cay__shape_schema(&outer_shape);
    if (!json_is_object(schema))
        abort();
    json_decref(schema);
    cay__arena_clear(&mem);
    json_decref(j);
    return 0;
}
