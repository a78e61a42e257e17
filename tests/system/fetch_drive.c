/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fetch_drive identity|fetch KIND URL DIR [KEY=VALUE…]: one entry of a manifest, fetched without a
 * manifest. Prints the identity, or "REASON: MESSAGE" and exits 1. KEY: net ref depth whole sparse
 * subpath credentials header sha256 max format identity.
 */
#include <base/base.h>
#include <base/str.h>
#include <fcntl.h>
#include <lib/manifest/fetch_source.h>
#include <stdio.h>
#include <unistd.h>

static const char *identity;

static void option(cay__fetch_source *f, char *word)
{
    static const char *sparse[8];
    static cay_pair headers[8];
    static size_t nsparse, nheaders;
    uint64_t n = 0;
    char *eq = strchr(word, '=');
    if (!eq)
        exit(2);
    const char *value = eq + 1;
    *eq = 0;
    const struct {
        const char *key;
        const char **into;
    } texts[] = { { "net", &f->net },         { "ref", &f->ref },
                  { "subpath", &f->subpath }, { "credentials", &f->credentials },
                  { "sha256", &f->sha256 },   { "format", &f->format },
                  { "identity", &identity } };
    for (size_t i = 0; i < CAY_LEN(texts); i++)
        if (!strcmp(word, texts[i].key))
            *texts[i].into = value;
    cay__str_to_u64(value, &n);
    if (!strcmp(word, "depth"))
        f->depth = (unsigned)n;
    if (!strcmp(word, "max"))
        f->max_bytes = n;
    f->whole |= !strcmp(word, "whole");
    if (!strcmp(word, "sparse") && nsparse < 7) {
        sparse[nsparse++] = value;
        f->sparse = sparse;
    }
    if (!strcmp(word, "header") && nheaders < 7) {
        char *colon = strchr(eq + 1, ':');
        *colon = 0;
        headers[nheaders++] = (cay_pair){ value, colon + 1 };
        f->headers = headers;
    }
}

int main(int argc, char **argv)
{
    cay_client *client = NULL;
    cay_err err = CAY_ERR_INIT;
    cay__brought got = { 0 };
    if (argc < 5)
        return 2;
    cay__fetch_source f = { .kind = !strcmp(argv[2], "git")    ? CAY__SOURCE_GIT
                                    : !strcmp(argv[2], "file") ? CAY__SOURCE_FILE
                                                               : CAY__SOURCE_DIR,
                            .url = argv[3],
                            .entry = "e" };
    for (int i = 5; i < argc; i++)
        option(&f, argv[i]);
    CAY_AUTOFD dir = open(argv[4], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char id[CAY__IDENTITY] = "";
    int rc = cay_client_open(&(cay_open){ .size = sizeof(cay_open) }, &client, &err);
    if (rc == 0)
        rc = !strcmp(argv[1], "identity")
                 ? cay__source_identity(client, NULL, &f, id, &err)
                 : cay__source_bring(client, NULL, &f, identity, dir, &got, &err);
    if (rc < 0)
        printf("%s: %s\n", err.reason[0] ? err.reason : cay_code_name(rc), err.msg);
    else
        printf("%s\n", got.identity[0] ? got.identity : id);
    cay_client_close(client);
    return rc < 0;
}
