/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack LAYER: a stream of items from TOOL_FD, as cay-unpack says them, becomes a layer. What an
 * archive of ours says of itself comes first and is told to who asked, who has to agree; its digest
 * comes last and has to be that of what passed.
 */
#include "pack.h"

typedef struct in {
    tool *t;
    cay__sink sink;
    seal seal;
    char digest[65];
    bool ours, asked;
    uint64_t said;
} in;

static int confirm_meta(in *i, const char *meta, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(CAY__REC_MAX), room = { 0 };
    cay__rec r;
    i->asked = true;
    cay__rec_str(&b, meta);
    CAY_TRY(tool_say(i->t, CAY__REC_META, &b, err));
    if (cay__rec_read(TOOL_SOCK, &room, &r) != 1 || r.type != CAY__REC_META)
        return cay_fail(err, CAY_ECANCELED, "nobody wants it any more");
    return 0;
}

static int on_note(const char *name, const char *text, size_t len, void *arg, cay_err *err)
{
    in *i = arg;
    if (!strcmp(name, "profile")) {
        i->ours = !strcmp(text, "snapshot");
        if (!i->ours) { /* a workspace and nothing else; it is its user's */
            i->sink.below = "workspace";
            i->sink.one_owner = true;
            i->sink.overlay = NULL;
        }
        if (i->ours)
            return 0;
        return confirm_meta(i, "", err);
    }
    if (!strcmp(name, "cay.json") && i->ours && !i->asked)
        return confirm_meta(i, text, err);
    if (!strcmp(name, "cay.sha256") && i->ours && i->asked && len >= 64) {
        memcpy(i->digest, text, 64);
        return 0;
    }
    return cay_fail_why(err, CAY_EINVAL, "archive_corrupt",
                        "%.60s: a description that does not belong there", name);
}

static void on_seen(const cay__item *it, const void *data, size_t len, void *arg)
{
    in *i = arg;
    if (it)
        seal_item(&i->seal, it);
    else
        seal_data(&i->seal, data, len);
}

static int on_check(uint64_t items, uint64_t bytes, void *arg, cay_err *err)
{
    in *i = arg;
    CAY_TRY(tool_check(i->t, err));
    return tool_progress(i->t, &i->said, items, bytes, err);
}

static int verify_digest(in *i, cay_err *err)
{
    char hex[65];
    seal_hex(&i->seal, hex);
    if (!i->asked)
        return cay_fail_why(err, CAY_EINVAL, "archive_corrupt", "it does not say what it is");
    if (i->ours && !i->digest[0])
        return cay_fail_why(err, CAY_EINVAL, "archive_corrupt",
                            "its digest is missing: it was cut, or made by something else");
    if (i->ours && strcmp(hex, i->digest))
        return cay_fail_why(err, CAY_EINVAL, "archive_digest",
                            "its content has digest %.16s…, and it says %.16s…", hex, i->digest);
    cay__rec_str(&i->t->out, hex);
    cay__rec_num(&i->t->out, i->sink.items);
    cay__rec_num(&i->t->out, i->sink.bytes);
    return 0;
}

int unpack_run(tool *t, cay_err *err)
{
    char stage[40];
    CAY_AUTOFD fd = -1;
    in i = { .t = t };
    if (t->nargs != 1)
        return cay_fail(err, CAY_EINVAL, "unpack takes one layer");
    CAY_TRY(tool_layer_name(t->args[0], err));
    remove_sweep(t, NULL); /* an import that was killed left as much as it had */
    CAY_TRY(tool_stage(t, stage, &fd, err));
    i.sink = (cay__sink){ .root = fd,
                          .threads = 2,
                          .owners = true,
                          .uid_base = tool_base(t),
                          .uid = 1000,
                          .gid = 1000,
                          .max_items = 500000,
                          .max_bytes = 8ull << 30,
                          .overlay = t->root ? "trusted.overlay." : "user.overlay.",
                          .note = on_note,
                          .seen = on_seen,
                          .check = on_check,
                          .arg = &i };
    seal_open(&i.seal);
    int rc = cay__sink_run(&i.sink, TOOL_FD, err);
    CAY_FAULT("unpack.made");
    if (rc == 0)
        rc = verify_digest(&i, err);
    seal_close(&i.seal);
    if (rc == 0)
        rc = tool_publish(t, stage, t->args[0], err);
    CAY_FAULT("unpack.published");
    if (rc < 0)
        tool_unstage(t, stage);
    return rc;
}
