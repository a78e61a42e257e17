/* SPDX-License-Identifier: Apache-2.0 */
#include "provider.h"
#include <base/base.h>

/* One row each; the order is that of `cay doctor`. */
const cay_provider_ops *const cay__providers[] = {
    &cay__provider_native, &cay__process,    &cay__local, &cay__provider_docker,
    &cay__provider_podman, &cay__remote_ops, NULL,
};

static const char *pack_string(char **at, const char *s)
{
    size_t n = strlen(CAY_OR(s, "")) + 1;
    char *p = memcpy(*at, CAY_OR(s, ""), n);
    *at += n;
    return p;
}

static size_t measure_string(const char *s)
{
    return strlen(CAY_OR(s, "")) + 1;
}

cay_probe *cay__probe_new(cay_level level, const char *mode, const cay_wall *layers, size_t n)
{
    size_t need = sizeof(cay_probe) + n * sizeof(cay_wall) + measure_string(mode);
    CAY_EACH_OF(layer, layers, n)
        need += measure_string(layer->name) + measure_string(layer->state) +
                measure_string(layer->why) + measure_string(layer->remedy);
    cay_probe *p = cay__alloc(need);
    cay_wall *to = (cay_wall *)(p + 1);
    char *at = (char *)(to + n);
    for (size_t i = 0; i < n; i++)
        to[i] = (cay_wall){ pack_string(&at, layers[i].name), pack_string(&at, layers[i].state),
                            pack_string(&at, layers[i].why), pack_string(&at, layers[i].remedy) };
    *p = (cay_probe){
        .size = sizeof *p, .level = level, .mode = pack_string(&at, mode), .walls = to, .nwalls = n
    };
    return p;
}

void cay_probe_free(cay_probe *p)
{
    free(p);
}
