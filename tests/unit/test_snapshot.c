/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots, forks, undo and checkpoints of the service, on the provider in memory. */
#include "calls.h"
#include <base/base.h>
#include <base/fault.h>
#include <base/fd.h>
#include <base/str.h>
#include <lib/store/db.h>
#include <lib/snapshot/snapshot.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* Keeps its layers to itself, as an engine does, and has directories that are told of here. */
static int (*listing)(int (*fn)(const cay_dirent *, void *), void *arg);
static int sealed_list_dir(void *box, const cay_call *call, const char *path, unsigned depth,
                           int (*fn)(const cay_dirent *, void *), void *arg, cay_err *e)
{
    return listing ? listing(fn, arg) : cay__memory.list_dir(box, call, path, depth, fn, arg, e);
}

static cay_provider_ops sealed;
static const cay_provider_ops *const providers[] = { &cay__memory, &sealed, NULL };

static int set_up(void **s)
{
    sealed = cay__memory;
    sealed.name = "sealed";
    sealed.opaque_layers = true;
    sealed.list_dir = sealed_list_dir;
    listing = NULL;
    home_up(s);
    client = home_open("memory", providers);
    return 0;
}

static void take(cay_sandbox *sb, const char *label, char *id)
{
    cay_snapshot_spec s = { .size = sizeof s, .label = label };
    cay_snapshot *snap = NULL;
    OK(cay_sandbox_snapshot(sb, NULL, &s, &snap, &err));
    cay__str_copy(id, CAY_ID_LEN + 1, snap->id);
    cay_snapshot_free(snap);
}

static void run(cay_sandbox *sb, const char *program)
{
    const char *const argv[] = { program, NULL };
    cay_spawn sp = { .size = sizeof sp, .argv = argv };
    cay_result r = { .size = sizeof r };
    OK(cay_sandbox_run(sb, NULL, &sp, NULL, 0, 0, &r, &err));
    cay_result_clear(&r);
    OK(cay_sandbox_checkpoint_error(sb, &err));
}

static int count_one(const cay_snapshot *s, void *arg)
{
    (void)s;
    ++*(size_t *)arg;
    return 0;
}

static size_t count(const char *sandbox)
{
    size_t n = 0;
    cay_snapshot_filter f = { .size = sizeof f, .sandbox = sandbox };
    OK(cay_client_snapshots(client, NULL, &f, count_one, &n, &err));
    return n;
}

static bool layer_there(const char *id)
{
    char path[200];
    struct stat st;
    snprintf(path, sizeof path, "%s/layers/%s", home, id);
    return stat(path, &st) == 0;
}

static cay_snapshot *look(const char *ref)
{
    cay_snapshot *s = NULL;
    OK(cay_client_snapshot(client, NULL, ref, &s, &err));
    return s;
}

static void a_snapshot_is_taken_found_and_removed(void **s)
{
    (void)s;
    char id[CAY_ID_LEN + 1];
    bool deferred = true;
    cay_sandbox *sb = make((cay_create){ 0 });
    put(sb, "a", "one");
    take(sb, "base", id);
    cay_snapshot *snap = look("base");
    assert_string_equal(snap->id, id);
    assert_string_equal(snap->sandbox, cay_sandbox_id(sb));
    assert_string_equal(snap->method, "swap");
    assert_string_equal(snap->parent, "");
    assert_string_equal(snap->template_, "host");
    assert_int_equal(snap->depth, 1);
    assert_int_equal(snap->users, 1);
    assert_false(snap->durable || snap->maybe_incomplete || snap->automatic);
    cay_snapshot_free(snap);
    cay_snapshot_free(look((char[]){ id[0], id[1], id[2], id[3], id[4], id[5], 0 }));
    assert_true(layer_there(id));
    OK(cay_snapshot_remove(client, NULL, "base", &deferred, &err));
    assert_true(deferred); /* the sandbox stands on it */
    FAILS(cay_client_snapshot(client, NULL, id, &snap, &err), CAY_ENOENT, "snapshot_not_found");
    OK(cay_client_maintain(client, NULL, &err));
    assert_true(layer_there(id));
    OK(cay_sandbox_remove(sb, NULL, &err));
    OK(cay_client_maintain(client, NULL, &err));
    assert_false(layer_there(id));
    assert_false(cay_client_needs_maintenance(client));
    cay_sandbox_unref(sb);
}

static void bad_requests_are_refused_by_name(void **s)
{
    (void)s;
    char id[CAY_ID_LEN + 1];
    cay_snapshot *snap = NULL;
    cay_sandbox *sb = make((cay_create){ 0 }), *gone = make((cay_create){ .life.ephemeral = true }),
                *other = NULL;
    cay_snapshot_spec l = { .size = sizeof l, .label = "base" },
                      bad = { .size = sizeof bad, .label = "a b" },
                      like = { .size = sizeof like, .label = "saaaaaaaaaaaaaaaaaaa" },
                      meta = { .size = sizeof meta, .metadata = "[1]" },
                      both = { .size = sizeof both, .quiet = true, .stop = true };
    take(sb, "base", id);
    FAILS(cay_sandbox_snapshot(sb, NULL, &l, &snap, &err), CAY_EEXIST, "label_in_use");
    FAILS(cay_sandbox_snapshot(sb, NULL, &bad, &snap, &err), CAY_EINVAL, "label_invalid");
    FAILS(cay_sandbox_snapshot(sb, NULL, &like, &snap, &err), CAY_EINVAL, "label_invalid");
    FAILS(cay_sandbox_snapshot(sb, NULL, &both, &snap, &err), CAY_EINVAL, "spec_invalid");
    assert_int_equal(cay_sandbox_snapshot(sb, NULL, &meta, &snap, &err), CAY_EINVAL);
    FAILS(cay_sandbox_snapshot(gone, NULL, NULL, &snap, &err), CAY_ENOTSUP, "snapshot_ephemeral");
    FAILS(cay_client_snapshot(client, NULL, "nosuch", &snap, &err), CAY_ENOENT,
          "snapshot_not_found");
    FAILS(cay_client_snapshot(client, NULL, "s", &snap, &err), 0, "");
    cay_snapshot_free(CAY_STEAL(snap));
    take(sb, NULL, id);
    FAILS(cay_client_snapshot(client, NULL, "s", &snap, &err), CAY_EINVAL, "snapshot_ambiguous");
    FAILS(cay_snapshot_remove(client, NULL, "nosuch", NULL, &err), CAY_ENOENT,
          "snapshot_not_found");
    cay_create from = { .size = sizeof from, .from.snapshot = "base", .from.template_ = "other" };
    FAILS(cay_client_create(client, NULL, &from, &other, &err), CAY_EINVAL, "snapshot_template");
    from = (cay_create){ .size = sizeof from, .from.snapshot = "base", .provider = "local" };
    FAILS(cay_client_create(client, NULL, &from, &other, &err), CAY_EINVAL, "snapshot_provider");
    from = (cay_create){ .size = sizeof from, .life.checkpoints = 2, .life.ephemeral = true };
    FAILS(cay_client_create(client, NULL, &from, &other, &err), CAY_EINVAL, "snapshot_ephemeral");
    FAILS(cay_client_fork(client, NULL, "nosuch", NULL, NULL, NULL, &err), CAY_ENOENT,
          "fork_not_found");
    cay_fork many = { .size = sizeof many, .n = 100000 };
    FAILS(cay_client_fork(client, NULL, "base", &many, NULL, NULL, &err), CAY_EINVAL,
          "limit_out_of_range");
    OK(cay_sandbox_remove(gone, NULL, &err));
    cay_sandbox_unref(gone);
    cay_sandbox_unref(sb);
}

static void quiet_refuses_while_processes_run(void **s)
{
    (void)s;
    const char *const argv[] = { "sleep", "30", NULL };
    cay_spawn sp = { .size = sizeof sp, .argv = argv };
    cay_snapshot_spec quiet = { .size = sizeof quiet, .quiet = true };
    cay_snapshot *snap = NULL;
    cay_proc *p = NULL;
    cay_sandbox *sb = make((cay_create){ 0 });
    OK(cay_sandbox_spawn(sb, NULL, &sp, &p, &err));
    FAILS(cay_sandbox_snapshot(sb, NULL, &quiet, &snap, &err), CAY_EBUSY, "processes_running");
    assert_int_equal(count(NULL), 0); /* nothing half-made */
    OK(cay_sandbox_snapshot(sb, NULL, NULL, &snap, &err));
    assert_string_equal(snap->method, "copy");
    assert_int_equal(snap->users,
                     1); /* its layers are not the sandbox's, but undo goes back to it */
    cay_snapshot_free(snap);
    cay_proc_unref(p);
    cay_sandbox_unref(sb);
}

static void a_stopped_sandbox_is_snapshotted_and_stays_stopped(void **s)
{
    (void)s;
    char id[CAY_ID_LEN + 1];
    cay_info *info = NULL;
    cay_sandbox *sb = make((cay_create){ 0 });
    put(sb, "a", "kept");
    OK(cay_sandbox_kill(sb, NULL, &err));
    take(sb, NULL, id);
    OK(cay_sandbox_describe(sb, NULL, &info, &err));
    assert_int_equal(info->state, CAY_STOPPED);
    cay_info_free(info);
    cay_sandbox *on = make((cay_create){ .from.snapshot = id });
    assert_string_equal(text_of(on, "a"), "kept");
    cay_sandbox_unref(on);
    cay_sandbox_unref(sb);
}

typedef struct forks {
    cay_sandbox *sb[8];
    size_t n;
} forks;

static int gather(cay_sandbox *sb, void *arg)
{
    forks *f = arg;
    f->sb[f->n++] = cay_sandbox_ref(sb);
    return 0;
}

static void forks_are_alike_and_apart(void **s)
{
    (void)s;
    forks f = { 0 };
    cay_pair labels[] = { { "team", "red" }, { NULL, NULL } };
    cay_fork how = { .size = sizeof how, .n = 3, .name = "twin" };
    cay_sandbox *sb = make((cay_create){
        .labels = labels, .hostname = "hut", .process.workdir = "/w", .name = "first" });
    put(sb, "/a", "one");
    OK(cay_file_mkdir(sb, NULL, "/etc", 0755, true, &err));
    put(sb, "/etc/machine-id", "0123456789abcdef0123456789abcdef\n");
    OK(cay_client_fork(client, NULL, "first", &how, gather, &f, &err));
    assert_int_equal(f.n, 3);
    assert_int_equal(count(cay_sandbox_id(sb)), 1);
    put(f.sb[0], "/a", "two");
    for (size_t i = 0; i < f.n; i++) {
        cay_info *info = NULL;
        OK(cay_sandbox_describe(f.sb[i], NULL, &info, &err));
        assert_string_equal(info->name, i == 0 ? "twin" : i == 1 ? "twin-2" : "twin-3");
        assert_string_equal(info->labels[0].value, "red");
        assert_string_equal(info->workdir, "/w");
        assert_int_equal(strncmp(info->hostname, "hut-", 4), 0);
        assert_string_equal(text_of(f.sb[i], "/a"), i == 0 ? "two" : "one");
        assert_int_equal(strlen(text_of(f.sb[i], "/etc/machine-id")), 33);
        assert_int_equal(strncmp(text_of(f.sb[i], "/etc/machine-id"), "0123", 4) == 0, 0);
        cay_info_free(info);
    }
    assert_string_equal(text_of(sb, "/a"), "one");
    /* The snapshot may go; they stand on. */
    cay_snapshot_filter all = { .size = sizeof all, .limit = 1 };
    size_t n = 0;
    OK(cay_client_snapshots(client, NULL, &all, count_one, &n, &err));
    assert_int_equal(n, 1);
    for (size_t i = 0; i < f.n; i++) {
        OK(cay_sandbox_remove(f.sb[i], NULL, &err));
        cay_sandbox_unref(f.sb[i]);
    }
    cay_sandbox_unref(sb);
}

static int count_row(const cay_row *row, void *arg)
{
    (void)row;
    ++*(size_t *)arg;
    return 0;
}

static void a_fork_that_fails_leaves_nothing(void **s)
{
    (void)s;
    size_t n = 0;
    char id[CAY_ID_LEN + 1];
    forks f = { 0 };
    cay_fork how = { .size = sizeof how, .n = 4 };
    cay_sandbox *sb = make((cay_create){ 0 });
    take(sb, "base", id);
    /* Its layer is lost: nobody can stand on it. */
    void *self = NULL;
    cay__place *p = NULL;
    OK(cay__layers_place(client, "memory", &p, &self, &err));
    OK(p->ops->layer_remove(self, NULL, id, &err));
    assert_int_equal(cay_client_fork(client, NULL, "base", &how, gather, &f, &err), CAY_ENOENT);
    assert_int_equal(f.n, 0);
    cay_filter all = { .size = sizeof all };
    OK(client->store->list(client->db, &all, count_row, &n, &err));
    assert_int_equal(n, 1);
    cay_sandbox_unref(sb);
}

static void undo_goes_back_and_further_back(void **s)
{
    (void)s;
    char one[CAY_ID_LEN + 1], two[CAY_ID_LEN + 1], other[CAY_ID_LEN + 1];
    cay_snapshot *snap = NULL;
    cay_sandbox *sb = make((cay_create){ 0 }), *else_ = make((cay_create){ 0 });
    FAILS(cay_sandbox_undo(sb, NULL, NULL, NULL, &err), CAY_ESTATE, "undo_nothing");
    put(sb, "a", "1");
    take(sb, "one", one);
    put(sb, "a", "2");
    take(sb, "two", two);
    put(sb, "a", "3");
    OK(cay_sandbox_undo(sb, NULL, NULL, &snap, &err));
    assert_string_equal(snap->id, two);
    cay_snapshot_free(snap);
    assert_string_equal(text_of(sb, "a"), "2");
    OK(cay_sandbox_undo(sb, NULL, "one", NULL, &err));
    assert_string_equal(text_of(sb, "a"), "1");
    snap = look("one");
    assert_int_equal(snap->users, 1);
    cay_snapshot_free(snap);
    put(sb, "a", "4");
    take(sb, NULL, two);
    snap = look(two);
    assert_string_equal(snap->parent, one);
    assert_int_equal(snap->depth, 2);
    cay_snapshot_free(snap);
    take(else_, "other", other);
    FAILS(cay_sandbox_undo(sb, NULL, "other", NULL, &err), CAY_EINVAL, "snapshot_foreign");
    /* A fork may go back to what it came from. */
    cay_sandbox *twin = make((cay_create){ .from.snapshot = two });
    put(twin, "a", "5");
    OK(cay_sandbox_undo(twin, NULL, NULL, NULL, &err));
    assert_string_equal(text_of(twin, "a"), "4");
    OK(cay_sandbox_undo(twin, NULL, "one", NULL, &err));
    assert_string_equal(text_of(twin, "a"), "1");
    /* Stopped, it goes back and stays stopped. */
    put(twin, "a", "6");
    OK(cay_sandbox_kill(twin, NULL, &err));
    OK(cay_sandbox_undo(twin, NULL, NULL, NULL, &err));
    OK(cay_sandbox_resume(twin, NULL, &err));
    assert_string_equal(text_of(twin, "a"), "1");
    cay_sandbox_unref(twin);
    cay_sandbox_unref(else_);
    cay_sandbox_unref(sb);
}

static void one_undo_takes_one_command_back(void **s)
{
    (void)s;
    cay_sandbox *sb = make((cay_create){ .life.checkpoints = 3 });
    assert_int_equal(count(NULL), 1);
    for (int i = 1; i <= 2; i++) {
        put(sb, "a", i == 1 ? "1" : "2");
        run(sb, "true");
    }
    assert_int_equal(count(NULL), 3);
    OK(cay_sandbox_undo(sb, NULL, NULL, NULL, &err));
    assert_string_equal(text_of(sb, "a"), "1");
    OK(cay_sandbox_undo(sb, NULL, NULL, NULL, &err));
    assert_string_equal(text_of(sb, "a"), "-");
    FAILS(cay_sandbox_undo(sb, NULL, NULL, NULL, &err), CAY_ESTATE, "undo_nothing");
    put(sb, "a", "again");
    run(sb, "true"); /* what was undone is forgotten once there are more than three */
    put(sb, "a", "more");
    run(sb, "true");
    OK(cay_sandbox_undo(sb, NULL, NULL, NULL, &err));
    assert_string_equal(text_of(sb, "a"), "again");
    cay_sandbox_unref(sb);
}

static int is_labelled(const cay_snapshot *s, void *arg)
{
    (void)arg;
    return *s->label != 0;
}

static void checkpoints_are_pruned_but_never_a_label(void **s)
{
    (void)s;
    char id[CAY_ID_LEN + 1];
    cay_sandbox *sb = make((cay_create){ .life.checkpoints = 2, .name = "box" }), *again = NULL;
    run(sb, "true");
    put(sb, "a", "good");
    take(sb, "good", id);
    for (int i = 0; i < 5; i++)
        run(sb, "true");
    assert_int_equal(count(NULL), 3);
    cay_snapshot_filter all = { .size = sizeof all };
    assert_int_equal(cay_client_snapshots(client, NULL, &all, is_labelled, NULL, &err), 1);
    /* A handle that was found later does the same. */
    OK(cay_client_find(client, NULL, "box", &again, &err));
    run(again, "false");
    assert_int_equal(count(NULL), 3);
    cay_sandbox_unref(again);
    OK(cay_sandbox_undo(sb, NULL, "good", NULL, &err));
    assert_string_equal(text_of(sb, "a"), "good");
    /* All of it can be taken away again. */
    OK(cay_sandbox_remove(sb, NULL, &err));
    cay_sandbox_unref(sb);
    assert_int_equal(count(NULL),
                     1); /* checkpoints go with their sandbox, but for those with a label */
    OK(cay_snapshot_remove(client, NULL, "good", NULL, &err));
    OK(cay_client_maintain(client, NULL, &err));
    char dir[200];
    snprintf(dir, sizeof dir, "%s/layers", home);
    assert_int_equal(rmdir(dir), 0); /* it is empty */
}

static void settling_makes_durable(void **s)
{
    (void)s;
    char id[CAY_ID_LEN + 1];
    cay_sandbox *sb = make((cay_create){ 0 });
    take(sb, NULL, id);
    assert_true(cay_client_needs_maintenance(client));
    cay_client_maintain(client, NULL, &err); /* a digest needs cay-layer, and a real layer */
    cay_snapshot *snap = look(id);
    assert_true(snap->durable);
    cay_snapshot_free(snap);
    assert_false(cay_client_needs_maintenance(client));
    cay_sandbox_unref(sb);
}

static void sql(const char *text)
{
    char path[200];
    sqlite3 *db = NULL;
    snprintf(path, sizeof path, "%s/store.db", home);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void another_boot_may_have_cut_it(void **s)
{
    (void)s;
    char id[CAY_ID_LEN + 1];
    cay_sandbox *sb = make((cay_create){ 0 });
    take(sb, NULL, id);
    sql("UPDATE snapshots SET boot='before'");
    cay_snapshot *snap = look(id);
    assert_true(snap->maybe_incomplete && !snap->durable);
    cay_snapshot_free(snap);
    assert_false(cay_client_needs_maintenance(client)); /* nothing can be done about it */
    cay_sandbox_unref(sb);
}

static void damaged_rows_are_shown_and_hold_their_layers(void **s)
{
    (void)s;
    char id[CAY_ID_LEN + 1], gone[CAY_ID_LEN + 1];
    cay_snapshot *snap = NULL;
    bool used = false;
    cay_sandbox *sb = make((cay_create){ 0 });
    take(sb, "whole", id);
    take(sb, NULL, gone);
    sql("UPDATE snapshots SET layers='[\"../x\"]' WHERE label='whole'");
    FAILS(cay_client_snapshot(client, NULL, "whole", &snap, &err), CAY_ESTATE, "snapshot_damaged");
    assert_int_equal(count(NULL), 2);
    sql("UPDATE snapshots SET layers='{' WHERE label='whole'");
    OK(client->store->layer_used(client->db, "gaaaaaaaaaaaaaaaaaaa", &used, &err));
    assert_true(used); /* who knows */
    OK(cay_snapshot_remove(client, NULL, "whole", NULL, &err));
    OK(client->store->layer_used(client->db, "gaaaaaaaaaaaaaaaaaaa", &used, &err));
    assert_false(used);
    cay_sandbox_unref(sb);
}

static void a_sandbox_that_is_going_or_damaged_has_none(void **s)
{
    (void)s;
    cay_snapshot *snap = NULL;
    cay_sandbox *sb = make((cay_create){ 0 });
    sql("UPDATE sandboxes SET state='deleting'");
    FAILS(cay_sandbox_snapshot(sb, NULL, NULL, &snap, &err), CAY_EGONE, "sandbox_deleting");
    FAILS(cay_sandbox_undo(sb, NULL, NULL, NULL, &err), CAY_EGONE, "sandbox_deleting");
    sql("UPDATE sandboxes SET state='running', spec='{'");
    FAILS(cay_sandbox_snapshot(sb, NULL, NULL, &snap, &err), CAY_ESTATE, "sandbox_damaged");
    FAILS(cay_sandbox_undo(sb, NULL, NULL, NULL, &err), CAY_ESTATE, "sandbox_damaged");
    assert_int_equal(count(NULL), 0);
    cay_sandbox_unref(sb);
}

static void merged_stacks_change_over(void **s)
{
    (void)s;
    char ids[6][CAY_ID_LEN + 1], g[CAY_ID_LEN + 1], list[200];
    size_t left = 9;
    cay_sandbox *sb = make((cay_create){ 0 });
    for (int i = 0; i < 6; i++)
        take(sb, NULL, ids[i]);
    cay__id_make(g, 'g');
    snprintf(list, sizeof list, "[\"%s\",\"%s\",\"%s\"]", ids[0], ids[1], ids[2]);
    OK(client->store->layer_job_put(client->db, "merged", g, list, &err));
    OK(client->store->layers_merge(client->db, list, g, "memory", NULL, &left, &err));
    assert_int_equal(left, 1); /* the sandbox runs */
    for (int i = 0; i < 6; i++) {
        cay_snapshot *snap = look(ids[i]);
        assert_int_equal(snap->depth,
                         i < 3 ? i + 1
                               : i - 1); /* one whose own layer is among them keeps its stack */
        cay_snapshot_free(snap);
    }
    OK(cay_sandbox_kill(sb, NULL, &err));
    OK(client->store->layers_merge(client->db, list, g, "memory", NULL, &left, &err));
    assert_int_equal(left, 0);
    cay_sandbox_unref(sb);
}

#ifdef CAY_FAULTS
/* Does it in a process of its own, which dies at the point. */
static void killed_at(const char *point, void (*fn)(void))
{
    int status;
    pid_t pid;
    cay_client_close(client);
    if ((pid = fork()) == 0) {
        char armed[80];
        client = home_open("memory", providers);
        cay__str_join(armed, sizeof armed, point, "=kill", NULL);
        cay__fault_set(armed);
        fn();
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    client = home_open("memory", providers);
}

static void take_one(void)
{
    char id[CAY_ID_LEN + 1];
    cay_sandbox *sb = make((cay_create){ 0 });
    put(sb, "a", "1");
    take(sb, "label", id);
}

static void go_back(void)
{
    char id[CAY_ID_LEN + 1];
    cay_sandbox *sb = make((cay_create){ 0 });
    take(sb, "one", id);
    take(sb, "two", id);
    OK(cay_sandbox_undo(sb, NULL, "one", NULL, &err));
}

static void a_killed_maker_leaves_all_or_nothing(void **s)
{
    (void)s;
    bool used = true;
    killed_at("snapshot.recorded", take_one);
    assert_int_equal(count(NULL), 0);
    killed_at("snapshot.made", take_one);
    assert_int_equal(count(NULL), 1);
    cay_snapshot *snap = look("label");
    assert_string_equal(snap->method, "swap");
    assert_int_equal(snap->depth, 1);
    assert_int_equal(snap->users, 1); /* its sandbox stands on it */
    OK(client->store->layer_used(client->db, snap->id, &used, &err));
    assert_true(used && layer_there(snap->id));
    cay_snapshot_free(snap);
}

static void a_killed_undo_is_ended_or_taken_back(void **s)
{
    (void)s;
    killed_at("undo.intended", go_back);
    cay_snapshot *one = look("one"), *two = look("two");
    assert_int_equal(one->users, 0);
    assert_int_equal(two->users, 1);
    cay_snapshot_free(one);
    cay_snapshot_free(two);
    OK(cay_snapshot_remove(client, NULL, "one", NULL, &err));
    OK(cay_snapshot_remove(client, NULL, "two", NULL, &err));
    killed_at("undo.restacked", go_back);
    one = look("one"), two = look("two");
    assert_int_equal(one->users, 1);
    assert_int_equal(two->users, 0);
    cay_snapshot_free(one);
    cay_snapshot_free(two);
}
#endif

static void stacks_are_read_strictly(void **s)
{
    (void)s;
    static const char *const bad[] = { "",
                                       "{}",
                                       "[1]",
                                       "[\"x\"]",
                                       "[\"../../etc\"]",
                                       "[\"host-12345678\"]",
                                       "[null]",
                                       "[\"saaaaaaaaaaaaaaaaaaa\" ,]",
                                       "[\"saaaaaaaaaaaaaaaaaaa\\u0000\"]" };
    cay__stack st;
    for (size_t i = 0; i < CAY_LEN(bad); i++)
        assert_int_equal(cay__stack_read(bad[i], &st, NULL), CAY_EINVAL);
    OK(cay__stack_read(
        " [ \"saaaaaaaaaaaaaaaaaaa\", \"gaaaaaaaaaaaaaaaaaaa\",\"maaaaaaaaaaaaaaaaaaa\"] ", &st,
        &err));
    assert_int_equal(st.n, 3);
    CAY_AUTOFREE char *text = cay__stack_text(&st);
    assert_string_equal(
        text, "[\"saaaaaaaaaaaaaaaaaaa\",\"gaaaaaaaaaaaaaaaaaaa\",\"maaaaaaaaaaaaaaaaaaa\"]");
    while (st.n < CAY__STACK_MAX)
        OK(cay__stack_push(&st, "saaaaaaaaaaaaaaaaaaa", &err));
    FAILS(cay__stack_push(&st, "saaaaaaaaaaaaaaaaaaa", &err), CAY_ETOOBIG, "stack_too_deep");
}

static void leases_hold_the_layers_of_those_without_record(void **s)
{
    (void)s;
    char id[CAY_ID_LEN + 1];
    bool deferred = false;
    cay_sandbox *sb = make((cay_create){ 0 });
    take(sb, "base", id);
    cay_sandbox *on = make((cay_create){ .from.snapshot = "base", .life.ephemeral = true });
    OK(cay_sandbox_remove(sb, NULL, &err));
    cay_sandbox_unref(sb);
    OK(cay_snapshot_remove(client, NULL, "base", &deferred, &err));
    assert_true(deferred);
    OK(cay_client_maintain(client, NULL, &err));
    assert_true(layer_there(id));
    OK(cay_sandbox_remove(on, NULL, &err));
    cay_sandbox_unref(on);
    OK(cay_client_maintain(client, NULL, &err));
    assert_false(layer_there(id));
}

static int count_box(const cay_info *i, void *arg)
{
    (void)i;
    ++*(size_t *)arg;
    return 0;
}

static int one_hole(int (*fn)(const cay_dirent *, void *), void *arg)
{
    cay_dirent small = { .path = "small", .st = { .type = CAY_FILE, .size = 4 } },
               hole = { .path = "hole", .st = { .type = CAY_FILE, .size = 50ull << 40 } };
    int rc = fn(&small, arg);
    return rc ? rc : fn(&hole, arg);
}

static int sizes_that_wrap(int (*fn)(const cay_dirent *, void *), void *arg)
{
    cay_dirent e = { .path = "half", .st = { .type = CAY_FILE, .size = 5ull << 30 } };
    int rc = fn(&e, arg);
    e.st.size = UINT64_MAX - (4ull << 30);
    return rc ? rc : fn(&e, arg);
}

static int long_names(int (*fn)(const cay_dirent *, void *), void *arg)
{
    static char name[4001];
    cay_dirent e = { .path = name, .st = { .type = CAY_DIR } };
    int rc = 0;
    memset(name, 'n', sizeof name - 1);
    for (int i = 0; rc == 0 && i < 500000; i++)
        rc = fn(&e, arg);
    return rc;
}

/* Through a sandbox that is nobody's, within bounds, and whole or not at all. */
static void a_workspace_of_sealed_layers_is_exported(void **s)
{
    (void)s;
    static int (*const hostile[])(int (*)(const cay_dirent *, void *),
                                  void *) = { one_hole, sizes_that_wrap, long_names };
    static const char *const told[] = { "8 GiB together, with hole", "8 GiB together, with half",
                                        "128 MiB together" };
    char id[CAY_ID_LEN + 1], head[512] = "";
    struct stat st;
    OK(cay_tenant_create(client, &(cay_tenant){ .size = sizeof(cay_tenant), .name = "other" },
                         &err));
    cay_sandbox *sb = make((cay_create){ .provider = "sealed", .tenant = "other" }), *own = NULL;
    put(sb, "/workspace/a", "text");
    take(sb, NULL, id);
    cay_create theirs = {
        .size = sizeof theirs, .provider = "sealed", .from.snapshot = id, .life.ephemeral = true
    };
    FAILS(cay_client_create(client, NULL, &theirs, &own, &err), CAY_EINVAL, "tenant_ephemeral");
    const cay_export x = { .size = sizeof x, .ref = id, .format = "tar" };
    cay_archived got = { .size = sizeof got };
    CAY_AUTOFD fd = memfd_create("tar", MFD_CLOEXEC);
    OK(cay_client_export(client, NULL, &x, fd, &got, &err));
    assert_true(got.bytes == 4 && got.files == 2);
    assert_int_equal(pread(fd, head, sizeof head, 512), sizeof head);
    assert_string_equal(head, "./a");
    cay_filter all = { .size = sizeof all };
    size_t n = 0;
    OK(cay_client_list(client, NULL, &all, count_box, &n, &err));
    assert_int_equal(n, 1);
    assert_true(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    for (size_t i = 0; i < CAY_LEN(hostile); i++) {
        listing = hostile[i];
        FAILS(cay_client_export(client, NULL, &x, fd, &got, &err), CAY_ETOOBIG, "archive_limit");
        assert_non_null(strstr(err.msg, told[i]));
        assert_true(fstat(fd, &st) == 0 && st.st_size == 0);
    }
    cay_sandbox_unref(sb);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, calls_end)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_snapshot_is_taken_found_and_removed),
        T(bad_requests_are_refused_by_name),
        T(quiet_refuses_while_processes_run),
        T(a_stopped_sandbox_is_snapshotted_and_stays_stopped),
        T(forks_are_alike_and_apart),
        T(a_fork_that_fails_leaves_nothing),
        T(undo_goes_back_and_further_back),
        T(one_undo_takes_one_command_back),
        T(checkpoints_are_pruned_but_never_a_label),
        T(settling_makes_durable),
        T(another_boot_may_have_cut_it),
        T(damaged_rows_are_shown_and_hold_their_layers),
        T(a_sandbox_that_is_going_or_damaged_has_none),
        T(merged_stacks_change_over),
        T(stacks_are_read_strictly),
        T(leases_hold_the_layers_of_those_without_record),
        T(a_workspace_of_sealed_layers_is_exported),
#ifdef CAY_FAULTS
        T(a_killed_maker_leaves_all_or_nothing),
        T(a_killed_undo_is_ended_or_taken_back),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
