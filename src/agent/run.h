/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/run.h - one run from the inside. run.c drives it; turn.c asks the model; calls.c does what
 * it asks for; seat.c gives an agent its sandbox and capabilities; prompt.c writes its
 * instructions; state.c saves and loads a run that waits.
 */
#pragma once
#include <base/json.h>
#include <cay/agent.h>
#include <cay/sys/capability.h>
#include <stdatomic.h>

enum {
    CAY__TEXT_MAX = 256 << 20,
    CAY__ITEMS_MAX = 100000,
    CAY__CALLS_MAX = 256,
    CAY__NEST_MAX = 8
};

struct cay_capability {
    const cay_capability_ops *ops; /* own: those of its maker may be shorter than we know */
    void *self;
    cay_capability_ops own;
    int (*configure)(void *arg, cay_tool *tool, cay_err *err);
    void *configure_arg;
};

typedef struct cay__bound {
    cay_capability *cap;
    void *bound;
    bool off; /* its check() said no: the model hears nothing of it */
} cay__bound;

/* An agent's place in a run: its sandbox, capabilities and tools. */
typedef struct cay__seat cay__seat;
struct cay__seat {
    cay_agent *given;       /* the caller's, whom callbacks see */
    const cay_agent *agent; /* own: what we know of it, as it was when the turn began */
    cay_agent own;
    char key[96]; /* its name, with a number when two agents share one */
    cay_sandbox *sb;
    bool made_new;           /* by this run */
    bool owned, ready, busy; /* the sandbox is ours to end; prepared; busy_ is ours to clear */
    bool returned;           /* it came back by a session state */
    char workdir[1024], cwd[1024];
    char backend[32]; /* its provider, once it is known */
    cay_state state;  /* in which it was found */
    cay__bound *caps;
    size_t ncaps;
    cay_capability **made; /* the default ones, ours */
    size_t nmade;
    json_t *hosted;   /* definitions of tools that the endpoint runs, or NULL */
    cay_tool **tools; /* copies: those of the caller may be shorter than we know */
    size_t ntools;
    char *tools_json, *extra;
    json_t *withheld; /* tools of capabilities that are not available: by name, whose they are; or
                         NULL */
    struct cay__limits *limits; /* what its tool calls may touch, or NULL */
    char *tree;                 /* of its manifest, or NULL */
    char *mounts;               /* what is to be said about storage in it, or NULL */
    char *resume;               /* id of its sandbox in a state, until it was found */
    cay__seat *next;
};

/* What MCP servers had of the model; one for a run and those inside it, which may be beside each
 * other. */
typedef struct cay__sampled {
    atomic_uint answers;
    _Atomic uint64_t tokens;
} cay__sampled;

struct cay_run {
    const cay_run_config *conf;
    const cay_call *call;
    void (*on_op)(void *arg,
                  const cay_op *op); /* whom the caller wants told of operations, or NULL;
                                       besides them only the tool call at hand is */
    void *on_op_arg;
    cay__seat *seats, *seat;
    json_t *input;   /* of this run */
    json_t *context; /* what the model is sent: what was before, input, items; cut by compaction */
    json_t *items;   /* what this run added */
    json_t *approvals, *pending; /* by tool; calls that wait */
    json_t *results;             /* of tools of the turn at hand, for CAY_TOOLS_ASK; or NULL */
    json_t *requests;            /* what each cost */
    json_t *nested; /* by call: states of agents used as tools that wait themselves; or NULL */
    size_t kept;    /* items that the conversation holds already */
    cay_tokens usage;
    cay__sampled *sampled;
    unsigned turn, max_turns, nest;
    unsigned inside; /* calls of cay__call_inside() that are under way */
    bool tools_used, canceled, resumed, came_back; /* came_back: the session state was used */
    size_t told; /* items of the context that the endpoint has seen or said, by response_id */
    cay_model *told_to;
    char *response_id, *output, *sandbox_state;
    char id[24], rollout[136];
    struct cay__span *span, *agent_span;
};

/* What one turn led to. */
typedef enum cay__next { CAY__AGAIN = 0, CAY__FINAL, CAY__WAIT } cay__next;

/* run.c */
void cay__tokens_add(cay_tokens *sum, const cay_tokens *u);
json_t *cay__tokens_json(const cay_tokens *u); /* but for their total */
/* One more entry of what requests cost. */
void cay__request_add(cay_run *r, const cay_model *m, const cay_model_reply *reply);
int cay__run_event(cay_run *r, cay_run_event_kind kind, const char *name, const json_t *json,
                   cay_err *err);
int cay__run_note(cay_run *r, const char *name, const char *text, cay_err *err);
/* Takes item; adds it to what was generated and to the context, and tells of it. */
int cay__run_add(cay_run *r, const char *event, json_t *item, cay_err *err);

/* Was it canceled, or is its deadline over? The second fills err. */
/* seat.c: a sandbox that the run made and would end is the caller's from now on. False: it was not
 * the run's to give. */
bool cay__run_give_sandbox(cay_run *r, const cay_sandbox *sb);
int cay__call_check_run(const cay_run *r);
int cay__call_fail_run(const cay_run *r, cay_err *err);

/* guard.c: the input's guards that run before everything; the answer's. */
int cay__guard_input(cay_run *r, cay_err *err);
int cay__guard_output(cay_run *r, cay_err *err);
/* The input's guards that run beside the first request: until _end() the run's call is one that
 * they may cancel. *out is NULL when there are none. _end() takes how the request went, waits for
 * them, and gives what counts. */
struct cay__guards;
int cay__guards_begin(cay_run *r, struct cay__guards **out, cay_err *err);
int cay__guards_end(cay_run *r, struct cay__guards *g, int rc, cay_err *err);

/* Calls one hook of the run and of its agent, where they have it, with arg and what follows. */
#define CAY__HOOK(r, hook, ...)                                                                    \
    do {                                                                                           \
        const cay_hooks *both_[] = { (r)->conf->hooks, (r)->seat->agent->hooks };                  \
        CAY_EACH(h_, both_)                                                                        \
            if (*h_ && (*h_)->hook)                                                                \
                (*h_)->hook((*h_)->arg, __VA_ARGS__);                                              \
    } while (0)

/* turn.c */
int cay__turn(cay_run *r, cay__next *next, cay_err *err);
/* calls.c: what calls ask for; those that wait for approval stay in r->pending. *handoff: somebody
 * else goes on; *stop: malloc'ed output of a tool that ends the run, or NULL. */
int cay__calls(cay_run *r, json_t *calls, bool *handoff, char **stop, cay_err *err);
int cay__call_answer(cay_run *r, const json_t *call, json_t *output,
                     cay_err *err); /* takes output */
/* verdict.c: CAY_APPROVE, CAY_ASK_LATER, or CAY_REJECT with what is told the model, malloc'ed. */
#define CAY__NOT_APPROVED "Tool execution was not approved."
cay_verdict cay__verdict(cay_run *r, const cay_tool_call *call, char **why);
/* beside.c: calls fn for each of n, at most `most` at a time, each on a thread of its own; the last
 * one back ends it. */
void cay__beside(size_t n, unsigned most, void (*fn)(void *arg, size_t i), void *arg);
/* A call that code makes while a tool runs: the same path as a model's, but nothing of it enters
 * the history. *out: what it answered, or why it did not run (*ran false). */
int cay__call_inside(cay_run *r, const char *tool, const char *call_id, const char *arguments,
                     bool *ran, json_t **out, cay_err *err);
/* tools.c */
const cay_tool *cay__tool_find(const cay__seat *s, const char *name);
const cay_handoff *cay__handoff_find(const cay__seat *s, const char *name);
int cay__tools_json(const cay__seat *s, const cay_model *m, char **out, cay_err *err);
bool cay__tool_name(char *dst, size_t cap, const char *prefix, const char *name);
struct cay_tool_output {
    json_t *parts; /* images, and texts before them */
    cay__buf text;
};
void cay__output_encoded(cay_tool_output *o, const char *media_type, const char *base64);
__attribute__((format(printf, 2, 3))) int cay__tool_say(cay_tool_output *out, const char *fmt,
                                                        ...); /* returns 0 */
json_t *cay__output_take(cay_tool_output *o);                 /* a string, or a list of parts */

/* seat.c */
cay__seat *cay__seat_of(cay_run *r, cay_agent *a);
int cay__seat_prepare(cay_run *r, cay__seat *s, cay_err *err);
void cay__seat_close(cay_run *r, cay__seat *s, bool keep);
/* seat_manifest.c: for a new sandbox, *out may stay NULL; and what capabilities add to one that is
 * there. */
int cay__seat_manifest(cay_run *r, const cay_create *spec, const cay__seat *s, char **out,
                       cay_err *err);
int cay__seat_follow(cay_run *r, cay__seat *s, cay_err *err);
cay_model *cay__seat_model(const cay_run *r, const cay__seat *s);
/* r->sandbox_state for the result; what cannot be saved is not ended either. gone: the sandbox will
 * be removed. */
void cay__seat_save(cay_run *r, cay__seat *s, bool gone);

/* capability/limits.c: allow-lists of its capabilities, looked up in its sandbox; *out stays NULL
 * when it has none. */
int cay__limits_make(cay_run *r, cay__seat *s, struct cay__limits **out, cay_err *err);
void cay__limits_free(struct cay__limits *l);
const cay_fence *cay__limits_fence(
    const struct cay__limits *l); /* NULL: everything; l may be NULL */

/* prompt.c */
int cay__instructions(cay_run *r, cay__seat *s, char **out, cay_err *err);
extern const char cay__base_prompt[];

/* approval.c: calls that somebody has to decide on, those of agents used as tools as "CALL/INNER".
 * Strings live during fn. */
typedef void cay__waits_fn(void *arg, const json_t *call, const char *id, const char *agent,
                           json_t *approvals);
void cay__waits(const json_t *pending, const json_t *nested, const char *agent, json_t *approvals,
                cay__waits_fn *fn, void *arg);
/* nested.c: an agent as a tool. */
bool cay__tool_is_agent(const cay_tool *t);

/* peer.c: a program in the sandbox that is spoken to by its standard streams. */
typedef struct cay__peer {
    cay_proc *p;
    int fd;
    cay__buf in;
} cay__peer;
/* spec: what is run; its streams are filled in. max: of what it says and nobody has taken. After a
 * failure it is to be closed as well. */
int cay__peer_open(cay__peer *w, cay_sandbox *sb, const cay_call *call, const cay_spawn *spec,
                   size_t max, cay_err *err);
/* Reads what is there. False: it has ended, or says too much, and then w->in is full. */
bool cay__peer_read(cay__peer *w);
/* The next piece that ends so, without its end, malloc'ed. NULL: more has to be read. */
char *cay__peer_take(cay__peer *w, char end);
/* Leaves it so long to end by itself. */
void cay__peer_close(cay__peer *w, unsigned patience_ms);
/* rc of starting Python: that it is not there has a remedy. */
int cay__no_python(int rc, cay_err *err);

/* state.c */
json_t *cay__state_save(const cay_run *r);
int cay__state_load(cay_run *r, cay_agent *start, const char *text, cay_err *err);
int cay__state_check(const json_t *st, cay_err *err);

/* conversation.c */
int cay__conversation_append(cay_conversation *c, const char *items, cay_err *err);
const char *cay__conversation_id(const cay_conversation *c);

/* items.c */
char *cay__item_text(const json_t *item); /* of a message; malloc'ed, or NULL */
bool cay__item_is(const json_t *item, const char *type);
json_t *cay__text_cut(const char *text,
                      size_t most); /* as a string; what is left out is counted in it */
bool cay__item_is_call(const json_t *item);
/* hosted.c: tools that the endpoint runs. */
struct cay__hosted_name {
    char text[256];
};
const char *cay__item_id(
    const json_t *item); /* by which a call, its answer, or a request for approval is known */
/* Of a call: its tool; of a request for approval "SERVER.TOOL", which no tool of ours is named. */
const char *cay__item_tool(const json_t *item, struct cay__hosted_name *buf);
const char *cay__item_arguments(const json_t *item);
bool cay__item_waits(const json_t *item); /* a call, or a request for approval */
const char *cay__hosted_event(
    const json_t *item); /* how the run tells of it; NULL: it is none of theirs */
int cay__hosted_add(json_t *list, const char *definition, cay_err *err);
int cay__hosted_fit(const json_t *list, const cay_model *m, const char *agent,
                    cay_err *err); /* does the endpoint run any? */
int cay__hosted_check(const cay_agent *a, const cay_model *m,
                      cay_err *err); /* those of an agent, before anything is made for it */
int cay__hosted_decide(cay_run *r, json_t *item, cay_err *err);     /* answered, or in r->pending */
int cay__hosted_note(cay_run *r, const json_t *item, cay_err *err); /* for the audit */
int cay__input_items(const char *input, json_t **out, cay_err *err);

/* schema.c: does value fit; *where is told in the error. */
int cay__schema_check(const json_t *schema, const json_t *value, cay_err *err);

void *cay__capability_self(const cay_capability *c, const char *name);
/* What our capabilities keep of their scope while they are bound, first in a struct of their own
 * that cay__kit_begin() allocates; the others are operations. */
typedef struct cay__kit {
    cay_run *run;
    cay_sandbox *sb;
    char *root, *cwd, *user; /* user: NULL for the sandbox's own */
    const cay_tool *tools[2];
    size_t ntools;
} cay__kit;
void *cay__kit_begin(size_t size, const cay_scope_info *scope);
void cay__kit_stop(void *kit);
int cay__kit_tools(void *kit, const cay_tool *const **out, size_t *n, cay_err *err);
/* The working directory of a sandbox, which the caller frees. */
int cay__workdir_of(cay_sandbox *sb, const cay_call *call, char **out, cay_err *err);
/* Did a tool fail so that the run ends? Other failures are told to the model, which may mend them.
 */
bool cay__ends_run(int rc);
/* The default capabilities, ours to free. */
size_t cay__default_capabilities(cay_capability **out);
