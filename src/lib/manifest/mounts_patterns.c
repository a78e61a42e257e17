/* SPDX-License-Identifier: Apache-2.0 */
/* The patterns of strategy in_container as what is run for them. Keys are in a file or a variable,
 * never in a word. */
#include "mounts_inside.h"
#include <arpa/inet.h>

enum { TEXT = 16 << 10, CONFIG_MAX = 128 << 10 };

static void add_word(cay__helper *h, const char *s)
{
    if (h->n + 1 < CAY__INSIDE_WORDS)
        h->argv[h->n++] = s;
    else
        h->over = true;
}

/* The list ends with NULL. */
static void add_words(cay__helper *h, const char *const *words)
{
    for (; *words; words++)
        add_word(h, *words);
}

static const char *get_field(const cay__storage_mount *m, const json_t *pattern, const char *name)
{
    return cay__json_str(pattern, name, cay__json_str(m->fields, name, ""));
}

void cay__inside_var(cay__helper *h, const char *name, const char *value)
{
    if (*value && h->nenv < CAY__INSIDE_VARS)
        h->env[h->nenv++] = (cay_pair){ name, value };
    else
        h->over |= *value != 0;
}

/* A file of the image may say more than the manifest does: of the remote that it names. */
static int take_file(cay__inside *in, const cay__storage_mount *m, const char *path,
                     cay__storage_plan *plan, cay_err *err)
{
    char *theirs = NULL;
    CAY_AUTOBUF b = CAY__BUF(CONFIG_MAX);
    CAY_TRY(cay__inside_file(in, m, path, &theirs, err));
    bool there = cay__inside_section(theirs, plan->config, &b);
    explicit_bzero(theirs, strlen(theirs));
    if (!there || b.full)
        return cay_fail_why(err, CAY_EINVAL, "mount_config_invalid",
                            "entry %.60s: config_file_path %.80s %s", m->entry, path,
                            b.full ? "is too long" : "has no section of its remote_name");
    explicit_bzero(plan->config, strlen(plan->config));
    free(plan->config);
    plan->config = cay__strdup(b.data);
    explicit_bzero(b.data, b.len);
    return 0;
}

bool cay__inside_section(const char *theirs, const char *ours, cay__buf *out)
{
    size_t head = strcspn(ours, "\n"); /* "[NAME]" */
    const char *at = NULL;
    for (const char *line = theirs; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *s = line + strspn(line, " \t");
        size_t n = strcspn(s, "\r\n");
        while (n && (s[n - 1] == ' ' || s[n - 1] == '\t'))
            n--;
        if (*s == '[' && n == head && !memcmp(s, ours, head))
            at = line + strcspn(line, "\n");
    }
    if (!at)
        return false;
    const char *end = at;
    while (*end && !(*end == '\n' && end[1 + strspn(end + 1, " \t")] == '['))
        end++;
    if (!*end && end > at && end[-1] == '\n')
        end--;
    cay__buf_add(out, theirs, (size_t)(end - theirs));
    cay__buf_str(out, ours[head] == '\n' ? ours + head : "\n");
    cay__buf_str(out, CAY_TEXT_IF(*end, end + 1));
    return true;
}

bool cay__inside_addr(const char *addr, unsigned *port)
{
    char host[64];
    const char *colon = strrchr(addr, ':');
    uint64_t n = 0;
    struct in_addr a;
    if (!colon || (size_t)(colon - addr) >= sizeof host || !cay__str_to_u64(colon + 1, &n) ||
        n < 1 || n > 65535)
        return false;
    CAY_FORMAT(host, "%.*s", (int)(colon - addr), addr);
    *port = (unsigned)n;
    return inet_pton(AF_INET, host, &a) == 1 && (ntohl(a.s_addr) >> 24) == 127;
}

/* Mode nfs: rclone serves on the loopback, and the kernel's client mounts that. First as the Agents
 * SDK has it, then by the version that rclone speaks. */
static int by_nfs(cay__inside *in, const cay__storage_mount *m, const json_t *pattern,
                  const char *addr, cay__helper *h, cay_err *err)
{
    const json_t *given = json_object_get(pattern, "nfs_mount_options"), *v;
    CAY_AUTOBUF own = CAY__BUF(2048);
    char usual[160], three[160], source[96];
    size_t i;
    json_array_foreach(given, i, v) {
        const char *s = json_string_value(v);
        if (!*s || strpbrk(s, ", \t\r\n\\\"'") || !strcmp(s, "suid") || !strcmp(s, "dev"))
            return cay_fail_why(
                err, CAY_EINVAL, "mount_config_invalid",
                "entry %.60s: nfs_mount_options: %.60s is no option that may be given", m->entry,
                s);
        cay__buf_fmt(&own, "%s%s", CAY_TEXT_IF(i, ","), s);
    }
    if (own.full)
        return cay_fail_why(err, CAY_EINVAL, "mount_config_invalid",
                            "entry %.60s: nfs_mount_options are too long", m->entry);
    const char *mode = "ro";
    if (m->rw)
        mode = "rw";
    CAY_FORMAT(usual, "vers=4.1,tcp,port=%u,soft,timeo=50,retrans=1,retry=0,nosuid,nodev,%s",
               h->port, mode);
    CAY_FORMAT(
        three,
        "vers=3,tcp,port=%u,mountport=%u,nolock,soft,timeo=50,retrans=1,retry=0,nosuid,nodev,%s",
        h->port, h->port, mode);
    cay__buf_fmt(&own, ",nosuid,nodev,%s", mode);
    CAY_FORMAT(source, "%.*s:/", (int)(strrchr(addr, ':') - addr), addr);
    const char *const options[CAY__INSIDE_TRIES] = { usual, three, three };
    for (i = 0; i < CAY__INSIDE_TRIES; i++) {
        const char *const words[] = {
            "mount", "-t",   "nfs", "-o", json_array_size(given) ? own.data : options[i],
            "--",    source, in->at
        };
        for (size_t k = 0; k < CAY_LEN(words); k++)
            h->then[i][k] = cay__arena_str(in->mem, words[k]);
    }
    h->tools[1] = "mount";
    h->tools[2] = "mount.nfs";
    return 0;
}

static int by_rclone(cay__inside *in, const cay__storage_mount *m, const json_t *pattern,
                     cay__helper *h, cay_err *err)
{
    static const char *const always[] = {
        "--dir-perms",      "0777", "--file-perms", "0666",  "--umask", "000",
        "--dir-cache-time", "10s",  "--log-level",  "ERROR", NULL
    };
    cay__storage_plan plan;
    char config[128], cache[128], usual[32];
    bool nfs = !strcmp(cay__json_str(pattern, "mode", "fuse"), "nfs");
    const char *file = cay__json_str(pattern, "config_file_path", "");
    CAY_FORMAT(usual, "127.0.0.1:%zu", 2049 + in->index);
    const char *addr = cay__arena_str(in->mem, cay__json_str(pattern, "nfs_addr", usual));
    if (nfs && !cay__inside_addr(addr, &h->port))
        return cay_fail_why(
            err, CAY_EINVAL, "mount_config_invalid",
            "entry %.60s: nfs_addr %.60s: give 127.0.0.1:PORT; elsewhere others could mount it",
            m->entry, addr);
    CAY_TRY(cay__storage_conf(m, in->id, in->index, CAY__INSIDE_PLACE, &plan, err));
    int rc = 0;
    if (*file)
        rc = take_file(in, m, file, &plan, err);
    if (rc < 0) {
        cay__storage_plan_clear(&plan);
        return rc;
    }
    CAY_FORMAT(config, CAY__INSIDE_PLACE "/%zu.conf", in->index);
    CAY_FORMAT(cache, "%srclone-%zu", in->cache, in->index);
    h->name = cay__arena_str(in->mem, config);
    h->text = cay__arena_str(in->mem, plan.config);
    h->second = CAY_IF(plan.file && *plan.file, cay__arena_str(in->mem, plan.file));
    const char *first[] = { "rclone", "mount", "--allow-other", "--config", h->name, NULL,
                            addr,     NULL };
    if (nfs) {
        first[1] = "serve";
        first[2] = "nfs";
        first[5] = "--addr";
    }
    add_words(h, first);
    add_words(h, always);
    CAY_EACH_OF(arg, plan.args, plan.nargs)
        add_word(h, cay__arena_str(in->mem, *arg));
    /* What was written is brought away at once, and not kept for longer: the cache is on the
     * container's disk. */
    const char *const writes[] = { "--vfs-cache-mode",
                                   "writes",
                                   "--vfs-write-back",
                                   "0s",
                                   "--vfs-cache-max-age",
                                   "0s",
                                   "--vfs-cache-poll-interval",
                                   "5s",
                                   "--cache-dir",
                                   cay__arena_str(in->mem, cache),
                                   NULL };
    if (m->rw)
        add_words(h, writes);
    else
        add_word(h, "--read-only");
    add_word(h, "--");
    add_word(h, cay__arena_str(in->mem, plan.remote));
    if (!nfs)
        add_word(h, in->at);
    cay__storage_plan_clear(&plan);
    h->tools[0] = "rclone";
    h->tools[1] = "fusermount3|fusermount";
    if (nfs)
        return by_nfs(in, m, pattern, addr, h, err);
    return 0;
}

static int by_mountpoint(cay__inside *in, const cay__storage_mount *m, const json_t *pattern,
                         cay__helper *h, cay_err *err)
{
    bool gcs = !strcmp(m->type, "gcs_mount");
    const char *id = get_field(m, NULL, gcs ? "access_id" : "access_key_id"),
               *prefix = get_field(m, pattern, "prefix"), *region = get_field(m, pattern, "region"),
               *endpoint = get_field(m, pattern, "endpoint_url"),
               *bucket = get_field(m, NULL, "bucket");
    char *with = cay__arena_take(in->mem, strlen(prefix) + 2);
    if (*bucket == '-')
        return cay_fail_why(err, CAY_EINVAL, "mount_config_invalid",
                            "entry %.80s: bucket is not a bucket's name", m->entry);
    prefix += strspn(prefix, "/");
    cay__str_join(with, strlen(prefix) + 2, prefix,
                  CAY_TEXT_IF(*prefix && prefix[strlen(prefix) - 1] != '/', "/"), NULL);
    add_words(h, (const char *[]){ "mount-s3", "--foreground", "--allow-other", NULL });
    if (m->rw)
        add_words(h, (const char *[]){ "--allow-delete", "--allow-overwrite", NULL });
    else
        add_word(h, "--read-only");
    const char *const pairs[][2] = {
        { "--prefix", with },
        { "--region", region },
        { "--endpoint-url", *endpoint || !gcs ? endpoint : "https://storage.googleapis.com" },
        { "--upload-checksums", CAY_TEXT_IF(gcs, "off") }
    };
    CAY_EACH(pair, pairs)
        if (*(*pair)[1])
            add_words(h, (const char *[]){ (*pair)[0], (*pair)[1], NULL });
    if (!*id)
        add_word(h, "--no-sign-request");
    add_word(h, bucket);
    add_word(h, in->at);
    cay__inside_var(h, "AWS_ACCESS_KEY_ID", id);
    cay__inside_var(h, "AWS_SECRET_ACCESS_KEY", get_field(m, NULL, "secret_access_key"));
    cay__inside_var(h, "AWS_SESSION_TOKEN", get_field(m, NULL, "session_token"));
    h->tools[0] = "mount-s3";
    h->tools[1] = "fusermount3|fusermount";
    return 0;
}

/* blobfuse2, with the numbers that the Agents SDK gives it. */
static int by_blobfuse(cay__inside *in, const cay__storage_mount *m, const json_t *pattern,
                       cay__helper *h, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(TEXT);
    bool block = strcmp(cay__json_str(pattern, "cache_type", "block_cache"), "block_cache") == 0;
    char config[128], cache[128];
    const char *account = get_field(m, NULL, "account"), *key = get_field(m, NULL, "account_key"),
               *client = get_field(m, NULL, "identity_client_id"),
               *endpoint = get_field(m, NULL, "endpoint"),
               *container = get_field(m, NULL, "container"),
               *at = cay__json_str(pattern, "cache_path", "");
    CAY_FORMAT(config, CAY__INSIDE_PLACE "/%zu.yaml", in->index);
    CAY_FORMAT(cache, "%sblobfuse-%zu", in->cache, in->index);
    const char *const values[] = { account, key, client, endpoint, container, at };
    CAY_EACH(row, values)
        if (strpbrk(*row, "\r\n\"\\"))
            return cay_fail_why(err, CAY_EINVAL, "mount_config_invalid",
                                "entry %.80s: a value has a quote or a line break", m->entry);
    if (*at != '/')
        at = cache;
    cay__buf_fmt(&b,
                 "allow-other: true\nlogging:\n  type: %s\n  level: %s\ncomponents:\n  - libfuse\n "
                 " - %s\n  - attr_cache\n  - azstorage\n",
                 cay__json_str(pattern, "log_type", "syslog"),
                 cay__json_str(pattern, "log_level", "log_debug"),
                 block ? "block_cache" : "file_cache");
    long long size = (long long)cay__json_int(pattern, "cache_size_mb", block ? 50000 : 4096);
    if (block)
        cay__buf_fmt(&b,
                     "block_cache:\n  block-size-mb: %lld\n  path: \"%s\"\n  disk-size-mb: %lld\n  "
                     "disk-timeout-sec: %lld\n",
                     (long long)cay__json_int(pattern, "block_size_mb", 16), at, size,
                     (long long)cay__json_int(pattern, "disk_timeout_s", 3600));
    else
        cay__buf_fmt(&b, "file_cache:\n  path: \"%s\"\n  timeout-sec: %lld\n  max-size-mb: %lld\n",
                     at, (long long)cay__json_int(pattern, "file_cache_timeout_s", 120),
                     (long long)cay__json_int(pattern, "file_cache_max_size_mb", size));
    cay__buf_fmt(&b,
                 "attr_cache:\n  timeout-sec: %lld\nazstorage:\n  type: block\n  account-name: "
                 "\"%s\"\n  container: \"%s\"\n",
                 (long long)cay__json_int(pattern, "attr_cache_timeout_s", 7200), account,
                 container);
    if (*endpoint)
        cay__buf_fmt(&b, "  endpoint: \"%s\"\n", endpoint);
    if (*key)
        cay__buf_fmt(&b, "  mode: key\n  account-key: \"%s\"\n", key);
    else
        cay__buf_fmt(&b, "  mode: msi\n%s%s%s", CAY_TEXT_IF(*client, "  appid: \""), client,
                     CAY_TEXT_IF(*client, "\"\n"));
    if (b.full)
        return cay_fail_why(err, CAY_ETOOBIG, "mount_config_invalid",
                            "entry %.80s: its configuration is too long", m->entry);
    h->name = cay__arena_str(in->mem, config);
    h->text = cay__arena_str(in->mem, b.data);
    explicit_bzero(b.data, b.len);
    add_words(h, (const char *[]){ "blobfuse2", "mount", in->at, "--config-file", h->name,
                                   "--foreground", NULL });
    if (!m->rw)
        add_word(h, "--read-only");
    h->tools[0] = "blobfuse2";
    return 0;
}

static int by_s3files(cay__inside *in, const cay__storage_mount *m, const json_t *pattern,
                      cay__helper *h, cay_err *err)
{
    cay__storage_plan plan;
    CAY_TRY(cay__storage_conf(m, in->id, in->index, CAY__INSIDE_PLACE, &plan, err));
    const char *const words[] = { "mount",      "-t", "s3files",   "-o",
                                  plan.args[0], "--", plan.remote, in->at };
    CAY_EACH(word, words)
        add_word(h, cay__arena_str(in->mem, *word));
    cay__storage_plan_clear(&plan);
    h->tools[0] = "mount";
    h->tools[1] = "mount.s3files";
    return 0;
}

static const struct {
    const char *name;
    int (*make)(cay__inside *in, const cay__storage_mount *m, const json_t *pattern, cay__helper *h,
                cay_err *err);
} patterns[] = { { "rclone", by_rclone },
                 { "mountpoint", by_mountpoint },
                 { "fuse", by_blobfuse },
                 { "s3files", by_s3files } };

int cay__inside_plan(cay__inside *in, const cay__storage_mount *m, cay__helper *h, cay_err *err)
{
    const json_t *pattern =
        json_object_get(json_object_get(m->fields, "mount_strategy"), "pattern");
    const char *name = cay__json_str(pattern, "type", "");
    size_t i = 0;
    while (i < CAY_LEN(patterns) && strcmp(patterns[i].name, name) != 0)
        i++;
    if (i == CAY_LEN(patterns))
        return cay_fail_why(err, CAY_ENOTSUP, "mount_unsupported",
                            "entry %.80s: pattern %.40s is not known", m->entry, name);
    CAY_FORMAT(in->name, "m%zu", in->index);
    CAY_FORMAT(in->at, CAY__INSIDE_PLACE "/%s", in->name);
    CAY_TRY(patterns[i].make(in, m, pattern, h, err));
    if (h->over)
        return cay_fail_why(err, CAY_EINVAL, "mount_config_invalid",
                            "entry %.80s: more than %d words for %s", m->entry,
                            CAY__INSIDE_WORDS - 1, h->argv[0]);
    return 0;
}
