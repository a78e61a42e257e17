/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a sandbox. */
#include "shapes.h"

#define FIELD CAY__FIELD
#define NAMED CAY__NAMED

static const char *const file_words[] = { "ffile", "ddirectory", "llink", "oother", NULL };
#define STAT(member, ...) NAMED(#member, cay_dirent, st.member, __VA_ARGS__)
static const cay__field file_fields[] = {
    FIELD(cay_dirent, path, PATH),
    STAT(type, LETTER, .more = file_words),
    STAT(size, U64),
    STAT(mode, MODE),
    STAT(uid, U32),
    STAT(gid, U32),
    STAT(mtime_ns, I64),
    STAT(inode, U64),
    STAT(nlink, U32),
    STAT(target, PLACE, CAY__F_MAYBE, .about = "of a link"),
};
CAY__SHAPED(file, "File", cay_dirent, CAY__F_OUT, "a file, directory or link");

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
CAY__SHAPED(grep, "Grep", cay__grep_body, CAY__F_IN, NULL);

static const cay__field match_fields[] = {
    FIELD(cay_match, path, PATH),
    FIELD(cay_match, line, U64),
    FIELD(cay_match, column, U64, .about = "byte, from 1"),
    FIELD(cay_match, text, BYTES, .count = offsetof(cay_match, text_len),
          .about = "the line, cut at 4096 bytes"),
};
CAY__SHAPED(match, "Match", cay_match, CAY__F_OUT, NULL);

#define PATH_FIELD(member) FIELD(cay__edit_body, member, PATH, CAY__F_REQUIRED, .min = 1)
static const cay__field mkdir_fields[] = {
    PATH_FIELD(path),
    FIELD(cay__edit_body, mode, MODE, .about = "0755"),
    FIELD(cay__edit_body, parents, BOOL,
          .about = "make missing ones above it; one that is there is fine"),
};
CAY__SHAPED(mkdir, "Mkdir", cay__edit_body, CAY__F_IN, NULL);

static const cay__field rename_fields[] = {
    PATH_FIELD(from),
    PATH_FIELD(to),
};
CAY__SHAPED(rename, "Rename", cay__edit_body, CAY__F_IN, NULL);

static const cay__field symlink_fields[] = {
    PATH_FIELD(target),
    PATH_FIELD(path),
};
CAY__SHAPED(symlink, "Symlink", cay__edit_body, CAY__F_IN, NULL);

static const cay__field chmod_fields[] = {
    PATH_FIELD(path),
    FIELD(cay__edit_body, mode, MODE, CAY__F_REQUIRED),
};
CAY__SHAPED(chmod, "Chmod", cay__edit_body, CAY__F_IN, NULL);

static const cay__field chown_fields[] = {
    PATH_FIELD(path),
    FIELD(cay__edit_body, uid, U32, CAY__F_ZERO, .max = UINT32_MAX - 1),
    FIELD(cay__edit_body, gid, U32, CAY__F_ZERO, .max = UINT32_MAX - 1),
};
CAY__SHAPED(chown, "Chown", cay__edit_body, CAY__F_IN, "what is left out stays as it is");

static const cay__field names_fields[] = {
    FIELD(cay__names, items, STRS),
};
CAY__SHAPED(names, "Names", cay__names, CAY__F_OUT, NULL);

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
CAY__SHAPED(file_patch, "Patch", cay__file_patch, CAY__F_IN, NULL);

static const cay__field patched_fields[] = {
    FIELD(cay__patched, lines, STRS, .about = "\"Created a\", \"Updated b\", …"),
};
CAY__SHAPED(patched, "Patched", cay__patched, CAY__F_OUT, NULL);

static const cay__field unpacked_fields[] = {
    FIELD(cay__unpacked, files, U64),
    FIELD(cay__unpacked, directories, U64),
    FIELD(cay__unpacked, links, U64),
    FIELD(cay__unpacked, bytes, U64),
};
CAY__SHAPED(unpacked, "Unpacked", cay__unpacked, CAY__F_OUT, NULL);

static const char *const change_words[] = { "ccreate", "wwrite",    "rremove", "mrename",
                                            "pchmod",  "ooverflow", NULL };
static const cay__field watch_event_fields[] = {
    FIELD(cay_watch_event, change, LETTER, .more = change_words),
    FIELD(cay_watch_event, path, PATH),
    FIELD(cay_watch_event, from, PATH, CAY__F_MAYBE),
    NAMED("directory", cay_watch_event, dir, BOOL),
};
CAY__SHAPED(watch_event, "FileChange", cay_watch_event, CAY__F_OUT | CAY__F_SIZED, NULL);

#define ASK(member, ...) FIELD(cay__file_query, member, __VA_ARGS__)
#define PATH(says)       ASK(path, STR, CAY__F_REQUIRED, .about = says)
#define USER             ASK(user, STR, .about = "with whose rights; the sandbox's default user")

static const cay__field file_stat_params[] = {
    PATH(""),
    ASK(follow, BOOL, .about = "what a link leads to, instead of the link"),
    USER,
};
CAY__ASKED(file_stat, cay__file_query);

static const cay__field file_list_params[] = {
    PATH("a directory"),
    ASK(depth, U64, .max = 4096, .about = "1: the directory itself; 0: all the way down"),
    ASK(kept, BOOL,
        .about = "of one that is stopped, as it was left, without starting it; depth is 1 then"),
    USER,
};
CAY__ASKED(file_list, cay__file_query);

static const cay__field file_glob_params[] = {
    PATH("a directory"),
    ASK(pattern, STR, CAY__F_REQUIRED,
        .about = "*, ?, [a-z], and ** for any number of directories"),
    USER,
};
CAY__ASKED(file_glob, cay__file_query);

static const cay__field file_get_params[] = {
    PATH(""),
    ASK(user, STR, .about = "with whose rights"),
    ASK(kept, BOOL, .about = "of one that is stopped, as it was left, without starting it"),
};
CAY__ASKED(file_get, cay__file_query);

static const cay__field file_put_params[] = {
    PATH(""),
    ASK(mode, STR, .about = "octal; 0644, or what the replaced file had"),
    ASK(parents, BOOL, .about = "make missing directories"),
    ASK(append, BOOL, .about = "add to its end instead of replacing it"),
    ASK(exclusive, BOOL, .about = "409 when it is there"),
    ASK(user, STR, .about = "whose it becomes, and with whose rights"),
};
CAY__ASKED(file_put, cay__file_query);

static const cay__field file_post_params[] = {
    PATH("a directory"),
    ASK(user, STR, .about = "whose they become"),
};
CAY__ASKED(file_post, cay__file_query);

static const cay__field file_user_params[] = {
    USER,
};
CAY__ASKED(file_user, cay__file_query);

static const cay__field file_delete_params[] = {
    PATH(""),
    ASK(recursive, BOOL, .about = "with all that is in it"),
    USER,
};
CAY__ASKED(file_delete, cay__file_query);

static const cay__field file_path_params[] = {
    PATH(""),
    USER,
};
CAY__ASKED(file_path, cay__file_query);

static const cay__field file_xattr_params[] = {
    PATH(""),
    ASK(name, STR, CAY__F_REQUIRED, .about = "user.…"),
    USER,
};
CAY__ASKED(file_xattr, cay__file_query);

static const cay__field file_tar_params[] = {
    PATH(""),
};
CAY__ASKED(file_tar, cay__file_query);

static const cay__field file_watch_params[] = {
    PATH("a directory"),
    ASK(recursive, BOOL, .about = "what is below it, too"),
    USER,
};
CAY__ASKED(file_watch, cay__file_query);
