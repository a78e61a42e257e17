/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/agent/peer.h - a server of models and tools (tests/support/modelpeer) for the tests of a
 * program: peer is its path, port where it listens, dir where it keeps what it has seen.
 */
#pragma once
#include "../support/support.h"
#include <base/base.h>
#include <base/fd.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

static const char *peer;
static char *dir;
static int keep_open = -1, port;
static pid_t pid;

static bool has_port(void *arg)
{
    char path[300], text[16] = "";
    (void)arg;
    snprintf(path, sizeof path, "%s/port", dir);
    if (cay__fd_read_file(AT_FDCWD, path, text, sizeof text) > 0)
        port = atoi(text);
    return port > 0;
}

static int start_peer(void **state)
{
    int p[2];
    (void)state;
    dir = support_home();
    char *argv[] = { (char *)peer, dir, NULL };
    posix_spawn_file_actions_t fa;
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, p[0], 0);
    assert_int_equal(posix_spawn(&pid, peer, &fa, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&fa);
    close(p[0]);
    keep_open = p[1];
    setenv("TEST_KEY", "sk-test-1234567890", 1);
    setenv("XDG_CONFIG_HOME", dir, 1);
    unsetenv("OPENAI_API_KEY");
    unsetenv("OPENAI_BASE_URL");
    unsetenv("CAY_MODEL");
    unsetenv("CAY_MODEL_API");
    return support_until(has_port, NULL, 20000) ? 0 : -1;
}

static int stop_peer(void **state)
{
    (void)state;
    close(keep_open);
    waitpid(pid, NULL, 0);
    support_home_remove(dir);
    return 0;
}
