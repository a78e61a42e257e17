#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_template_build.sh CAY DRIVE: templates made by Dockerfiles and template files, as whoever runs this. FAULTS=1: also killed at each fault point.
set -u
cay=$(realpath "$1")
drive=$(realpath "$2")
. "$(dirname "$0")/lib.sh"
c() { timeout -k 1 60 "$cay" "$@" </dev/null 2>"$tmp/err"; }
b() { c template build "$@" >/dev/null; }
fails() { ! c "$@" >/dev/null; }
inside() { c run --user root --template "$@"; }
count() { grep -c "$1" "$tmp/err"; }
mode=$(c doctor --json 2>/dev/null | sed -n 's/.*"mode": *"\([a-z]*\)".*/\1/p' | head -n 1)

# ---- one of everything
mkdir -p "$tmp/a/sub/deep" "$tmp/a/skip"
cd "$tmp/a" || exit 1
echo one >sub/deep/f
echo two >"sub/with blank"
ln -s sub/deep/f link
chmod 750 sub/deep
echo no >skip/n
echo yes >skip/keep
echo obj >x.o
printf 'skip\n!skip/keep\n**/*.o\n' >.dockerignore
tar --owner=0 --group=0 --numeric-owner -cf in.tar sub
cat >Dockerfile <<'END'
# syntax=docker/dockerfile:1
ARG GREET=hello
FROM host AS one
ARG GREET
WORKDIR /opt/app
COPY . .
RUN echo "$GREET from $(pwd)" >said \
    # a comment
    && test "$(id -u)" = 0
ENV APP=/opt/app PATH=/opt/app/bin:$PATH

FROM host
COPY --from=one /opt/app /srv
COPY --from=0 /opt/app/sa?d /etc/names/
ADD in.tar /unpacked
COPY ["sub/with blank", "link", "/two/"]
COPY --chmod=0700 <<one.sh <<two.txt /docs/
#!/bin/sh
echo doc
one.sh
2
two.txt
RUN <<EOT
cd /docs
./one.sh >out
EOT
RUN <<EOT
#!/usr/bin/env perl
open(my $f, '>', '/docs/perl'); print $f "$]"; exit(0);
EOT
SHELL ["/bin/bash", "-c"]
RUN [[ a == a ]] && (sleep 1000 & ) ; echo $'\t'tab
LABEL who=me
EXPOSE 8080 9000-9001/udp
ENV A=1
ENV B="$A b" C='$A'
CMD echo $A
ENTRYPOINT ["/bin/sh"]
END
ok "a Dockerfile is built" b -t one .
ok 'the output of a step is shown' says '\x09tab'
ok 'COPY copies files, links and modes, without the ignored ones' same "$(inside one -- sh -c 'cd /srv && cat sub/deep/f "sub/with blank" skip/* said; stat -c %a sub/deep; readlink link; ls x.o skip/n 2>/dev/null')" "one
two
yes
hello from /opt/app
750
sub/deep/f"
ok 'COPY --from matches a pattern in another stage' same "$(inside one -- cat /etc/names/said)" "hello from /opt/app"
ok 'ADD unpacks a tar' same "$(inside one -- cat /unpacked/sub/deep/f)" one
ok 'COPY follows links that are named' same "$(inside one -- sh -c 'cat /two/link; cat "/two/with blank"; test ! -L /two/link')" "one
two"
ok 'here-documents are copied and run' same "$(inside one -- sh -c 'test -s /docs/perl && cat /docs/out /docs/two.txt; stat -c %a /docs/two.txt; ls /tmp')" "doc
2
700"
ok 'ENV sets the environment' same "$(inside one -- sh -c 'echo "$A:$B:$C"')" '1:1 b:$A'
config=$(c template inspect one | tr -d ' \n')
for part in '"entrypoint":["/bin/sh"]' '"cmd":["/bin/bash","-c","echo$A"]' '"labels":{"who":"me"}' '"ports":["8080/tcp","9000/udp","9001/udp"]'; do
    case $config in *"$part"*) ok "the template tells $part" true ;; *) ok "the template tells $part: $config" false ;; esac
done
ok 'a build leaves no sandbox' same "$(c ls -q)" ""

# ---- the cache
ok 'a second build succeeds' b -t one .
ok 'every step of a second build is cached' same "$(count 'cached: ')" "$(count '^\[')"
ok 'a second build gives the same template' same "$(c --json template ls | grep -c '"id"')" 1
echo three >sub/deep/f
ok 'a build with a changed file succeeds' b -t one .
ok 'a changed file is copied again' same "$(inside one -- cat /srv/sub/deep/f)" three
ok "the former template is gone" same "$(c --json template ls | grep -c '"id"')" 1
ok 'a build with another argument succeeds' b -t one --build-arg GREET=hi .
ok 'a COPY before the argument is cached' says "[1/11] cached: COPY . ."
ok 'the step that uses the argument runs again' says "[2/11] RUN"
ok 'the step sees the new argument' same "$(inside one -- cat /srv/said)" "hi from /opt/app"
ok 'a build with an argument that no ARG has succeeds' b -t one --build-arg GREET=hi --build-arg NOBODY=1 .
ok 'an argument that no ARG has is named' says "NOBODY is asked for by no ARG"
touch sub/deep/f
ok 'a build with another time of a file succeeds' b -t one --build-arg GREET=hi .
ok 'another time of a file changes no step' same "$(count 'cached: ')" "$(count '^\[')"
ok 'a build with --no-cache succeeds' b --no-cache -t one --build-arg GREET=hi .
ok '--no-cache uses no cached step' same "$(count 'cached: ')" 0
ok 'a build with --target succeeds' b -t stage1 --target one .
ok '--target builds that stage only' same "$(inside stage1 -- sh -c 'pwd; ls -d /srv/sub 2>/dev/null')" /opt/app
ok 'template log keeps the log' same "$(c template log stage1 | grep -c 'COPY \. \.')" 1
ok 'template builds lists all builds' same "$(c template builds | grep -c ' ready ')" 8
ok 'template prune removes cached steps' test "$(c template prune)" -gt 5
ok 'templates work after template prune' same "$(inside one -- cat /srv/said)" "hi from /opt/app"

# ---- a template file
mkdir -p "$tmp/j/dir"
cd "$tmp/j" || exit 1
echo src >dir/src
cat >template.json <<'END'
{"name": "two", "aliases": ["zwei:2"], "from": "one", "env": {"PATH": "/x:$PATH", "N": "1"}, "workdir": "/w",
 "files": {"/etc/conf": "a = 1\n", "/bin2/tool": {"content": "#!/bin/sh\necho tool $N\n", "mode": "0755"}, "/data/": {"src": "dir"}},
 "run": ["echo $N >n; /bin2/tool >>n", ["/bin/sh", "-c", "id -u >id"]],
 "steps": [{"env": {"N": "2"}}, {"run": {"command": "echo $N >m", "cwd": "/"}}],
 "ports": [80], "limits": {"memory": "512m"}, "ready": "test -f /m"}
END
ok "a template file is built" b .
ok 'a template file gives both names' same "$(inside two -- cat /w/n)$(inside zwei:2 -- cat /m /data/src /w/id)" "1
tool 12
src
0"
ok 'a template file sets the environment' same "$(inside two -- sh -c 'echo $PATH:$N' | sed 's/:.*:/:/')" "/x:2"
ok 'a template file sets limits and waits for ready' same "$(c template inspect two | grep -c '"memory":536870912.*"name":"start","command":"until ( test -f /m')" 1

# ---- who runs a step
if [ "$mode" != single ]; then
    printf 'FROM host\nRUN mkdir /own && chown 1000:1000 /own\nUSER user\nRUN id -un >/own/who\nUSER 1000\nRUN id -u >>/own/who\nCOPY --chown=user:1000 Dockerfile /own/d\n' >"$tmp/u"
    ok 'a Dockerfile with users is built' b -t users -f "$tmp/u" "$tmp/a"
    ok 'steps run as their users' same "$(inside users -- sh -c 'cat /own/who; stat -c %u:%g /own/d')" "user
1000
1000:1000"
    ok 'a sandbox runs as the last user' same "$(c run --template users -- id -u)" 1000
fi

# ---- from nothing: a program that needs nothing, which the machine has
busybox=$(command -v busybox || :)
if [ "$mode" != single ] && [ -n "$busybox" ]; then
    mkdir "$tmp/s" && cp "$busybox" "$tmp/s/busybox"
    printf 'FROM scratch AS one\nCOPY busybox /bin/sh\nCOPY busybox /bin/cat\nRUN ["/bin/sh", "-c", "echo bare >/said"]\nFROM scratch\nCOPY --from=one /said /bin/cat /x/\n' >"$tmp/s/Dockerfile"
    ok 'a Dockerfile from scratch is built' b -t bare "$tmp/s"
    ok 'an image from scratch runs its program' same "$(inside bare -- /x/cat /x/said)" bare
    ok 'an image from scratch has nothing of the host' fails run --template bare -- /bin/sh
fi

# ---- Debian's packages: mmdebstrap is asked for a tar, by one that is none
mkdir "$tmp/bin" "$tmp/deb" "$tmp/deb/etc" "$tmp/deb/bin"
cat >"$tmp/bin/mmdebstrap" <<END
#!/bin/sh
printf '%s\n' "\$@" >"$tmp/asked"
[ ! -e "$tmp/deb/fails" ] || { echo 'no such suite' >&2; exit 25; }
exec tar -c --owner=0 --group=0 -C "$tmp/deb" .
END
chmod 755 "$tmp/bin/mmdebstrap"
echo deb >"$tmp/deb/etc/mark"
d() { PATH=$tmp/bin:$PATH c template import --debian "$@"; }
if [ "$mode" != single ] && [ -n "$busybox" ]; then
    cp "$busybox" "$tmp/deb/bin/sh" && cp "$busybox" "$tmp/deb/bin/cat"
    ok "Debian's packages become a template" d bookworm --packages git,python3 --packages tree deb:1 >/dev/null
    ok 'a template of Debian has its files' same "$(c run --template deb:1 -- cat /etc/mark)" deb
    ok 'template inspect tells the release of Debian' same "$(c template inspect deb:1 | grep -c '"source": "tar:debian bookworm"')" 1
else
    d bookworm --packages git,python3 --packages tree deb:1 >/dev/null
fi
ok 'mmdebstrap is asked for the packages, in a user namespace' same "$(tr '\n' ' ' <"$tmp/asked")" \
    '--mode=unshare --variant=minbase --format=tar --include=ca-certificates,git,python3,tree --aptopt=Acquire::Languages "none" bookworm - '
d bookworm --mirror http://mirror.test/debian deb:1 >/dev/null
ok 'mmdebstrap is asked for the mirror' same "$(tail -n 1 "$tmp/asked")" http://mirror.test/debian
: >"$tmp/deb/fails"
ok 'an mmdebstrap that fails is refused' not d nosuch deb:2
ok 'the status of mmdebstrap is named' says "mmdebstrap ended with 25"
ok 'the message of mmdebstrap is shown' says "no such suite"
ok 'a release that is an option is refused' not d -- '--setup-hook=x' deb:2
ok 'a package that is an option is refused' not d bookworm --packages=--x deb:2
ok 'a bad package is named' says "--x is no package"
ok 'a bad mirror is refused' not d bookworm --mirror 'x y' deb:2
ok 'an import without mmdebstrap is refused' not env PATH=/none "$cay" template import --debian bookworm deb:2 2>"$tmp/err"
ok 'the refusal names the package mmdebstrap' says "apt-get install mmdebstrap"

# ---- settings: what the creator of each sandbox chooses
mkdir "$tmp/set"
cat >"$tmp/set/template.json" <<'END'
{"name": "agent", "from": "host", "run": ["test ! -e /home/user/.agent/conf"],
 "settings": {"permissions": {"default": "ask", "choices": {"ask": {"policy": "on-request"}, "bypass": {"policy": "never"}}}, "model": {"texts": {"line": "model = ${value}\n"}}},
 "setting_files": {"/home/user/.agent/conf": {"content": "policy = ${permissions.policy}\n${model.line}"}, "/home/user/.agent/id": {"content": "${random}", "mode": "0644"}},
 "services": {"seen": {"command": "cat /home/user/.agent/conf", "restart": "no"}}}
END
conf() { c exec "$1" -- sh -c 'cat ~/.agent/conf; stat -c %U:%a ~/.agent/conf'; }
told() { c --json inspect "$1" | tr -d ' \n' | sed -n 's/.*"settings":\({[^}]*}\).*/\1/p'; }
ok "a template with settings is built" b "$tmp/set"
ask=$(c create --template agent)
ok "nothing is bypassed unless it is asked for" same "$(conf "$ask")" "policy = on-request
user:600"
ok 'inspect tells the default settings' same "$(told "$ask")" '{"permissions":"ask","model":""}'
bypass=$(c create --template agent --set permissions=bypass --set model=m-1)
ok '--set gives a sandbox its settings' same "$(conf "$bypass")" "policy = never
model = m-1
user:600"
ok 'inspect tells the settings of --set' same "$(told "$bypass")" '{"permissions":"bypass","model":"m-1"}'
c services wait "$bypass" >/dev/null
ok "services begin when the files are there" same "$(c logs "$bypass" --service seen | head -n 1)" "policy = never"
ok 'each sandbox has a random number of its own' not same "$(c exec "$ask" -- cat /home/user/.agent/id)" "$(c exec "$bypass" -- cat /home/user/.agent/id)" >/dev/null
c snapshot "$bypass" --label made >/dev/null
c exec "$bypass" -- sh -c 'echo mine >>~/.agent/conf'
fork=$(c fork "$bypass")
ok 'a fork has the changed files' same "$(conf "$fork" | sed -n 3p)" mine
ok 'a fork has the settings of its parent' same "$(told "$fork")" '{"permissions":"bypass","model":"m-1"}'
c undo --to made "$bypass" >/dev/null
ok 'undo brings setting files back' same "$(conf "$bypass" | tail -n +3)" "user:600"
c snapshot "$bypass" --label was-bypass >/dev/null
back=$(c create --from was-bypass --set permissions=ask)
ok 'create --from --set changes a setting' same "$(conf "$back") $(told "$back")" 'policy = on-request
model = m-1
user:600 {"permissions":"ask","model":"m-1"}'
ok 'a template is saved of a sandbox with settings' c template save "$bypass" agent:saved >/dev/null
ok 'a saved template begins with default settings' same "$(c run --template agent:saved -- head -n 1 /home/user/.agent/conf)" "policy = on-request"
printf 'FROM agent\nRUN test ! -e /home/user/.agent\n' >"$tmp/above"
ok 'steps above a template with settings see no setting files' b -t above -f "$tmp/above" "$tmp/a"
ok 'sandboxes above a template with settings have setting files' same "$(c run --template above --set permissions=bypass -- head -n 1 /home/user/.agent/conf)" "policy = never"
ok 'an unknown setting is refused' fails create --template agent --set permission=bypass
ok 'the refusal names the settings of the template' says "setting permission: the template has others: permissions, model"
ok 'an unknown value is refused' fails create --template agent --set permissions=all
ok 'the refusal names the values of the setting' says '"all" is none of its values: ask, bypass'
ok 'a value that would leave its quotes is refused' fails create --template agent --set 'model=x"y'
ok 'a setting for a template without settings is refused' fails create --set permissions=bypass
ok 'the refusal says that the template has none' says "the template has none"
c rm -f "$ask" "$bypass" "$fork" "$back" >/dev/null

# ---- the code interpreter, a service of what is built with it and on it
printf '{"name": "coder", "from": "host", "interpreter": ["bash"]}' >"$tmp/coder"
printf '{"name": "coder:2", "from": "coder", "services": {"own": {"command": "sleep 1000"}}}' >"$tmp/coder2"
ok "a template with the interpreter is built" b -f "$tmp/coder" "$tmp/a"
ok 'a template above the interpreter is built' b -f "$tmp/coder2" "$tmp/a"
coder=$(c create --template coder:2)
heard() { # what port 49999 says to a request
    c exec "$coder" -- bash -c 'exec 3<>/dev/tcp/127.0.0.1/49999 && printf "%s HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: ${#2}\r\n\r\n%s" "$1" "$2" >&3 && cat <&3' bash "$@"
}
ok 'the interpreter becomes ready with the sandbox' c services wait "$coder" >/dev/null
ok 'the interpreter is a service' same "$(c --json services "$coder" | grep -o '"name": *"[a-z]*"' | tr -d ' ' | sort | tr '\n' ' ')" '"name":"interpreter" "name":"own" '
ok 'the interpreter answers programs inside' same "$(heard 'GET /health' | tail -n 1)" '"OK"'
ok 'the interpreter runs code as the user of the sandbox' same "$(heard 'POST /execute' '{"code":"id -un; pwd","language":"bash"}' | sed -n 's/.*"type":"stdout","text":"\([^"]*\)".*/\1/p' | sed 's/.u000a/ /g' | tr -d '\n')" "user /home/user "
c exec "$coder" -- pkill -9 -x interpreter
c services wait "$coder" >/dev/null
ok 'a killed interpreter is started again' same "$(heard 'GET /health' | tail -n 1)" '"OK"'
c rm -f "$coder" >/dev/null

# ---- what fails
bad() { # NAME WORD TEXT…
    what=$1 word=$2
    shift 2
    printf '%b' "$*" >"$tmp/bad"
    ok "$what is refused" fails template build -f "$tmp/bad" "$tmp/a"
    ok "$what is named" says "$word"
}
bad "an unknown instruction" "bad:2: NOPE: no such instruction" 'FROM host\nNOPE x\n'
bad "an instruction that is not supported" "bad:2: VOLUME: this instruction is not understood" 'FROM host\nVOLUME /x\n'
echo 'pull never' >"$CAY_HOME/templates.conf" # nobody is asked here
bad "a base that is not there" "FROM: there is no template nowhere" 'FROM nowhere\n'
bad "a command that fails" "bad:3: RUN: exit code 7: out of luck" 'FROM host\nRUN true\nRUN echo out of luck >&2; exit 7\n'
bad "a command that is not there" "bad:2: RUN: " 'FROM host\nRUN ["/no/such"]\n'
bad "a file that is not there" "bad:2: COPY: nothing is not there" 'FROM host\nCOPY nothing /x\n'
bad "a file that .dockerignore leaves out" "skip/n is not there, or .dockerignore leaves it out" 'FROM host\nCOPY skip/n /x\n'
bad "a file outside of the context" "is not there" 'FROM host\nCOPY ../../../../etc/hostname /x\n'
bad "a stage that is later" "no stage before this one" 'FROM host AS one\nCOPY --from=later /a /b\nFROM host AS later\nCOPY --from=one /b /b\n'
bad "ADD of a repository" "bad:2: ADD: ADD of a repository is not understood: RUN git clone" 'FROM host\nADD https://127.0.0.1:1/x.git#main:dir /x\n'
bad "services in a circle" "they wait for each other in a circle" '{"from": "host", "services": {"a": {"command": "true", "after": ["b"]}, "b": {"command": "true", "after": ["a"]}}}'
bad "a service called interpreter with an interpreter" 'the field "interpreter" is that service' '{"from": "host", "interpreter": ["python"], "services": {"interpreter": {"command": "true"}}}'
bad "a setting that is wrong" "config: setting_files./x: \${nosuch} is no setting" '{"from": "host", "setting_files": {"/x": {"content": "${nosuch}"}}}'
bad "a service with a bad restart" "service a: restart is" '{"from": "host", "services": {"a": {"command": "true", "restart": "sometimes"}}}'
bad "a file that is not in a stage" "/a/b is not there" 'FROM host AS x\nFROM host\nCOPY --from=x /a/b /c\n'
bad "an unknown owner" "has no nobodyatall" 'FROM host\nCOPY --chown=nobodyatall Dockerfile /x\n'
bad "another platform" "this machine builds for linux/" 'FROM --platform=linux/s390x host\n'
bad "a URL that may not be reached" "bad:2: ADD: " 'FROM host\nADD http://127.0.0.1:1/x /x\n'
printf 'not a tar, whatever its name says' >"$tmp/a/fake.tar.gz"
printf '\037\213garbage' >"$tmp/a/bad.tgz"
bad "a broken archive" "the archive cannot be unpacked" 'FROM host\nADD bad.tgz /x\n'
printf 'FROM host\nADD fake.tar.gz /x/\n' >"$tmp/good"
ok 'a file with the name of an archive is copied' b -t fake -f "$tmp/good" "$tmp/a"
ok 'a file with the name of an archive keeps its content' same "$(inside fake -- head -c 9 /x/fake.tar.gz)" "not a tar"
ok 'a directory without a Dockerfile is refused' fails template build "$tmp/a/sub"
ok 'the refusal names the files that are missing' says "neither template.json nor Dockerfile"
ok 'a directory that is missing is refused' fails template build "$tmp/none"
printf 'FROM host\nRUN sleep 100\n' >"$tmp/slow"
ok 'a step beyond --step-timeout is refused' fails template build --step-timeout 300ms -f "$tmp/slow" "$tmp/a"
ok 'the refusal names the step' says "slow:2: RUN: "
ok 'a build beyond --timeout is refused' fails template build --timeout 500ms -f "$tmp/slow" "$tmp/a"
ok 'failed builds leave no sandbox' same "$(c ls -q)" ""
printf 'FROM host\nRUN echo here >/trace; false\n' >"$tmp/kept"
ok 'a build with --keep-failed fails' fails template build --keep-failed -f "$tmp/kept" "$tmp/a"
box=$(sed -n 's/.*cay shell \(c[a-z2-7]*\).*/\1/p' "$tmp/err")
ok 'the sandbox of a failed step is kept' same "$(c exec "$box" -- cat /trace)" here
c rm -f "$box" >/dev/null

# ---- RUN --mount
mkdir -p "$tmp/m/sub"
cd "$tmp/m" || exit 1
echo lock >lock.json
echo deep >sub/f
printf 'hush-%s' 8472 >"$tmp/hush"
cat >Dockerfile <<'END'
FROM host AS other
RUN mkdir -p /o/d && echo stage >/o/d/f && echo tool >/o/tool

FROM host
ARG WHERE=/opt/cache
WORKDIR /src
RUN echo before >lock.json
RUN --mount=type=cache,target=$WHERE,sharing=locked echo run >>/opt/cache/n; wc -l <"$WHERE/n" >count; stat -c %u:%a /opt/cache >>count
RUN --mount=type=bind,source=lock.json,target=lock.json --mount=type=bind,source=sub,target=/in --mount=from=other,source=/o/d,target=/od --mount=from=other,source=/o/tool,target=/new/dir/tool \
    cat lock.json /in/f /od/f /new/dir/tool >seen; echo x >/in/g 2>/dev/null || echo read-only >>seen
RUN --mount=type=tmpfs,target=/t --mount=type=bind,target=/ctx,rw --mount=type=cache,target=/ctx/sub/c cp /ctx/sub/f /t/ && echo y >/ctx/new && echo z >/ctx/sub/c/z && ls /t /ctx >list
RUN --mount=type=secret,id=hush --mount=type=secret,id=hush,target=/root/.conf/tok --mount=type=secret,id=hush,env=HUSH --mount=type=secret,id=none \
    sha256sum </run/secrets/hush >sum && cmp /root/.conf/tok /run/secrets/hush && test "$HUSH" = "$(cat /run/secrets/hush)" && test ! -e /run/secrets/none && stat -c %a /run/secrets/hush >>sum
RUN ls -d /in /od /t /ctx /opt/cache 2>/dev/null | while read d; do ls -A $d; done >left; ls -A /run/secrets /root/.conf /new 2>/dev/null >>left; cat lock.json >>left
END
ok 'RUN --mount is built' b -t mounts --secret "id=hush,src=$tmp/hush" .
ok 'a secret that was not given is named' says "the secret none was not given"
ok 'a new cache is empty and belongs to root' same "$(inside mounts -- cat count)" "1
0:755"
ok 'bound files are seen, and not written' same "$(inside mounts -- cat seen)" "lock
deep
stage
tool
read-only"
ok 'tmpfs and the whole context are mounted' same "$(inside mounts -- cat list)" "/ctx:
Dockerfile
lock.json
new
sub

/t:
f"
ok 'a secret is there, for its owner only' same "$(inside mounts -- cat sum)" "$(sha256sum <"$tmp/hush")
400"
ok 'mounts leave nothing, and covered files are back' same "$(inside mounts -- cat left)" before
ok 'a secret is not in the state directory' not grep -rsqF "$(cat "$tmp/hush")" "$CAY_HOME"
ok 'only the caches are left as volumes' same "$(c -q volume ls | grep -c .)" 2
ok 'a second build without the secret succeeds' env -u X "$cay" template build -t mounts . </dev/null >/dev/null 2>"$tmp/err"
ok 'a second build without the secret is cached' same "$(count 'cached: ')" "$(count '^\[')"
ok 'a build with mounts and --no-cache succeeds' b --no-cache -t mounts --secret "id=hush,src=$tmp/hush" .
ok 'a cache keeps its content between builds' same "$(inside mounts -- head -n 1 count)" 2
echo changed >sub/f
ok 'a build with a changed bound file succeeds' b -t mounts --secret "id=hush,src=$tmp/hush" .
ok 'a changed bound file runs its step again' says "[4/7] RUN"
ok 'a changed bound file leaves the steps before it cached' says "[3/7] cached: RUN"
printf 'FROM host\nRUN --mount=type=cache,id=l,target=/opt/a,sharing=locked --mount=type=cache,id=l,target=/opt/bb,sharing=locked echo 1 >/opt/a/f; cat /opt/bb/f >/once\n' >"$tmp/locked"
ok 'a locked cache may be mounted twice in one step' b -t locked -f "$tmp/locked" .
ok 'both mounts of a cache show the same' same "$(inside locked -- cat /once)" 1
bad "a required secret that was not given" "the secret s is needed" 'FROM host\nRUN --mount=type=secret,id=s,required x\n'
bad "an unknown type of mount" "bad:2: RUN: --mount: a type is bind, cache, secret or tmpfs, and not ssh" 'FROM host\nRUN --mount=type=ssh x\n'
bad "a source that is not there" "bad:2: RUN: none is not there" 'FROM host\nRUN --mount=source=none,target=/x x\n'
bad "a volume where secrets are" "a step with a secret has nothing else at /run/secrets" 'FROM host\nRUN --mount=type=cache,target=/run/secrets --mount=type=secret,id=hush true\n'
bad "a volume above secrets" "nothing else at /var/run" 'FROM host\nRUN --mount=type=tmpfs,target=/var//run/ --mount=type=secret,id=hush,target=/x true\n'
bad "two mounts on one target" "two of them have the target /x" 'FROM host\nRUN --mount=type=tmpfs,target=/x --mount=type=cache,target=/x/ x\n'
bad "a mount of a whole stage" "name a source" 'FROM host AS a\nFROM host\nRUN --mount=from=a,target=/x x\n'
bad "a mount over /proc" "nothing may be put over" 'FROM host\nRUN --mount=type=tmpfs,target=/proc x\n'
ok 'a secret without its file is refused' fails template build --secret id=x,src=/none/at/all .
ok 'the refusal names the file of the secret' says "read /none/at/all"
ok 'template caches lists caches with their sizes' same "$(c --json template caches | tr -d ' \n' | grep -o '"id":"/opt/cache","volume":"build[^"]*","tenant":"default","bytes":[1-9]' | cut -c1-17)" '"id":"/opt/cache"'
c tenant set default --templates 64M
printf 'FROM host\nRUN --mount=type=cache,id=big,target=/c dd if=/dev/zero of=/c/f bs=1M count=70 2>/dev/null\n' >"$tmp/big"
ok "a build with a cache beyond the tenant's limit succeeds" b -t big -f "$tmp/big" .
ok 'a cache beyond the limit is announced' says "the cache big does not fit what tenant default may have of templates and caches, and is forgotten"
ok 'a cache beyond the limit is not kept' sh -c '! "$1" template caches | grep -q ^big' sh "$cay"
printf 'FROM host\nRUN --mount=type=cache,id=some,target=/c dd if=/dev/zero of=/c/f bs=1M count=1 2>/dev/null\n' >"$tmp/some"
ok 'a build with a small cache succeeds' b -t some -f "$tmp/some" .
ok 'a cache counts in what the tenant uses' sh -c 'test "$("$1" --json tenant ls | tr -d " \n" | sed -n "s/.*\"used\":{[^}]*\"templates\":\([0-9]*\).*/\1/p")" -ge 1048576' sh "$cay"
c tenant set default --templates unlimited
n=$(c -q template caches | wc -l)
ok 'gc leaves a cache that was used lately' same "$(c --json gc | tr -d ' \n' | sed 's/.*"caches"://')" "0}"
python3 - "$CAY_HOME/store.db" <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=30)
db.execute("UPDATE notes SET value=json_set(value,'$.used_ms',1) WHERE space='note:build-mount' AND json_extract(value,'$.id')='some'")
db.commit()
END
ok 'gc removes a cache that was not used lately' same "$(c --json gc | tr -d ' \n' | sed 's/.*"caches"://')" "1}"
ok 'gc removes no other cache' same "$(c -q template caches | wc -l)" $((n - 1))
ok 'a cache of another tenant is refused as a volume' fails run --volume "build.0123456789abcdef.x:/x" -- true
ok "the refusal names the other tenant's builds" says "belongs to another tenant's builds"
printf 'FROM host\nRUN --mount=type=tmpfs,target=/t --mount=type=secret,id=hush false\n' >"$tmp/kept"
ok 'a failed step with mounts is kept' fails template build --keep-failed --secret "id=hush,src=$tmp/hush" -f "$tmp/kept" .
box=$(sed -n 's/.*cay shell \(c[a-z2-7]*\).*/\1/p' "$tmp/err")
ok 'a kept step has its mounts, without the secret' same "$(c exec "$box" -- sh -c 'ls -A /run/secrets; ls -d /t')" /t
c rm -f "$box" >/dev/null
ok 'template prune counts what it removed' sh -c '"$1" --json template prune | grep -qx "{\"removed\":[1-9][0-9]*}"' sh "$cay"
ok 'template prune removes caches and kept steps' same "$(c -q volume ls)" ""

# ---- without network unless it is said; a step cannot reach what its policy does not name
printf 'FROM host\nRUN getent hosts example.com && exit 1; exit 0\n' >"$tmp/net"
ok "names that no rule has do not resolve" b -f "$tmp/net" "$tmp/a"
printf 'FROM host\nRUN --network=none echo one >/offline\nRUN echo two >>/offline\n' >"$tmp/none"
ok 'a build with a step without network succeeds' b -t offline -f "$tmp/none" "$tmp/a"
ok 'steps with and without network have run' same "$(inside offline -- cat /offline | tr '\n' ' ')" "one two "
echo '{"name": "offline2", "from": "host", "steps": [{"run": {"command": "echo three >/offline", "offline": true}}]}' >"$tmp/none.json"
ok 'a template file with a step without network is built' b -f "$tmp/none.json" "$tmp/a"
ok 'a step without network of a template file has run' same "$(inside offline2 -- cat /offline)" three

# ---- interrupted
printf 'FROM host\nRUN echo first >/first\nRUN while ! test -e /go; do sleep 0.1; done\n' >"$tmp/int"
: >"$tmp/int.err"
"$cay" template build -f "$tmp/int" "$tmp/a" >/dev/null 2>"$tmp/int.err" </dev/null &
pid=$!
for _ in $(seq 300); do grep -q '^\[2/2\]' "$tmp/int.err" && break; sleep 0.1; done
kill -INT "$pid"
wait "$pid"
ok 'an interrupt ends a build with status 130' same "$?" 130
ok 'an interrupted build leaves no sandbox' same "$(c ls -q)" ""
: >"$tmp/int2.err"
"$cay" template build -f "$tmp/int" "$tmp/a" >/dev/null 2>"$tmp/int2.err" </dev/null &
pid=$!
for _ in $(seq 300); do grep -q '^\[2/2\]' "$tmp/int2.err" && break; sleep 0.1; done
ok 'the first step of an interrupted build is cached' grep -q '^\[1/2\] cached' "$tmp/int2.err"
# The small program becomes the full one, so this is the builder.
kill -9 "$pid"
wait "$pid" 2>/dev/null
ok 'a build after a killed one succeeds' b -f "$tmp/net" "$tmp/a"
ok 'a build after a killed one removes its sandbox' same "$(c ls -q)" ""
ok 'template builds calls a killed build lost' same "$(c template builds | grep -c ' lost ')" 1

# ---- whoever asks for it
mkdir "$tmp/whose"
echo f >"$tmp/whose/f"
printf 'FROM host\nCOPY f /made/f\nRUN true\n' >"$tmp/whose/Dockerfile"
ok 'a build by a call that names a user succeeds' env CAY_LIBEXEC="$(dirname "$cay")" "$drive" nobody "$tmp/whose" whose
ok "a build by a call that names a user has files of the recipe's owner" same "$(inside whose -- stat -c %u /made /made/f | tr '\n' ' ')" "0 0 "

# ---- killed at each point
if [ -n "${FAULTS-}" ]; then
    for point in build.box build.step build.save build.saved build.publish build.published; do
        printf 'FROM host\nRUN echo %s >/point\nRUN --mount=type=tmpfs,target=/t echo two >>/point\n' "$point" >"$tmp/f"
        CAY_FAULT=$point=kill "$cay" template build -t fault -f "$tmp/f" "$tmp/a" >/dev/null 2>&1 </dev/null
        ok "$point: it was killed" same "$?" 137
        ok "$point: the next build succeeds" b -t fault -f "$tmp/f" "$tmp/a"
        ok "$point: the next build is whole" same "$(inside fault -- cat /point | tr '\n' ' ')" "$point two "
        ok "$point: no sandbox and no volume is left" same "$(c ls -q)$(c -q volume ls)" ""
    done
fi
verdict
