/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/shape.h - one table for one JSON object: it is read, written and described by it.
 *
 *   cay__shape_read()    JSON into a struct, in an arena
 *   cay__shape_put()     a struct as JSON text
 *   cay__shape_schema()  what a JSON schema says of it
 *
 *     static const cay__field fork_fields[] = {
 *         CAY__NAMED("count", cay_fork, n, SIZE, .min = 1, .max = 1000),
 *         CAY__FIELD(cay_fork, labels, PAIRS, CAY__F_MAYBE, .about = "instead of its own"),
 *     };
 *     const cay__shape cay__fork_shape =
 *         CAY__SHAPE("Fork", cay_fork, fork_fields, CAY__F_IN, "several from one");
 *
 * A field says where it is used (CAY__F_IN, OUT, KEPT, SHOWN) and who may see it (CAY__F_ADMIN,
 * SECRET); one that says nothing is used where its shape is. Reader and writer name their view, and
 * a field outside of it is neither sent nor taken.
 */
#pragma once
#include <base/json.h>

typedef enum cay__field_kind {
    CAY__F_STR,    /* const char *; max: its bytes, 0: 131071. A NUL is refused */
    CAY__F_TEXT,   /* char[] inside the struct; answers alone */
    CAY__F_PATH,   /* const char *: any bytes; in answers NAME_hex besides when it is not UTF-8 */
    CAY__F_PLACE,  /* the same of a char[] */
    CAY__F_BYTES,  /* const char * and a size_t at `count`: NAME when it is UTF-8, else NAME_base64;
                      answers alone */
    CAY__F_BASE64, /* the same, as base64 only; requests alone */
    CAY__F_BOOL,
    CAY__F_U16,
    CAY__F_U32,
    CAY__F_U64,
    CAY__F_SIZE,
    CAY__F_INT,
    CAY__F_I64,    /* min and max; max 0: what the type holds */
    CAY__F_LIMIT,  /* uint64_t or "unlimited" */
    CAY__F_MODE,   /* uint32_t as octal text */
    CAY__F_WORD,   /* int: which of the words in `more` (const char *const *, NULL-terminated), the
                      first of them being `min` */
    CAY__F_LETTER, /* int or char: the first letter of one of the words in `more`,
                      which is told without it; any other letter is the last word's */
    CAY__F_CHOICE, /* const char *: one of the words */
    CAY__F_SIGNAL, /* int: a name or number */
    CAY__F_STRS,   /* const char *const *, NULL-terminated; max: how many, 0: 10,000 */
    CAY__F_PAIRS,  /* const cay_pair *, ends with a NULL key: an object of strings */
    CAY__F_JSON,   /* const char *: the text of an object, or with CAY__F_ANY of any value */
    CAY__F_OBJECT, /* a struct inside; `more` is its shape */
    CAY__F_POINT,  /* const struct *, left out when NULL; answers alone */
    CAY__F_LIST,   /* const struct *, and a size_t at `count`; `more` is the shape of one */
    CAY__F_CALC,   /* answers alone: `put` writes the value, `get` reads it, if it is read at all;
                      `more` is the text of its schema */
} cay__field_kind;

enum {
    CAY__F_REQUIRED = 1u << 0,
    CAY__F_MAYBE = 1u << 1, /* in answers: left out when it is empty, zero or false */
    CAY__F_ANY = 1u << 2,
    CAY__F_NULL = 1u << 3,  /* of POINT: null instead of left out; of a number: --json says null
                               for 0 */
    CAY__F_ZERO = 1u << 10, /* of a number: zero is sent in requests, and UINT32_MAX of a U32 is
                               not; of a list: it is kept when it is empty */
    /* where it is used, and what a view names */
    CAY__F_IN = 1u << 4,    /* requests: bodies and queries */
    CAY__F_OUT = 1u << 5,   /* answers */
    CAY__F_KEPT = 1u << 6,  /* records of the store */
    CAY__F_SHOWN = 1u << 7, /* cay --json; so is all that is in answers, but for: */
    CAY__F_UNSHOWN = 1u << 12,
    CAY__F_FULL = 1u << 13, /* of a MAYBE field: --json tells it also when it is empty */
    /* who may see it: a view without these leaves it out */
    CAY__F_ADMIN = 1u << 8,  /* scope admin; a request of others that has it is refused */
    CAY__F_SIZED = 1u << 11, /* of a shape: the struct begins with its size, which a reader of an
                                answer sets */
    CAY__F_SECRET = 1u << 9, /* told by operations with CAY__OP_SECRET alone; anybody may send it */
};

typedef struct cay__field {
    const char *name;
    cay__field_kind kind;
    size_t at, room; /* offset in the struct, and its bytes there */
    unsigned flags;
    uint64_t min, max;
    const void *more;
    size_t count;
    const char *about; /* for the document */
    void (*put)(cay__buf *b, const void *value);
    void (*get)(const json_t *j, void *value);
} cay__field;
#define CAY__NAMED(name_, type, member, kind_, ...)                                                \
    {                                                                                              \
        name_, CAY__F_##kind_, offsetof(type, member), sizeof(((type *)0)->member), __VA_ARGS__    \
    }
#define CAY__FIELD(type, member, ...) CAY__NAMED(#member, type, member, __VA_ARGS__)

typedef struct cay__shape {
    const char *name; /* of the schema: "Sandbox" */
    const cay__field *fields;
    size_t n, size;
    unsigned use; /* of fields that do not say: CAY__F_IN, OUT, KEPT, SHOWN */
    const char *about;
} cay__shape;
#define CAY__SHAPE(name_, type, fields_, use_, about_)                                             \
    {                                                                                              \
        name_, fields_, sizeof(fields_) / sizeof *(fields_), sizeof(type), use_, about_            \
    }

#define CAY__QUERY(type, fields_) CAY__SHAPE(NULL, type, fields_, CAY__F_IN, NULL)
/* cay__NAME_shape of NAME_fields, and cay__NAME_query of NAME_params, which others see. */
#define CAY__SHAPED(name, title, type, use, about)                                                 \
    const cay__shape cay__##name##_shape = CAY__SHAPE(title, type, name##_fields, use, about)
#define CAY__ASKED(name, type)                                                                     \
    const cay__shape cay__##name##_query = CAY__QUERY(type, name##_params)

/* Is the field of that shape there for one who looks with this view? */
bool cay__field_seen(const cay__shape *s, const cay__field *f, unsigned view);
/* What is at v as a number; 0 for kinds that are none. */
uint64_t cay__field_number(cay__field_kind kind, const void *v);

/* Fills *out, which the caller has set to its defaults, from an object. Strings and arrays live in
 * the arena. JSON null counts as not given.
 * CAY__F_IN: reasons field_unknown, field_missing, field_invalid, admin_only; err->detail is
 * {"field": PATH}.
 * CAY__F_KEPT: a record, which a newer version may have written: members that no row names are
 * skipped, {"hex": …} is a text that is not UTF-8, and errors have no reason.
 * CAY__F_OUT: an answer of a server that may be newer or older: members that no row names or that
 * are of another type are skipped, and texts and lists that are not there are empty, not NULL. */
int cay__shape_read(cay__arena *mem, const json_t *obj, const cay__shape *s, unsigned view,
                    void *out, cay_err *err);
/* With CAY__F_IN or KEPT what is empty, zero or false is left out unless it is REQUIRED. With KEPT
 * texts that are not UTF-8 are {"hex": …}, and of pairs with one key only the last is put. */
void cay__shape_put(cay__buf *b, const cay__shape *s, unsigned view, const void *obj);
/* Are all its texts UTF-8, as JSON wants them? */
bool cay__shape_utf8(const cay__shape *s, const void *obj);
/* The schema of the shape itself; shapes inside are {"$ref": "#/components/schemas/NAME"}. */
json_t *cay__shape_schema(const cay__shape *s);

/* Whole UTF-8? */
bool cay__utf8(const char *s, size_t n);
