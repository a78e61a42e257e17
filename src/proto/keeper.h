/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/keeper.h - what clients say to the keeper, and what it answers.
 *
 * SOCK_SEQPACKET, one packet a message: a head, a body of fixed layout for its type, then `tail`
 * bytes. One request at a time on a connection (of LIST also several, answered in turn); the answer
 * is OK, ERROR or the type named beside the request. Requests marked (…) keep the connection and
 * send more packets later. All numbers are in host order: both ends are on one machine. A version
 * is never reinterpreted: new needs, new types.
 *
 * The keeper reads only fixed fields. Strings of a spawn travel in the tail, or in a sealed memfd
 * when they are longer, and are handed to init unread.
 */
#pragma once
#include <base/fd.h>
#include <sys/uio.h>

#define CAY_MSG_MAGIC   0x31796163u /* "cay1" */
#define CAY_MSG_VERSION 1
#define CAY_MSG_MAX     65536u /* a whole packet */
#define CAY_TAIL_MAX    61440u /* what a tail may hold; longer blobs go in a memfd */
#define CAY_BLOB_MAX    (4u << 20)
#define CAY_CHUNK       32768u /* WRITE and READ move at most this much at once */
#define CAY_WIRE_ID     24
#define CAY_LABELS_MAX  1024u /* of one process: key NUL value NUL … */

typedef struct cay_msg {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint32_t tail; /* bytes after the body */
    uint32_t spare;
} cay_msg;

/* Sends one message: the head, a body and what is behind it, with descriptors. */
static inline bool cay__msg_send(int sock, uint16_t version, uint16_t type, const void *body,
                                 size_t len, const void *tail, size_t tail_len, const int *fds,
                                 int nfds, int flags)
{
    cay_msg h = { CAY_MSG_MAGIC, version, type, (uint32_t)tail_len, 0 };
    struct iovec v[3] = { { &h, sizeof h }, { (void *)body, len }, { (void *)tail, tail_len } };
    return cay__fd_sendv(sock, v, 3, fds, nfds, flags) >= 0;
}

enum cay_msg_type {
    CAY_MSG_HELLO = 1, /* cay_m_hello → cay_m_hello */
    CAY_MSG_CREATE,    /* cay_m_create, tail: a target NUL per grant, a name NUL per layer, config
                          blob; fds: [root] [grants…] [disk] → CAY_MSG_BOX */
    CAY_MSG_LIST,      /* cay_m_box (id: prefix or "") → CAY_MSG_BOX … CAY_MSG_END */
    CAY_MSG_STOP,      /* cay_m_box → OK once no process is left */
    CAY_MSG_DESTROY,   /* cay_m_box → OK once it is gone; files follow in the background */
    CAY_MSG_PAUSE,     /* cay_m_box → OK */
    CAY_MSG_RESUME,    /* cay_m_box → OK */
    CAY_MSG_EXTEND,    /* cay_m_box (a: ttl_ms, b: idle_ms; 0 leaves, UINT64_MAX removes) → OK */
    CAY_MSG_BOX_WAIT,  /* cay_m_box → CAY_MSG_BOX when it stopped or is gone (…) */
    CAY_MSG_USAGE,     /* cay_m_box → cay_m_usage */
    CAY_MSG_SESSION,   /* cay_m_box, tail: user name; fds: [socket] → OK */
    CAY_MSG_SPAWN, /* cay_m_spawn, tail: blob unless in a memfd, then labels; fds: [out reader] [err
                      reader] [blob] → CAY_MSG_PROC (… CAY_MSG_EXIT when CAY_SPAWN_WAIT, unless PROC
                      tells it) */
    CAY_MSG_PROC_FIND, /* cay_m_ref → CAY_MSG_PROC (… CAY_MSG_EXIT likewise) */
    CAY_MSG_PROCS,     /* cay_m_box → CAY_MSG_PROC … CAY_MSG_END */
    CAY_MSG_OUTPUT,    /* cay_m_stream; fds: [write end] → CAY_MSG_DATA without tail */
    CAY_MSG_READ, /* cay_m_stream (a: how many, b: only those that came at one time) → CAY_MSG_DATA,
                     tail: bytes */
    CAY_MSG_WRITE,       /* cay_m_stream, tail: bytes → OK when all is taken */
    CAY_MSG_CLOSE_STDIN, /* cay_m_stream → OK */
    CAY_MSG_RESIZE,      /* cay_m_stream (a: cols, b: rows) → OK */
    CAY_MSG_SIGNAL,      /* cay_m_stream (a: signal, b: cay_scope) → OK */
    CAY_MSG_EVENTS, /* cay_m_box (id or ""; a: not those of processes) → OK, then cay_event_wire
                       packets (…): each before the answer to whoever caused it */
    CAY_MSG_FAULT,  /* test builds: tail "point=action" → OK */
    CAY_MSG_NET, /* cay_m_net; SET: fds: [policy] → cay_m_netinfo; GET: fds: [policy]; DIAL: fds:
                    [connected socket] */
    CAY_MSG_FREEZE, /* cay_m_box (a: CAY_FREEZE_…) → CAY_MSG_BOX; fds: [cgroup.events of what is
                       being frozen]. Nothing of the sandbox runs, and nothing new begins, until
                       THAW or the end of the connection (…) */
    CAY_MSG_THAW,   /* cay_m_box → OK */
    CAY_MSG_SNAPSHOT, /* cay_m_layer: the upper becomes this layer, if nothing runs; a and tail as
                         below: the same files in fewer layers, to stand on → CAY_MSG_SNAPPED */
    CAY_MSG_RESTACK,  /* cay_m_layer (a: how many), tail: a name NUL per layer above the template:
                         processes end, the upper is thrown away → OK */
    CAY_MSG_UNLAYER,  /* cay_m_layer (id ""): removes this layer, if it is there → OK */
    CAY_MSG_SERVICES, /* cay_m_stream (proc: name of a service or "", which: 0 or CAY_GU_…); fds:
                      [socket] → OK; init answers on the socket, proto/init.h */
    CAY_MSG_LIMIT, /* → OK; from then on this connection gives nothing of the host to a sandbox but
                      volumes. cay-hand says it before a server that is not root has it */

    CAY_MSG_OK = 100,
    CAY_MSG_ERROR,   /* cay_m_error */
    CAY_MSG_END,     /* end of a list */
    CAY_MSG_BOX,     /* cay_m_boxinfo */
    CAY_MSG_PROC,    /* cay_m_proc, tail: tag NUL command NUL user NUL labels */
    CAY_MSG_EXIT,    /* cay_m_exit */
    CAY_MSG_DATA,    /* cay_m_data */
    CAY_MSG_SNAPPED, /* cay_m_snapped */
};

enum {
    CAY_FREEZE_STOP = 1u << 0
}; /* without a freezer (no descriptor comes): the asker stops the processes */

enum { CAY_MODE_ROOT = 0, CAY_MODE_RANGE = 1, CAY_MODE_SINGLE = 2 };

/* Features the keeper found; each has a name in lib/provider/native/probe.c. */
enum {
    CAY_FEAT_CG2 = 1u << 0,    /* a v2 group per sandbox: freeze and kill */
    CAY_FEAT_MEMORY = 1u << 1, /* limits that hold */
    CAY_FEAT_PIDS = 1u << 2,
    CAY_FEAT_CPU = 1u << 3,
    CAY_FEAT_IO = 1u << 4,
    CAY_FEAT_QUOTA = 1u << 5, /* project quota on the state directory */
    CAY_FEAT_NETNS = 1u << 6,
    CAY_FEAT_NFT = 1u << 7, /* TCP is handed over by tproxy: a policy can be had */
    CAY_FEAT_LANDLOCK = 1u << 8,
    CAY_FEAT_IDMAP =
        1u << 9, /* root mode: a range of ids for each sandbox, once NET_TRIED is set */
    CAY_FEAT_SECCOMP = 1u << 10,
    CAY_FEAT_NAT = 1u << 11, /* by nat redirect instead */
    CAY_FEAT_NET_TRIED =
        1u << 12, /* a net namespace was made: the two above and the one below mean what they say */
    CAY_FEAT_PORTS = 1u << 13, /* by a listener for each port of the policy */
    CAY_FEAT_IMAGE = 1u << 14, /* the client's: who requires a quota gets a disk image */
};

typedef struct cay_m_hello {
    uint32_t version;
    uint8_t mode; /* CAY_MODE_… */
    uint8_t level;
    uint8_t landlock_abi;
    uint8_t spare;
    uint32_t features;
    int32_t pid;
    char instance[CAY_WIRE_ID];
} cay_m_hello;

enum {
    CAY_CREATE_EPHEMERAL = 1u << 0, /* ends with its creating connection's process */
    CAY_CREATE_NO_PIN = 1u << 1,
    CAY_CREATE_DURABLE = 1u << 2,
    CAY_CREATE_ROOT_FD = 1u << 3, /* first descriptor is the lower directory */
    CAY_CREATE_KEPT = 1u << 4,    /* its files are there from an earlier life */
    CAY_CREATE_PAUSE = 1u << 5,   /* expiry pauses instead of killing */
    CAY_CREATE_UID0 = 1u << 6,    /* single-id map: the one id is 0 inside */
    CAY_CREATE_IMAGE =
        1u
        << 8, /* the layer is an image's: a root filesystem of its own, without the host's /usr */
    CAY_CREATE_DISK = 1u << 9,   /* the last descriptor is a detached mount of its own: what is
                                    written lives there, and it is the limit */
    CAY_CREATE_QUOTA = 1u << 11, /* a project quota will hold its disk limit */
    CAY_CREATE_ON =
        1u
        << 7, /* the first grant is shown copy-on-write: what is written stays in sandboxes/ID/on */
    CAY_CREATE_OWN_IDS = 1u << 12, /* refused where all sandboxes share one range of ids */
    CAY_CREATE_NET = 1u << 10, /* the last descriptor (before it that of DISK) is its policy, as NET
                                  SET has it, and NET the answer, once it holds */
};
#define CAY_GRANTS_MAX 12

typedef struct cay_m_create {
    char id[CAY_WIRE_ID];
    uint32_t flags;
    uint32_t ngrants;
    uint32_t grants_rw;    /* bit per grant */
    uint32_t grants_store; /* likewise: a volume, whose owners are of the store's range */
    uint32_t nlayers;      /* above the template */
    uint32_t grants_mount; /* bit per grant: the descriptor is a detached mount already, and shows
                              owners as it likes */
    uint64_t memory, swap, cpu_milli, pids, disk, inodes, nofile, io_read,
        io_write;     /* UINT64_MAX: none */
    uint64_t io_disk; /* the one that the last two hold on, as dev_t */
    uint64_t ttl_ms, idle_ms;
    char layer[64]; /* template layer below layers/ */
    /* tail: targets of the grants and names of the layers, bottom first, each NUL-terminated, then
     * the config blob of proto/init.h */
} cay_m_create;

typedef struct cay_m_box {
    char id[CAY_WIRE_ID];
    uint64_t a, b;
} cay_m_box;

typedef struct cay_m_layer {
    char id[CAY_WIRE_ID];
    char layer[64];
    uint64_t a;
} cay_m_layer;

typedef struct cay_m_snapped {
    uint64_t frozen_us, total_us;
} cay_m_snapped;

typedef struct cay_m_boxinfo {
    char id[CAY_WIRE_ID];
    char reason[24];
    uint32_t state; /* cay_state */
    int32_t pid;
    uint32_t flags; /* CAY_CREATE_… */
    uint32_t block; /* first id of its range on the host, root mode */
    uint32_t procs; /* live ones started through the API */
    uint32_t spare;
    int64_t created_ms;  /* wall clock */
    int64_t deadline_ms; /* wall clock, 0: none */
    uint64_t idle_ms;
    uint64_t cookie; /* SO_NETNS_COOKIE of its net namespace, 0: not known */
} cay_m_boxinfo;

/* What a sandbox may reach. The text is opaque here: a sealed memfd of at most CAY_NET_TEXT bytes,
 * the file format of policy/policy.h. */
#define CAY_NET_TEXT (256u << 10)
enum cay_net_op {
    CAY_NET_SET = 1, /* answered once it holds; revision: the one it must replace, 0: any */
    CAY_NET_GET,  /* the one that holds; revision 0 and no descriptor: none was ever set, `off` */
    CAY_NET_DIAL, /* connect for the control plane; flags: CAY_NET_IMPLICIT */
    CAY_NET_WHY,  /* what would be decided: reason and rule in the answer */
    CAY_NET_SECRETS, /* fds: [policy] [values, proto/intercept.h] → fds: [files that the sandbox has
                        to trust]; then SET */
    CAY_NET_RESTORE, /* between keeper and helper: as it was set before */
    CAY_NET_DROP,    /* and: the sandbox is gone */
};
enum { CAY_NET_IMPLICIT = 1u << 0 };

typedef struct cay_m_net {
    char id[CAY_WIRE_ID];
    uint64_t revision;
    uint32_t op, flags;
    uint16_t port, proto;
    uint32_t spare;
    char name[256];
} cay_m_net;

typedef struct cay_m_netinfo {
    uint64_t revision;
    int32_t code; /* WHY: 0 allowed, else what a connection would get */
    uint32_t spare;
    char reason[40];
    char msg[216];
} cay_m_netinfo;

typedef struct cay_m_usage {
    uint64_t cpu_us, memory, memory_peak, pids, disk, inodes, oom_kills, pids_hits;
} cay_m_usage;

enum {
    CAY_SPAWN_TTY = 1u << 0,
    CAY_SPAWN_STDIN = 1u << 1, /* a pipe held by the keeper; else /dev/null */
    CAY_SPAWN_SHELL = 1u << 2, /* argv is one line */
    CAY_SPAWN_LOGIN = 1u << 3,
    CAY_SPAWN_ENV_ONLY = 1u << 4,
    CAY_SPAWN_ROOT = 1u << 5,  /* root profile */
    CAY_SPAWN_BLOCK = 1u << 6, /* on_full */
    CAY_SPAWN_WAIT = 1u << 7,  /* EXIT follows on this connection */
    CAY_SPAWN_OUT = 1u << 8,   /* a descriptor for each of these comes along, in this order */
    CAY_SPAWN_ERR = 1u << 9,
    CAY_SPAWN_BLOB_FD = 1u << 10, /* last descriptor: memfd with the blob instead of the tail */
    CAY_SPAWN_LATE = 1u << 11,    /* the answer may wait a moment, so that that of a short command
                                     tells its exit as well */
    CAY_SPAWN_FENCE =
        1u << 12, /* grants follow env… in the blob, as cay__landlock_fence() reads them */
    CAY_SPAWN_ALL = (1u << 13) - 1,
    CAY_SPAWN_UNIT = 1u << 13, /* a service's, told by init; never asked for */
};

typedef struct cay_m_spawn {
    char id[CAY_WIRE_ID];   /* sandbox */
    char proc[CAY_WIRE_ID]; /* chosen by the client; the same again finds the same process */
    uint32_t flags;
    uint16_t cols, rows;
    uint64_t timeout_ms;
    uint32_t ring;
    uint32_t argc, envc,
        blob; /* the blob: user NUL cwd NUL tag NUL argv… env… [grants…] each NUL-terminated */
    char tag[40];   /* again, for look-up */
    char title[64]; /* for people: the command, cut */
} cay_m_spawn;

typedef struct cay_m_ref {
    char id[CAY_WIRE_ID];
    char ref[40]; /* process id, pid inside, or tag */
    uint32_t flags;
} cay_m_ref;

typedef struct cay_m_stream {
    char id[CAY_WIRE_ID], proc[CAY_WIRE_ID];
    uint32_t which; /* cay_stream */
    uint32_t spare;
    uint64_t offset;
    uint64_t a, b;
} cay_m_stream;

typedef struct cay_m_exit {
    char proc[CAY_WIRE_ID];
    int32_t code, signal;
    char reason[16];
    uint64_t cpu_us, max_rss, lost_out, lost_err;
} cay_m_exit;

typedef struct cay_m_proc {
    char proc[CAY_WIRE_ID];
    int32_t pid; /* inside */
    uint32_t flags;
    int64_t started_ms; /* wall clock */
    uint32_t ended;     /* 0: it runs; else for how many milliseconds it did, and one */
    uint32_t told;      /* the exit is in here, and no EXIT follows */
    cay_m_exit exit;
} cay_m_proc;

typedef struct cay_m_data {
    uint64_t offset; /* of the first byte given */
    uint64_t lost;   /* asked for, but no longer kept */
    uint32_t eof;
    uint32_t ms; /* READ with b: how long after its start the process printed them, and one; 0: not
                    known */
} cay_m_data;

typedef struct cay_m_error {
    int32_t code; /* cay_code */
    int32_t sys;
    char reason[40];
    char msg[216];
} cay_m_error;
