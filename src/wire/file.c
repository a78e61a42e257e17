/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a sandbox. */
#include "shapes.h"

#define FIELD CAY__FIELD
#define NAMED CAY__NAMED

static const char *const file_words[] = { "ffile", "ddirectory", "llink", "oother", NULL };
static const cay__field file_fields[] = {
    FIELD(cay_dirent, path, PATH),
    NAMED("type", cay_dirent, st.type, LETTER, .more = file_words),
    NAMED("size", cay_dirent, st.size, U64),
    NAMED("mode", cay_dirent, st.mode, MODE),
    NAMED("uid", cay_dirent, st.uid, U32),
    NAMED("gid", cay_dirent, st.gid, U32),
    NAMED("mtime_ns", cay_dirent, st.mtime_ns, I64),
    NAMED("inode", cay_dirent, st.inode, U64),
    NAMED("nlink", cay_dirent, st.nlink, U32),
    NAMED("target", cay_dirent, st.target, PLACE, CAY__F_MAYBE, .about = "of a link"),
};
const cay__shape cay__file_shape =
    CAY__SHAPE("File", cay_dirent, file_fields, CAY__F_OUT, "a file, directory or link");

static const cay__field grep_fields[] = {
    FIELD(cay__grep_body, path, PATH, CAY__F_REQUIRED, .about = "where to look"),
    NAMED("pattern", cay__grep_body, g.pattern, STR, CAY__F_REQUIRED,
          .about = "a POSIX extended regular expression"),
    NAMED("plain", cay__grep_body, g.plain, BOOL, .about = "it is plain text"),
    NAMED("ignore_case", cay__grep_body, g.ignore_case, BOOL),
    NAMED("include", cay__grep_body, g.include, STR,
          .about = "only files whose name fits this pattern"),
    NAMED("max", cay__grep_body, g.max, U64, .max = 1000000, .about = "matches; 10000"),
};
const cay__shape cay__grep_shape = CAY__SHAPE("Grep", cay__grep_body, grep_fields, CAY__F_IN, NULL);

static const cay__field match_fields[] = {
    FIELD(cay_match, path, PATH),
    FIELD(cay_match, line, U64),
    FIELD(cay_match, column, U64, .about = "byte, from 1"),
    FIELD(cay_match, text, BYTES, .count = offsetof(cay_match, text_len),
          .about = "the line, cut at 4096 bytes"),
};
const cay__shape cay__match_shape = CAY__SHAPE("Match", cay_match, match_fields, CAY__F_OUT, NULL);

#define PATH_FIELD(member) FIELD(cay__edit_body, member, PATH, CAY__F_REQUIRED, .min = 1)
static const cay__field mkdir_fields[] = {
    PATH_FIELD(path),
    FIELD(cay__edit_body, mode, MODE, .about = "0755"),
    FIELD(cay__edit_body, parents, BOOL,
          .about = "make missing ones above it; one that is there is fine"),
};
const cay__shape cay__mkdir_shape =
    CAY__SHAPE("Mkdir", cay__edit_body, mkdir_fields, CAY__F_IN, NULL);

static const cay__field rename_fields[] = {
    PATH_FIELD(from),
    PATH_FIELD(to),
};
const cay__shape cay__rename_shape =
    CAY__SHAPE("Rename", cay__edit_body, rename_fields, CAY__F_IN, NULL);

static const cay__field symlink_fields[] = {
    PATH_FIELD(target),
    PATH_FIELD(path),
};
const cay__shape cay__symlink_shape =
    CAY__SHAPE("Symlink", cay__edit_body, symlink_fields, CAY__F_IN, NULL);

static const cay__field chmod_fields[] = {
    PATH_FIELD(path),
    FIELD(cay__edit_body, mode, MODE, CAY__F_REQUIRED),
};
const cay__shape cay__chmod_shape =
    CAY__SHAPE("Chmod", cay__edit_body, chmod_fields, CAY__F_IN, NULL);

static const cay__field chown_fields[] = {
    PATH_FIELD(path),
    FIELD(cay__edit_body, uid, U32, CAY__F_ZERO, .max = UINT32_MAX - 1),
    FIELD(cay__edit_body, gid, U32, CAY__F_ZERO, .max = UINT32_MAX - 1),
};
const cay__shape cay__chown_shape =
    CAY__SHAPE("Chown", cay__edit_body, chown_fields, CAY__F_IN, "what is left out stays as it is");

static const cay__field names_fields[] = {
    FIELD(cay__names, items, STRS),
};
const cay__shape cay__names_shape = CAY__SHAPE("Names", cay__names, names_fields, CAY__F_OUT, NULL);

static const cay__field file_patch_fields[] = {
    FIELD(cay__file_patch, patch, STR, CAY__F_REQUIRED, .max = 8 << 20,
          .about = "*** Begin Patch …"),
    NAMED("root", cay__file_patch, spec.root, PATH,
          .about = "paths must stay below it; the working directory"),
    NAMED("cwd", cay__file_patch, spec.cwd, PATH),
    NAMED("user", cay__file_patch, spec.user, STR),
    NAMED("dry", cay__file_patch, spec.dry, BOOL, .about = "would it apply?"),
    NAMED("exclusive", cay__file_patch, spec.exclusive, BOOL,
          .about = "a file that is there is not made anew"),
};
const cay__shape cay__file_patch_shape =
    CAY__SHAPE("Patch", cay__file_patch, file_patch_fields, CAY__F_IN, NULL);

static const cay__field patched_fields[] = {
    FIELD(cay__patched, lines, STRS, .about = "\"Created a\", \"Updated b\", …"),
};
const cay__shape cay__patched_shape =
    CAY__SHAPE("Patched", cay__patched, patched_fields, CAY__F_OUT, NULL);

static const cay__field unpacked_fields[] = {
    FIELD(cay__unpacked, files, U64),
    FIELD(cay__unpacked, directories, U64),
    FIELD(cay__unpacked, links, U64),
    FIELD(cay__unpacked, bytes, U64),
};
const cay__shape cay__unpacked_shape =
    CAY__SHAPE("Unpacked", cay__unpacked, unpacked_fields, CAY__F_OUT, NULL);

static const char *const change_words[] = { "ccreate", "wwrite",    "rremove", "mrename",
                                            "pchmod",  "ooverflow", NULL };
static const cay__field watch_event_fields[] = {
    FIELD(cay_watch_event, change, LETTER, .more = change_words),
    FIELD(cay_watch_event, path, PATH),
    FIELD(cay_watch_event, from, PATH, CAY__F_MAYBE),
    NAMED("directory", cay_watch_event, dir, BOOL),
};
const cay__shape cay__watch_event_shape =
    CAY__SHAPE("FileChange", cay_watch_event, watch_event_fields, CAY__F_OUT | CAY__F_SIZED, NULL);

static const cay__field file_stat_params[] = {
    FIELD(cay__file_query, path, STR, CAY__F_REQUIRED, .about = ""),
    FIELD(cay__file_query, follow, BOOL, .about = "what a link leads to, instead of the link"),
    FIELD(cay__file_query, user, STR, .about = "with whose rights; the sandbox's default user"),
};
const cay__shape cay__file_stat_query = CAY__QUERY(cay__file_query, file_stat_params);

static const cay__field file_list_params[] = {
    FIELD(cay__file_query, path, STR, CAY__F_REQUIRED, .about = "a directory"),
    FIELD(cay__file_query, depth, U64, .max = 4096,
          .about = "1: the directory itself; 0: all the way down"),
    FIELD(cay__file_query, kept, BOOL,
          .about = "of one that is stopped, as it was left, without starting it; depth is 1 then"),
    FIELD(cay__file_query, user, STR, .about = "with whose rights; the sandbox's default user"),
};
const cay__shape cay__file_list_query = CAY__QUERY(cay__file_query, file_list_params);

static const cay__field file_glob_params[] = {
    FIELD(cay__file_query, path, STR, CAY__F_REQUIRED, .about = "a directory"),
    FIELD(cay__file_query, pattern, STR, CAY__F_REQUIRED,
          .about = "*, ?, [a-z], and ** for any number of directories"),
    FIELD(cay__file_query, user, STR, .about = "with whose rights; the sandbox's default user"),
};
const cay__shape cay__file_glob_query = CAY__QUERY(cay__file_query, file_glob_params);

static const cay__field file_get_params[] = {
    FIELD(cay__file_query, path, STR, CAY__F_REQUIRED, .about = ""),
    FIELD(cay__file_query, user, STR, .about = "with whose rights"),
    FIELD(cay__file_query, kept, BOOL,
          .about = "of one that is stopped, as it was left, without starting it"),
};
const cay__shape cay__file_get_query = CAY__QUERY(cay__file_query, file_get_params);

static const cay__field file_put_params[] = {
    FIELD(cay__file_query, path, STR, CAY__F_REQUIRED, .about = ""),
    FIELD(cay__file_query, mode, STR, .about = "octal; 0644, or what the replaced file had"),
    FIELD(cay__file_query, parents, BOOL, .about = "make missing directories"),
    FIELD(cay__file_query, append, BOOL, .about = "add to its end instead of replacing it"),
    FIELD(cay__file_query, exclusive, BOOL, .about = "409 when it is there"),
    FIELD(cay__file_query, user, STR, .about = "whose it becomes, and with whose rights"),
};
const cay__shape cay__file_put_query = CAY__QUERY(cay__file_query, file_put_params);

static const cay__field file_post_params[] = {
    FIELD(cay__file_query, path, STR, CAY__F_REQUIRED, .about = "a directory"),
    FIELD(cay__file_query, user, STR, .about = "whose they become"),
};
const cay__shape cay__file_post_query = CAY__QUERY(cay__file_query, file_post_params);

static const cay__field file_user_params[] = {
    FIELD(cay__file_query, user, STR, .about = "with whose rights; the sandbox's default user"),
};
const cay__shape cay__file_user_query = CAY__QUERY(cay__file_query, file_user_params);

static const cay__field file_delete_params[] = {
    FIELD(cay__file_query, path, STR, CAY__F_REQUIRED, .about = ""),
    FIELD(cay__file_query, recursive, BOOL, .about = "with all that is in it"),
    FIELD(cay__file_query, user, STR, .about = "with whose rights; the sandbox's default user"),
};
const cay__shape cay__file_delete_query = CAY__QUERY(cay__file_query, file_delete_params);

static const cay__field file_path_params[] = {
    FIELD(cay__file_query, path, STR, CAY__F_REQUIRED, .about = ""),
    FIELD(cay__file_query, user, STR, .about = "with whose rights; the sandbox's default user"),
};
const cay__shape cay__file_path_query = CAY__QUERY(cay__file_query, file_path_params);

static const cay__field file_xattr_params[] = {
    FIELD(cay__file_query, path, STR, CAY__F_REQUIRED, .about = ""),
    FIELD(cay__file_query, name, STR, CAY__F_REQUIRED, .about = "user.…"),
    FIELD(cay__file_query, user, STR, .about = "with whose rights; the sandbox's default user"),
};
const cay__shape cay__file_xattr_query = CAY__QUERY(cay__file_query, file_xattr_params);

static const cay__field file_tar_params[] = {
    FIELD(cay__file_query, path, STR, CAY__F_REQUIRED, .about = ""),
};
const cay__shape cay__file_tar_query = CAY__QUERY(cay__file_query, file_tar_params);

static const cay__field file_watch_params[] = {
    FIELD(cay__file_query, path, STR, CAY__F_REQUIRED, .about = "a directory"),
    FIELD(cay__file_query, recursive, BOOL, .about = "what is below it, too"),
    FIELD(cay__file_query, user, STR, .about = "with whose rights; the sandbox's default user"),
};
const cay__shape cay__file_watch_query = CAY__QUERY(cay__file_query, file_watch_params);
