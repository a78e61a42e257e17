/* SPDX-License-Identifier: Apache-2.0 */
/* What a talk stands on: its session, sandbox, model and MCP servers. */
#include "chat.h"
#include <base/base.h>
#include <cay/sandbox.h>

enum { SETUP_MOST = 1 << 20, LIST_MS = 10000 };

int chat_db(chat *c, cay_err *err)
{
    char path[4200];
    CAY_TRY(cli_client(&c->client, err));
    CAY_FORMAT(c->dir, "%.4000s/chat", cay_client_home(c->client));
    if (mkdir(c->dir, 0700) < 0 && errno != EEXIST)
        return cay_fail_sys(err, "%.200s", c->dir);
    CAY_FORMAT(path, "%s/chat.db", c->dir);
    return store_open(path, &c->db, err);
}

/* A name may be one of "models" of the configuration, with an address of its own. */
static const json_t *known_model(const chat *c, const char *name)
{
    size_t i;
    json_t *m;
    json_array_foreach(json_object_get(c->conf, "models"), i, m)
        if (json_is_object(m) && name && !strcmp(cay__json_str(m, "name", ""), name))
            return m;
    return NULL;
}

/* Flags count before what the configuration says of this one. */
static cay_model_open_spec model_spec(const chat *c, const char *name)
{
    const json_t *m = known_model(c, name);
    const agent_model *given = &c->a->model;
    return (cay_model_open_spec){
        .size = sizeof(cay_model_open_spec),
        .model = name,
        .base_url = CAY_OR(given->base_url, cay__json_str(m, "base_url", NULL)),
        .api = CAY_OR(given->api, cay__json_str(m, "api", NULL)),
        .key = CAY_OR(given->key, cay__json_str(m, "key", NULL)),
        .headers = given->headers.v,
        .window = CAY_OR(given->window, (uint64_t)CAY_MAX(cay__json_int(m, "context_window", 0), 0))
    };
}

int chat_model_names(chat *c, char **names, cay_err *err)
{
    cay_model_open_spec spec = model_spec(c, c->s.model);
    cay_call call = { .size = sizeof call,
                      .deadline_ms = cay__now_ms() + LIST_MS,
                      .cancel_fd = chat_stop_fd() };
    return cay_model_list(&spec, &call, names, err);
}

int chat_model(chat *c, const char *name, cay_err *err)
{
    cay_model *model = NULL;
    cay_model_open_spec spec = model_spec(c, name);
    CAY_TRY(agent_model_check(&c->a->model, err));
    CAY_TRY(cay_model_open(&spec, &model, err));
    cay_model_free(c->model);
    c->model = c->asks.model = model;
    free(c->s.model);
    c->s.model = cay__strdup(CAY_OR(name, cay_model_name(model)));
    return 0;
}

static const char *choose_provider(const chat *c)
{
    const char *env = getenv("CAY_SANDBOX"),
               *p = CAY_OR(c->a->sandbox,
                           env && *env
                               ? env
                               : cay__json_str(json_object_get(c->conf, "chat"), "sandbox", NULL));
    p = CAY_OR(p, cli_provider());
    if (p && !strcmp(p, "none"))
        return "local";
    return p;
}

static int run_setup(chat *c, cay_err *err)
{
    CAY_AUTOFD fd = open(c->a->setup, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    CAY_AUTOFREE char *text = cay__alloc(SETUP_MOST + 1);
    ssize_t n = -1;
    if (fd >= 0)
        n = cay__fd_read_all(fd, text, SETUP_MOST);
    const char *const argv[] = { "sh", "-e", "-s", NULL };
    cay_spawn spec = { .size = sizeof spec, .argv = argv };
    cay_result r = { .size = sizeof r };
    if (n < 0)
        return cay_fail_sys(err, "--sandbox-setup %.200s", c->a->setup);
    if (n == SETUP_MOST)
        return cay_fail(err, CAY_ETOOBIG, "--sandbox-setup %.200s is larger than 1 MiB",
                        c->a->setup);
    CAY_TRY(cay_sandbox_run(c->sb, NULL, &spec, text, (size_t)n, 1 << 20, &r, err));
    int rc = 0;
    if (r.exit.code)
        rc = cay_fail_why(err, CAY_ESTATE, "setup_failed",
                          "--sandbox-setup %.100s left with %d: %.100s", c->a->setup, r.exit.code,
                          CAY_OR(r.errout, ""));
    cay_result_clear(&r);
    return rc;
}

/* Said each time that a talk begins, also when it goes on. */
static void say_no_wall(chat *c, const char *dir)
{
    if (dir)
        chat_text(c, OUT_WARN,
                  "no wall: commands run as you, with all your rights, and files of %s are changed "
                  "at once",
                  dir);
    else
        chat_text(c, OUT_WARN, "no wall: commands run as you, with all your rights");
}

/* Stands on the directory, unless asked otherwise or where nothing can. */
static int make_sandbox(chat *c, cay_err *err)
{
    char name[STORE_NAME + 8];
    cay_create spec = c->box.create;
    spec.provider = choose_provider(c);
    bool native = !spec.provider || !strcmp(spec.provider, "native");
    CAY_FORMAT(name, "chat-%s", c->s.name);
    spec.name = CAY_OR(spec.name, name);
    spec.from.directory = CAY_IF(native && *c->s.dir, c->s.dir);
    c->direct = spec.provider && !strcmp(spec.provider, "local") && *c->s.dir &&
                !spec.process.workdir && !spec.options;
    const cay_pair here[] = { { "root_dir", c->s.dir }, { NULL, NULL } };
    if (c->direct) { /* without a wall it works where you are */
        spec.options = here;
        spec.process.workdir = c->s.dir;
    }
    int rc = cli_boxes->create(&spec, &c->sb, err);
    if (rc < 0) {
        if (spec.from.directory && c->a->here)
            return cay_wrap(err, rc,
                            "the current directory cannot be shown (--on DIR "
                            "takes another, --empty none)");
        return rc;
    }
    if (spec.provider && !strcmp(spec.provider, "local"))
        say_no_wall(c, c->direct ? c->s.dir : NULL);
    else if (!spec.from.directory && *c->s.dir)
        chat_text(c, OUT_WARN, "provider %s does not show %s: the workspace begins empty",
                  spec.provider, c->s.dir);
    if (!spec.from.directory)
        *c->s.dir = 0;
    c->s.owns = true;
    free(c->s.sandbox);
    c->s.sandbox = cay__strdup(cay_sandbox_id(c->sb));
    if (c->a->setup)
        return run_setup(c, err);
    return 0;
}

static int find_sandbox(chat *c, const char *id, cay_err *err)
{
    cay_info *info = NULL;
    CAY_TRY(cay_client_find(c->client, NULL, id, &c->sb, err));
    int rc = cay_sandbox_describe(c->sb, NULL, &info, err);
    if (rc == 0 && (info->state == CAY_STOPPED || info->state == CAY_PAUSED))
        rc = cay_sandbox_resume(c->sb, NULL, err);
    cay_info_free(info);
    info = NULL;
    if (rc == 0) /* where it is, now that it runs */
        rc = cay_sandbox_describe(c->sb, NULL, &info, err);
    c->direct = rc == 0 && info->path && *info->path && !strcmp(info->path, info->workdir);
    if (rc == 0 && info->provider && !strcmp(info->provider, "local"))
        say_no_wall(c, c->direct ? info->path : NULL);
    cay_info_free(info);
    return rc;
}

static int get_sandbox(chat *c, cay_err *err)
{
    cay_err own = CAY_ERR_INIT;
    if (*c->s.sandbox) {
        int rc = find_sandbox(c, c->s.sandbox, &own);
        if (rc == 0)
            return 0;
        if (rc != CAY_ENOENT && rc != CAY_EGONE) {
            *err = own;
            return rc;
        }
        chat_text(c, OUT_WARN,
                  "sandbox %s is gone; a new one takes its place, with the files as they are in "
                  "the directory",
                  c->s.sandbox);
        CAY_TRY(store_do(c->db, "DELETE FROM points WHERE session = ?1", c->s.name, 0, err));
    }
    return make_sandbox(c, err);
}

int chat_lock(chat *c, const char *name, int *lock, cay_err *err)
{
    char path[4200];
    struct flock range = { .l_type = F_WRLCK,
                           .l_whence = SEEK_SET,
                           .l_start = cay__hash(name, strlen(name)),
                           .l_len = 1 };
    CAY_FORMAT(path, "%s/lock", c->dir); /* one file for all: a session is a byte of it */
    CAY_AUTOFD fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return cay_fail_sys(err, "%.200s", path);
    if (fcntl(fd, F_OFD_SETLK, &range) < 0)
        return cay_fail_why(err, CAY_EBUSY, "session_busy", "session %s is open in another talk",
                            name);
    *lock = cay__steal_fd(&fd);
    return 0;
}

static int fresh_name(chat *c, char name[STORE_NAME], cay_err *err)
{
    const char *on = c->box.create.from.directory;
    return store_fresh(c->db, on && strrchr(on, '/') ? strrchr(on, '/') + 1 : "talk", name, err);
}

static int create_session(chat *c, const char *name, cay_err *err)
{
    const char *on = c->box.create.from.directory;
    char *model = CAY_STEAL(c->s.model);
    store_session_clear(&c->s);
    c->s = (store_session){ .created_ms = cay__clock_ms(),
                            .used_ms = cay__clock_ms(),
                            .model = model,
                            .dir = cay__strdup(CAY_OR(on, "")),
                            .sandbox = cay__strdup("") };
    c->s.agent = cay__strdup(
        CAY_OR(c->a->agent, cay__json_str(json_object_get(c->conf, "chat"), "agent", "default")));
    CAY_COPY(c->s.name, name);
    if (c->a->sandbox_id) {
        CAY_TRY(find_sandbox(c, c->a->sandbox_id, err));
        free(c->s.sandbox);
        c->s.sandbox = cay__strdup(cay_sandbox_id(c->sb));
        *c->s.dir = 0; /* it may stand on one; only its maker knows */
        return 0;
    }
    return make_sandbox(c, err);
}

static int first_point(chat *c, cay_err *err)
{
    cay_err own = CAY_ERR_INIT;
    c->keep = (keep){
        .db = c->db, .client = c->client, .sb = c->sb, .session = c->s.name, .dir = c->s.dir
    };
    int64_t n = keep_last(&c->keep, err);
    if (n < 0)
        CAY_TRY((int)n);
    if (n == 0 && keep_take(&c->keep, 0, &own) < 0)
        c->keep.off = true;
    return 0;
}

int chat_switch(chat *c, const char *name, bool create, cay_err *err)
{
    store_session s = { 0 };
    cay_err own = CAY_ERR_INIT;
    if (name && !store_name_valid(name))
        return cay_fail(err, CAY_EINVAL,
                        "session \"%.64s\": want letters, digits, . _ and -, fewer than 64, the "
                        "first a letter or digit",
                        name);
    int rc = CAY_ENOENT;
    if (name)
        rc = store_get(c->db, name, &s, &own);
    if (rc < 0 && (rc != CAY_ENOENT || !create)) {
        *err = own;
        return rc;
    }
    CAY_AUTOFD lock = -1;
    char own_name[STORE_NAME];
    if (rc < 0 && !name) {
        CAY_TRY(fresh_name(c, own_name, err));
        name = own_name;
    }
    int locked = chat_lock(c, name, &lock, err);
    if (locked < 0) {
        store_session_clear(&s);
        return locked;
    }
    if (c->sb)
        chat_leave(c);
    c->lock = cay__steal_fd(&lock);
    if (rc < 0) {
        rc = create_session(c, name, err);
    } else {
        free(s.model);
        s.model = CAY_STEAL(c->s.model);
        store_session_clear(&c->s);
        c->s = s;
        if (c->a->agent) {
            free(c->s.agent);
            c->s.agent = cay__strdup(c->a->agent);
        }
        rc = get_sandbox(c, err);
    }
    if (rc == 0)
        rc = memory_path(c->s.agent, c->memory, sizeof c->memory, err);
    if (rc == 0)
        rc = store_put(c->db, &c->s, err);
    if (rc < 0) {
        if (c->sb && c->s.owns && !c->s.turns)
            cay_sandbox_remove(c->sb, NULL, NULL);
        return rc;
    }
    c->talk = store_conversation(c->db, c->s.name, &c->turn);
    return first_point(c, err);
}

static void remove_sandbox(const char *id, chat *c)
{
    cay_sandbox *sb = NULL;
    cay_err err = CAY_ERR_INIT;
    if (!*id || cay_client_find(c->client, NULL, id, &sb, NULL) < 0)
        return;
    if (cay_sandbox_remove(sb, NULL, &err) < 0)
        chat_text(c, OUT_WARN, "%s could not be removed: %s", id, err.msg);
    cay_sandbox_unref(sb);
}

void chat_leave(chat *c)
{
    if (!c->sb)
        return;
    cay_conversation_free(c->talk);
    c->talk = NULL;
    if (!c->s.turns) { /* nothing was said: nothing is kept */
        cay_err err = CAY_ERR_INIT;
        keep_drop(&c->keep);
        store_remove(c->db, c->s.name, &err);
        if (c->s.owns)
            remove_sandbox(c->s.sandbox, c);
    } else if (c->s.owns) {
        cay_sandbox_kill(c->sb, NULL, NULL); /* its files stay; the next visit starts it again */
        chat_text(c, OUT_DIM, "session %s is kept; `cay chat --session %s` goes on", c->s.name,
                  c->s.name);
    }
    cay_sandbox_unref(c->sb);
    c->sb = NULL;
    cay__close_fd(&c->lock);
    free(c->note);
    c->note = NULL;
}

int chat_forget(chat *c, const char *name, cay_err *err)
{
    store_session s = { 0 };
    CAY_AUTOFD lock = -1;
    if (!store_name_valid(name))
        return cay_fail_why(err, CAY_ENOENT, "session_not_found",
                            "there is no session \"%.64s\"; `cay chat list` shows them", name);
    CAY_TRY(chat_lock(c, name, &lock, err));
    CAY_TRY(store_get(c->db, name, &s, err));
    keep k = { .db = c->db, .client = c->client, .session = name, .dir = "" };
    keep_drop(&k);
    if (s.owns)
        remove_sandbox(s.sandbox, c);
    store_session_clear(&s);
    return store_remove(c->db, name, err);
}

static const char *get_prompt(void *arg)
{
    static const char *const words[] = {
        [CHAT_ASK] = "> ", [CHAT_AUTO] = "auto> ", [CHAT_NEVER] = "look> "
    };
    return words[((chat *)arg)->mode];
}

/* A session goes on with the model that it had, unless another is asked for. */
static int choose_model(chat *c, cay_err *err)
{
    store_session s = { 0 };
    const char *env = getenv("CAY_MODEL");
    bool had = !c->a->model.name && !(env && *env) && c->a->session &&
               store_get(c->db, c->a->session, &s, NULL) == 0 && *s.model;
    int rc = chat_model(c, had ? s.model : c->a->model.name, err);
    store_session_clear(&s);
    return rc;
}

int chat_open(chat *c, cay_err *err)
{
    char history[4200];
    c->tty = isatty(0) && isatty(1);
    c->screen = isatty(1);
    md_paint_begin(&c->paint);
    CAY_TRY(conf_read(&c->conf, err));
    CAY_TRY(chat_stop_open(err));
    if (c->a->auto_approve ||
        cay__json_bool(json_object_get(c->conf, "chat"), "auto_approve", false))
        c->mode = CHAT_AUTO;
    if (c->a->agent)
        CAY_TRY(memory_path(c->a->agent, c->memory, sizeof c->memory, err));
    if (c->a->skills)
        CAY_TRY(agent_dir("--skills", c->a->skills, err));
    CAY_TRY(chat_db(c, err));
    CAY_TRY(choose_model(c, err));
    CAY_TRY(chat_switch(c, c->a->session, true, err));
    c->asks = (cay_mcp_callbacks){ .size = sizeof c->asks,
                                   .arg = c,
                                   .model = c->model,
                                   .sample = chat_sample,
                                   .elicit = chat_elicit };
    CAY_TRY(agent_mcp_open(&c->a->mcp, c->client, true, &c->asks, &c->mcp, err));
    CAY_TRY(agent_hosted_open(&c->a->hosted, &c->hosted, err));
    CAY_FORMAT(history, "%s/history", c->dir);
    edit_spec spec = { .history = history,
                       .arg = c,
                       .prompt = get_prompt,
                       .toggle = chat_toggle,
                       .complete = chat_complete };
    c->edit = edit_open(&spec);
    return 0;
}

void chat_close(chat *c)
{
    chat_leave(c);
    agent_mcp_close(&c->mcp);
    agent_hosted_close(&c->hosted);
    edit_close(c->edit);
    cay_model_free(c->model);
    store_session_clear(&c->s);
    if (c->db)
        store_close(c->db);
    json_decref(c->conf);
    chat_calls_clear(c);
    CAY_EACH_OF(it, c->always, c->nalways)
        free(*it);
    md_paint_end(&c->paint);
    free(c->output);
    box_spec_clear(&c->box);
}
