/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/shape.h - one table for one JSON object: it is read by it, written by it and described by
 * it.
 *
 *   cay__shape_read()  JSON into a struct, in the request's arena
 *   cay__shape_put()   a struct as JSON text
 *   cay__shape_schema()  what a JSON schema says of it
 *
 *     static const cay__field fork_fields[] = {
 *         { "count", CAY__F_SIZE, offsetof(cay_fork, n), .min = 1, .max = 1000, .about = "how many"
 * }, { "labels", CAY__F_PAIRS, offsetof(cay_fork, labels) },
 *     };
 *     const cay__shape cay__fork_shape = CAY__SHAPE("Fork", cay_fork, fork_fields, "several from
 * one");
 *
 * An error names the member by its path ("limits.memory") and says what is wanted; a member that no
 * row names is refused.
 */
#pragma once
#include <base/arena.h>
#include <base/buf.h>
#include <base/json.h>

typedef enum cay__field_kind {
    CAY__F_STR,    /* const char *; max: its bytes, 0: 131071. A NUL is refused */
    CAY__F_TEXT,   /* char[] inside the struct; answers alone */
    CAY__F_PATH,   /* const char *: any bytes; in answers NAME_hex besides when it is not UTF-8 */
    CAY__F_PLACE,  /* the same of a char[] */
    CAY__F_BYTES,  /* const char * and a size_t at `count`: NAME when it is UTF-8, else NAME_base64;
                      answers alone */
    CAY__F_BASE64, /* the same, as base64 only; read alone */
    CAY__F_BOOL,
    CAY__F_U16,
    CAY__F_U32,
    CAY__F_U64,
    CAY__F_SIZE,
    CAY__F_INT,
    CAY__F_I64,    /* min and max; max 0: what the type holds */
    CAY__F_LIMIT,  /* uint64_t or "unlimited" */
    CAY__F_MODE,   /* uint32_t as octal text */
    CAY__F_WORD,   /* int: which of the words in `more` (const char *const *, NULL-terminated) */
    CAY__F_CHOICE, /* const char *: one of them */
    CAY__F_SIGNAL, /* int: a name or number */
    CAY__F_STRS,   /* const char *const *, NULL-terminated; max: how many, 0: 10,000 */
    CAY__F_PAIRS,  /* const cay_pair *, ends with a NULL key: an object of strings */
    CAY__F_JSON,   /* const char *: the text of an object, or with CAY__F_ANY of any value */
    CAY__F_OBJECT, /* a struct inside; `more` is its shape */
    CAY__F_POINT,  /* const struct *, left out when NULL; answers alone */
    CAY__F_LIST,   /* const struct *, and a size_t at `count`; `more` is the shape of one */
    CAY__F_CALC,   /* answers alone: `put` writes the value; `more` is the text of its schema. */
} cay__field_kind;

enum {
    CAY__F_REQUIRED = 1u << 0,
    CAY__F_MAYBE = 1u << 1, /* in answers: left out when it is empty, zero or false */
    CAY__F_ANY = 1u << 2,
};

typedef struct cay__field {
    const char *name;
    cay__field_kind kind;
    size_t at; /* offset in the struct */
    unsigned flags;
    uint64_t min, max;
    const void *more;
    size_t count;
    const char *about; /* for the document */
    void (*put)(cay__buf *b, const void *value);
} cay__field;

typedef struct cay__shape {
    const char *name; /* of the schema: "Sandbox" */
    const cay__field *fields;
    size_t n, size;
    const char *about;
} cay__shape;
#define CAY__SHAPE(name_, type, fields_, about_)                                                   \
    {                                                                                              \
        name_, fields_, sizeof(fields_) / sizeof *(fields_), sizeof(type), about_                  \
    }

/* Fills *out, which the caller has set to its defaults, from an object. Reasons field_unknown,
 * field_missing, field_invalid; err->detail is
 * {"field": PATH}. Strings and arrays live in the arena. JSON null counts as not given. */
int cay__shape_read(cay__arena *mem, const json_t *obj, const cay__shape *s, void *out,
                    cay_err *err);
void cay__shape_put(cay__buf *b, const cay__shape *s, const void *obj);
/* The schema of the shape itself; shapes inside are {"$ref": "#/components/schemas/NAME"}. */
json_t *cay__shape_schema(const cay__shape *s);

/* "TERM", "SIGTERM", "15" or 15; -1 when it is none. */
int cay__signal_parse(const json_t *j);
/* Whole UTF-8? */
bool cay__utf8(const char *s, size_t n);
