/* SPDX-License-Identifier: Apache-2.0 */
/* A template's config with settings: what is found right makes files for every sandbox, whatever is
 * chosen. */
#include <base/base.h>
#include <lib/template/settings.h>
#include <cay/template.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* rc is CAY_ETOOBIG where texts are repeated; each of the files is bounded, not their number of
 * words. */
static void use(const char *config, const cay_pair *given)
{
    cay__arena mem = { 0 };
    cay_err err = CAY_ERR_INIT;
    cay__spec s = { .create.from.settings = given, .template_config = config, .mem = &mem };
    int rc = cay__settings_prepare(&s, NULL, &err);
    must(rc == 0 || rc == CAY_ETOOBIG || (given && rc == CAY_EINVAL));
    for (size_t i = 0; rc == 0 && i < s.nseeds; i++)
        must(*s.seeds[i].path == '/' && s.seeds[i].mode <= 0777 &&
             strlen(s.seeds[i].data) == s.seeds[i].len);
    cay__arena_clear(&mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    cay_err err = CAY_ERR_INIT;
    char *text = cay__alloc(len + 1);
    memcpy(text, data, len);
    if (strlen(text) == len && cay_template_config_check(text, &err) == 0) {
        use(text, NULL);
        use(text, (const cay_pair[]){ { "permissions", "bypass" }, { NULL, NULL } });
        use(text, (const cay_pair[]){ { "model", "a/b:c-1" }, { NULL, NULL } });
    }
    free(text);
    return 0;
}
