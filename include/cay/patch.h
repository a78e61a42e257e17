/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/patch.h - patches as agents write them (V4A): files added, changed, moved, deleted by
 * context, without line numbers.
 *
 *   cay_patch_parse()   text to operations, errors name the line
 *   cay_patch_free()
 *   cay_patch_apply()   carry them out in a sandbox
 *   cay_patch_update()  one file's text, nothing touched
 *
 * *** Begin Patch         Also read: JSON {"operations": [{"type", "path", "diff", "move_to"}]},
 *                         one operation,
 * *** Update File: a.txt  a list, {"patch": TEXT} and {"command": ["apply_patch", TEXT]}.
 * @@ def f():
 *  kept line
 * -old line
 * +new line
 * *** End Patch
 */
#pragma once
#include <cay/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAY_PATCH_MAX (64u << 20) /* bytes of a patch, and of a file that it changes */

typedef enum cay_patch_kind {
    CAY_PATCH_CREATE = 'c',
    CAY_PATCH_UPDATE = 'u',
    CAY_PATCH_DELETE = 'd'
} cay_patch_kind;
typedef struct cay_patch_op {
    cay_patch_kind kind;
    const char *path;    /* as written */
    const char *move_to; /* or NULL */
    const char *diff;    /* lines with their signs, NUL-terminated; "" for DELETE */
} cay_patch_op;
typedef struct cay_patch {
    size_t size;
    const cay_patch_op *ops;
    size_t n;
} cay_patch;

/* CAY_EINVAL "patch_invalid": the message names the line or the operation. */
CAY_API int cay_patch_parse(const char *text, cay_patch **out, cay_err *err);
CAY_API void cay_patch_free(cay_patch *p);

/* The text of a file after a diff; *out is malloc'ed. CAY_EINVAL "apply_patch_invalid_diff". *fuzz
 * (may be NULL) tells how far the context was from exact: 0 exact, 1 trailing blanks, 100 blanks at
 * both ends, 10,000 not at the end of the file. */
CAY_API int cay_patch_update(const char *text, size_t len, const char *diff, char **out,
                             size_t *out_len, unsigned *fuzz, cay_err *err);

typedef struct cay_patch_spec {
    size_t size;
    const char *root; /* paths must stay below; NULL: the sandbox's working directory */
    const char *cwd;  /* where relative ones begin; NULL: root */
    const char *user; /* whose rights; NULL: the sandbox's default user */
    bool exclusive;   /* CREATE over a file that is there fails */
    bool dry;         /* look whether it would apply; change nothing */
} cay_patch_spec;

/* Checks every path before the first change, then carries the operations out in order up to the
 * first that fails; fn (may be NULL) hears of each that is done: "Created a", "Updated a", "Deleted
 * a", "Moved a to b". Paths are those of the patch. CAY_EINVAL "apply_patch_invalid_path",
 * "apply_patch_invalid_diff"; CAY_ENOENT "apply_patch_file_not_found"; CAY_ETYPE
 * "apply_patch_decode_error" for a file that is no UTF-8. */
CAY_API int cay_patch_apply(cay_sandbox *sb, const cay_call *call, const cay_patch *p,
                            const cay_patch_spec *spec, int (*fn)(const char *line, void *arg),
                            void *arg, cay_err *err);
/* The path in its canonical form below root, in buf; CAY_EINVAL "apply_patch_invalid_path". */
CAY_API int cay_patch_path(const char *path, const char *root, const char *cwd, char *buf,
                           size_t cap, cay_err *err);

#ifdef __cplusplus
}
#endif
