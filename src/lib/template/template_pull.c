/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A template from a registry. Documents first, then the blobs of layers that are not here, side by
 * side, into blobs/; one that was cut goes on where it stopped, in this try or the next. Each has
 * its digest checked before anything reads it, and is unpacked while those above it still come.
 */
#include <lib/client/remote.h>
#include "image.h"
#include <lib/client/net.h>
#include "registry.h"
#include <lib/client/secret.h>
#include <base/sha256.h>
#include <base/fault.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <time.h>

enum { WORKERS = 3, TRIES = 5, TELL_MS = 200, BLOB_NAME = 100 };
#define BLOB_KEPT_S 86400 /* one that nobody came back for */

typedef struct pulling {
    cay_client *client;
    const cay_call *call;
    const cay_template_remote *spec;
    cay__tconf conf;
    cay__policy op; /* the operator's egress.conf */
    cay__tname name;
    char *login;
    char whose[CAY__SHA256_HEX]; /* of the tenant */
    cay__image im;
    bool missing[CAY__IMAGE_LAYERS];
    int blobs; /* the directory */
    uint64_t total;
    _Atomic uint64_t done;
    /* between the workers */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    pthread_t threads[WORKERS];
    size_t nthreads, next, working;
    bool here[CAY__IMAGE_LAYERS]; /* its blob is whole */
    bool stop;
    int rc;
    cay_err err;
} pulling;

/* For each tenant its own: what one has fetched is no proof that another could. */
static void part_name(const pulling *p, const char *digest, bool whole, char out[BLOB_NAME])
{
    snprintf(out, BLOB_NAME, "%.64s-%.16s%s", digest + 7, p->whose, CAY_TEXT_IF(!whole, ".part"));
}

typedef struct blob {
    pulling *p;
    const cay__blob *want;
    int fd;
    uint64_t from, have; /* from: where this request begins */
    bool whole;          /* the registry began anew */
    cay__sha256 sum;
} blob;

static int restart_blob(blob *b, cay_err *err)
{
    atomic_fetch_sub(&b->p->done, b->have);
    b->have = b->from = 0;
    cay__sha256_begin(&b->sum);
    if (ftruncate(b->fd, 0) < 0 || lseek(b->fd, 0, SEEK_SET) != 0)
        return cay_fail_sys(err, "begin a blob anew");
    return 0;
}

static int on_bytes(const char *data, size_t n, void *arg, cay_err *err)
{
    blob *b = arg;
    if (b->p->stop)
        return cay_fail(err, CAY_ECANCELED, "it was stopped");
    if (b->whole && b->from)
        CAY_TRY(restart_blob(b, err));
    if (n > b->want->size - b->have)
        return cay_fail_why(
            err, CAY_EINVAL, "image_digest",
            "the registry sends more than the %llu bytes that blob %.19s… should have",
            (unsigned long long)b->want->size, b->want->digest);
    if (!cay__fd_write_all(b->fd, data, n))
        return cay_fail_sys(err, "keep a blob");
    cay__sha256_add(&b->sum, data, n);
    b->have += n;
    atomic_fetch_add(&b->p->done, n);
    CAY_FAULT("pull.bytes");
    return 0;
}

/* What is there of it from before, digested. */
static int resume_blob(blob *b, cay_err *err)
{
    CAY_AUTOFREE char *buf = cay__alloc(256 << 10);
    ssize_t n;
    cay__sha256_begin(&b->sum);
    while ((n = read(b->fd, buf, 256 << 10)) > 0) {
        cay__sha256_add(&b->sum, buf, (size_t)n);
        b->have += (uint64_t)n;
    }
    atomic_fetch_add(&b->p->done, b->have);
    if (n < 0)
        return cay_fail_sys(err, "read a blob");
    if (b->have > b->want->size)
        return restart_blob(b, err);
    return 0;
}

static int try_again(const cay_err *e)
{
    return e->code == CAY_EUPSTREAM &&
           (cay_err_is(e, CAY_REASON_NET_CUT) || cay_err_is(e, CAY_REASON_NET_UNREACHABLE) ||
            e->retry == CAY_RETRY_YES);
}

static int check_sum(blob *b, const char *part, cay_err *err)
{
    char hex[CAY__SHA256_HEX];
    cay__sha256_end(&b->sum, hex);
    if (!strcmp(hex, b->want->digest + 7))
        return 0;
    unlinkat(b->p->blobs, part, 0);
    return cay_fail_why(err, CAY_EINVAL, "image_digest",
                        "a blob came with digest sha256:%.12s…, and it should be %.19s…", hex,
                        b->want->digest);
}

static int get_blob(pulling *p, cay__reg *reg, const cay__blob *want, cay_err *err)
{
    char part[BLOB_NAME], whole[BLOB_NAME];
    struct stat st;
    part_name(p, want->digest, false, part);
    part_name(p, want->digest, true, whole);
    CAY_AUTOFD fd = openat(p->blobs, part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return cay_fail_sys(err, "a file for a blob");
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) { /* another program fetches the same */
        CAY_TRY(cay__call_check(p->call, "pull", err));
        if (p->stop)
            return cay_fail(err, CAY_ECANCELED, "it was stopped");
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    }
    if (fstatat(p->blobs, whole, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        unlinkat(p->blobs, part, 0);
        atomic_fetch_add(&p->done, want->size);
        return 0;
    }
    blob b = { .p = p, .want = want, .fd = fd };
    CAY_TRY(resume_blob(&b, err));
    for (int tries = 0; b.have < want->size; tries++) {
        cay_err e = CAY_ERR_INIT;
        uint64_t had = b.have;
        b.from = b.have;
        int rc = cay__reg_blob(reg, p->call, want->digest, b.from, want->size, &b.whole, on_bytes,
                               &b, &e);
        if (rc == 0 && b.have < want->size)
            rc = cay_fail_why(&e, CAY_EUPSTREAM, "net_cut", "a blob ends after %llu of %llu bytes",
                              (unsigned long long)b.have, (unsigned long long)want->size);
        if (rc < 0 && (!try_again(&e) || (tries >= TRIES && b.have <= had) || tries > 100))
            return cay__err_pass(rc, &e, err);
    }
    CAY_TRY(check_sum(&b, part, err));
    CAY_FAULT("pull.checked");
    CAY_TRY_SYS(renameat(p->blobs, part, p->blobs, whole), err, "keep a blob");
    return 0;
}

static void give_up(pulling *p, int rc, const cay_err *why)
{
    if (rc < 0 && !p->stop) {
        p->rc = rc;
        p->err = *why;
        p->stop = true;
    }
}

static void *fetch_layers(void *arg)
{
    pulling *p = arg;
    cay__reg *reg = NULL;
    cay_err e = CAY_ERR_INIT;
    int rc = cay__reg_open(&p->conf, &p->op, &p->name, p->login, p->spec->trusted, &reg, &e);
    pthread_mutex_lock(&p->lock);
    while (rc == 0 && !p->stop) {
        while (p->next < p->im.n && !p->missing[p->next])
            p->next++;
        if (p->next == p->im.n)
            break;
        size_t i = p->next++;
        pthread_mutex_unlock(&p->lock);
        rc = get_blob(p, reg, &p->im.layers[i], &e);
        pthread_mutex_lock(&p->lock);
        p->here[i] = rc == 0;
        pthread_cond_broadcast(&p->moved);
    }
    give_up(p, rc, &e);
    p->working--;
    pthread_cond_broadcast(&p->moved);
    pthread_mutex_unlock(&p->lock);
    cay__reg_close(reg);
    return NULL;
}

static int report_progress(const pulling *p)
{
    cay_template_progress now = {
        .size = sizeof now, .what = "fetch", .layers = p->im.n, .done = p->done, .total = p->total
    };
    if (p->spec->progress && p->total)
        return p->spec->progress(&now, p->spec->arg);
    return 0;
}

static int fetch_begin(pulling *p, cay_err *err)
{
    size_t need = 0;
    sigset_t all, old;
    for (size_t i = 0; i < p->im.n; i++)
        if (p->missing[i]) {
            need++;
            p->total += p->im.layers[i].size;
        }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_mutex_lock(&p->lock);
    while (p->nthreads < CAY_MIN(need, (size_t)WORKERS) &&
           pthread_create(&p->threads[p->nthreads], NULL, fetch_layers, p) == 0) {
        p->nthreads++;
        p->working++;
    }
    pthread_mutex_unlock(&p->lock);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (need && !p->nthreads)
        return cay_fail(err, CAY_ESYS, "no thread can be started");
    return 0;
}

/* Until the blob of this layer is whole. */
static int fetch_wait(pulling *p, size_t i, cay_err *err)
{
    pthread_mutex_lock(&p->lock);
    while (p->missing[i] && !p->here[i] && p->working && !p->stop) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += TELL_MS * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&p->moved, &p->lock, &until);
        pthread_mutex_unlock(&p->lock);
        cay_err e = CAY_ERR_INIT;
        int rc = cay__call_check(p->call, "pull", &e);
        if (rc == 0 && report_progress(p))
            rc = cay_fail(&e, CAY_ECANCELED, "it was stopped");
        pthread_mutex_lock(&p->lock);
        give_up(p, rc, &e);
    }
    int rc;
    if (!p->missing[i] || p->here[i])
        rc = 0;
    else if (p->rc < 0)
        rc = p->rc;
    else
        rc = CAY_ECANCELED;
    if (rc < 0 && err)
        *err = p->err;
    pthread_mutex_unlock(&p->lock);
    return rc;
}

/* Those that are still at it stop; what they have waits for the next try. */
static void fetch_end(pulling *p)
{
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_mutex_unlock(&p->lock);
    CAY_EACH_OF(thread, p->threads, p->nthreads)
        pthread_join(*thread, NULL);
    p->nthreads = 0;
}

static int on_doc(const char *data, size_t n, void *arg, cay_err *err)
{
    cay__buf *b = arg;
    cay__buf_add(b, data, n);
    if (b->full)
        return cay_fail_why(err, CAY_ETOOBIG, "image_invalid", "the image's config is too long");
    return 0;
}

static int fetch_documents(pulling *p, cay__reg *reg, cay_err *err)
{
    char what[140], digest[72], hex[CAY__SHA256_HEX];
    bool whole;
    CAY_COPY(what, cay__text_or(p->name.digest, p->name.tag));
    for (int depth = 0;; depth++) {
        CAY_AUTOBUF text = CAY__BUF(CAY__IMAGE_DOC_MAX + 4096);
        if (depth == 4)
            return cay_fail_why(err, CAY_EINVAL, "image_invalid",
                                "the image's index leads to another, and that to another");
        CAY_TRY(cay__reg_manifest(reg, p->call, what, &text, digest, err));
        CAY_TRY(cay__image_read(CAY_OR(text.data, ""), text.len, p->spec->platform, &p->im, err));
        if (!p->im.index)
            break;
        CAY_COPY(what, p->im.next.digest);
    }
    CAY_COPY(p->im.digest, digest);
    CAY_AUTOBUF config = CAY__BUF(CAY__IMAGE_DOC_MAX + 4096);
    CAY_TRY(cay__reg_blob(reg, p->call, p->im.config.digest, 0, p->im.config.size, &whole, on_doc,
                          &config, err));
    cay__sha256_hex(CAY_OR(config.data, ""), config.len, hex);
    if (strcmp(hex, p->im.config.digest + 7))
        return cay_fail_why(
            err, CAY_EINVAL, "image_digest",
            "the image's config came with digest sha256:%.12s…, and it should be %.19s…", hex,
            p->im.config.digest);
    return cay__image_config(config.data, config.len, &p->im, err);
}

static int find_login(pulling *p, cay_err *err)
{
    const char *dir = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
    char path[4096];
    if (p->spec->auth) {
        cay__value v = { 0 };
        CAY_TRY(cay__secret_source_check("auth", p->spec->auth, err));
        CAY_TRY(cay__secret_read(p->client, "auth", p->spec->auth, &v, err));
        bool ok = v.len < 2048 && memchr(v.data, ':', v.len) && !memchr(v.data, '\n', v.len) &&
                  !memchr(v.data, 0, v.len);
        p->login = CAY_IF(ok, strndup(v.data, v.len));
        cay__value_wipe(&v);
        if (p->login)
            return 0;
        return cay_fail_why(err, CAY_EINVAL, "registry_auth",
                            "%.60s is not USER:PASSWORD in one line", p->spec->auth);
    }
    if (p->spec->user) {
        if (asprintf(&p->login, "%s:%s", p->spec->user, CAY_OR(p->spec->password, "")) < 0)
            return CAY_ENOSPACE;
        return 0;
    }
    CAY_TRY(cay__reg_login_of(p->client, p->spec->tenant, p->name.host, &p->login, err));
    if (p->login || !p->spec->trusted ||
        !(dir ? CAY_JOIN(path, dir, "/config.json")
              : home && CAY_JOIN(path, home, "/.docker/config.json")))
        return 0;
    CAY_AUTOFREE char *text = cay__alloc(256 << 10);
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = -1;
    if (fd >= 0)
        n = cay__fd_read_all(fd, text, 256 << 10);
    if (n > 0)
        cay__reg_docker_login(text, (size_t)n, p->name.host, &p->login);
    explicit_bzero(text, 256 << 10);
    return 0;
}

/* One place after the other, where the operator says so; the first that has it. */
static int look_in(pulling *p, const char *ref, cay_err *err)
{
    cay__reg *reg = NULL;
    CAY_TRY(cay__tname_parse(ref, &p->name, err));
    if (p->login) {
        explicit_bzero(p->login, strlen(p->login));
        free(p->login);
        p->login = NULL;
    }
    CAY_TRY(find_login(p, err));
    CAY_TRY(cay__reg_open(&p->conf, &p->op, &p->name, p->login, p->spec->trusted, &reg, err));
    int rc = fetch_documents(p, reg, err);
    cay__reg_close(reg);
    return rc;
}

static int look_for(pulling *p, const char *ref, cay_err *err)
{
    cay__tname n;
    char place[700];
    CAY_TRY(cay__tname_parse(ref, &n, err));
    if (n.named_host || !p->conf.nsearch)
        return look_in(p, ref, err);
    int rc = CAY_ENOENT;
    CAY_EACH_OF(it, p->conf.search, p->conf.nsearch) {
        if (!CAY_JOIN(place, *it, "/", ref))
            return cay_fail_why(err, CAY_EINVAL, "template_name", "%.100s is too long a name", ref);
        rc = look_in(p, place, err);
        if (rc != CAY_ENOENT && rc != CAY_EAUTH)
            return rc;
    }
    return rc;
}

static int layer_blob(void *arg, size_t i, int *fd, cay_err *err)
{
    pulling *p = arg;
    char name[BLOB_NAME];
    CAY_TRY(fetch_wait(p, i, err));
    part_name(p, p->im.layers[i].digest, true, name);
    *fd = openat(p->blobs, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (*fd < 0) /* it was here when we looked, and was removed */
        return cay_fail_why(err, CAY_EBUSY, "layers_gone", "blob %.19s… went meanwhile; try again",
                            p->im.layers[i].digest);
    return 0;
}

static int open_blobs(pulling *p, cay_err *err)
{
    if (mkdirat(p->client->home_fd, CAY__BLOBS_DIR, 0700) < 0 && errno != EEXIST)
        return cay_fail_sys(err, "make blobs/");
    p->blobs =
        openat(p->client->home_fd, CAY__BLOBS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (p->blobs < 0)
        return cay_fail_sys(err, "open blobs/");
    return 0;
}

static int pull_image(pulling *p, cay_template **out, cay_err *err)
{
    char name[CAY_TEMPLATE_NAME + 1], source[400];
    CAY_AUTOFD lock = -1;
    cay__tname given;
    CAY_TRY(cay__tconf_read(p->client, &p->conf, err));
    if (p->spec->implied && p->conf.no_pull)
        return cay_fail_why(
            err, CAY_ENOENT, "template_not_found",
            "it is not here, and templates.conf says `pull never`; `cay template pull` gets it");
    CAY_TRY(cay__operator_read(p->client, &p->op, err));
    const char *ref = cay__tconf_alias(&p->conf, CAY_OR(p->spec->ref, ""));
    CAY_TRY(cay__tname_parse(p->spec->ref, &given, err));
    if (given.named_tag)
        given.digest[0] = 0;
    cay__tname_text(&given, name);
    CAY_TRY(open_blobs(p, err));
    CAY_TRY(look_for(p, ref, err));
    CAY_FORMAT(source, "registry:%.200s/%.180s", p->name.host, p->name.path);
    CAY_TRY(cay__layers_lock(p->client, false, &lock,
                             err)); /* what is here now stays until we stand on it */
    CAY_TRY(cay__image_missing(p->client, p->spec->tenant, &p->im, p->missing, err));
    uint64_t more = 0;
    for (size_t i = 0; i < p->im.n; i++) {
        if (p->missing[i])
            more += p->im.layers[i].size;
    }
    CAY_TRY(cay__template_fits(
        p->client, p->spec->tenant, more - more / 128,
        err)); /* packed they are hardly larger: what does not fit so never will */
    CAY_TRY(fetch_begin(p, err));
    const char *const own_name[] = { name, NULL };
    const char *const *names = CAY_OR(p->spec->names, own_name);
    cay__image_spec spec = { .tenant = p->spec->tenant,
                             .names = names,
                             .hidden = p->spec->hidden,
                             .source = source,
                             .blob = layer_blob,
                             .arg = p,
                             .progress = p->spec->progress,
                             .progress_arg = p->spec->arg };
    int rc = cay__image_make(p->client, p->call, &spec, &p->im, out, err);
    fetch_end(p);
    CAY_FAULT("pull.fetched");
    CAY_TRY(rc);
    if (p->spec->user)
        CAY_TRY(cay_registry_login(p->client, p->spec->tenant, p->name.host, p->spec->user,
                                   p->spec->password, err));
    for (size_t i = 0; i < p->im.n; i++) {
        char file[BLOB_NAME];
        part_name(p, p->im.layers[i].digest, true, file);
        unlinkat(p->blobs, file, 0);
    }
    return 0;
}

int cay_template_pull(cay_client *client, const cay_call *call, const cay_template_remote *given,
                      cay_template **out, cay_err *err)
{
    cay_template_remote spec;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_template_remote", err));
    if (client->remote)
        return cay__remote_template_pull(client, call, &spec, out, err);
    CAY_TRY(cay__call_check(call, "pull", err));
    pulling *p = cay__alloc(sizeof *p);
    *p = (pulling){ .client = client,
                    .call = call,
                    .spec = &spec,
                    .blobs = -1,
                    .lock = PTHREAD_MUTEX_INITIALIZER,
                    .moved = PTHREAD_COND_INITIALIZER };
    const char *tenant = CAY_OR(spec.tenant, CAY_TENANT_DEFAULT);
    cay__sha256_hex(tenant, strlen(tenant), p->whose);
    int rc = pull_image(p, out, err);
    if (p->login)
        explicit_bzero(p->login, strlen(p->login));
    free(p->login);
    cay__close_fd(&p->blobs);
    cay__tconf_clear(&p->conf);
    cay__policy_clear(&p->op);
    free(p->im.text);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->moved);
    free(p);
    return cay_wrap(err, rc, "pull %.100s", CAY_OR(spec.ref, ""));
}

void cay__blobs_sweep(cay_client *client)
{
    int fd =
        openat(client->home_fd, CAY__BLOBS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *d = NULL;
    if (fd >= 0)
        d = fdopendir(fd);
    struct stat st;
    for (struct dirent *e; d && (e = readdir(d));)
        if (*e->d_name != '.' && fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode) && time(NULL) - st.st_mtime > BLOB_KEPT_S)
            unlinkat(fd, e->d_name, 0);
    if (d)
        closedir(d);
}
