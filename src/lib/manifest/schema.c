/* SPDX-License-Identifier: Apache-2.0 */
/* A manifest's form as JSON Schema, made from the tables by which it is read: for editors, which
 * complete and mark by it. It says what a table can say; what depends on two places at once,
 * cay_manifest_parse() judges alone. */
#include "manifest.h"

#define TEXT(about) "{\"type\":[\"string\",\"null\"],\"description\":\"" about "\"}"
#define NAMES(about)                                                                               \
    "{\"type\":[\"array\",\"null\"],\"items\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":"        \
    "\"object\"}]},\"description\":\"" about "\"}"
#define TEXTS(about)                                                                               \
    "{\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"string\"},\"description\":\"" about "\"" \
    "}"
#define FLAG(about)  "{\"type\":[\"boolean\",\"null\"],\"description\":\"" about "\"}"
#define COUNT(about) "{\"type\":[\"integer\",\"null\"],\"minimum\":0,\"description\":\"" about "\"}"
#define ENTRIES                                                                                    \
    "{\"type\":[\"object\",\"null\"],\"additionalProperties\":{\"$ref\":\"#/$defs/"                \
    "entry\"},\"description\":\"by path below it\"}"
#define COMMAND                                                                                    \
    "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":{\"type\":\"string\"}}],"     \
    "\"description\":\"one line for the shell, or a list of words\"}"
#define LIMIT                                                                                      \
    "{\"type\":[\"integer\",\"null\"],\"minimum\":1,\"description\":\"at once; null: as many as "  \
    "there are CPUs\"}"

typedef struct words {
    const char *name, *json;
} words;

/* clang-format cannot lay out macros between string literals. */
/* clang-format off */
static const words tops[] = {
    { "version", "{\"type\":[\"integer\",\"null\"],\"enum\":[1],\"description\":\"of this form\"}"
      },
    { "root", TEXT("where entries go; /workspace unless told") },
    { "environment", "{\"type\":[\"object\",\"null\"],"
      "\"additionalProperties\":{\"$ref\":\"#/$defs/variable\"},\"description\":\"variables of "
      "every process, by name\"}" },
    { "users", NAMES("accounts that are made, with a home each") },
    { "groups", NAMES("groups that are made; {name, users}") },
    { "run_as", "{\"type\":[\"string\",\"object\",\"null\"],\"description\":\"the user of "
      "commands and entries\"}" },
    { "extra_path_grants", "{\"type\":[\"array\",\"null\"],\"items\":{\"$ref\":\"#/$defs/grant\"},"
      "\"description\":\"directories of the host; only in a trusted manifest\"}" },
    { "policy", "{\"type\":[\"string\",\"object\",\"null\"],\"description\":\"what may be "
      "reached; only in a trusted manifest\"}" },
    { "concurrency_limits", "{\"type\":[\"object\",\"null\"],\"additionalProperties\":false,"
      "\"properties\":{\"manifest_entries\":" LIMIT ",\"local_dir_files\":" LIMIT
      "},\"description\":\"how much is worked on at once\"}" },
    { "remote_mount_command_allowlist", TEXTS("kept for agents' instructions") },
    { "acknowledge_credential_exposure", TEXTS("exact paths of mounts; only in a trusted manifest")
      },
    { "entries", "{\"type\":[\"object\",\"array\",\"null\"],"
      "\"additionalProperties\":{\"$ref\":\"#/$defs/entry\"},\"items\":{\"type\":\"object\","
      "\"required\":[\"type\",\"dest\"]}," "\"description\":\"what is put in, by path below the "
      "root\"}" },
    { "services", "{\"type\":[\"object\",\"null\"],"
      "\"additionalProperties\":{\"$ref\":\"#/$defs/service\"},\"description\":\"commands that "
      "are kept running, by name\"}" },
    { "sudo", FLAG("our own sudo is in it; only in a trusted manifest") },
    { "extra_persisted_roots", TEXTS("what besides the root has to be in every snapshot: a home, "
      "caches") },
    { NULL, NULL },
};
/* clang-format on */

/* clang-format cannot lay out macros between string literals. */
/* clang-format off */
static const words defs[] = {
    { "variable", "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"object\","
      "\"additionalProperties\":false,\"properties\":{\"type\":{\"enum\":[\"str\",\"ref\"],"
      "\"description\":\"a text, or where it is read from\"}," "\"value\":{\"description\":\"its "
      "text\"},\"source\":{\"type\":\"string\",\"description\":\"env:VARIABLE, file:/PATH, "
      "cmd:NAME or store:NAME\"},\"ephemeral\":" FLAG("kept nowhere") ",\"redacted\":"
      FLAG("its value was left out") "," "\"description\":" TEXT("what it is for") "}}]}" },
    { "grant", "{\"type\":\"object\",\"required\":[\"path\"],\"additionalProperties\":false,"
      "\"properties\":{\"path\":" TEXT("inside, and where local sources may come from")
      ",\"host_path\":" TEXT("the directory of the host that is shown there") ",\"read_only\":"
      FLAG("false unless told") ",\"description\":" TEXT("what it is for") "}}" },
    { "service", "{\"type\":[\"object\",\"null\"],\"required\":[\"command\"],"
      "\"additionalProperties\":false,\"properties\":{\"command\":" COMMAND ",\"port\":"
      COUNT("it is ready when somebody listens there") ",\"environment\":{\"type\":\"object\","
      "\"additionalProperties\":{\"type\":\"string\"},\"description\":\"variables on "
      "top\"},\"env\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"
      "\"description\":\"environment\"}," "\"user\":" TEXT("who it runs as") ",\"cwd\":"
      TEXT("where it starts") ",\"health\":{\"type\":\"object\",\"additionalProperties\":false,"
      "\"properties\":{\"command\":" COMMAND ",\"tcp\":" COUNT("a port that has to answer")
      ",\"interval_ms\":" COUNT("between two looks") ",\"timeout_ms\":" COUNT("of one look")
      "},\"description\":\"how to see that it is well\"}," "\"restart\":{\"enum\":[\"on-failure\","
      "\"no\",\"always\"],\"description\":\"when it ends\"},\"after\":"
      TEXTS("services that are ready before it starts") ",\"stop_ms\":" COUNT("from TERM to KILL")
      "}}" },
    { NULL, NULL },
};
/* clang-format on */

/* What every entry may have. */
/* clang-format cannot lay out macros between string literals. */
/* clang-format off */
static const words common[] = {
    { "description", TEXT("for people and models") },
    { "ephemeral", FLAG("written after the start, in no snapshot") },
    { "group", "{\"type\":[\"string\",\"object\",\"null\"],\"description\":\"of the manifest\"}" },
    { "permissions", "{\"type\":[\"string\",\"object\",\"null\"],\"description\":\"0755, "
      "rwxr-xr-x or {owner, group, other}\"}" },
    { "redacted", FLAG("its content was left out") },
    { "is_dir", FLAG("as other programs write it; not looked at") },
    { NULL, NULL },
};
/* clang-format on */

static const words kinds[] = {
    { "file", "a file of this content" },
    { "dir", "a directory" },
    { "local_file", "a copy of a host file" },
    { "local_dir", "a copy of a host directory" },
    { "git_repo", "a repository, fetched outside" },
    { "remote_file", "a file from an address" },
    { "remote_dir", "what an archive at an address holds" },
    { "mount", "the host directory itself" },
    { "s3_mount", "a bucket of S3" },
    { "gcs_mount", "a bucket of Google Cloud Storage" },
    { "r2_mount", "a bucket of R2" },
    { "azure_blob_mount", "a container of Azure" },
    { "box_mount", "a folder of Box" },
    { "s3_files_mount", "S3 Files" },
    { NULL, NULL },
};

/* What a field of a kind is for; most storages tell by their names. */
static const words fields[] = {
    { "content", "its text" },
    { "content_base64", "its bytes, in base64" },
    { "src", "on the host, in the manifest's own directory" },
    { "exclude", "patterns as in a .gitignore" },
    { "ignore_file", "a file of such patterns in src" },
    { "host", "github.com unless told" },
    { "repo", "OWNER/NAME" },
    { "ref", "a branch, tag or commit" },
    { "depth", "commits of history; 0: all" },
    { "sparse_checkout", "directories to check out" },
    { "subpath", "only this directory of it" },
    { "credentials", "env:, file:, cmd: or store:; used outside" },
    { "url", "http:// or https://" },
    { "headers", "sent along" },
    { "sha256", "of its bytes" },
    { "max_bytes", "more is refused" },
    { "source", "a directory of the host" },
    { "mount_path", "where it appears" },
    { "read_only", "true unless told" },
    { "mount_strategy", "how it is mounted" },
    { "bucket", "its name" },
    { "prefix", "only what begins so" },
    { NULL, NULL },
};

static const char *find_json(const words *w, const char *name)
{
    while (w->name && strcmp(w->name, name) != 0)
        w++;
    return w->json;
}

static json_t *parse_json(const char *text)
{
    if (text)
        return json_loads(text, JSON_DECODE_ANY, NULL);
    return NULL;
}

static json_t *parse_words(const words *w)
{
    json_t *o = json_object();
    for (; w->name; w++)
        json_object_set_new(o, w->name, parse_json(w->json));
    return o;
}

/* The words of a list that blanks part, each as {"const":…} would say it. */
static json_t *list_of(const char *text)
{
    json_t *l = json_array();
    for (const char *s = text; *s; s += strspn(s, " ")) {
        size_t n = strcspn(s, " ");
        json_array_append_new(l, json_stringn(s, n));
        s += n;
    }
    return l;
}

static json_t *make_strategy(const cay__kind *k)
{
    json_t *o = json_pack("{s:[s,s],s:{s:{s:s,s:s}}}", "type", "object", "null", "properties",
                          "type", "type", "string", "description",
                          "local_bind, in_container, docker_volume or a provider's own");
    if (k->patterns && *k->patterns)
        json_object_set_new(json_object_get(o, "properties"), "pattern",
                            json_pack("{s:s,s:[s],s:{s:{s:o,s:s}}}", "type", "object", "required",
                                      "type", "properties", "type", "enum", list_of(k->patterns),
                                      "description", "what mounts it"));
    return o;
}

static json_t *of_field(const cay__kind *k, const cay__entry_field *f)
{
    static const char *const types[] = {
        [CAY__STR] = "{\"type\":[\"string\",\"null\"]}",
        [CAY__BOOL] = "{\"type\":[\"boolean\",\"null\"]}",
        [CAY__UINT] = "{\"type\":[\"integer\",\"null\"],\"minimum\":0}",
        [CAY__STRS] = "{\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"string\"}}",
        [CAY__MAP] =
            "{\"type\":[\"object\",\"null\"],\"additionalProperties\":{\"type\":\"string\"}}",
        [CAY__OBJ] = "{\"type\":[\"object\",\"null\"]}",
    };
    static const words choices[] = { { "encoding", "utf-8 base64" },
                                     { "format", "tar zip" },
                                     { NULL, NULL } };
    const char *about = find_json(fields, f->name), *some = find_json(choices, f->name);
    if (!strcmp(f->name, "children"))
        return parse_json(ENTRIES);
    json_t *o;
    if (!strcmp(f->name, "mount_strategy"))
        o = make_strategy(k);
    else
        o = parse_json(f->flags & CAY__HIDDEN
                           ? "{\"type\":[\"string\",\"object\",\"null\"],\"description\":\"a "
                             "secret: better {source: env:…}\"}"
                           : types[f->type]);
    if (some) {
        json_t *l = list_of(some);
        json_array_append_new(l, json_null());
        json_object_set_new(o, "enum", l);
    }
    if (about)
        json_object_set_new(o, "description", json_string(about));
    return o;
}

static json_t *of_kind(const cay__kind *k)
{
    const char *about = find_json(kinds, k->name);
    json_t *props = json_pack("{s:{s:s,s:s}}", "type", "const", k->name, "description",
                              CAY_OR(about, "")),
           *need = json_pack("[s]", "type"), *more = parse_words(common);
    for (const cay__entry_field *f = k->fields; f->name; f++) {
        json_object_set_new(props, f->name, of_field(k, f));
        if (f->flags & CAY__NEEDED)
            json_array_append_new(need, json_string(f->name));
    }
    json_object_update_missing(props, more);
    json_decref(more);
    return json_pack("{s:s,s:s,s:o,s:b,s:o}", "type", "object", "description", CAY_OR(about, ""),
                     "required", need, "additionalProperties", 0, "properties", props);
}

char *cay_manifest_schema(void)
{
    json_t *props = json_object(), *entry = json_array(), *below = parse_words(defs);
    for (size_t i = 0; cay__top_field(i); i++) {
        json_t *o = parse_json(find_json(tops, cay__top_field(i)));
        json_object_set_new(props, cay__top_field(i), CAY_OR(o, json_object()));
    }
    for (const cay__kind *k = cay__kinds; k->name; k++)
        json_array_append_new(entry, of_kind(k));
    json_object_set_new(below, "entry", json_pack("{s:o}", "oneOf", entry));
    CAY_AUTOJSON *whole =
        json_pack("{s:s,s:s,s:s,s:b,s:o,s:o}", "$schema",
                  "https://json-schema.org/draft/2020-12/schema", "title", "A manifest of cay",
                  "type", "object", "additionalProperties", 0, "properties", props, "$defs", below);
    return json_dumps(whole, JSON_COMPACT);
}
