/* SPDX-License-Identifier: Apache-2.0 */
/* cay audit ls, verify: who did what, and whether it is all still there. */
#include "main.h"
#include "show.h"
#include <base/base.h>
#include <cay/audit.h>

void cli_audit(const char *action, const char *tenant, const char *object)
{
    char actor[24];
    cay_err err = CAY_ERR_INIT;
    cay_client *client;
    CAY_FORMAT(actor, "uid:%u", (unsigned)getuid());
    cay_audit a = { .size = sizeof a,
                    .actor = actor,
                    .tenant = tenant,
                    .action = action,
                    .object = object,
                    .verdict = "ok" };
    if (cli_client(&client, &err) < 0 || cay_audit_put(client, &a, &err) < 0)
        out_note("cay: it is done, but not in the audit log: %s", err.msg);
}

typedef struct audit_ls_args {
    const char *tenant, *object, *action;
    uint64_t last, since_ms;
} audit_ls_args;

static const opt_def ls_defs[] = {
    OPT_STR("--tenant NAME", "only of one tenant", audit_ls_args, tenant),
    OPT_STR("--object ID", "only what was done to it", audit_ls_args, object),
    OPT_STR("--action TEXT", "only what begins so: \"POST /\", key.", audit_ls_args, action),
    OPT_MS("--since TIME", "only of the last 1h, 2d, …", audit_ls_args, since_ms, 1),
    OPT_NUM("-n, --last N", "only the newest; default 1000", audit_ls_args, last, 1),
    OPT_END
};

static int on_line(const cay_audit *a, void *arg)
{
    out_list *r = arg;
    char seq[24];
    CAY_FORMAT(seq, "%ju", a->seq);
    if (!show_item(r, &cay__audit_shape, a, seq)) {
        out_row(&r->table, "~%s|%s|%s|-%s|*%s|-%s|%c%s", seq, out_time(a->time_ms).s, a->actor,
                a->tenant, a->action, a->object, !strcmp(a->verdict, "ok") ? OUT_GOOD : OUT_WARN,
                a->verdict);
    }
    return out_broken();
}

static int list_records(cli_call *c, cay_err *err)
{
    const audit_ls_args *a = c->opts;
    cay_audit_filter f = { .size = sizeof f,
                           .tenant = a->tenant,
                           .object = a->object,
                           .action = a->action,
                           .last = a->last ? (size_t)a->last : 1000 };
    if (a->since_ms && a->since_ms != CAY_UNLIMITED)
        f.since_ms = cay__clock_ms() - (int64_t)CAY_MIN(a->since_ms, (uint64_t)1 << 42);
    return cay_audit_list(c->client, &f, on_line, c->list, err);
}

const cli_verb cli_audit_ls = {
    "audit ls",
    "[OPTIONS]",
    "tell who did what, oldest first",
    .examples = "  cay audit ls --tenant acme --since 1d\n"
                "  cay audit ls --object cabc… --json",
    CLI_OPTS(ls_defs, audit_ls_args),
    .needs = CLI_CLIENT,
    .columns = ">SEQ|TIME|WHO|TENANT|ACTION|OBJECT|VERDICT",
    .fn = list_records,
};

typedef struct verify_args {
    const char *head;
} verify_args;

static const opt_def verify_defs[] = {
    OPT_STR("--head SEQ:HASH", "what an earlier proof told: it has to be there still", verify_args,
            head),
    OPT_END
};

static void print_proof(const cay_audit_proof *p)
{
    if (cli.json) {
        const cay__audit_proof_told told = { .p = *p, .sound = !*p->why };
        show_print(&cay__audit_proof_shape, &told);
        return;
    }
    if (!p->last) {
        out_str("nothing was logged yet\n");
        return;
    }
    out_fmt("lines %ju to %ju follow each other", p->first, p->last);
    if (p->torn)
        out_fmt("; %ju cut by a crash", p->torn);
    if (p->dropped)
        out_fmt("; %ju more were only counted", p->dropped);
    out_fmt("\nhead %ju:%s\n", p->last, p->head);
}

static int verify_audit(cli_call *c, cay_err *err)
{
    const verify_args *a = c->opts;
    cay_audit_proof p = { .size = sizeof p };
    int rc = cay_audit_verify(c->client, a->head, &p, err);
    if (rc == 0 || (cli.json && *p.why))
        print_proof(&p);
    return rc;
}

const cli_verb cli_audit_verify = {
    "audit verify",
    "[--head SEQ:HASH]",
    "prove that no line was changed, taken out or put in",
    .text = "Keep the head that it prints somewhere else; given back later, it shows that nothing "
            "was taken from the end or written anew.",
    .examples = "  cay audit verify\n"
                "  cay audit verify --head 1042:9f86d0…",
    CLI_OPTS(verify_defs, verify_args),
    .needs = CLI_CLIENT,
    .fn = verify_audit,
};
