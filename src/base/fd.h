/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/fd.h - descriptors: moving them between processes, whole reads and writes, safe opens.
 *
 * Descriptors are born close-on-exec. Functions return -1 and set errno unless they say otherwise.
 */
#pragma once
#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CAY__FDS_MAX 16

/* One packet with up to CAY__FDS_MAX descriptors. nofds may be 0. MSG_NOSIGNAL is always set. */
ssize_t cay__fd_send(int sock, const void *data, size_t len, const int *fds, int nfds, int flags);
/* Gather form, for a fixed head and a tail. */
struct iovec;
ssize_t cay__fd_sendv(int sock, const struct iovec *iov, int iovcnt, const int *fds, int nfds,
                      int flags);
/* Receives one packet. *nfds in: room, out: how many came; surplus ones are closed and give
 * EMSGSIZE, as does a packet longer than cap. 0 means the peer is gone. */
ssize_t cay__fd_recv(int sock, void *data, size_t cap, int *fds, int *nfds, int flags);

bool cay__fd_write_all(int fd, const void *data, size_t len);
ssize_t cay__fd_read_all(int fd, void *data, size_t cap); /* up to cap, until end */
/* A small file relative to dir, NUL-terminated. */
ssize_t cay__fd_read_file(int dir, const char *path, char *buf, size_t cap);
/* When a process began, in ticks since boot; 0 when there is none. With the pid it names one
 * process for good. */
uint64_t cay__start_time(int pid);
bool cay__fd_write_file(int dir, const char *path, const char *text);
void cay__fd_close_from(int first);
/* An option of a socket that is a number: of any level; one of SOL_SOCKET, which is none below 0.
 */
bool cay__sock_set(int sock, int level, int option, int value);
int cay__sock_get(int sock, int option);
/* Whether closing it resets the connection. */
bool cay__sock_reset(int sock, bool reset);
struct ucred;
bool cay__sock_peer(int sock, struct ucred *who); /* SO_PEERCRED */
bool cay__fd_nonblock(int fd, bool on);
/* The last descriptor of a connection that lingers (SO_LINGER) waits in close(2) until its other
 * end, perhaps the tenant's, has read all, and only a signal ends that sooner. Between on and off
 * there is one every now and then: for whoever closes what a tenant sent, or a socket with packets
 * in it that nobody read. For programs of one thread. */
void cay__fd_hurry(bool on);

/* openat(2) to read a directory, or what may be a file and never waits, through no link in its last
 * name. */
int cay__dir_at(int at, const char *name);
int cay__file_at(int at, const char *name);
/* A directory to list: `name` in at, or at itself when it is NULL. next() leaves "." and ".." out;
 * NULL with errno 0 at the end. */
DIR *cay__dir_open(int at, const char *name);
struct dirent *cay__dir_next(DIR *d);
static inline void cay__dir_close(DIR **d)
{
    if (*d)
        closedir(*d);
}
#define CAY_AUTODIR __attribute__((cleanup(cay__dir_close))) DIR

/* openat2(2) with RESOLVE_NO_MAGICLINKS added and EAGAIN retried; falls back to nothing. */
int cay__fd_openat2(int dir, const char *path, uint64_t flags, uint32_t mode, uint64_t resolve);
/* The directory (O_PATH) of the last name of a relative path, which is put into name. On the way
 * there is no link, no ".." and no other filesystem: ELOOP, EINVAL, EXDEV. make, unless NULL, is
 * asked for each directory that is missing. */
int cay__fd_parent(int dir, const char *path, bool (*make)(void *arg, int at, const char *name),
                   void *arg, char name[256]);

/* CLOCK_MONOTONIC and CLOCK_BOOTTIME and wall clock in milliseconds; monotonic in microseconds. */
int64_t cay__now_ms(void);
int64_t cay__boot_ms(void);
int64_t cay__clock_ms(void);
int64_t cay__now_us(void);
