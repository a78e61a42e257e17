/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox may reach: the text goes to the keeper as it is, and comes back so. */
#include "native.h"
#include <base/base.h>
#include <linux/memfd.h>
#include <sys/syscall.h>

static int ask_net(cay__nbox *b, const cay_call *call, cay_m_net *m, const int *fds, int nfds,
                   cay__reply *r, cay_err *err)
{
    memcpy(m->id, b->base.id, sizeof m->id);
    return cay__link_call(b->base.link, call,
                          CAY__LINK_ASK(CAY_MSG_NET, *m, .fds = fds, .nfds = nfds), r, err);
}

/* Sealed, so that what was judged is what holds. */
int cay__nbox_policy_fd(const char *text, size_t len, int *out, cay_err *err)
{
    if (!len || len > CAY_NET_TEXT)
        return cay_fail_why(err, CAY_ETOOBIG, "policy_too_big",
                            "a policy has 1 to %u bytes, this one %zu", CAY_NET_TEXT, len);
    CAY_AUTOFD fd = (int)syscall(SYS_memfd_create, "cay-policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || !cay__fd_write_all(fd, text, len) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return cay_fail_sys(err, "a file for the policy");
    *out = CAY_STEAL_FD(fd);
    return 0;
}

int cay__nbox_policy(void *box, const cay_call *call, const char *text, size_t len,
                     uint64_t *revision, cay_err *err)
{
    cay_m_net m = { .op = CAY_NET_SET };
    cay__reply r = { 0 };
    CAY_AUTOFD fd = -1;
    CAY_TRY(cay__nbox_policy_fd(text, len, &fd, err));
    CAY_TRY(ask_net(box, call, &m, &fd, 1, &r, err));
    if (revision)
        *revision = r.net.revision;
    return 0;
}

int cay__nbox_policy_get(void *box, const cay_call *call, char **text, size_t *len,
                         uint64_t *revision, cay_err *err)
{
    static const char off[] = "cay-net 1\nmode off\n";
    cay_m_net m = { .op = CAY_NET_GET };
    CAY_AUTOFD fd = -1;
    cay__reply r = { .fd = &fd };
    struct stat st = { .st_size = sizeof off - 1 };
    CAY_TRY(ask_net(box, call, &m, NULL, 0, &r, err));
    if (revision)
        *revision = r.net.revision;
    if (!text)
        return 0;
    if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_size > (off_t)CAY_NET_TEXT))
        return cay_fail(err, CAY_EUPSTREAM, "the keeper's policy is not one");
    size_t n = (size_t)st.st_size;
    CAY_AUTOFREE char *copy = cay__alloc(n + 1);
    if (fd < 0)
        memcpy(copy, off, n);
    else if (pread(fd, copy, n, 0) != (ssize_t)n)
        return cay_fail_sys(err, "read the policy");
    *text = CAY_STEAL(copy);
    if (len)
        *len = n;
    return 0;
}

int cay__nbox_dial(void *box, const cay_call *call, const char *host, uint16_t port, bool implicit,
                   int *out, cay_err *err)
{
    cay_m_net m = { .op = CAY_NET_DIAL,
                    .port = port,
                    .flags = CAY_FLAG_IF(implicit, CAY_NET_IMPLICIT) };
    CAY_AUTOFD fd = -1;
    cay__reply r = { .fd = &fd };
    if (!CAY_COPY(m.name, host))
        return cay_fail_why(err, CAY_EINVAL, "host_invalid", "a host name has at most 253 bytes");
    CAY_TRY(ask_net(box, call, &m, NULL, 0, &r, err));
    if (fd < 0)
        return cay_fail_why(err, CAY_EUPSTREAM, "protocol", "the keeper gave no connection to %s",
                            host);
    *out = CAY_STEAL_FD(fd);
    return 0;
}

int cay__nbox_secrets(void *box, const cay_call *call, const char *text, size_t len, int values,
                      int *trust, cay_err *err)
{
    cay_m_net m = { .op = CAY_NET_SECRETS };
    CAY_AUTOFD policy = -1, files = -1;
    cay__reply r = { .fd = &files };
    CAY_TRY(cay__nbox_policy_fd(text, len, &policy, err));
    CAY_TRY(ask_net(box, call, &m, (int[]){ policy, values }, 2, &r, err));
    *trust = CAY_STEAL_FD(files);
    return 0;
}
