/* SPDX-License-Identifier: Apache-2.0 */
/* Replays files and directories of seeds through a fuzz target, where there is no libFuzzer. */
#include <base/base.h>
#include <base/fd.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define SEED_MAX (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int replay(int dir, const char *name)
{
    struct stat st;
    CAY_AUTOFD fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        perror(name);
        return -1;
    }
    if (S_ISDIR(st.st_mode)) {
        int n = 0, one = 0;
        DIR *d = fdopendir(CAY_STEAL_FD(fd));
        for (struct dirent *e; one >= 0 && d && (e = readdir(d));)
            if (e->d_name[0] != '.') {
                one = replay(dirfd(d), e->d_name);
                n += one;
            }
        if (d)
            closedir(d);
        return one < 0 ? one : n;
    }
    size_t len = (size_t)CAY_MIN(st.st_size, SEED_MAX);
    uint8_t *data =
        malloc(len ? len : 1); /* of the exact size, so that a sanitizer sees one byte too many */
    ssize_t got = data ? cay__fd_read_all(fd, data, len) : -1;
    fprintf(stderr, "%s\n", name);
    if (got >= 0)
        LLVMFuzzerTestOneInput(data, (size_t)got);
    free(data);
    return got < 0 ? -1 : 1;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        int one = replay(AT_FDCWD, argv[i]);
        if (one < 0)
            return 1;
        n += one;
    }
    printf("%d seeds\n", n);
    return n ? 0 : 1; /* none: the corpus is missing */
}
