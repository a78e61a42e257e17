/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/sys/capability.h - what an agent may do in its sandbox: ours, and how to write one.
 *
 *   cay_cap_shell()       exec_command, write_stdin
 *   cay_cap_filesystem()  apply_patch, view_image
 *   cay_cap_compaction()  histories that outgrow a model
 *   cay_cap_skills()      SKILL.md directories
 *   cay_cap_memory()      what earlier runs learnt
 *   cay_cap_tools()       file_read … process_list
 *   cay_cap_ptc()         code that calls tools
 *   cay_cap_exec(), cay_cap_read(), cay_cap_write(), cay_cap_network()
 *   cay_cap_browser()     a headless Chromium               allow-lists
 *   cay_cap_free()
 *
 * A capability is a description. Those that are returned are NULL when the size of their options is
 * none, which a run of an agent that has one tells. Each run binds it to its sandbox with start(),
 * which gives what it keeps for that run; several runs may use one description at a time.
 */
#pragma once
#include <cay/agent.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a capability is bound to. */
typedef struct cay_scope_info {
    size_t size;
    cay_run *run;
    cay_sandbox *sandbox;
    const char *user;    /* run_as, or NULL */
    const char *workdir; /* of the sandbox: the root of its workspace */
    const char *cwd;     /* absolute: where relative paths of this run begin */
    cay_model *model;
} cay_scope_info;

struct cay_rollout;
typedef struct cay_capability_ops {
    size_t size;
    const char *name;
    const char *const
        *needs; /* names of capabilities that must be there too, NULL-terminated; or NULL */
    int (*start)(void *self, const cay_scope_info *scope, void **bound, cay_err *err);
    void (*stop)(void *bound);
    /* From here on NULL means nothing of that kind. */
    bool (*check)(
        void *bound); /* false: for this run its tools, instructions, sampling and history are left
                         out, and who calls one of its tools is told that it is not available */
    int (*tools)(void *bound, const cay_tool *const **out, size_t *n,
                 cay_err *err); /* live until stop() */
    int (*instructions)(void *bound, char **text,
                        cay_err *err); /* each turn; malloc'ed, NULL for none */
    int (*sampling)(void *bound, char **extra,
                    cay_err *err); /* JSON object for the model's request, malloc'ed */
    int (*history)(void *bound, const char *items, char **instead,
                   cay_err *err); /* each turn; leave *instead NULL to change nothing */
    int (*manifest)(void *self, const char *manifest, char **instead,
                    cay_err *err); /* before a new sandbox is made, and of one that is there */
    int (*finish)(void *bound, const struct cay_rollout *rollout,
                  cay_err *err); /* the run ended; never fails it */
    void (*close)(void *self);
    bool brings; /* start() itself puts what manifest() adds into a sandbox that was there; else it
                    is added as cay_sandbox_set_manifest() does */
    const char *
        description; /* what it is for, or NULL: told to the model where it has no instructions() */
} cay_capability_ops;

/* How a run went, for those who remember. */
typedef struct cay_rollout {
    size_t size;
    const char *id;
    const char *input, *items, *interruptions; /* lists */
    const char *state;            /* completed, interrupted, cancelled, failed, max_turns_exceeded,
                                     guardrail_tripped */
    const char *reason, *message; /* of the error, or NULL */
    const char *output;           /* or NULL */
} cay_rollout;

/* Takes self. NULL when ops->size is none: then self stays the caller's. */
CAY_API cay_capability *cay_capability_new(const cay_capability_ops *ops, void *self);
CAY_API void cay_cap_free(cay_capability *c);
CAY_API const char *cay_cap_name(const cay_capability *c);
/* fn sees each tool of the capability when an agent's run begins, a copy: it may give it another
 * name, description, approval or guards, whose strings live as long as the run. An error ends the
 * run. Before the first run. */
CAY_API void cay_cap_configure(cay_capability *c,
                               int (*fn)(void *arg, cay_tool *tool, cay_err *err), void *arg);

typedef struct cay_shell_options {
    size_t size;
    uint64_t max_output_tokens; /* where the model names no limit; 0: all, up to 1 MiB */
    bool approval; /* every exec_command waits for a yes, and every write_stdin that types something
                    */
    bool (*needs_approval)(
        void *arg,
        const cay_tool_call *call); /* or is asked about both: call->tool tells them apart */
    void *arg;
} cay_shell_options;
CAY_API cay_capability *cay_cap_shell(const cay_shell_options *o); /* o may be NULL */

typedef struct cay_filesystem_options {
    size_t size;
    bool approval; /* every apply_patch that can be read waits for a yes */
    bool (*needs_approval)(void *arg, const char *const *paths,
                           size_t n); /* canonical paths, relative to the workspace where inside */
    void *arg;
    bool exclusive; /* Add File over a file that is there fails */
} cay_filesystem_options;
CAY_API cay_capability *cay_cap_filesystem(const cay_filesystem_options *o);

/* The tools of cay/tools.h: file_read, shell_exec, git_commit, … */
typedef struct cay_tools_options {
    size_t size;
    const char *const *names;   /* NULL-terminated, copied; NULL: all */
    uint64_t max_output_tokens; /* longer answers are cut in the middle; 0: never */
    bool approval;              /* every tool that changes something waits for a yes */
    bool (*needs_approval)(void *arg, const cay_tool_call *call); /* or is asked about those */
    void *arg;
} cay_tools_options;
/* CAY_EINVAL "tool_unknown". o may be NULL. */
CAY_API int cay_cap_tools(const cay_tools_options *o, cay_capability **out, cay_err *err);

/* browser_open, browser_read, browser_click, browser_type, browser_screenshot: a headless Chromium
 * in the sandbox, within its network policy. The sandbox needs the program; on template host that
 * of this machine serves. These tools are among those of cay_cap_tools() as well. */
typedef struct cay_browser_options {
    size_t size;
    uint64_t max_output_tokens; /* longer texts are cut in the middle; 0: never */
    bool approval;              /* open, click and type wait for a yes */
    bool (*needs_approval)(void *arg, const cay_tool_call *call);
    void *arg;
} cay_browser_options;
CAY_API cay_capability *cay_cap_browser(const cay_browser_options *o); /* o may be NULL */

/* Programmatic tool calling: execute_code runs Python in which the agent's tools, and those of its
 * MCP servers, are functions. What they answer stays in the sandbox; the model is told what was
 * printed. Each such call takes the way of a model's: approval, hooks, span, time-out. */
typedef struct cay_ptc_options {
    size_t size;
    const char *dir; /* below the workspace, for tools/, code/, results/ and data/; NULL: ".ptc" */
    uint64_t max_output_tokens; /* of each stream; 0: 16,000 */
    unsigned timeout_s;         /* where the model names none; 0: 300 */
    unsigned max_calls;         /* of tools by one execution; 0: 1,000 */
    bool no_install;            /* do not pip install what an import misses */
    bool approval;              /* every execute_code waits for a yes */
    bool (*needs_approval)(void *arg, const cay_tool_call *call);
    void *arg;
} cay_ptc_options;
/* CAY_EINVAL "ptc_config_invalid". o may be NULL. */
CAY_API int cay_cap_ptc(const cay_ptc_options *o, cay_capability **out, cay_err *err);

/* Allow-lists. Once an agent has one of them, its tool calls are held to it: commands by the
 * kernel, files that tools read and write themselves by their path (cay_fence of cay/sandbox.h).
 * What is held how, and what that cannot stop, is told by cay_run_report() and by a note "enforced"
 * when the agent begins. Paths are absolute, or relative to the workspace. Lists are copied.
 *
 * exec: programs by name or path. The shell that tools need, interpreters of scripts and the
 * system's loaders are added. A provider that cannot hold commands to it refuses them: CAY_ENOTSUP
 * "fence_unsupported". read, write: directories and files. What may be written may be read;
 * programs and libraries of the system stay readable. network: words and rules as --net takes them
 * ("pypi", "example.org:443"); the sandbox's policy while the run lasts, and before as after its
 * own. */
typedef struct cay_list_options {
    size_t size;
    const char *const *list; /* NULL-terminated */
} cay_list_options;
/* CAY_EINVAL "capability_list" names what is wrong. */
CAY_API int cay_cap_exec(const cay_list_options *programs, cay_capability **out, cay_err *err);
CAY_API int cay_cap_read(const cay_list_options *paths, cay_capability **out, cay_err *err);
CAY_API int cay_cap_write(const cay_list_options *paths, cay_capability **out, cay_err *err);
CAY_API int cay_cap_network(const cay_list_options *rules, cay_capability **out, cay_err *err);
/* A JSON list: [{"capability", "allows": […], "commands": "kernel" or "refused", "files": "path" or
 * "none", "cannot_stop": […]}]. Lives as long as the run; "[]" for an agent without such
 * capabilities. */
CAY_API const char *cay_run_report(const cay_run *run);

typedef struct cay_compaction_options {
    size_t size;
    uint64_t
        threshold; /* tokens; 0: `percent` of the model's window where it is known, else 240,000 */
    bool local;    /* summarise here even where the endpoint could */
    uint64_t window;  /* tokens that the model can see at once; 0: as the model was told
                         (cay_model_open_spec.window), else by its name */
    unsigned percent; /* of the window; 0: 90 */
} cay_compaction_options;
CAY_API cay_capability *cay_cap_compaction(const cay_compaction_options *o);

/* Directories with a SKILL.md that tells when and how to use them. Exactly one of skills, from and
 * lazy is given. */
typedef struct cay_skill_file {
    const char *path; /* below the skill: "scripts/run.sh", "references/…", "assets/…" */
    const void *data;
    size_t len;
} cay_skill_file;
typedef struct cay_skill {
    const char *name, *description;
    const char *content; /* of SKILL.md; a front matter is written before it when it has none */
    const char *compatibility; /* or NULL */
    const cay_skill_file *files;
    size_t nfiles;
} cay_skill;
typedef struct cay_skills_options {
    size_t size;
    const cay_skill *skills; /* copied */
    size_t nskills;
    const char *from; /* a manifest's entry as JSON: {"type": "local_dir", …}, {"type": "git_repo",
                         …}; in a sandbox that is given to the run a local one has a whole path */
    const char
        *lazy; /* a directory of the host; load_skill copies one of its skills when it is wanted */
    const char *path; /* where they are in the workspace; NULL: ".agents" */
} cay_skills_options;
/* CAY_EINVAL "skills_config_invalid". */
CAY_API int cay_cap_skills(const cay_skills_options *o, cay_capability **out, cay_err *err);

/* Where files of memory are kept between sandboxes: a store of yours. Names are "memories/…" and
 * "sessions/…", as docs/agents.md lists. */
typedef struct cay_memory_store { /* one run at a time calls these, also with `background` */
    size_t size;
    int (*list)(void *self, int (*fn)(const char *name, void *arg), void *arg,
                cay_err *err); /* a negative fn ends it, and is returned */
    int (*get)(void *self, const char *name, char **data, size_t *len,
               cay_err *err); /* malloc'ed */
    int (*put)(void *self, const char *name, const void *data, size_t len, cay_err *err);
    void (*close)(void *self);               /* or NULL */
    int (*commit)(void *self, cay_err *err); /* everything is put: keep it now; or NULL */
} cay_memory_store;

/* What earlier runs learnt, in files of the workspace: docs/agents.md. At least one of read and
 * generate is chosen. */
/* How far making memories has come. Told on the thread that makes them. */
typedef struct cay_memory_progress {
    size_t size;
    const char *phase;    /* "extract", a rollout at a time; "consolidate"; "done" or "failed" */
    unsigned done, total; /* rollouts */
    cay_tokens usage;     /* as cay_memory_usage() */
    const char *reason;   /* of "failed", else "" */
} cay_memory_progress;

typedef struct cay_memory_options {
    size_t size;
    const char *memories_dir, *sessions_dir; /* below the workspace; NULL: "memories", "sessions" */
    bool read;        /* memory_summary.md goes into the instructions; needs shell */
    bool live_update; /* and the agent may correct what it finds; needs filesystem too */
    bool generate;    /* runs are recorded, and made into memories by cay_memory_flush() */
    unsigned max_raw; /* raw memories that are consolidated; 0: 256; at most 4096 */
    cay_model *phase_one, *phase_two; /* NULL: the run's own */
    const char *extra_prompt;         /* more for both phases, or NULL */
    const char *store; /* a directory of the host that keeps the files between sandboxes, or NULL.
                          With it every run that ends is made into memories at once, as its sandbox
                          may be gone afterwards */
    const char *database;    /* or a SQLite file (0600) that keeps them; made when it is missing */
    const char *remote;      /* or one archive in a snapshot store (cay/snapshot.h): https://…,
                                s3://BUCKET/KEY, a path */
    cay_client *service;     /* by which it is reached; lives as long as the capability */
    const char *remote_auth; /* its Authorization header: "env:NAME", "file:PATH", …; or NULL */
    const cay_memory_store *keeper; /* or your own functions, with */
    void *keeper_self; /* which is taken, also on an error, and closed with the capability */
    /* Where there is a store: memories are made on a thread of their own, after the run has its
     * result; a sandbox that the run made lives until then. Models have to live as long: until
     * cay_memory_wait(), or the capability is freed, which waits too. */
    bool background;
    void (*progress)(void *arg, const cay_memory_progress *p); /* or NULL */
    void *progress_arg;
    uint64_t budget; /* tokens that making memories may take in all; 0: no bound. Beyond it nothing
                        is made: CAY_ETOOBIG "memory_budget" */
    const cay_model_settings *phase_one_settings,
        *phase_two_settings; /* copied, their texts live as long as the capability; NULL: nothing is
                                said, as not every model thinks */
    unsigned phase_two_turns; /* most times its model is asked; 0: 500 */
} cay_memory_options;
/* CAY_EINVAL "memory_config_invalid". */
CAY_API int cay_cap_memory(const cay_memory_options *o, cay_capability **out, cay_err *err);
/* Makes memories of the runs recorded since: phase one for each, phase two once. For a sandbox that
 * the caller keeps: call it before it is ended. *made (may be NULL) counts rollouts that gave
 * something. A rollout that fails is left out and told in err->msg of the first; the others are
 * done. */
CAY_API int cay_memory_flush(cay_capability *memory, cay_sandbox *sb, cay_model *model,
                             const cay_call *call, unsigned *made, cay_err *err);
/* Waits until nothing more is being made in the background, and gives the first failure since the
 * last wait. Past the call's deadline, or when it is cancelled, what is not made yet is given up.
 */
CAY_API int cay_memory_wait(cay_capability *memory, const cay_call *call, cay_err *err);
/* What making memories has taken so far. It is no part of any run's usage. */
CAY_API cay_tokens cay_memory_usage(const cay_capability *memory);
/* Creates a rollout before its runs: an empty record, in the sandbox's sessions_dir, or without a
 * sandbox in the store; and its id, for the cay_run_config.rollout_id of the runs that belong to
 * it. CAY_EINVAL "memory_config_invalid" where there is neither, or nothing is recorded (generate).
 */
CAY_API int cay_memory_rollout(cay_capability *memory, cay_sandbox *sb, const cay_call *call,
                               char dst[32], cay_err *err);

#ifdef __cplusplus
}
#endif
