/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of services: what is written can be read, and is written the same again; on top of
 * itself it is the same, too. */
#include <base/base.h>
#include <cay/services.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static size_t words(const char *const *list)
{
    size_t n = 0;
    for (; list && *list; list++)
        n += strlen(*list);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    cay_services *a = NULL, *b = NULL;
    CAY_AUTOFREE char *once = NULL, *twice = NULL, *both = NULL;
    cay_err err = CAY_ERR_INIT;
    size_t n = 0, sum = 0;
    if (cay_services_parse((const char *)data, len, &a, &err) < 0) {
        if (err.code != CAY_EINVAL || !err.msg[0])
            abort();
        return 0;
    }
    const cay_service *list = cay_services_list(a, &n);
    for (size_t i = 0; i < n; i++) {
        sum += words(list[i].argv) + words(list[i].health_argv) + words(list[i].after);
        if (strlen(list[i].name) >= CAY_SERVICE_NAME || (!list[i].argv == !list[i].shell))
            abort();
    }
    if (n > CAY_SERVICES_MAX || sum > CAY_SERVICES_BYTES)
        abort();
    if (cay_services_json(a, &once, &err) == 0) {
        if (cay_services_parse(once, strlen(once), &b, &err) < 0 ||
            cay_services_json(b, &twice, &err) < 0 || strcmp(once, twice) != 0 ||
            cay_services_merge(once, once, &both, &err) < 0 ||
            (n ? !both || strcmp(both, once) != 0 : both != NULL))
            abort();
    }
    cay_services_free(a);
    cay_services_free(b);
    return 0;
}
