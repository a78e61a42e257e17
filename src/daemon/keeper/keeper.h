/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/keeper/keeper.h - the objects of the keeper and who may touch them.
 *
 *   main.c     start, lock, loop        enter.c    own user and mount namespace, the small tree
 *   client.c   connections and replies  box.c      a sandbox: new, known, stopped, gone
 *   create.c   the request, handing out bind.c     its root
 *   ctl.c      what init says           freeze.c   standing still: a pause, or for who copies files
 *   pool.c     parked sandboxes         helper.c   those who work for us
 *   rootfs.c   sandboxes/, layers/
 *   proc.c     commands, their input, signals, exits and time-outs
 *   start.c    how a command begins
 *   cgroup.c   groups and limits        deadline.c time-to-live, idle
 *   journal.c  what the kernel holds    adopt.c    taking over after a death
 *   turn.c     another root under a live one: snapshots, going back
 *   hold.c     requests that wait for either
 *   net.c      policies, and the sockets of net namespaces: handed to the lender, a helper
 *
 * daemon/holder has the queues of output and input, and answers to clients.
 *
 * One thread. Nothing here blocks: what may block is a helper's job. Every packet, from client,
 * helper or init, is checked for length and range before use.
 */
#pragma once
#include <base/base.h>
#include <base/fault.h>
#include <base/loop.h>
#include <base/mutant.h>
#include <base/sanitize.h>
#include <cay/client.h>
#include <cay/sys/provider.h>
#include <proto/init.h>
#include <daemon/holder/answer.h>
#include <daemon/holder/input.h>
#include <daemon/holder/stream.h>
#include "job.h"

#define STORE_BASE 0x70000000u /* ids on disk; above every range systemd hands out */
#define BLOCK_IDS  65536u
#define BLOCKS_MAX 4092u
#define PROCS_MAX  512 /* kept per sandbox, live and ended */
#define ROOTS                                                                                      \
    4 /* that sandboxes are kept ready with: the default one, and those that are asked for again   \
         and again */
#define KEPT_MAX (64ull << 20) /* output kept of them: it is our memory, not the sandbox's */

typedef struct keeper_box keeper_box;
typedef struct keeper_proc keeper_proc;
typedef struct client client;
typedef struct helper helper;

typedef struct own_group {
    int dir, procs;  /* the directory, -1: no group, and its cgroup.procs */
    uint32_t number; /* 1 + the one in its name */
    bool killed;
} own_group;

struct keeper_proc {
    keeper_proc *next, *newer; /* of its sandbox, newest first */
    keeper_proc *same;         /* chain in keeper.procs */
    keeper_box *b;
    char id[CAY_WIRE_ID];
    char tag[40], title[64];
    char *labels; /* as they came, never read here */
    size_t nlabels;
    int pid;
    uint32_t flags;
    uint32_t ring_bytes, ran; /* ran: as cay_m_proc.ended */
    int64_t started_ms;
    holder_stream out[2];
    holder_input in;  /* its stdin; the pty master for a tty */
    client *starter;  /* awaits the SPAWN answer */
    own_group group;  /* when it has a time-out */
    cay__timer timer; /* time-out, then the kill after TERM, then the 200 ms after exit */
    bool killing;     /* its time is over: TERM was sent */
    bool started, ended, settled; /* exit known; exit told */
    cay_m_exit exit;
    holder_waiter *waiters;
};

enum box_phase { BOX_PARKING, BOX_PARKED, BOX_BINDING, BOX_BOUND, BOX_LIVE, BOX_DYING };

struct keeper_box {
    keeper_box *next;
    char name[CAY_WIRE_ID]; /* of the parked service: names groups and socket */
    char id[CAY_WIRE_ID];   /* of the sandbox, "" while in the pool */
    enum box_phase phase;
    cay_state state;
    uint32_t flags; /* CAY_CREATE_… */
    uint32_t block;
    int pid;
    uint64_t start;
    cay__watch ctl;        /* init's control socket */
    cay__watch death;      /* pidfd */
    int userns_fd, mnt_fd; /* the second while it is being ended */
    int lower_fd; /* what a root of its own stands on, -1: a layer, or a keeper that died had it */
    int cg_fd, tenant_fd; /* v2 */
    int net_fd[4];   /* of its net namespace: tcp listener, dns tcp, dns udp; and the name map; -1:
                        none */
    uint32_t net;    /* daemon/keeper/netns.h: how TCP comes to the listener */
    uint64_t cookie; /* SO_NETNS_COOKIE: which namespace those are of */
    bool lent;       /* cay-egress may have them */
    bool restore;    /* its policy of before could not be told yet */
    bool ahead;      /* bound before anybody asks */
    int root;        /* to which of keeper.roots */
    bool loose;      /* nothing of the host but its /usr is mounted in it */
    bool pooled;     /* its files are still those of the pool */
    bool uid0;
    bool forget_files; /* remove its directory when it is dead */
    char reason[24];
    client *owner; /* of an ephemeral one */
    int owner_pid;
    uint64_t owner_start;
    client *creator;         /* awaits the CREATE answer */
    struct pending *pending; /* create request while binding */
    cay_limits limits;
    uint64_t io_disk; /* cay_m_create */
    bool limited;     /* its groups have these already */
    int64_t created_ms, deadline_boot, touched_boot;
    uint64_t idle_ms;
    cay__timer timer;
    cay__timer claim; /* until init has answered a new keeper; then of an ephemeral one, until its
                         owner has */
    int maker;        /* who asked for it, of this keeper */
    bool adopting;    /* init has not told yet what it holds */
    const char *pausing; /* why it will be frozen, once no command is being born */
    client *pauser;
    client *frozen_for; /* stands still while this one copies its files */
    struct held *held;  /* requests that wait meanwhile */
    keeper_proc *procs, *oldest;
    unsigned nprocs, nlive, last_group;
    char forget[CAY_WIRE_ID]; /* a command init need not remember; told with the next one */
    own_group idle;           /* one that a command left empty */
    uint64_t kept;            /* bytes of output in rings */
    uint64_t oom_seen, pids_seen;
    uint64_t cpu_us; /* of commands that ended: all there is where no group counts */
    uint64_t disk_used, disk_inodes;
    holder_waiter *waiters;  /* BOX_WAIT, STOP and DESTROY */
    holder_waiter *sessions; /* in the order in which init answers */
    struct turn *turn;       /* it is being put onto another root */
    bool ending;             /* the host asked its init to end, and it said so */
    bool services,
        holding; /* it has services; init was asked to start none, and has not answered */
    uint64_t below_bytes, below_inodes; /* in layers that its upper became */
};

/* A create that waits for a parked box, a grant or the bind. */
typedef struct pending {
    struct pending *next;
    client *c;
    keeper_box *b;
    bool limited; /* its client was */
    cay_m_create m;
    char *config;
    size_t config_len;
    int fds[1 + CAY_GRANTS_MAX]; /* as sent by the client */
    int nfds;
    int mounts[1 + CAY_GRANTS_MAX]; /* detached clones made by the janitor */
    int nmounts;
    int disk;   /* CAY_CREATE_DISK */
    int policy; /* what it may reach, or -1 */
    char targets[CAY_GRANTS_MAX][256];
    char stack[CAY_STACK_TEXT]; /* what it is to stand on, daemon/keeper/stack.h */
    struct held *held;          /* what its client said meanwhile of the sandbox that is to be */
} pending;

struct client {
    cay__watch w;
    client *next;
    int pid;
    pending *creating;
    bool events, events_few;
    bool limited; /* CAY_MSG_LIMIT */
    char events_id[CAY_WIRE_ID];
    uint64_t events_lost;
};

/* What a client asks. */
typedef struct request {
    client *c;
    uint16_t type;
    const void *body;
    const char *tail;
    size_t tail_len;
    int *fds;
    int nfds;
    keeper_box *b; /* as the table demands */
    keeper_proc *p;
} request;

typedef struct job_wait {
    struct job_wait *next;
    helper *h; /* who is at it */
    uint32_t seq;
    keeper_box *b;
    pending *p;
    client *c;
    int index;
    char dir[CAY_WIRE_ID]; /* below sandboxes/, made by this job for a sandbox that may be gone by
                              then */
    void (*fn)(struct job_wait *j, const cay_job_done *d, int *fds, int nfds);
} job_wait;

struct helper {
    cay__watch w;
    const char *role, *dir;
    int pid, ns; /* ns: the mount namespace of one that stays in the host's tree, -1: made when it
                    starts; 0: ours */
    int64_t since_ms;
    unsigned busy;
};

/* A root to keep sandboxes ready with. */
typedef struct warm {
    char stack[CAY_STACK_TEXT]; /* daemon/keeper/stack.h */
    bool image;                 /* nothing of the host is below */
    unsigned asked;             /* times */
    int64_t at_ms;              /* the last */
} warm;

typedef struct cgroups {
    bool v2, v2_memory, v2_pids, v2_cpu, v2_io;
    bool leaf;                    /* some of these: init needs a group of its own */
    int v2_fd;                    /* our directory cay-<instance> */
    int v1_fd[KEEPER_JOB_V1_MAX]; /* memory, pids, cpu, blkio; -1: not there */
} cgroups;

typedef struct keeper_state {
    cay__loop loop;
    int mode;
    char **argv;
    int home_fd, run_fd, listen_fd, lock_fd; /* of the small tree */
    int memfd;                               /* cay-init, sealed */
    char instance[CAY_WIRE_ID];
    char layer[64];    /* of the default template */
    warm roots[ROOTS]; /* the first is that one's */
    uint32_t features;
    int landlock_abi;
    cgroups cg;
    cay__watch listener, asked; /* asked: to leave, by SIGTERM */
    client *clients;
    keeper_box *boxes;
    keeper_proc *procs[1024]; /* by id */
    unsigned nboxes, nlive;
    pending *waiting; /* creates without a box yet */
    helper zygotes[8], janitor, sweeper, lender;
    unsigned nzygotes;
    unsigned pool_bound, pool_raw; /* how many are kept ready */
    job_wait *jobs;
    uint32_t job_seq;
    uint32_t block_first;
    uint64_t block_used[(BLOCKS_MAX + 63) / 64];
    cay__timer refill, leave, sweep, stop;
    int64_t last_request_us;
    int64_t pool_again_ms; /* nothing is made ahead before then: it failed */
    unsigned pool_fails;   /* in a row */
    bool strays;           /* groups of a dead keeper whose last process is still on its way out */
    bool leaving;          /* nothing more is made */
    bool trash;            /* removals wait until the sweeper has time */
    bool vanished;         /* the state directory was removed under us */
    bool broken;           /* a helper died */
    int journal_fd;
    unsigned journal_len; /* records since it was last written anew */
    uint64_t journal_seq, event_seq;
    unsigned cpu_next;
    cay_limits usual; /* limits that were asked for last: the next parked one has them before it is
                         asked for */
    cay_m_boxinfo gone[64]; /* the last sandboxes that stopped, and why */
    unsigned ngone;
    int nets[8]; /* each the last hold on a net namespace whose sandbox is gone */
    unsigned nnets;
} keeper_state;

extern keeper_state keeper; /* the one keeper of this process; main.c */
#define arm_timer(t, ms) cay__timer_after(&keeper.loop, t, ms)

/* enter.c */
int enter_namespaces(int adopt_userns, int starter);
int enter_tree(const char *home, const char *run);
/* cgroup.c */
void cgroup_discover(int heir); /* an init of the last keeper, 0: none. Groups are where that one
                                   made them, whatever our own are */
size_t cgroup_places(char *text, char *out, size_t cap); /* where that is, of its /proc/PID/cgroup,
                                                            which is changed; how long */
void cgroup_use(char *mountinfo,
                char *own); /* from the texts of the two files in /proc/self; both are changed */
bool cgroup_box_make(keeper_box *b);
void cgroup_box_remove(keeper_box *b); /* also by name only, after a crash */
int cgroup_box_open(keeper_box *b);
bool cgroup_limits(keeper_box *b,
                   const cay_limits *l); /* as they are to be; they may be other ones already */
void cgroup_limits_ahead(keeper_box *b);
bool cgroup_freeze(keeper_box *b, bool on);
void cgroup_exec_make(keeper_proc *p); /* own group of a command, where there can be one */
void cgroup_exec_remove(keeper_proc *p);
bool cgroup_exec_kill(keeper_proc *p);
void cgroup_usage(keeper_box *b, cay_m_usage *u);
void cgroup_box_enable(keeper_box *b);
int cgroup_join_files(keeper_box *b, int *fds, keeper_job *j);
void cgroup_exec_adopt(keeper_proc *p, uint32_t number);
bool cgroup_reap_strays(void); /* false: some are still busy */
void cgroup_leave(void);
/* rootfs.c */
int rootfs_open(void);
int rootfs_seal(const char *layer);
/* pool.c */
bool pool_start(void);
void pool_refill_soon(void);
bool pool_take(pending *p);
void pool_serve(void); /* what waits, as far as there are boxes */
void pool_parked(keeper_box *b);
void pool_dir(const keeper_box *b, char *out, size_t cap); /* below sandboxes/ */
void pool_failed(const keeper_box *b, int sys,
                 const char *step);   /* one that is for nobody yet could not be made */
void pool_learn(const pending *p);    /* what is asked for */
void pool_forget(void);               /* roots that nobody asks for any more */
void pool_unlayer(const char *layer); /* it is to be removed */
void pool_drain(bool all);
/* helper.c */
bool pool_start_janitor(
    const char *home); /* and sweeper and lender, before the small tree is entered */
bool helper_start(helper *h, const char *role, const char *dir, int ns);
bool job_send(helper *h, keeper_job *j, const int *fds, int nfds,
              const job_wait *wait); /* NULL: nobody waits for the answer */
helper *job_zygote(void);
/* net.c */
void net_ask(client *c, keeper_box *b, const cay_m_net *m, const int *more, int nmore);
void net_restore(keeper_box *b); /* the policy of its earlier life, if it has one */
void net_adopt(keeper_box *b, int *fds, int nfds);
void lender_leave(void); /* takes cay-egress and cay-intercept along, unless a sandbox lives */
/* box.c */
keeper_box *box_new(void);
keeper_box *box_find(const char *id);
void box_free(keeper_box *b);
void nets_drop(void);
void box_stop(keeper_box *b, const char *reason, bool forget_files);
void box_set_state(keeper_box *b, cay_state s, const char *kind, const char *reason);
cay_m_boxinfo box_info(const keeper_box *b);
void box_note_gone(const char *id, const char *reason);
bool remove_files(const char *from,
                  int mounts); /* below the state directory: out of sight now, gone soon */
bool box_remove_files(const char *dir, int mounts); /* the same below sandboxes/ */
/* create.c */
void box_create(const request *r);
void box_hand_out(keeper_box *b, pending *p);
void box_on_client_gone(client *c);
void pending_free(pending *p);
void box_take(keeper_box *b, const cay_m_create *m); /* it is the sandbox's from here on */
const char *names_take(
    const char *s, const char *end, uint64_t n,
    char stack[CAY_STACK_TEXT]); /* n layers of a request; what comes behind them, or NULL */
bool disk_look(keeper_box *b);   /* where the kernel holds its disk limit: what is used of it, and
                             whether   that is all */
/* bind.c */
bool special_root(const pending *p);
void box_bind(keeper_box *b, pending *p);
void box_bound(keeper_box *b, const cay_g_result *r);
const char *pending_field(
    const pending *p, unsigned field); /* of the config: 0 user, 1 workdir, 2 hostname, 3 shell */
/* ctl.c */
void box_watch_init(keeper_box *b);
bool box_send(keeper_box *b, uint16_t type, const void *body, size_t len, const void *tail,
              size_t tail_len, const int *fds, int nfds); /* to its init */
bool box_tell_fd(keeper_box *b, uint16_t type, const char *id, uint64_t x, uint64_t y,
                 int fd); /* a cay_g_proc */
#define box_tell(b, type, id, x, y) box_tell_fd(b, type, id, x, y, -1)
/* freeze.c */
void box_freeze(keeper_box *b, bool on);
void box_pause(keeper_box *b, const char *reason,
               client *c);       /* c is answered when it stands still */
void box_spawned(keeper_box *b); /* one that was being born is there, or failed */
void freeze_ask(const request *r);
void freeze_end(keeper_box *b);
void freeze_client_gone(const client *c);
/* hold.c */
bool hold(client *c, keeper_box *b, bool told, const char *packet, size_t len, int *fds,
          int nfds); /* true: it waits, and has the descriptors; told: init has to serve it */
void hold_release(keeper_box *b);
bool hold_creating(client *c, const char *id, const char *packet, size_t len, int *fds,
                   int nfds);  /* a request for the sandbox that c is just having made */
void hold_created(pending *p); /* it is made, or will not be */
void hold_client_gone(const client *c);
/* proc.c */
keeper_proc *proc_new(keeper_box *b, const char *id);
keeper_proc *proc_find(keeper_box *b, const char *ref);
void proc_free(keeper_proc *p);
void proc_count(keeper_proc *p, int by); /* among the live ones of its sandbox */
void proc_label(keeper_proc *p, const char *labels, size_t n); /* once */
void proc_reply(client *c, const keeper_proc *p);
void proc_exited(keeper_box *b, const cay_g_exit *x);
void proc_settle(keeper_proc *p);
void proc_lost(keeper_box *b); /* the sandbox died: every command ends now */
void proc_arm(keeper_proc *p, uint64_t timeout_ms);
void proc_on_client_gone(client *c);
/* start.c */
void proc_spawn(const request *r);
void proc_begin(keeper_proc *p, int pid); /* it runs */
void proc_started(keeper_box *b, const cay_g_result *r, int *fds, int nfds);
void proc_open_io(keeper_proc *p, int in, int out, int err);
void proc_answer(client *c, keeper_proc *p,
                 uint32_t flags);         /* and the exit, now or later, when WAIT is set */
void proc_answer_starter(keeper_proc *p); /* who asked for it, if that was not done */
void proc_write(const request *r);
void proc_close_stdin(keeper_proc *p);
void proc_resize(const request *r);
void proc_signal(const request *r);
/* turn.c */
void turn_ask(const request *r);
void turn_adopt(keeper_box *b); /* finishes what a keeper that died had begun */
void turn_still(keeper_box *b, const cay_g_result *r, int *fds, int nfds);
void turn_drop(keeper_box *b); /* the sandbox ended */
void turn_client_gone(const client *c);
/* deadline.c */
void deadline_touch(keeper_box *b);
void deadline_set(keeper_box *b, uint64_t ttl_ms, uint64_t idle_ms);
void deadline_arm(keeper_box *b);
/* client.c */
/* main.c */
void leave_soon(void);    /* when those sandboxes have ended that the host asked to */
bool home_vanished(void); /* and then we are on our way out */
void client_accept(cay__watch *w, uint32_t ev);
void hello_write(void);
void client_close(client *c);
void client_packet(client *c, const char *buf, size_t n, int *fds,
                   int nfds); /* as it came; descriptors not taken stay in fds */
static inline int client_fd(const client *c)
{
    if (c)
        return c->w.fd;
    return -1;
}
#define reply_fds(c, ...)                   cay__answer_send(client_fd(c), __VA_ARGS__)
#define reply(c, type, body)                cay__answer_body(client_fd(c), type, body)
#define reply_bare(c, type)                 cay__answer_bare(client_fd(c), type)
#define reply_ok(c)                         cay__answer_ok(client_fd(c))
#define reply_error(c, ...)                 cay__answer_error(client_fd(c), __VA_ARGS__)
#define reply_refused(c, code, reason, msg) reply_error(c, code, 0, reason, msg, NULL)
void event_send(const char *id, const char *kind, const char *reason, const char *process,
                int code);
/* journal.c */
enum jop {
    J_OPEN = 1,
    J_PARKING,
    J_PARKED,
    J_LIVE,
    J_DEADLINE,
    J_EXIT,
    J_GONE,
    J_TAKEN, /* it is to become this sandbox; nobody was told yet */
    J_MORE,  /* pid, start: who owns an ephemeral one; a, b: limits of disk and inodes */
};
typedef struct jrec {
    uint32_t magic, crc;
    uint64_t seq;
    int64_t time_ms;
    uint16_t op, flags;
    int32_t pid;
    uint64_t start;
    uint32_t block;
    int32_t code;
    char box[CAY_WIRE_ID], id[CAY_WIRE_ID];
    int64_t a, b;
    union {
        char reason[16];
        struct {
            uint64_t cookie; /* J_MORE */
            uint32_t net;
        };
    };
} jrec;
_Static_assert(sizeof(jrec) == 128, "journal records are 128 bytes");
bool journal_check(const jrec *r);
void journal_read(void (*fn)(const jrec *r, void *arg), void *arg); /* through keeper.home_fd */
typedef struct jkept { /* what stands in it of one box */
    jrec r, more;
} jkept;
bool journal_start(const char *boot, const jkept *live, size_t n, jrec *exits, size_t nexits);
void journal_put(enum jop op, const keeper_box *b, const char *id, int code, const char *reason);
#define journal_box(op, b) journal_put(op, b, (b)->id, 0, "")
/* adopt.c */
const char *adopt_instance(void);
int adopt_plan(
    void); /* before the namespaces: who is still there; a user namespace to join, or -1 */
int adopt_heir(void);          /* and one of them, an init; 0: nobody */
void sweep_dirs(bool pool);    /* removes what was cut short; also what a dead keeper's pool left */
void adopt_run(void);          /* after them */
void adopt_ask(keeper_box *b); /* the connection to its init is gone, though it may live */
void adopt_done(keeper_box *b);
void adopt_last_look(void);
void boot_id(char out[CAY_WIRE_ID]);
void adopt_state(keeper_box *b, const cay_g_state *s, size_t len, int *fds,
                 int nfds); /* len: with the labels behind it */
