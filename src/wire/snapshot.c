/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots, and what changed between two points. */
#include "shapes.h"
#include <sys/stat.h>

#define FIELD CAY__FIELD
#define NAMED CAY__NAMED

static const cay__field snapshot_fields[] = {
    FIELD(cay_snapshot, id, STR),
    FIELD(cay_snapshot, sandbox, STR),
    FIELD(cay_snapshot, parent, STR),
    FIELD(cay_snapshot, label, STR),
    FIELD(cay_snapshot, method, STR),
    FIELD(cay_snapshot, provider, STR),
    NAMED("template", cay_snapshot, template_, STR),
    FIELD(cay_snapshot, digest, STR),
    FIELD(cay_snapshot, durable, BOOL),
    FIELD(cay_snapshot, maybe_incomplete, BOOL),
    FIELD(cay_snapshot, automatic, BOOL),
    FIELD(cay_snapshot, created_ms, I64),
    FIELD(cay_snapshot, bytes, U64),
    FIELD(cay_snapshot, files, U64),
    FIELD(cay_snapshot, frozen_us, U64),
    FIELD(cay_snapshot, total_us, U64),
    FIELD(cay_snapshot, depth, SIZE),
    FIELD(cay_snapshot, users, SIZE),
    FIELD(cay_snapshot, metadata, JSON, CAY__F_MAYBE | CAY__F_FULL),
};
CAY__SHAPED(snapshot, "Snapshot", cay_snapshot, CAY__F_OUT | CAY__F_SIZED,
            "a workspace that is kept");

static const cay__field snapshot_spec_fields[] = {
    FIELD(cay_snapshot_spec, label, STR, .about = "a name that no other snapshot has"),
    FIELD(cay_snapshot_spec, metadata, JSON),
    FIELD(cay_snapshot_spec, quiet, BOOL, .about = "refuse while processes run"),
    FIELD(cay_snapshot_spec, stop, BOOL,
          .about = "where processes cannot be frozen, stop them by signals meanwhile"),
};
CAY__SHAPED(snapshot_spec, "SnapshotSpec", cay_snapshot_spec, CAY__F_IN, "a snapshot to be taken");

static const cay__field snapshot_label_fields[] = {
    { "label", CAY__F_STR, .flags = CAY__F_REQUIRED, .max = 63,
      .about = "a name that no other snapshot has; empty: none" },
};
CAY__SHAPED(snapshot_label, "SnapshotLabel", const char *, CAY__F_IN,
            "another name for a snapshot");

static const cay__field snapshot_gone_fields[] = {
    { "deferred", CAY__F_BOOL,
      .about = "others stand on its files, which stay until the last of them is gone" },
};
CAY__SHAPED(snapshot_gone, "SnapshotGone", bool, CAY__F_OUT, "a snapshot is forgotten");

static const cay__field change_side_fields[] = {
    FIELD(cay__change_side, type, STR),
    FIELD(cay__change_side, mode, MODE),
    FIELD(cay__change_side, size, U64),
};
CAY__SHAPED(change_side, "ChangeSide", cay__change_side, CAY__F_OUT, "what it was, or is");

static const cay__field change_fields[] = {
    FIELD(cay__file_changed, kind, TEXT,
          .about = "A added, M modified, D deleted, T of another type, R a renamed directory"),
    FIELD(cay__file_changed, path, PATH),
    FIELD(cay__file_changed, from, PATH, CAY__F_MAYBE),
    FIELD(cay__file_changed, old, POINT, CAY__F_NULL, .more = &cay__change_side_shape),
    FIELD(cay__file_changed, new, POINT, CAY__F_NULL, .more = &cay__change_side_shape),
    FIELD(cay__file_changed, content, BOOL),
    FIELD(cay__file_changed, mode, BOOL),
    FIELD(cay__file_changed, owner, BOOL),
    FIELD(cay__file_changed, old_digest, STR, CAY__F_MAYBE,
          .about = "SHA-256 of what the file held, or of where the link led"),
    NAMED("patch", cay__file_changed, text, BYTES, CAY__F_MAYBE,
          .count = offsetof(cay__file_changed, text_len)),
};
CAY__SHAPED(change, "Change", cay__file_changed, CAY__F_OUT, "one file that is not as it was");

static const char *type_of(uint32_t mode)
{
    if (S_ISDIR(mode))
        return "directory";
    if (S_ISREG(mode))
        return "file";
    if (S_ISLNK(mode))
        return "link";
    return "other";
}

void cay__file_changed_set(cay__file_changed *x, const cay_file_change *c)
{
    *x = (cay__file_changed){
        .kind = { c->kind },
        .path = c->path,
        .from = c->from,
        .text = c->text,
        .text_len = c->text_len,
        .old_digest = c->old_digest,
        .content = c->content,
        .mode = c->mode,
        .owner = c->owner,
        .sides = { { type_of(c->old_mode), c->old_mode & 07777, c->old_size },
                   { type_of(c->new_mode), c->new_mode & 07777, c->new_size } },
    };
    if (c->old_mode)
        x->old = &x->sides[0];
    if (c->new_mode)
        x->new = &x->sides[1];
}

static const cay__field diff_params[] = {
    FIELD(cay_diff, a, STR, CAY__F_REQUIRED, .about = "a sandbox or snapshot"),
    FIELD(cay_diff, b, STR,
          .about = "another; without it what sandbox a changed since it was made"),
    FIELD(cay_diff, all, BOOL, .about = "the whole root, not only /workspace"),
    FIELD(cay_diff, every, BOOL, .about = "each file below deleted and renamed directories"),
    FIELD(cay_diff, patch, BOOL, .about = "with the text of each change"),
    FIELD(cay_diff, digest, BOOL, .about = "with the digest of what each file was, and no renames"),
    FIELD(cay_diff, context, U32, .max = 1000, .about = "lines around a change"),
};
CAY__ASKED(diff, cay_diff);

static const cay__field snapshot_list_params[] = {
    FIELD(cay_snapshot_filter, sandbox, STR, .about = "of this one"),
    FIELD(cay_snapshot_filter, label, STR, .about = "with this label"),
    FIELD(cay_snapshot_filter, limit, SIZE, .max = 1000, .about = "how many at most"),
    FIELD(cay_snapshot_filter, after, STR, .about = "`next` of the answer before, or an id"),
};
CAY__ASKED(snapshot_list, cay_snapshot_filter);

static const cay__field snapshot_export_params[] = {
    FIELD(cay_export, since, STR, .about = "only what changed after this snapshot"),
    FIELD(cay_export, format, STR, .about = "cay, tar or js"),
};
CAY__ASKED(snapshot_export, cay_export);

static const cay__field snapshot_import_params[] = {
    FIELD(cay_import, label, STR, .about = "a name for it"),
};
CAY__ASKED(snapshot_import, cay_import);
