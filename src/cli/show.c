/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"
#include "cli.h"
#include <base/base.h>

out_style show_state_style(cay_state s)
{
    switch (s) {
    case CAY_RUNNING: return OUT_GOOD;
    case CAY_PAUSED: return OUT_WARN;
    case CAY_DAMAGED: return OUT_BAD;
    case CAY_STOPPED: return OUT_DIM;
    default: return OUT_PLAIN;
    }
}

void show_walls(const cay_wall *layers, size_t n)
{
    int room = 0;
    const char *said = ""; /* one remedy for many layers is told once */
    CAY_EACH_OF(layer, layers, n) {
        int w = (int)strlen(layer->name);
        room = CAY_MAX(room, w);
    }
    CAY_EACH_OF(l, layers, n) {
        bool on = !strcmp(l->state, "on");
        out_style style;
        if (on)
            style = OUT_GOOD;
        else if (!strcmp(l->state, "soft"))
            style = OUT_WARN;
        else
            style = OUT_BAD;
        bool why = l->why && *l->why;
        out_fmt("  %s", out_on(1, style));
        out_safe("%s", l->state); /* another server's word may stand here */
        out_fmt("%*s%s ", (int)CAY_MAX(4 - (int)strlen(l->state), 0), "", out_off(1));
        out_safe("%s", l->name);
        if (why) {
            out_fmt("%*s", room + 2 - (int)strlen(l->name), "");
            out_safe("%s", l->why);
        }
        out_str("\n");
        if (!on && l->remedy && *l->remedy && strcmp(l->remedy, said)) {
            said = l->remedy;
            out_fmt("       %*s  %s→ ", room, "", out_on(1, OUT_DIM));
            out_safe("%s", l->remedy);
            out_fmt("%s\n", out_off(1));
        }
    }
}

void show_walls_json(out_json *j, const cay_wall *layers, size_t n)
{
    js_open(j, '[');
    CAY_EACH_OF(layer, layers, n)
        show_object(j, &cay__wall_shape, layer);
    js_close(j, ']');
}

static void write_value(out_json *j, json_t *v);

static void write_members(out_json *j, json_t *o)
{
    const char *key;
    json_t *v;
    json_object_foreach(o, key, v) {
        js_key(j, key);
        write_value(j, v);
    }
}

/* A member that is JSON of its own, such as a template's configuration, stays on one line. */
static bool is_json_field(const cay__shape *s, const char *name)
{
    CAY_EACH_OF(field, s->fields, s->n) {
        if (!strcmp(field->name, name))
            return field->kind == CAY__F_JSON;
    }
    return false;
}

static void write_value(out_json *j, json_t *v)
{
    CAY_AUTOFREE char *text = NULL;
    size_t i;
    json_t *item;
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        js_open(j, '{');
        write_members(j, v);
        js_close(j, '}');
        return;
    case JSON_ARRAY:
        js_open(j, '[');
        json_array_foreach(v, i, item)
            write_value(j, item);
        js_close(j, ']');
        return;
    default: text = cay__json_text(v, SIZE_MAX); js_raw(j, text);
    }
}

void show_members(out_json *j, const cay__shape *s, const void *obj)
{
    CAY_AUTOBUF b = CAY__BUF(256u << 20);
    cay__shape_put(&b, s, CAY__F_SHOWN | CAY__F_ADMIN | CAY__F_SECRET, obj);
    CAY_AUTOJSON *o = json_loads(CAY_OR(b.data, "{}"), JSON_ALLOW_NUL, NULL);
    const char *key;
    json_t *v;
    json_object_foreach(o, key, v) {
        js_key(j, key);
        if (!is_json_field(s, key)) {
            write_value(j, v);
            continue;
        }
        CAY_AUTOFREE char *text = cay__json_text(v, SIZE_MAX);
        js_raw(j, text);
    }
}

void show_object(out_json *j, const cay__shape *s, const void *obj)
{
    js_open(j, '{');
    show_members(j, s, obj);
    js_close(j, '}');
}

void show_print(const cay__shape *s, const void *obj)
{
    out_json j = OUT_JSON(true);
    show_object(&j, s, obj);
    js_flush(&j);
}

bool show_item(out_list *r, const cay__shape *s, const void *obj, const char *name)
{
    if (cli.json)
        show_object(&r->json, s, obj);
    return cli.json || out_list_name(name);
}

const char *show_wall(const cay_info *i)
{
    bool known = i->level != CAY_LEVEL_NONE || i->state == CAY_RUNNING || i->state == CAY_PAUSED ||
                 !strcmp(i->provider, "local");
    if (known)
        return cay_level_name(i->level);
    return NULL;
}

void show_info_json(out_json *j, const cay_info *i, const show_more *more)
{
    js_open(j, '{');
    show_members(j, &cay__sandbox_shape, i);
    const char *wall = show_wall(i);
    char level[16];
    CAY_FORMAT(level, "%d", i->level);
    js_put(j, "isolation:%s, level=%s", wall, CAY_IF(wall, level));
    if (more)
        js_put(j, "+net=%s, +services=%s, +endpoints=%s", more->net, more->services,
               more->endpoints);
    js_close(j, '}');
}

static void print_field(const char *name, const char *value)
{
    if (!value || !*value)
        return;
    out_fmt("%s%-10s%s ", out_on(1, OUT_DIM), name, out_off(1));
    out_safe("%s\n", value);
}

static void limits_text(const cay_limits *l)
{
    char text[200];
    CAY_AUTOBUF b = CAY__BUF(sizeof text);
    cay__buf_fmt(&b, "memory %s, disk %s", out_size(l->memory).s, out_size(l->disk).s);
    if (l->cpu_milli == CAY_UNLIMITED)
        cay__buf_str(&b, ", cpus unlimited");
    else
        cay__buf_fmt(&b, ", cpus %ju.%02ju", l->cpu_milli / 1000, l->cpu_milli % 1000 / 10);
    if (l->pids == CAY_UNLIMITED)
        cay__buf_str(&b, ", pids unlimited");
    else
        cay__buf_fmt(&b, ", pids %ju", l->pids);
    print_field("limits", b.data);
}

static void settings_text(const cay_pair *p)
{
    CAY_AUTOBUF b = CAY__BUF(64u << 10);
    for (; p && p->key; p++)
        cay__buf_fmt(&b, "%s%s=%s", b.len ? " " : "", p->key, p->value);
    print_field("settings", b.data);
}

void show_info_text(const cay_info *i)
{
    print_field("id", i->id);
    print_field("name", i->name);
    out_fmt("%s%-10s%s %s%s%s", out_on(1, OUT_DIM), "state", out_off(1),
            out_on(1, show_state_style(i->state)), cay_state_name(i->state), out_off(1));
    if (i->reason && *i->reason)
        out_safe(" (%s)", i->reason);
    out_str("\n");
    print_field("isolation", show_wall(i));
    print_field("provider", i->provider);
    print_field("network", i->network);
    print_field("template", i->template_);
    settings_text(i->settings);
    print_field("hostname", i->hostname);
    print_field("user", i->user);
    print_field("workdir", i->workdir);
    print_field("path", i->path);
    print_field("created", out_time(i->created_ms).s);
    if (i->deadline_ms)
        print_field("ends", out_time(i->deadline_ms).s);
    if (i->idle_ms)
        print_field("idle", out_span(i->idle_ms).s);
    for (const cay_pair *p = i->labels; p && p->key; p++) {
        CAY_AUTOBUF b = CAY__BUF(4096);
        cay__buf_fmt(&b, "%s=%s", p->key, p->value);
        print_field("label", b.data);
    }
    print_field("metadata", i->metadata);
    limits_text(&i->limits);
    if (i->nwalls)
        out_fmt("%slayers%s\n", out_on(1, OUT_DIM), out_off(1));
    show_walls(i->walls, i->nwalls);
}

static out_style change_style(char kind)
{
    if (kind == 'A')
        return OUT_GOOD;
    if (kind == 'D')
        return OUT_BAD;
    if (kind == 'M')
        return OUT_WARN;
    return OUT_BOLD;
}

void change_print(const cay_file_change *c, const char *prefix)
{
    const char *slash = "";
    if (S_ISDIR(CAY_OR(c->new_mode, c->old_mode)))
        slash = "/";
    out_fmt("%s%c%s ", out_on(1, change_style(c->kind)), c->kind, out_off(1));
    if (c->kind == 'R')
        out_safe("%s%s%s -> ", prefix, c->from, slash);
    out_safe("%s%s%s", prefix, c->path, slash);
    if (c->kind == 'M' && !c->content && c->mode)
        out_fmt("  (mode %04o -> %04o)", c->old_mode & 07777, c->new_mode & 07777);
    else if (c->kind == 'M' && !c->content && c->owner)
        out_str("  (owner)");
    out_str("\n");
}

static const char *change_type(uint32_t mode)
{
    if (S_ISDIR(mode))
        return "dir";
    if (S_ISREG(mode))
        return "file";
    if (S_ISLNK(mode))
        return "symlink";
    return "other";
}

void change_json(out_json *j, const cay_file_change *c, bool patch, const char *result)
{
    cay__file_changed x;
    cay__file_changed_set(&x, c);
    x.sides[0].type = change_type(c->old_mode);
    x.sides[1].type = change_type(c->new_mode);
    if (!patch)
        x.text = NULL;
    js_open(j, '{');
    show_members(j, &cay__change_shape, &x);
    js_put(j, "+result:%s", result);
    js_close(j, '}');
}
