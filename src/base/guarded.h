/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/guarded.h - what tools of the host run or obey without being asked, in a directory that a
 * sandbox may write.
 *
 * Those that are there are bound over themselves, read-only but for a directory ".git", which is
 * bound only so that it cannot be renamed away from under its covers. Those that are missing are
 * not made just to be covered; whoever granted the directory is told when they appear.
 */
#pragma once
#include <stdbool.h>

static const struct {
    const char *path;
    bool ro;
} cay__guarded[] = {
    { ".git", false },
    { ".git/config", true },
    { ".git/hooks", true },
    { ".git/commondir", true },
    { ".git/config.worktree", true },
    { ".git/info", true },
    { ".git/modules", true },
    { ".gitmodules", true },
    { ".husky", true },
    { ".bashrc", true },
    { ".bash_profile", true },
    { ".profile", true },
    { ".zshrc", true },
    { ".envrc", true },
    { ".vscode", true },
    { ".idea", true },
    { ".claude", true },
    { ".codex", true },
    { ".cursor", true },
    { ".mcp.json", true },
};
