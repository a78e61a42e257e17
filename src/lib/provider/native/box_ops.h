/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/native/box_ops.h - the calls of cay_provider_ops on a box that somebody serves over
 * a link: the keeper, cay-local, or cay-pid1 in a container.
 *
 * A provider's box begins with a cay__served, so it can be given to all of these as it is, and to
 * those of session.h.
 */
#pragma once
#include "client.h"
#include "session.h"

typedef struct cay__served {
    cay__sessions sessions; /* its ready() is asked before each request here, too */
    cay__link *link;
    char id[CAY_WIRE_ID];
} cay__served;

void cay__served_open(cay__served *b, const char *id, cay__link *link);
/* Could a request be answered now? */
int cay__served_ready(const cay__served *b, cay_err *err);
/* cay__link_box() of it; it is not asked whether it is ready. */
int cay__served_ask(void *box, const cay_call *call, uint16_t type, cay__reply *out, cay_err *err);

CAY__PROVIDES(spawn) cay__served_spawn;
CAY__PROVIDES(proc_attach) cay__served_proc_attach;
/* Every process inside, and those that ended and are kept: what the peer of the link holds beside
 * what a worker sees. */
CAY__PROVIDES(procs) cay__served_procs;
CAY__PROVIDES(pause) cay__served_pause, cay__served_resume;
CAY__PROVIDES(extend) cay__served_extend;
/* Where no control group counts. */
CAY__PROVIDES(usage) cay__served_usage;

/* services.c. The config's part of services; wait: for service_act(NULL, START); each: they wait in
 * each life of a container. */
void cay__services_wire(cay__buf *b, const cay_box_spec *spec, bool wait, bool each);
CAY__PROVIDES(services) cay__served_services;
CAY__PROVIDES(service_act) cay__served_service_act;

/* What all providers of such boxes have in their tables. */
#define CAY__SERVED_MEMBERS                                                                        \
    .proc_release = cay__proc_release, .proc_id = cay__proc_id, .proc_output = cay__proc_output,   \
    .proc_write = cay__proc_write, .proc_close_stdin = cay__proc_close_stdin,                      \
    .proc_signal = cay__proc_signal, .proc_wait = cay__proc_wait,                                  \
    .proc_exit_fd = cay__proc_exit_fd, .proc_read = cay__proc_read,                                \
    .proc_read_at = cay__proc_read_at, .proc_breaks = cay__proc_breaks,                            \
    .proc_resize = cay__proc_resize, .open_read = cay__nf_open_read, .put = cay__nf_put,           \
    .open_write = cay__nf_open_write, .commit_write = cay__nf_commit_write,                        \
    .abort_write = cay__nf_abort_write, .stat = cay__nf_stat, .mkdir = cay__nf_mkdir,              \
    .remove = cay__nf_remove, .rename = cay__nf_rename, .chmod = cay__nf_chmod,                    \
    .chown = cay__nf_chown, .symlink = cay__nf_symlink, .getxattr = cay__nf_getxattr,              \
    .setxattr = cay__nf_setxattr, .listxattr = cay__nf_listxattr, .list_dir = cay__nf_list_dir,    \
    .glob = cay__nf_glob, .grep = cay__nf_grep, .watch_open = cay__nf_watch_open,                  \
    .watch_next = cay__nf_watch_next, .watch_close = cay__nf_watch_close,                          \
    .extend = cay__served_extend
