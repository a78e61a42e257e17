/* SPDX-License-Identifier: Apache-2.0 */
/* Where a record meets the provider's box. */
#include "client.h"
#include <base/json.h>

#define BOX_MAX (1u << 20)

int cay__box_attach(cay_client *client, const cay_call *call, const cay_row *row,
                    cay__place **place, void **box, cay_err *err)
{
    CAY_AUTOJSON *state = NULL;
    void *self;
    CAY_TRY(cay__client_place(client, row->provider, place, err));
    CAY_TRY(cay__client_self(client, *place, &self, err));
    if (row->box && *row->box && row->state != CAY_CREATING)
        CAY_TRY(cay__json_object("record: box", row->box, &state, err));
    return (*place)->ops->attach(self, call, row->id, state, box, err);
}

int cay__box_text(const cay_provider_ops *ops, void *box, char **out, cay_err *err)
{
    CAY_AUTOJSON *j = NULL;
    if (ops->state)
        CAY_TRY(ops->state(box, &j, err));
    char *text;
    if (j)
        text = cay__json_text(j, BOX_MAX);
    else
        text = cay__strdup("");
    if (!text)
        return cay_fail(err, CAY_ETOOBIG, "provider %s gives a state of more than %u bytes",
                        ops->name, BOX_MAX);
    *out = text;
    return 0;
}

static int wipe_files(cay_client *client, const cay_call *call, cay__place *p, const char *id,
                      cay_err *err)
{
    void *self;
    if (!p->ops->remove_files)
        return 0;
    CAY_TRY(cay__client_self(client, p, &self, err));
    int rc = p->ops->remove_files(self, call, id, err);
    if (rc == CAY_ENOENT || rc == CAY_EGONE)
        return 0;
    return rc;
}

/* Nobody knows whose it was, so all are told that it is not wanted. */
static void wipe_anywhere(cay_client *client, const cay_call *call, const char *id)
{
    CAY_EACH_OF(it, client->places, client->nplaces)
        wipe_files(client, call, it, id, NULL);
}

int cay__box_wipe(cay_client *client, const cay_call *call, const cay_row *row, cay_err *err)
{
    cay__place *p;
    void *box = NULL;
    if (!cay__id_valid(row->id, 'c')) /* a damaged record owns nothing that could be named */
        return 0;
    int rc = cay__client_place(client, row->provider, &p, err);
    if (rc < 0 && row->state == CAY_DAMAGED) {
        wipe_anywhere(client, call, row->id);
        return 0;
    }
    CAY_TRY(rc);
    rc = cay__box_attach(client, call, row, &p, &box, err);
    if (rc == 0 && (rc = p->ops->destroy(box, call, err)) < 0)
        p->ops->release(box);
    if (rc == CAY_EGONE || rc == CAY_ENOENT)
        return wipe_files(client, call, p, row->id, err);
    return rc;
}

/* The provider's word becomes the record's, unless the record has moved meanwhile. */
static void take_over(cay_client *client, const cay_row *row, cay__truth *t)
{
    if (t->state != row->state && cay__state_may(row->state, t->state))
        CAY__STORE(client, move, row->id, CAY__BIT(row->state), t->state, t->reason, NULL, NULL);
}

const char *cay__gone_reason(const char *said)
{
    static const char *const empty[] = { "", "not_running", "sandbox_gone", "gone" };
    for (size_t i = 0; said && i < CAY_LEN(empty); i++)
        if (!strcmp(said, empty[i]))
            said = NULL;
    return CAY_OR(said, "lost");
}

static void is_gone(cay__truth *t, const char *reason)
{
    t->state = CAY_STOPPED;
    CAY_COPY(t->reason, cay__gone_reason(reason));
}

static void apply_status(cay__truth *t)
{
    t->asked = true;
    if (t->status.state == CAY_GONE || t->status.state == CAY_DELETING) {
        is_gone(t, t->status.reason);
    } else if (t->status.state == CAY_RUNNING || t->status.state == CAY_PAUSED ||
               t->status.state == CAY_STOPPED) {
        if (t->state != t->status.state || (t->status.reason && *t->status.reason))
            CAY_COPY(t->reason, CAY_OR(t->status.reason, ""));
        t->state = t->status.state;
    }
}

static int query_status(cay__truth *t, const cay_call *call, cay_err *err)
{
    t->status = (cay_box_status){ .size = sizeof t->status };
    CAY_TRY(t->ops->status(t->box, call, &t->status, err));
    apply_status(t);
    return 0;
}

static void init_truth(cay__truth *t, const cay_row *row)
{
    *t = (cay__truth){ .state = row->state };
    CAY_COPY(t->reason, CAY_OR(row->reason, ""));
}

void cay__truth_take(cay_client *client, const cay_row *row, const cay_box_status *status,
                     cay__truth *t)
{
    cay__place *p = NULL;
    init_truth(t, row);
    if (cay__client_place(client, row->provider, &p, NULL) == 0)
        t->ops = p->ops;
    t->status = *status;
    apply_status(t);
    take_over(client, row, t);
}

int cay__truth_find(cay_client *client, const cay_call *call, const cay_row *row, cay__truth *t,
                    cay_err *err)
{
    cay_err own = CAY_ERR_INIT;
    cay__place *p = NULL;
    init_truth(t, row);
    int rc = cay__client_place(client, row->provider, &p, &own);
    if (rc == 0)
        t->ops = p->ops;
    if (!cay__state_live(row->state))
        return 0;
    if (rc == 0)
        rc = cay__box_attach(client, call, row, &p, &t->box, &own);
    if (rc == 0)
        rc = query_status(t, call, &own);
    if (rc == CAY_EGONE) {
        is_gone(t, own.reason);
        rc = 0;
    }
    if (rc == 0)
        take_over(client, row, t);
    return cay__err_pass(rc, &own, err);
}

void cay__truth_clear(cay__truth *t)
{
    if (t->box)
        t->ops->release(t->box);
    t->box = NULL;
}

static void release_handle(cay_sandbox *sb)
{
    cay_client *client = sb->owner;
    void *box = atomic_exchange(&sb->box, NULL);
    cay__retired **at, *old, *mine = NULL;
    /* Boxes go before the client, which may close their provider. */
    if (box)
        sb->ops->release(box);
    pthread_mutex_lock(&client->lock);
    for (at = &client->retired; (old = *at);) {
        if (old->of == sb) {
            *at = old->next;
            old->next = mine;
            mine = old;
        } else {
            at = &old->next;
        }
    }
    pthread_mutex_unlock(&client->lock);
    while ((old = mine)) {
        mine = old->next;
        sb->ops->release(old->box);
        free(old);
    }
    cay__client_unref(client);
}

cay_sandbox *cay__handle_new(cay_client *client, const cay_provider_ops *ops, const char *id,
                             void *box, cay_state state)
{
    cay_sandbox *sb = cay__sandbox_new(ops, id, box);
    atomic_store(&sb->state, state);
    atomic_fetch_add(&client->refs, 1);
    sb->owner = client;
    sb->drop = release_handle;
    return sb;
}

void cay__handle_rebox(cay_sandbox *sb, void *box, cay_state state)
{
    cay_client *client = sb->owner;
    void *old = atomic_exchange(&sb->box, box);
    if (old) {
        cay__retired *r = cay__alloc(sizeof *r);
        pthread_mutex_lock(&client->lock);
        *r = (cay__retired){ client->retired, sb, old };
        client->retired = r;
        pthread_mutex_unlock(&client->lock);
    }
    atomic_store(&sb->state, state);
}
