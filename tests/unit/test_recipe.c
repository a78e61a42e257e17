/* SPDX-License-Identifier: Apache-2.0 */
/* Dockerfiles and template files become the steps that they say, and what cannot be read is told
 * with its place. */
#include <base/base.h>
#include <lib/template/recipe.h>
#include <base/sha256.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static cay__recipe r;
static cay_err err;

static int forget(void **state)
{
    (void)state;
    cay__recipe_clear(&r);
    return 0;
}

static void docker(const char *text)
{
    err = (cay_err)CAY_ERR_INIT;
    cay__recipe_clear(&r);
    if (cay__dockerfile_read(&r, "Dockerfile", text, strlen(text), &err) < 0)
        fail_msg("%s", err.msg);
}

static void refused(const char *text, const char *reason, const char *say)
{
    err = (cay_err)CAY_ERR_INIT;
    cay__recipe_clear(&r);
    assert_int_equal(cay__dockerfile_read(&r, "Dockerfile", text, strlen(text), &err), CAY_EINVAL);
    assert_string_equal(err.reason, reason);
    if (!strstr(err.msg, say))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, say);
    assert_null(r.stages);
}

/* All of a step in one line. */
static void step(size_t i, const char *want)
{
    char got[2000];
    assert_true(i < r.nsteps);
    const cay__step *s = &r.steps[i];
    int n =
        snprintf(got, sizeof got, "%u %s%s", s->line, cay__step_name(s->kind), s->exec ? "!" : "");
    for (size_t k = 0; k < s->nwords; k++)
        n += snprintf(got + n, sizeof got - (size_t)n, "|%s", s->words[k]);
    assert_null(s->words[s->nwords]);
    assert_string_equal(got, want);
}

static void instructions_become_steps(void **state)
{
    (void)state;
    docker("# syntax=docker/dockerfile:1\n"
           "ARG BASE=debian:12\n"
           "FROM --platform=linux/amd64 $BASE AS Build\n"
           "run apt-get update && \\\n"
           "    # a comment between\n"
           "\n"
           "    apt-get install -y gcc\n"
           "RUN [\"/bin/echo\", \"a b\"]\n"
           "COPY --chown=1:2 --chmod=755 a* \"b c\" /x/\n"
           "ADD https://example.com/f /f\n"
           "ENV A=1 B=\"two words\" C=a\\ b\n"
           "ENV OLD the rest  of it\n"
           "ARG V=1 W\n"
           "WORKDIR /a b\n"
           "USER nobody\n"
           "EXPOSE 80 443/tcp\n"
           "LABEL \"x.y\"=z\n"
           "SHELL [\"/bin/bash\", \"-c\"]\n"
           "CMD serve --all\n"
           "ENTRYPOINT []\n"
           "FROM scratch\n"
           "COPY --from=build /x /\n");
    assert_int_equal(r.nstages, 2);
    assert_string_equal(r.stages[0].from, "$BASE");
    assert_string_equal(r.stages[0].name, "build");
    assert_string_equal(r.stages[0].platform, "linux/amd64");
    assert_int_equal(r.nglobals, 1);
    assert_string_equal(r.globals[0].words[1], "=debian:12");
    step(0, "4 RUN|apt-get update &&     apt-get install -y gcc");
    step(1, "8 RUN!|/bin/echo|a b");
    step(2, "9 COPY|a*|\"b c\"|/x/");
    assert_string_equal(r.steps[2].chown, "1:2");
    assert_string_equal(r.steps[2].chmod, "755");
    step(3, "10 ADD|https://example.com/f|/f");
    step(4, "11 ENV|A|1|B|\"two words\"|C|a\\ b");
    step(5, "12 ENV|OLD|the rest  of it");
    step(6, "13 ARG|V|=1|W|");
    step(7, "14 WORKDIR|/a b");
    step(8, "15 USER|nobody");
    step(9, "16 EXPOSE|80|443/tcp");
    step(10, "17 LABEL|\"x.y\"|z");
    step(11, "18 SHELL!|/bin/bash|-c");
    step(12, "19 CMD|serve --all");
    step(13, "20 ENTRYPOINT!");
    assert_int_equal(r.stages[1].first, 14);
    assert_int_equal(r.stages[1].n, 1);
    assert_string_equal(r.steps[14].from, "build");
}

static void here_documents_are_read(void **state)
{
    (void)state;
    docker("FROM host\n"
           "RUN <<EOF\necho one\n# no comment\necho two \\\nEOF\n"
           "RUN cat <<-'A' && cat <<B\n\tx\n\tA\ny\nB\n"
           "COPY --chmod=600 <<one.txt <<two.txt /d/\n1\none.txt\n2\ntwo.txt\n"
           "RUN echo $((1 << 2)) \"<<EOF\"\n");
    step(0, "2 RUN|echo one\n# no comment\necho two \\\n");
    step(1, "7 RUN|cat <<-'A' && cat <<B\nx\nA\ny\nB\n");
    assert_int_equal(r.steps[2].kind, CAY__STEP_FILE);
    assert_string_equal(r.steps[2].name, "one.txt");
    assert_string_equal(r.steps[2].data, "1\n");
    assert_string_equal(r.steps[2].chmod, "600");
    assert_string_equal(r.steps[3].data, "2\n");
    step(4, "17 RUN|echo $((1 << 2)) \"<<EOF\"");
    docker("FROM host\nRUN <<EOF\n#!/usr/bin/python3\nEND = 1\nEOF\n");
    step(0, "2 RUN|f=$(mktemp) && cat >\"$f\" <<'END0'\n#!/usr/bin/python3\nEND = 1\nEND0\nchmod "
            "700 \"$f\" && \"$f\"; r=$?; rm -f \"$f\"; exit $r\n");
    refused("FROM host\nRUN <<EOF\necho\n", "dockerfile_invalid",
            "Dockerfile:2: RUN: the here-document <<EOF is not ended");
    refused("FROM host\nCOPY <<a b /d/\nx\na\n", "dockerfile_invalid", "cannot be copied by one");
    refused("FROM host\nCOPY <<a <<b /d\nx\na\ny\nb\n", "dockerfile_invalid", "ends in '/'");
}

static void another_escape_may_be_chosen(void **state)
{
    (void)state;
    docker("# escape=`\nFROM host\nRUN dir `\n c:\\\nWORKDIR c:\\x\n");
    step(0, "3 RUN|dir  c:\\");
    step(1, "5 WORKDIR|c:\\x");
    docker("\xef\xbb\xbf# just a comment\n# escape=`\nFROM host\r\nRUN a \\\r\n b\r\n");
    step(0, "4 RUN|a  b");
    refused("# escape=x\nFROM host\n", "dockerfile_invalid", "escape is");
}

static void the_rest_is_refused_with_its_line(void **state)
{
    (void)state;
    refused("", "dockerfile_invalid", "no FROM");
    refused("# only this\n", "dockerfile_invalid", "no FROM");
    refused("RUN x\nFROM host\n", "dockerfile_invalid", "Dockerfile:1: RUN: before the first FROM");
    refused("FROM host\n\nHEALTHCHECK NONE\n", "dockerfile_unsupported",
            "Dockerfile:3: HEALTHCHECK: ");
    assert_string_equal(err.detail, "{\"line\":3,\"instruction\":\"HEALTHCHECK\"}");
    refused("FROM host\nVOLUME /x\n", "dockerfile_unsupported", "--volume");
    refused("FROM host\nONBUILD RUN x\n", "dockerfile_unsupported", "ONBUILD");
    refused("FROM host\nFROBNICATE x\n", "dockerfile_unsupported",
            "Dockerfile:2: FROBNICATE: no such instruction");
    refused("FROM host\nAVERYLONGINSTRUCTIONNAME x\n", "dockerfile_unsupported", "Dockerfile:2");
    refused("FROM host\nRUN --security=insecure x\n", "dockerfile_unsupported",
            "the option --security is not understood");
    refused("FROM host\nRUN --network=host x\n", "dockerfile_unsupported", "--net of the build");
    refused("FROM host\nCOPY --parents a b\n", "dockerfile_unsupported", "--parents");
    refused("FROM host\nCOPY a\n", "dockerfile_invalid", "a source and a target");
    refused("FROM host\nCOPY \"a b\n", "dockerfile_invalid", "a quote is not closed");
    refused("FROM a b\n", "dockerfile_invalid", "FROM IMAGE AS NAME");
    refused("FROM a AS 1x\n", "dockerfile_invalid", "begins with a letter");
    refused("FROM a AS x\nFROM b AS X\n", "dockerfile_invalid",
            "there is a stage x already, in line 1");
    refused("FROM host\nENV A\n", "dockerfile_invalid", "A has no value");
    refused("FROM host\nENV 1A=2\n", "dockerfile_invalid", "no name of a variable");
    refused("FROM host\nENV A=1 B\n", "dockerfile_invalid", "B is not NAME=VALUE");
    refused("FROM host\nARG a-b\n", "dockerfile_invalid", "no name of a variable");
    refused("FROM host\nSHELL /bin/sh\n", "dockerfile_invalid", "SHELL [");
    refused("FROM host\nRUN\n", "dockerfile_invalid", "no command");
    refused("FROM host\nRUN []\n", "dockerfile_invalid", "no command");
    char nul[] = "FROM host\nRUN a\0b\n";
    assert_int_equal(cay__dockerfile_read(&r, "Dockerfile", nul, sizeof nul - 1, &err), CAY_EINVAL);
    assert_non_null(strstr(err.msg, "Dockerfile:2: there is a NUL byte"));
    CAY_AUTOFREE char *many = cay__alloc(20000);
    size_t n = (size_t)snprintf(many, 20000, "FROM host\n");
    for (int i = 0; i < 1001; i++)
        n += (size_t)snprintf(many + n, 20000 - n, "USER a\n");
    refused(many, "dockerfile_invalid", "more than 1000 steps");
}

/* All of a mount in one line. */
static void mount(size_t i, const char *want)
{
    char got[600];
    const cay__run_mount *m = &r.steps[0].mounts[i];
    const char *v[] = { m->target, m->source, m->from, m->id, m->sharing, m->mode,    m->uid,
                        m->gid,    m->env,    m->size, m->ro, m->rw,      m->required };
    int n = snprintf(got, sizeof got, "%c", m->type);
    for (size_t k = 0; k < CAY_LEN(v); k++)
        n += snprintf(got + n, sizeof got - (size_t)n, "|%s", v[k] ? v[k] : "");
    assert_string_equal(got, want);
}

static void mounts_of_a_command_are_read(void **state)
{
    (void)state;
    docker("FROM host\n"
           "RUN --mount=type=cache,target=/root/.npm,id=npm,sharing=locked,mode=0700,uid=1,gid=2 "
           "--network=none \\\n"
           "    --mount=source=\"a,b c\",dst=$D/x,from=one,rw "
           "--mount=type=secret,id=s,required=false,env=TOKEN \\\n"
           "    --mount=TYPE=tmpfs,Destination=/t,size=1g --mount=type=bind,target=.,readonly make "
           "all\n");
    step(0, "2 RUN|make all");
    assert_true(r.steps[0].offline);
    assert_int_equal(r.steps[0].nmounts, 5);
    mount(0, "c|/root/.npm|||npm|locked|0700|1|2|||||");
    mount(1, "b|$D/x|\"a,b c\"|one||||||||||");
    assert_non_null(r.steps[0].mounts[1].rw);
    assert_null(r.steps[0].mounts[1].ro);
    mount(2, "s||||s||||"
             "|TOKEN||||false");
    mount(3, "t|/t|||||||||1g|||");
    assert_non_null(r.steps[0].mounts[4].ro);
    docker("FROM host\nRUN --mount=type=cache,target=/c <<EOF\nx\nEOF\nRUN "
           "--mount=type=cache,target=/c [\"/bin/x\", \"y\"]\n");
    step(0, "2 RUN|x\n");
    step(1, "5 RUN!|/bin/x|y");
    refused("FROM host\nRUN --mount=type=ssh x\n", "dockerfile_unsupported",
            "Dockerfile:2: RUN: --mount: a type is bind, cache, secret or tmpfs, and not ssh");
    refused("FROM host\nRUN --mount=type=cache x\n", "dockerfile_unsupported", "it needs a target");
    refused("FROM host\nRUN --mount x\n", "dockerfile_unsupported", "it needs a target");
    refused("FROM host\nRUN --mount=type=secret x\n", "dockerfile_unsupported",
            "a secret needs an id");
    refused("FROM host\nRUN --mount=type=cache,target=/c,env=X x\n", "dockerfile_unsupported",
            "type=cache does not know env");
    refused("FROM host\nRUN --mount=type=cache,target=/c,from=x x\n", "dockerfile_unsupported",
            "a cache begins empty");
    refused("FROM host\nRUN --mount=type=tmpfs,target= x\n", "dockerfile_unsupported",
            "there is no value behind target");
    refused("FROM host\nRUN --mount=type=bind,target=/c\n", "dockerfile_invalid", "no command");
    CAY_AUTOFREE char *many = cay__alloc(4000);
    size_t n = (size_t)snprintf(many, 4000, "FROM host\nRUN");
    for (int i = 0; i < 33; i++)
        n += (size_t)snprintf(many + n, 4000 - n, " --mount=type=tmpfs,target=/%d", i);
    snprintf(many + n, 4000 - n, " x\n");
    refused(many, "dockerfile_invalid", "more than 32 times");
    bool yes;
    assert_true(cay__recipe_flag("", &yes) && yes && cay__recipe_flag("TRUE", &yes) && yes &&
                cay__recipe_flag("0", &yes) && !yes && !cay__recipe_flag("no", &yes));
}

static const char *get(const char *name, void *arg)
{
    (void)arg;
    return !strcmp(name, "A") ? "alpha" : !strcmp(name, "E") ? "" : NULL;
}

static void grows(const char *word, const char *want)
{
    CAY_AUTOFREE char *got = NULL;
    err = (cay_err)CAY_ERR_INIT;
    if (cay__recipe_expand(word, '\\', get, NULL, &got, &err) < 0)
        fail_msg("%s: %s", word, err.msg);
    assert_string_equal(got, want);
}

static void breaks(const char *word, const char *say)
{
    char *got = NULL;
    err = (cay_err)CAY_ERR_INIT;
    assert_int_equal(cay__recipe_expand(word, '\\', get, NULL, &got, &err), CAY_EINVAL);
    assert_non_null(strstr(err.msg, say));
    assert_null(got);
}

static void words_expand_as_docker_does_it(void **state)
{
    (void)state;
    grows("plain", "plain");
    grows("$A-${A}x${N}", "alpha-alphax");
    grows("'$A' \"$A\" \\$A", "$A alpha $A");
    grows("\"a\\\"b\\n\\\\\"", "a\"b\\n\\");
    grows("${N:-x}${E:-y}${E-z}${N-w}", "xyw");
    grows("${A:+set}${E:+no}${E+yes}${N+no}", "setyes");
    grows("${N:-${A}/$A'q'}", "alpha/alphaq");
    grows("\"${N:-\"in\"}\"", "in");
    grows("${A:?x}", "alpha");
    grows("$ 5$", "$ 5$");
    grows("a\\ b", "a b");
    breaks("${N:?give N}", "N is not set: give N");
    breaks("${N?}", "it is required");
    breaks("${A", "operators");
    breaks("${A:-x", "no closing brace");
    breaks("${}", "no name");
    breaks("${A#x}", "operators");
    breaks("'x", "single quote");
    breaks("\"x", "double quote");
    breaks("${N:-${N:-${N:-${N:-${N:-${N:-${N:-${N:-${N:-${N:-${N:-${N:-${N:-${N:-${N:-${N:-${N:-x}"
           "}}}}}}}}}}}}}}}}",
           "deep");
}

static void ports_and_modes_are_read(void **state)
{
    (void)state;
    unsigned a, b;
    bool udp;
    assert_true(cay__recipe_port("80", &a, &b, &udp) && a == 80 && b == 80 && !udp);
    assert_true(cay__recipe_port("8000-8010/UDP", &a, &b, &udp) && a == 8000 && b == 8010 && udp);
    assert_false(cay__recipe_port("0", &a, &b, &udp) || cay__recipe_port("65536", &a, &b, &udp) ||
                 cay__recipe_port("9-8", &a, &b, &udp) || cay__recipe_port("", &a, &b, &udp) ||
                 cay__recipe_port("80/sctp", &a, &b, &udp) || cay__recipe_port("-1", &a, &b, &udp));
    assert_true(cay__recipe_mode("0755", &a) && a == 0755);
    assert_false(cay__recipe_mode("8", &a) || cay__recipe_mode("a=r", &a) ||
                 cay__recipe_mode("17777", &a) || cay__recipe_mode("", &a));
}

static void file(const char *text)
{
    err = (cay_err)CAY_ERR_INIT;
    cay__recipe_clear(&r);
    if (cay__recipe_read(&r, "t.json", text, strlen(text), &err) < 0)
        fail_msg("%s", err.msg);
}

static void file_refused(const char *text, const char *say)
{
    err = (cay_err)CAY_ERR_INIT;
    cay__recipe_clear(&r);
    assert_int_equal(cay__recipe_read(&r, "t.json", text, strlen(text), &err), CAY_EINVAL);
    assert_string_equal(err.reason, "template_file_invalid");
    if (!strstr(err.msg, say))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, say);
    assert_null(r.stages);
}

static void template_files_become_the_same_steps(void **state)
{
    (void)state;
    file("{\"user\":\"user\",\"run\":[\"make\",[\"/bin/"
         "true\",\"x\"],{\"command\":\"id\",\"user\":\"bob\",\"cwd\":\"/b\",\"offline\":true}],"
         "\"from\":\"debian:12\",\"env\":{\"A\":\"$A:1\"},\"workdir\":\"/"
         "w\",\"packages\":{\"npm\":[\"n@1\"],\"apt\":[\"git\",\"curl\"]},"
         "\"files\":{\"/etc/a\":\"text\",\"/"
         "b\":{\"base64\":\"AAE=\",\"mode\":\"0600\",\"owner\":\"bob\"},\"/c/\":{\"src\":\"dir\"}},"
         "\"steps\":[{\"copy\":{\"src\":[\"x\",\"y\"],\"dest\":\"/z/\",\"archive\":"
         "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"}},{\"env\":{\"B\":"
         "\"2\"}},{\"user\":\"bob\"},"
         "{\"file\":{\"path\":\"/"
         "f\",\"content\":\"\"}},{\"run\":\"last\"}],\"name\":\"n\",\"aliases\":[\"o\"],\"net\":["
         "\"pypi\"],"
         "\"services\":[{\"name\":\"s\"}],\"limits\":{\"memory\":\"1G\"},\"ports\":[8080,\"53/"
         "udp\"],\"start\":\"s\",\"ready\":\"r\",\"sudo\":true,"
         "\"labels\":{\"l\":\"v\"},\"cmd\":[\"a\"],\"version\":1}");
    assert_string_equal(r.stages[0].from, "debian:12");
    step(0, "0 ENV|A|$A:1");
    step(1, "1 WORKDIR|/w");
    assert_string_equal(r.steps[2].text, "RUN apt git curl");
    assert_string_equal(r.steps[2].words[4], "git");
    assert_string_equal(r.steps[3].words[4], "n@1");
    step(4, "4 COPY|/etc/a");
    assert_int_equal(r.steps[5].len, 2);
    assert_memory_equal(r.steps[5].data, "\0\1", 2);
    assert_string_equal(r.steps[5].chown, "bob");
    step(6, "6 COPY|dir|/c/");
    step(7, "7 RUN|make");
    step(8, "8 RUN!|/bin/true|x");
    step(9, "9 RUN|id");
    assert_string_equal(r.steps[9].user, "bob");
    assert_true(r.steps[9].offline);
    step(10, "10 COPY|x|y|/z/");
    assert_non_null(r.steps[10].archive);
    step(13, "13 COPY|/f");
    assert_int_equal(r.steps[13].len, 0);
    step(14, "14 RUN|last");
    assert_string_equal(r.user, "user");
    assert_string_equal(r.services, "[{\"name\":\"s\"}]");
    assert_string_equal(r.net, "[\"pypi\"]");
    assert_int_equal(r.sudo, 1);
    assert_int_equal(r.stages[0].n, r.nsteps);
}

static void wrong_template_files_name_the_field(void **state)
{
    (void)state;
    file_refused("", "not sound JSON");
    file_refused("[]", "not a JSON object");
    file_refused("{}", "from: it is missing");
    file_refused("{\"from\":\"host\",\"frm\":1}", "frm: no such field");
    file_refused("{\"from\":3}", "from: it is a text");
    file_refused("{\"from\":\"host\",\"run\":\"x\"}", "run: it is a list");
    file_refused("{\"from\":\"host\",\"run\":[\"x\",[]]}", "run[1]: there is no command");
    file_refused("{\"from\":\"host\",\"run\":[{\"command\":\"x\",\"usr\":\"y\"}]}", "run[0]: usr");
    file_refused("{\"from\":\"host\",\"env\":{\"1\":\"x\"}}", "env.1: that is no name");
    file_refused("{\"from\":\"host\",\"env\":{\"A\":1}}", "env.A: it is a text");
    file_refused("{\"from\":\"host\",\"packages\":[\"-x\"]}", "-x is no name of a package");
    file_refused("{\"from\":\"host\",\"packages\":{\"gem\":[]}}",
                 "packages.gem: packages come by apt, pip and npm");
    file_refused("{\"from\":\"host\",\"files\":{\"a\":\"x\"}}",
                 "files.a: the path of a file begins with /");
    file_refused("{\"from\":\"host\",\"files\":{\"/a\":{\"mode\":\"0644\"}}}", "neither content");
    file_refused("{\"from\":\"host\",\"files\":{\"/a\":{\"content\":\"\",\"mode\":\"rw\"}}}",
                 "mode rw");
    file_refused("{\"from\":\"host\",\"files\":{\"/a\":{\"base64\":\"*\"}}}", "base64");
    file_refused("{\"from\":\"host\",\"steps\":[{\"a\":1}]}", "steps[0].a: no such step");
    file_refused("{\"from\":\"host\",\"steps\":[{\"run\":\"a\",\"env\":{}}]}",
                 "steps[0]: a step is an object with one member");
    file_refused("{\"from\":\"host\",\"steps\":[{\"copy\":{\"src\":\"a\"}}]}",
                 "needs src and dest");
    file_refused("{\"from\":\"host\",\"steps\":[{\"copy\":{\"src\":\"a\",\"dest\":\"b\","
                 "\"archive\":\"x\"}}]}",
                 "64 hexadecimal");
    file_refused(
        "{\"from\":\"host\",\"steps\":[{\"add\":{\"src\":\"a\",\"dest\":\"b\",\"from\":\"x\"}}]}",
        "from: it has src, dest");
    file_refused("{\"from\":\"host\",\"ports\":[0]}", "0 is no port");
    file_refused("{\"from\":\"host\",\"version\":2}", "version: it is 1");
    file_refused("{\"from\":\"host\",\"sudo\":1}", "sudo: it is true or false");
    file_refused("{\"from\":\"a\\u0000b\"}", "from: it is a text");
}

static void a_sum_in_pieces_is_that_of_the_whole(void **state)
{
    (void)state;
    CAY_AUTOFREE char *data = cay__alloc(20000);
    char want[CAY__SHA256_HEX], got[CAY__SHA256_HEX];
    static const size_t sizes[] = { 0, 1, 55, 56, 63, 64, 65, 127, 128, 4095, 4096, 9000, 20000 },
                        cuts[] = { 1, 7, 63, 64, 65, 4096, 20000 };
    for (size_t i = 0; i < 20000; i++)
        data[i] = (char)(i * 7 + i / 251);
    for (size_t i = 0; i < CAY_LEN(sizes); i++)
        for (size_t k = 0; k < CAY_LEN(cuts); k++) {
            cay__sha256 s;
            cay__sha256_begin(&s);
            for (size_t at = 0; at < sizes[i]; at += cuts[k])
                cay__sha256_add(&s, data + at, CAY_MIN(cuts[k], sizes[i] - at));
            cay__sha256_end(&s, got);
            cay__sha256_hex(data, sizes[i], want);
            assert_string_equal(got, want);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(instructions_become_steps, forget),
        cmocka_unit_test_teardown(here_documents_are_read, forget),
        cmocka_unit_test_teardown(another_escape_may_be_chosen, forget),
        cmocka_unit_test_teardown(the_rest_is_refused_with_its_line, forget),
        cmocka_unit_test_teardown(mounts_of_a_command_are_read, forget),
        cmocka_unit_test(words_expand_as_docker_does_it),
        cmocka_unit_test(ports_and_modes_are_read),
        cmocka_unit_test(a_sum_in_pieces_is_that_of_the_whole),
        cmocka_unit_test_teardown(template_files_become_the_same_steps, forget),
        cmocka_unit_test_teardown(wrong_template_files_name_the_field, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
