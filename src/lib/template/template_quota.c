/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant's templates may have in bytes. The store counts the layers of all of them, each
 * once, when one is recorded; here is told what each layer has, and how much is left, so that a
 * pull does not fill the disk first and is refused then.
 */
#include "image.h"
#include <base/json.h>

typedef struct size {
    uint64_t bytes;
    bool known;
} size;

static int read_note(const char *value, void *arg)
{
    size *s = arg;
    CAY_AUTOJSON *o = NULL;
    if (cay__json_object("", value, &o, NULL) == 0)
        *s = (size){ (uint64_t)cay__json_int(o, "bytes", 0), true };
    return 0;
}

static int read_own(const char *value, void *arg)
{
    size *s = arg;
    s->known = cay__str_to_u64(value, &s->bytes);
    return 0;
}

static size size_of(cay_client *client, const char *layer)
{
    size s = { 0 };
    client->store->note_get(client->db, CAY__NOTE_LAYER, layer, read_note, &s, NULL);
    if (!s.known)
        client->store->note_get(client->db, CAY__NOTE_LAYER_BYTES, layer, read_own, &s, NULL);
    return s;
}

static int save_size(cay_client *client, const char *layer, uint64_t bytes, cay_err *err)
{
    char text[24];
    CAY_FORMAT(text, "%llu", (unsigned long long)bytes);
    return client->store->note_put(client->db, CAY__NOTE_LAYER_BYTES, layer, text, err);
}

static int on_tenant(const cay_tenant *t, void *arg)
{
    *(cay_tenant *)arg = *t;
    return 0;
}

int cay__template_left(cay_client *client, const char *tenant, uint64_t *most, uint64_t *used,
                       cay_err *err)
{
    cay_tenant t = { 0 };
    CAY_TRY(client->store->tenant_list(client->db, CAY_OR(tenant, CAY_TENANT_DEFAULT), on_tenant,
                                       &t, err));
    *most = t.most.templates;
    *used = t.used.templates;
    return 0;
}

int cay__template_fits(cay_client *client, const char *tenant, uint64_t more, cay_err *err)
{
    uint64_t most, used;
    CAY_TRY(cay__template_left(client, tenant, &most, &used, err));
    if (!most || used + more <= most)
        return 0;
    return cay__quota_templates(CAY_OR(tenant, CAY_TENANT_DEFAULT), (int64_t)most,
                                (int64_t)(used + more), err);
}

int cay__template_measure(cay_client *client, const cay_call *call, const char *tenant,
                          const char *layers, cay_err *err)
{
    uint64_t most, used;
    cay__stack s;
    CAY_TRY(cay__template_left(client, tenant, &most, &used, err));
    if (!most) /* nobody asks, and walking a tree is work */
        return 0;
    CAY_TRY(cay__stack_read(layers, &s, err));
    CAY_EACH_OF(it, s.name, s.n) {
        char hex[65];
        uint64_t bytes = 0, files;
        if (size_of(client, *it).known)
            continue;
        CAY_TRY(cay__layer_digest(&client->layers, call, *it, hex, &bytes, &files, err));
        CAY_TRY(save_size(client, *it, bytes, err));
    }
    return 0;
}

int cay__layers_merged_bytes(cay_client *client, const cay__stack *s, const char *to, cay_err *err)
{
    uint64_t sum = 0;
    CAY_EACH_OF(it, s->name, s->n)
        sum += size_of(client, *it).bytes;
    if (sum)
        return save_size(client, to, sum, err);
    return 0;
}

void cay__layer_bytes_forget(cay_client *client, const char *layer)
{
    size s = { 0 };
    if (client->store->note_get(client->db, CAY__NOTE_LAYER_BYTES, layer, read_own, &s, NULL) == 0)
        client->store->note_put(client->db, CAY__NOTE_LAYER_BYTES, layer, NULL, NULL);
}
