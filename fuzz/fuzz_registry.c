/* SPDX-License-Identifier: Apache-2.0 */
/* What a registry asks for (WWW-Authenticate), a name of an image, docker's config.json and
 * templates.conf: whatever it is, by its first byte. */
#include <base/base.h>
#include <lib/template/registry.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (!len)
        return 0;
    CAY_AUTOFREE char *text = cay__alloc(len);
    memcpy(text, data + 1, len - 1);
    if (*data == 'w') {
        cay__challenge *c = cay__alloc(sizeof *c);
        cay__challenge_read(text, len - 1, c);
        if (c->kind == CAY__AUTH_BEARER && !*c->realm)
            abort();
        free(c);
    } else if (*data == 'n') {
        cay__tname *n = cay__alloc(sizeof *n);
        char out[CAY_TEMPLATE_NAME + 1], again[CAY_TEMPLATE_NAME + 1];
        if (cay__tname_parse(text, n, NULL) == 0)
            cay__tname_text(n, out);
        if (cay__tname_clean(text, out, NULL) == 0 &&
            (cay__tname_clean(out, again, NULL) < 0 || strcmp(out, again)))
            abort(); /* one form, and only one */
        free(n);
    } else if (*data == 'd') {
        char *login = NULL;
        if (cay__reg_docker_login(text, len - 1, "docker.io", &login) && strpbrk(login, "\r\n"))
            abort();
        free(login);
    } else if (*data == 'c') {
        cay__tconf c = { 0 };
        cay__tconf_parse(text, &c, NULL);
        cay__tconf_clear(&c);
    }
    return 0;
}
