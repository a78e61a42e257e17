/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent knows from one talk to the next: agent.md of its name on the host, and what the
 * project says about itself. */
#include "chat.h"
#include <base/base.h>
#include <cay/sandbox.h>
#include <time.h>

enum { MEMORY_MOST = 64 << 10, REMEMBER_MOST = 2000 };

static const char who[] = "You are a coding assistant that talks with a user at a terminal. Be "
                          "brief and exact; answer in markdown. Work in the sandbox with your "
                          "tools, look before you change, and run what shows that a change is "
                          "right. The user sees your tool calls, takes your changes over "
                          "himself, and may take a turn back.";

int memory_path(const char *agent, char *path, size_t cap, cay_err *err)
{
    char dir[3800];
    if (!store_name_valid(agent))
        return cay_fail(err, CAY_EINVAL,
                        "agent \"%.64s\": want letters, digits, . _ and -, fewer than 64, the "
                        "first a letter or digit",
                        agent);
    if (!conf_dir(dir, sizeof dir))
        return cay_fail(
            err, CAY_EINVAL,
            "neither XDG_CONFIG_HOME nor HOME is set: there is no place for the memory of agent %s",
            agent);
    snprintf(path, cap, "%s/agents/%s/agent.md", dir, agent);
    return 0;
}

/* "" when there is none. */
static char *read_memory(const char *path)
{
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    char *text = cay__alloc(MEMORY_MOST + 1);
    if (fd < 0 || cay__fd_read_all(fd, text, MEMORY_MOST) < 0)
        *text = 0;
    return text;
}

static void make_parents(const char *path)
{
    char part[4096];
    for (const char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        CAY_FORMAT(part, "%.*s", (int)(p - path), path);
        mkdir(part, 0700);
    }
}

/* Whole or not at all. */
static int write_memory(const char *path, const char *text, cay_err *err)
{
    char tmp[4200];
    CAY_FORMAT(tmp, "%s.new", path);
    make_parents(path);
    unlink(tmp);
    CAY_AUTOFD fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || !cay__fd_write_all(fd, text, strlen(text)) || fsync(fd) < 0 ||
        rename(tmp, path) < 0) {
        int rc = cay_fail_sys(err, "%.200s", path);
        unlink(tmp);
        return rc;
    }
    return 0;
}

int memory_reset(const char *agent, const char *target, cay_err *err)
{
    char path[4096], other[4096];
    CAY_TRY(memory_path(agent, path, sizeof path, err));
    if (!target) {
        if (unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR)
            return 0;
        return cay_fail_sys(err, "%.200s", path);
    }
    CAY_TRY(memory_path(target, other, sizeof other, err));
    if (access(other, R_OK) < 0)
        return cay_fail_why(err, CAY_ENOENT, "agent_not_found",
                            "agent %s has no memory to copy: %.150s is not there", target, other);
    CAY_AUTOFREE char *text = read_memory(other);
    return write_memory(path, text, err);
}

static void add_file(chat *c, cay__buf *b, const char *name)
{
    CAY_AUTOFREE char *text = NULL;
    size_t n = 0;
    if (cay_file_get(c->sb, NULL, name, MEMORY_MOST, &text, &n, NULL) < 0 || !n ||
        strlen(text) != n)
        return;
    cay__buf_fmt(b, "\n\n## %s, which the project says about itself\n\n%s", name, text);
}

char *memory_text(chat *c)
{
    cay__buf b = CAY__BUF(1 << 20);
    CAY_AUTOFREE char *memory = read_memory(c->memory);
    cay__buf_str(&b, who);
    if (*memory)
        cay__buf_fmt(&b, "\n\n## What you remember from earlier talks\n\n%s", memory);
    add_file(c, &b, "AGENTS.md");
    add_file(c, &b, ".cay/agent.md");
    return b.data;
}

static int append_memory(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    chat *c = arg;
    CAY_AUTOJSON *a = NULL;
    CAY_AUTOFREE char *old = read_memory(c->memory);
    CAY_AUTOBUF b = CAY__BUF(MEMORY_MOST);
    char day[16];
    time_t now = time(NULL);
    struct tm tm;
    CAY_TRY(cay__json_object("its arguments", call->arguments, &a, err));
    const char *text = cay__json_str(a, "text", "");
    if (!*text || strlen(text) > REMEMBER_MOST)
        return cay_fail(err, CAY_EINVAL, "text is 1 to %d bytes", REMEMBER_MOST);
    strftime(day, sizeof day, "%Y-%m-%d", localtime_r(&now, &tm));
    cay__buf_fmt(&b, "%s%s- %s: ", old, *old && old[strlen(old) - 1] != '\n' ? "\n" : "", day);
    for (const char *p = text; *p; p++) /* one line: it cannot pass for a heading */
        cay__buf_add(&b, *p == '\n' || *p == '\r' ? " " : p, 1);
    cay__buf_str(&b, "\n");
    if (b.full)
        return cay_fail(err, CAY_ETOOBIG, "the memory is full; ask the user to shorten %.150s",
                        c->memory);
    CAY_TRY(write_memory(c->memory, b.data, err));
    cay_output_text(out, "Remembered.", 11);
    return 0;
}

const cay_tool *memory_tool(chat *c)
{
    static cay_tool tool = {
        .size = sizeof tool,
        .name = "remember",
        .description = "Keep one short fact about the user or the project for later talks.",
        .parameters =
            "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\",\"minLength\":1,"
            "\"maxLength\":2000}},\"required\":[\"text\"],\"additionalProperties\":false}",
        .call = append_memory,
        .approval = true
    };
    tool.arg = c;
    return &tool;
}
