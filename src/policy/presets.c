/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for what people install from. Each list is what the tool of that name needs to fetch, and
 * no more: no place where anybody may upload, as far as the ecosystem allows (github is one: a
 * token inside could push; docker pulls from its store by one bucket; go from Google's, where
 * anybody may have a bucket: a name cannot tell them apart).
 */
#include "policy.h"

#define LIST(...)                                                                                  \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }
static const struct {
    const char *name;
    const char *const *rules;
} presets[] = {
    { "alpine", LIST("dl-cdn.alpinelinux.org") },
    { "crates", LIST("crates.io:443", "index.crates.io:443", "static.crates.io:443",
                     "static.rust-lang.org:443") },
    { "debian", LIST("deb.debian.org", "security.debian.org", "ftp.debian.org") },
    { "docker",
      LIST("registry-1.docker.io:443", "auth.docker.io:443", "index.docker.io:443",
           "production.cloudflare.docker.com:443", "production.cloudfront.docker.com:443",
           "docker-images-prod.6aa30f8b08e16409b46e0173d6de2f56.r2.cloudflarestorage.com:443") },
    { "github",
      LIST("github.com", "github.com:22", "tcp://ssh.github.com:443", "api.github.com:443",
           "codeload.github.com:443", "uploads.github.com:443", "*.githubusercontent.com:443") },
    { "go",
      LIST("proxy.golang.org:443", "sum.golang.org:443", "golang.org:443", "go.dev:443",
           "dl.google.com:443",
           "storage.googleapis.com:443") }, /* proxy.golang.org sends there for some archives */
    { "maven", LIST("repo.maven.apache.org:443", "repo1.maven.org:443", "plugins.gradle.org:443") },
    { "npm", LIST("registry.npmjs.org", "registry.yarnpkg.com", "nodejs.org:443") },
    { "pypi", LIST("pypi.org:443", "files.pythonhosted.org:443") },
    { "rubygems", LIST("rubygems.org:443", "index.rubygems.org:443") },
    { "ubuntu", LIST("archive.ubuntu.com", "security.ubuntu.com", "ports.ubuntu.com") },
};

const char *cay__preset(size_t i, const char *const **rules)
{
    if (i >= CAY_LEN(presets))
        return NULL;
    if (rules)
        *rules = presets[i].rules;
    return presets[i].name;
}
