/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes: what they are, how they are wanted, and what becomes of them. */
#include "shapes.h"
#include <cay/sys/provider.h>

#define FIELD CAY__FIELD
#define NAMED CAY__NAMED

static const char *const state_words[] = { "creating", "running", "paused",  "stopped",
                                           "deleting", "gone",    "damaged", NULL };

/* Of one that does not run it is not known yet, and `none` would be read as unprotected; local ones
 * never have a wall. */
static bool level_known(const cay_info *i)
{
    return i->level != CAY_LEVEL_NONE || i->nwalls || !strcmp(i->provider, "local");
}

static void put_isolation(cay__buf *b, const void *info)
{
    const cay_info *i = info;
    const char *s = cay_level_name(i->level);
    if (level_known(i))
        cay__buf_json(b, s, strlen(s));
    else
        cay__buf_str(b, "null");
}

static void put_level(cay__buf *b, const void *info)
{
    const cay_info *i = info;
    cay__buf_fmt(b, level_known(i) ? "%d" : "null", (int)i->level);
}

static void get_level(const json_t *j, void *info)
{
    ((cay_info *)info)->level = (cay_level)json_integer_value(j);
}

static const cay__field wall_fields[] = {
    FIELD(cay_wall, name, STR),
    FIELD(cay_wall, state, STR, .about = "on, soft or off"),
    FIELD(cay_wall, why, STR, CAY__F_MAYBE),
    FIELD(cay_wall, remedy, STR, CAY__F_MAYBE),
};
CAY__SHAPED(wall, "Layer", cay_wall, CAY__F_OUT, "one isolation layer or feature as found");

static const cay__field limits_fields[] = {
    FIELD(cay_limits, memory, LIMIT, .about = "bytes; 2 GiB"),
    FIELD(cay_limits, swap, LIMIT, .about = "bytes; none"),
    FIELD(cay_limits, cpu_milli, LIMIT, .about = "thousandths of a CPU; 2000"),
    FIELD(cay_limits, pids, LIMIT, .about = "processes and threads; 512"),
    FIELD(cay_limits, disk, LIMIT, .about = "bytes; 10 GiB"),
    FIELD(cay_limits, inodes, LIMIT, .about = "files; 1,000,000"),
    FIELD(cay_limits, nofile, LIMIT, .about = "descriptors of a process; 4096"),
    FIELD(cay_limits, io_read, LIMIT, .about = "bytes per second"),
    FIELD(cay_limits, io_write, LIMIT, .about = "bytes per second"),
};
CAY__SHAPED(limits, "Limits", cay_limits, CAY__F_IN | CAY__F_OUT | CAY__F_KEPT,
            "0 or left out: the default");

static const char *const expiry_words[] = { "kill", "pause", NULL };
static const cay__field sandbox_fields[] = {
    FIELD(cay_info, id, STR),
    FIELD(cay_info, name, STR),
    FIELD(cay_info, state, WORD, .min = CAY_CREATING, .more = state_words),
    FIELD(cay_info, reason, STR,
          .about = "why it is in that state: killed, ttl, idle, oom, reboot, …"),
    FIELD(cay_info, provider, STR),
    { "isolation", CAY__F_CALC, .flags = CAY__F_UNSHOWN, .put = put_isolation,
      .more = "{\"enum\":[\"none\",\"process\",\"rootless\",\"root\",\"vm\",null]}",
      .about = "null while it does not run: it is known when it starts" },
    { "level", CAY__F_CALC, .flags = CAY__F_UNSHOWN, .put = put_level, .get = get_level,
      .more = "{\"type\":[\"integer\",\"null\"]}", .about = "likewise" },
    NAMED("template", cay_info, template_, STR),
    FIELD(cay_info, hostname, STR),
    FIELD(cay_info, user, STR),
    FIELD(cay_info, workdir, STR),
    FIELD(cay_info, path, STR, CAY__F_MAYBE | CAY__F_ADMIN,
          .about = "where its files are on the host; to scope admin"),
    FIELD(cay_info, pid, INT, CAY__F_MAYBE | CAY__F_ADMIN,
          .about = "of its init on the host; to scope admin"),
    FIELD(cay_info, created_ms, I64),
    FIELD(cay_info, changed_ms, I64),
    FIELD(cay_info, deadline_ms, I64, CAY__F_MAYBE),
    FIELD(cay_info, idle_ms, U64, CAY__F_MAYBE),
    FIELD(cay_info, on_expiry, WORD, .more = expiry_words),
    FIELD(cay_info, auto_resume, BOOL, CAY__F_UNSHOWN),
    FIELD(cay_info, tenant, STR),
    FIELD(cay_info, from, STR, CAY__F_MAYBE | CAY__F_UNSHOWN,
          .about =
              "the snapshot it stands on: the last one taken, or the one it was made, forked or "
              "put back from; one that was forgotten since, as is that of a saved template, is "
              "told still"),
    FIELD(cay_info, network, STR, CAY__F_MAYBE,
          .about = "what it may reach: off, rules or all; without, that is not known"),
    FIELD(cay_info, settings, PAIRS, CAY__F_MAYBE,
          .about = "those of its template, as they are in it"),
    FIELD(cay_info, boot_id, STR, CAY__F_MAYBE,
          .about = "its own, new at each start; of one that runs, and not in lists"),
    FIELD(cay_info, labels, PAIRS),
    FIELD(cay_info, metadata, JSON, CAY__F_MAYBE),
    FIELD(cay_info, limits, OBJECT, .more = &cay__limits_shape),
    NAMED("layers", cay_info, walls, LIST, .count = offsetof(cay_info, nwalls),
          .more = &cay__wall_shape),
};
CAY__SHAPED(sandbox, "Sandbox", cay_info, CAY__F_OUT | CAY__F_SIZED, "one isolated workspace");

static const cay__field usage_fields[] = {
    FIELD(cay_usage, cpu_us, U64),      FIELD(cay_usage, memory, U64),
    FIELD(cay_usage, memory_peak, U64), FIELD(cay_usage, pids, U64),
    FIELD(cay_usage, disk, U64),        FIELD(cay_usage, inodes, U64),
    FIELD(cay_usage, oom_kills, U64),   FIELD(cay_usage, pids_hits, U64),
    FIELD(cay_usage, net_rx, U64),      FIELD(cay_usage, net_tx, U64),
};
CAY__SHAPED(usage, "Usage", cay_usage, CAY__F_OUT | CAY__F_SIZED,
            "what it uses now, and used so far");

static const cay__field grant_fields[] = {
    FIELD(cay_grant, source, STR, CAY__F_REQUIRED, .about = "directory on the server's host"),
    FIELD(cay_grant, target, STR, CAY__F_REQUIRED, .about = "absolute path inside"),
    FIELD(cay_grant, rw, BOOL),
};
CAY__SHAPED(grant, "Mount", cay_grant, CAY__F_IN | CAY__F_KEPT,
            "a directory of the host shown inside");

static const cay__field volume_use_fields[] = {
    FIELD(cay_volume_use, name, STR, CAY__F_REQUIRED),
    FIELD(cay_volume_use, target, STR, CAY__F_REQUIRED, .about = "absolute path inside"),
    FIELD(cay_volume_use, rw, BOOL),
};
CAY__SHAPED(volume_use, "VolumeUse", cay_volume_use, CAY__F_IN | CAY__F_KEPT,
            "a named volume shown inside");

static const cay__field secret_use_fields[] = {
    FIELD(cay_secret, name, STR, CAY__F_REQUIRED),
    FIELD(cay_secret, source, STR, CAY__F_REQUIRED,
          .about = "store:NAME or fill:NAME; others to scope admin"),
    FIELD(cay_secret, destination, STR, CAY__F_IN), /* a record has it in its policy */
};
CAY__SHAPED(secret_use, "SecretUse", cay_secret, CAY__F_IN | CAY__F_KEPT,
            "a secret that never enters");

static const char *const level_words[] = { "none", "process", "rootless", "root", "vm", NULL };
/* A member of cay_create. */
#define CREATE(name, member, ...) CAY__NAMED(name, cay__create_body, c.member, __VA_ARGS__)

static const cay__field create_fields[] = {
    NAMED("template", cay__create_body, c.from.template_, STR,
          .about = "what it starts from; host"),
    CREATE("name", name, STR, .about = "a label for people"),
    CREATE("hostname", hostname, STR),
    CREATE("user", process.user, STR, .about = "default user of its processes"),
    CREATE("workdir", process.workdir, STR, .about = "/workspace"),
    CREATE("env", process.env, PAIRS, .about = "for every process"),
    CREATE("labels", labels, PAIRS),
    CREATE("metadata", metadata, JSON, .max = 1 << 20, .about = "kept for the caller"),
    CREATE("limits", limits, OBJECT, .more = &cay__limits_shape),
    FIELD(cay__create_body, isolation, CHOICE, .more = level_words,
          .about = "least that is accepted"),
    CREATE("require", isolation.require, STRS, .max = 32,
           .about = "features by name: memory-limit, disk-quota, …"),
    CREATE("ttl_ms", life.ttl_ms, LIMIT),
    CREATE("idle_ms", life.idle_ms, LIMIT),
    CREATE("on_expiry", life.on_expiry, WORD, .more = expiry_words),
    FIELD(cay__create_body, net, JSON, CAY__F_ANY, .about = "a list of rules, or a policy"),
    CREATE("secrets", net.secrets, LIST, .count = offsetof(cay__create_body, c.net.nsecrets),
           .max = 64, .more = &cay__secret_use_shape),
    CREATE("from", from.snapshot, STR, .about = "a snapshot to stand on"),
    CREATE("manifest", manifest.text, JSON, .about = "what is put into it"),
    CREATE("services", services, JSON, .max = 1 << 20,
           .about = "what is kept running in it, by name; a manifest's come on top"),
    CREATE("sudo", isolation.sudo, BOOL, .about = "its users may become others inside"),
    CREATE("settings", from.settings, PAIRS,
           .about = "of those that its template has, by name; `permissions` of claude and codex"),
    CREATE("checkpoint", life.checkpoints, U32, .max = 1000,
           .about = "keep that many automatic snapshots"),
    CREATE("volumes", files.volumes, LIST, .count = offsetof(cay__create_body, c.files.nvolumes),
           .max = 64, .more = &cay__volume_use_shape),
    CREATE("durable", life.durable, BOOL),
    CREATE("no_pin", isolation.no_pin, BOOL),
    CREATE("auto_resume", life.auto_resume, BOOL, .about = "it is resumed when it is used"),
    CREATE("provider", provider, STR),
    CREATE("options", options, PAIRS,
           .about = "what only this provider knows, as image of docker; all but image, pull and "
                    "read_only to scope admin"),
    CREATE("tenant", tenant, STR, .about = "whose it is; to scope admin"),
    CREATE("root", from.root, STR, CAY__F_ADMIN,
           .about = "a directory of the host; to scope admin"),
    CREATE("on", from.directory, STR, CAY__F_ADMIN,
           .about = "a directory of the host; to scope admin"),
    NAMED("mounts", cay__create_body, c.files.grants, LIST, CAY__F_ADMIN,
          .count = offsetof(cay__create_body, c.files.ngrants), .max = 64,
          .more = &cay__grant_shape, .about = "to scope admin"),
};
CAY__SHAPED(create, "Create", cay__create_body, CAY__F_IN,
            "a sandbox as it is wanted; all may be left out");

/* Its order is that of the bytes on the disk, which are hashed into names there: new rows are
 * added before `limits`. */
#define KEPT(name, member, ...) CAY__NAMED(name, cay__create_record, member, __VA_ARGS__)
static const cay__field record_fields[] = {
    KEPT("template", c.from.template_, STR),
    KEPT("root", c.from.root, STR),
    KEPT("hostname", c.hostname, STR),
    KEPT("user", c.process.user, STR),
    KEPT("workdir", c.process.workdir, STR),
    KEPT("env", c.process.env, PAIRS),
    KEPT("min_level", c.isolation.min_level, INT),
    KEPT("require", c.isolation.require, STRS),
    KEPT("ttl_ms", c.life.ttl_ms, LIMIT),
    KEPT("idle_ms", c.life.idle_ms, LIMIT),
    KEPT("on_expiry", c.life.on_expiry, WORD, .more = expiry_words),
    KEPT("no_pin", c.isolation.no_pin, BOOL),
    KEPT("durable", c.life.durable, BOOL),
    KEPT("net", net, JSON),
    KEPT("from", c.from.snapshot, STR),
    KEPT("checkpoint", c.life.checkpoints, U32),
    KEPT("on", c.from.directory, STR),
    KEPT("on_since_ms", on_since_ms, LIMIT),
    KEPT("manifest", c.manifest.text, STR),
    KEPT("auto_resume", c.life.auto_resume, BOOL),
    KEPT("image", template_config, STR),
    KEPT("template_id", template_id, STR),
    KEPT("template_name", template_name, STR),
    KEPT("services", c.services, JSON, CAY__F_ANY),
    KEPT("sudo", c.isolation.sudo, BOOL),
    KEPT("options", c.options, PAIRS),
    KEPT("group", c.process.group, STR),
    KEPT("settings", c.from.settings, PAIRS),
    KEPT("limits", c.limits, OBJECT, .more = &cay__limits_shape),
    KEPT("grants", c.files.grants, LIST, CAY__F_ZERO,
         .count = offsetof(cay__create_record, c.files.ngrants), .more = &cay__grant_shape),
    KEPT("secrets", c.net.secrets, LIST, .count = offsetof(cay__create_record, c.net.nsecrets),
         .more = &cay__secret_use_shape),
    KEPT("volumes", c.files.volumes, LIST, .count = offsetof(cay__create_record, c.files.nvolumes),
         .more = &cay__volume_use_shape),
    KEPT("layers", layers, STRS, .max = CAY_STACK_MAX - 1),
};
const cay__shape cay__create_record_shape =
    CAY__SHAPE(NULL, cay__create_record, record_fields, CAY__F_KEPT, NULL);

/* A body is not needed, but what is sent has to be an object that says nothing. */
const cay__shape cay__nothing_shape = { "Nothing", .use = CAY__F_IN, .about = "no member" };
static const cay__field extend_fields[] = {
    FIELD(cay__extend_body, ttl_ms, LIMIT, .about = "time left, from now"),
    FIELD(cay__extend_body, idle_ms, LIMIT),
};
CAY__SHAPED(extend, "Extend", cay__extend_body, CAY__F_IN, "what is left out stays as it is");

static const cay__field sandbox_patch_fields[] = {
    NAMED("name", cay__sandbox_patch, words.name, STR),
    NAMED("labels", cay__sandbox_patch, words.labels, PAIRS,
          .about = "all of them, instead of those it has"),
    NAMED("metadata", cay__sandbox_patch, words.metadata, JSON, .max = 1 << 20),
    NAMED("ttl_ms", cay__sandbox_patch, time.ttl_ms, LIMIT, .about = "time left, from now"),
    NAMED("idle_ms", cay__sandbox_patch, time.idle_ms, LIMIT),
};
CAY__SHAPED(sandbox_patch, "SandboxPatch", cay__sandbox_patch, CAY__F_IN,
            "what is left out stays as it is");

static const cay__field fork_fields[] = {
    NAMED("count", cay_fork, n, SIZE, .min = 1, .max = 1000, .about = "how many; 1"),
    FIELD(cay_fork, name, STR, .about = "of the first; others get -2, -3, …"),
    FIELD(cay_fork, labels, PAIRS, .about = "instead of those it has"),
    FIELD(cay_fork, ttl_ms, LIMIT),
};
CAY__SHAPED(fork, "Fork", cay_fork, CAY__F_IN, "several ways on from one point");

static const cay__field undo_fields[] = {
    FIELD(cay__undo_body, to, STR, .about = "a snapshot; without it the last one"),
};
CAY__SHAPED(undo, "Undo", cay__undo_body, CAY__F_IN, "the way back");

static const cay__field waited_fields[] = {
    FIELD(cay__waited, state, STR, .about = "as it is by then"),
};
CAY__SHAPED(waited, "Waited", cay__waited, CAY__F_OUT, NULL);

#define SUM(member, ...) NAMED(#member, cay__manifest_judged, sum.member, __VA_ARGS__)
static const cay__field manifest_sum_fields[] = {
    FIELD(cay__manifest_judged, root, STR, .about = "where entries go"),
    SUM(entries, U64),
    SUM(files, U64),
    SUM(bytes, U64, .about = "without those that are fetched"),
    SUM(ephemeral, U64, .about = "entries that are in no snapshot"),
    SUM(mounts, U64),
    SUM(fetched, U64, .about = "repositories and remote files; nothing was fetched for this"),
    FIELD(cay__manifest_judged, tree, STR, .about = "for people"),
};
CAY__SHAPED(manifest_sum, "ManifestSum", cay__manifest_judged, CAY__F_OUT,
            "what a manifest would put into a sandbox");

static const cay__field manifest_given_fields[] = {
    FIELD(cay__manifest_given, root, STR, .about = "where its entries are"),
    FIELD(cay__manifest_given, entries, SIZE, .about = "of the top"),
    FIELD(cay__manifest_given, variables, SIZE, .about = "of the environment"),
    FIELD(cay__manifest_given, tree, STR,
          .about = "for people; where entries came from is not in it"),
};
CAY__SHAPED(manifest_given, "ManifestGiven", cay__manifest_given, CAY__F_OUT,
            "what was put into a sandbox as it was made; without a manifest nothing");

static const cay__field usage_point_fields[] = {
    FIELD(cay__usage_point, time_ms, I64),
    FIELD(cay__usage_point, cpu_milli, U64,
          .about = "thousandths of a CPU, since the moment before"),
    FIELD(cay__usage_point, memory, U64),
    FIELD(cay__usage_point, disk, U64),
    FIELD(cay__usage_point, net_rx, U64,
          .about = "bytes a second that came in, since the moment before"),
    FIELD(cay__usage_point, net_tx, U64, .about = "bytes a second that left, likewise"),
};
CAY__SHAPED(usage_point, "UsagePoint", cay__usage_point, CAY__F_OUT, "what was used at a moment");

static const cay__field event_params[] = {
    FIELD(cay__events_query, after, STR,
          .about = "go on behind this id; the header Last-Event-ID does the same. 0: first all "
                   "that is kept, "
                   "then an event `now`"),
    NAMED("kind", cay__events_query, kinds, STRS, .max = 12,
          .about = "only such: `progress` tells how far a manifest is (key: the Idempotency-Key of "
                   "its request; "
                   "entries, entries_total, bytes, bytes_total)"),
};
CAY__ASKED(event, cay__events_query);

static const cay__field manifest_put_params[] = {
    { "replace", CAY__F_BOOL,
      .about = "entries that are there may get other content and permissions" },
};
CAY__ASKED(manifest_put, bool);

static const cay__field usage_past_params[] = {
    FIELD(cay__past_query, since_ms, U64, .max = INT64_MAX,
          .about = "from then on; an hour ago unless told, and a day is kept"),
    FIELD(cay__past_query, until_ms, U64, .max = INT64_MAX, .about = "until then; now"),
};
CAY__ASKED(usage_past, cay__past_query);

static const cay__field wait_for_params[] = {
    FIELD(cay__wait_query, timeout_ms, U64, .max = 600000, .about = "at most 600000; 30000"),
};
CAY__ASKED(wait_for, cay__wait_query);

static const cay__field sandbox_list_params[] = {
    NAMED("state", cay__list_query, states, STRS,
          .about = "creating, running, paused, stopped, deleting, damaged; again for more"),
    NAMED("label", cay__list_query, f.labels, PAIRS,
          .about = "KEY=VALUE that it has to carry; again for more"),
    NAMED("metadata", cay__list_query, f.metadata, STR,
          .about = "a JSON object whose members its metadata has, with the same values"),
    NAMED("provider", cay__list_query, f.provider, STR, .about = "only of this one"),
    NAMED("tenant", cay__list_query, f.tenant, STR, CAY__F_ADMIN,
          .about = "only of this one; to scope admin"),
    NAMED("id", cay__list_query, ids, STRS,
          .about = "only these, whole ids; again for more, at most 100. What is not there is left "
                   "out, and "
                   "nothing else is looked at"),
    NAMED("limit", cay__list_query, f.limit, SIZE, .max = 1000,
          .about = "how many at most: 1 to 1000; 100"),
    NAMED("after", cay__list_query, f.after, STR, .about = "`next` of the answer before, or an id"),
};
CAY__ASKED(sandbox_list, cay__list_query);
