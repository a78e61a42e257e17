/* SPDX-License-Identifier: Apache-2.0 */
/* A session state from anywhere: what is accepted names only ids of ours, no path of the host, and
 * no right. */
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <lib/sandbox/limits.h>
#include <lib/snapshot/state.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    cay__state *s = NULL;
    cay_err err = CAY_ERR_INIT;
    if (cay__state_read((const char *)data, len, &s, &err) < 0)
        return 0;
    const cay_create *c = &s->spec->create;
    if (!cay__id_valid(s->id, 'c') || (s->snapshot[0] && !cay__id_valid(s->snapshot, 's')) ||
        s->level < 0 || s->level > CAY_LEVEL_VM || c->from.root || c->from.directory ||
        c->net.policy || c->from.snapshot || c->manifest.text || c->files.ngrants ||
        c->files.nvolumes || c->net.nsecrets || s->spec->box.nlayers || c->isolation.min_level)
        abort();
    for (size_t i = 0; i < s->nvolumes; i++)
        if (!cay__volume_name(s->volumes[i].name))
            abort();
    cay__state_match(s, NULL, NULL, &err);
    cay__state_free(s);
    return 0;
}
