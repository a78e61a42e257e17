/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper.log as it may lie there after a crash, or after somebody wrote into it. The first byte
 * tells whether the records get the right magic and sum, so that what is behind the check is
 * reached too.
 */
#include "../tests/support/keeper.h"
#include <fcntl.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static unsigned seen;

static void check(const jrec *r, void *arg)
{
    (void)arg;
    if (!memchr(r->box, 0, sizeof r->box) || !memchr(r->id, 0, sizeof r->id) ||
        !memchr(r->reason, 0, sizeof r->reason) || r->op < J_OPEN || r->op > J_MORE)
        abort();
    seen++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fake f;
    if (len < 1)
        return 0;
    fake_open(&f);
    CAY_AUTOFD fd =
        openat(keeper.home_fd, "keeper.log", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    uint8_t how = data[0];
    unsigned whole = 0;
    for (data++, len--; len; whole++) {
        jrec r = { 0 };
        size_t n = CAY_MIN(len, sizeof r);
        memcpy(&r, data, n);
        if (how & 1) {
            r.magic = 0x6a796163u;
            r.crc = 0;
            r.crc = cay__crc32c(0, &r, sizeof r);
        }
        (void)!write(fd, &r, n);
        data += n;
        len -= n;
    }
    seen = 0;
    journal_read(check, NULL);
    if (seen > whole)
        abort();
    int ns = adopt_plan(); /* believes nothing about a pid that is not the same process any more */
    cay__close_fd(&ns);
    fake_close(&f);
    return 0;
}
