/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"

int cay_code_of_errno(int e)
{
    switch (e) {
    case 0: return CAY_OK;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP: return CAY_EINVAL;
    case EPERM:
    case EACCES:
    case EROFS: return CAY_EPERM;
    case ENOENT:
    case ESRCH: return CAY_ENOENT;
    case EEXIST:
    case ENOTEMPTY: return CAY_EEXIST;
    case EISDIR:
    case ENOTDIR:
    case ENXIO: return CAY_ETYPE;
    case EBUSY:
    case EAGAIN:
    case ETXTBSY: return CAY_EBUSY;
    case EFBIG:
    case E2BIG:
    case EMSGSIZE: return CAY_ETOOBIG;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE: return CAY_ENOSPACE;
    case ETIMEDOUT: return CAY_ETIMEOUT;
    case ECANCELED: return CAY_ECANCELED;
    case ENOSYS:
    case EOPNOTSUPP: return CAY_ENOTSUP;
    case EPIPE:
    case ECONNRESET: return CAY_EGONE;
    default: return CAY_ESYS;
    }
}
