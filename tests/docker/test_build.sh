#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_build.sh BUILD ENGINE: an image that the engine builds of a Dockerfile; users and groups of images; what is published. Run by tests/docker/with.
set -eu
build=$(realpath "$1")
. "$(dirname "$(realpath "$0")")/lib.sh"
engine=${2:-docker}
export CAY_PROVIDER="$engine"
unset CAY_DOCKER_IMAGE
containers() { api "http://e/v1.41/containers/json?all=true" | grep -o '"Id":"[0-9a-f]*"' | wc -l; }
d=$ENGINE_DIR/context
mkdir -p "$d/sub"
printf 'FROM localhost/cay-test:latest\nARG COLOR=none\nARG SIZE\nENV COLOR=$COLOR\nCOPY . /app\nRUN echo "$COLOR $SIZE" >/made && chmod 644 /made && echo said while building\n' >"$d/Dockerfile"
echo kept >"$d/sub/kept"
echo secret >"$d/sub/left.log"
printf '*.log\n**/*.log\nDockerfile\n' >"$d/.dockerignore"
ln -s kept "$d/sub/link"
printf '#!/bin/sh\necho ran\n' >"$d/run.sh"
chmod 755 "$d/run.sh"

# ------------------------------------------------------------------ built, told, kept
cay create --name made --dockerfile "$d" --build-arg COLOR=green --build-arg SIZE='two words' >"$ENGINE_DIR/id" 2>"$ENGINE_DIR/err" || bad "a build: $(tail -n 3 "$ENGINE_DIR/err")"
grep -qi '^build: step' "$ENGINE_DIR/err" && ok "each step of a build is shown" || bad "a build says: $(head -c 400 "$ENGINE_DIR/err")"
grep -q '^build: said while building' "$ENGINE_DIR/err" && ok "the output of steps is shown" || bad "no output of steps: $(head -c 400 "$ENGINE_DIR/err")"
same "create prints the id alone" "$(wc -w <"$ENGINE_DIR/id")" 1
same "--build-arg sets ARG" "$(cay exec made -- cat /made)" "green two words"
same "ENV of the image is set" "$(cay exec made -- sh -c 'echo $COLOR')" green
same "COPY copies files, without those of .dockerignore" "$(cay exec made -- sh -c 'cd /app && find . -type f -o -type l | sort | tr "\n" " "; cat sub/link; ./run.sh' | tr '\n' ' ')" "./.dockerignore ./run.sh ./sub/kept ./sub/link kept ran " || :
cay snapshot made >/dev/null || bad "a snapshot of it"
two=$(cay fork made)
same "a fork is not built again" "$(cay exec "$two" -- cat /made)" "green two words"
cay rm -f "$two" made >/dev/null
# A bare KEY is our own variable; the file itself may be named, and has another directory's name.
cp "$d/Dockerfile" "$d/other.file"
COLOR=blue cay -q create --name file --dockerfile "$d/other.file" --build-arg COLOR >/dev/null 2>"$ENGINE_DIR/err" || bad "by file: $(tail -n 3 "$ENGINE_DIR/err")"
same "--dockerfile takes a file, and a variable of the caller" "$(cay exec file -- cat /made)" "blue "
cay rm -f file >/dev/null

# ------------------------------------------------------------------ what is wrong with one
mkdir -p "$d/empty" "$d/bad" "$d/fails" "$d/args"
printf 'FROM localhost/cay-test:latest\nFROBNICATE now\n' >"$d/bad/Dockerfile"
printf 'FROM localhost/cay-test:latest\nRUN echo about to; exit 3\n' >"$d/fails/Dockerfile"
before=$(containers)
refused "a directory without a Dockerfile" dockerfile_not_found cay --json create --dockerfile "$d/empty"
refused "an unknown instruction" dockerfile_invalid cay --json create --dockerfile "$d/bad"
refused "a step that fails" build_failed cay --json create --dockerfile "$d/fails"
refused "an image together with a Dockerfile" option_invalid cay --json create --image x --dockerfile "$d"
refused "build arguments without a Dockerfile" option_invalid cay --json create --image x --option build_args=A=b
refused "a build argument without a name" option_invalid cay --json create --option dockerfile="$d" --option build_args=nonsense
: >"$d/empty/Dockerfile"
refused "an empty Dockerfile" dockerfile_invalid cay --json create --dockerfile "$d/empty"
same "refused builds leave no container" "$(containers)" "$before"
same "refused builds leave no directory" "$(find "$CAY_HOME/$engine" -maxdepth 1 -name '*c??????????????????*' | wc -l)" 0

# ------------------------------------------------------------------ USER of an image, and its group
mkdir -p "$d/user"
printf 'FROM localhost/cay-test:latest\nRUN echo "app:x:1500:1500::/home/app:/bin/sh" >>/etc/passwd; echo "app:x:1500:" >>/etc/group; echo "data:x:1600:" >>/etc/group\nUSER app:data\n' >"$d/user/Dockerfile"
cay -q create --name user --dockerfile "$d/user" >/dev/null 2>"$ENGINE_DIR/err" || bad "USER: $(tail -n 3 "$ENGINE_DIR/err")"
same "commands run with user and group of the image" "$(cay exec user -- sh -c 'id -un; id -gn; id -G; touch f; stat -c %u:%g f' | tr '\n' ' ')" "app data 1600 1500:1600 "
cay rm -f user >/dev/null

# ------------------------------------------------------------------ what is published
if api -d '{"Name":"cay-net","Driver":"bridge"}' "http://e/v1.41/networks/create" | grep -q '"Id"' && [ "$engine" = docker ]; then
    if cay create --name pub --image localhost/cay-test:latest --option network=cay-net --option publish=8000,8001:0 >"$ENGINE_DIR/out" 2>&1; then bad "host port 0 is taken"; else ok "host port 0 is refused"; fi
    if cay create --name pub --image localhost/cay-test:latest --option network=cay-net --option publish=8000 >"$ENGINE_DIR/out" 2>&1; then
        cay exec pub -d -- python3 -c 'import socket
s=socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("",8000)); s.listen()
while True: c=s.accept()[0]; c.sendall(b"hello\n"); c.close()' >/dev/null
        at=$(cay port endpoint pub 8000) || bad "no endpoint"
        case $at in 127.0.0.1:[1-9]*) ok "port endpoint gives an address of this machine: 127.0.0.1:…" ;; *) bad "where it is: $at" ;; esac
        same "inspect tells the endpoint" "$(cay inspect pub | tr -d ' \n' | grep -o '"endpoints":\[{"port":8000,"host":"127.0.0.1","host_port":[1-9]' | wc -l)" 1
        refused "the endpoint of a port that is not published" exposed_port_unavailable cay --json port endpoint pub 9000
        cay kill pub >/dev/null
        refused "the endpoint of a stopped sandbox" sandbox_stopped cay --json port endpoint pub 8000
        cay rm -f pub >/dev/null
        # Taken by somebody else: clear words, nothing left.
        python3 -c 'import socket,time; s=socket.socket(); s.bind(("127.0.0.1",0)); s.listen(); print(s.getsockname()[1], flush=True); time.sleep(600)' >"$ENGINE_DIR/taken" &
        holder=$!
        n=0; until [ -s "$ENGINE_DIR/taken" ] || [ $((n += 1)) -gt 100 ]; do sleep 0.1; done
        refused "a host port that is taken" port_taken cay --json create --image localhost/cay-test:latest --option network=cay-net --option publish="8000:$(cat "$ENGINE_DIR/taken")"
        kill $holder
        same "a refused port leaves no container" "$(containers)" "$before"
    else
        echo "skipped: this engine cannot publish here: $(tail -n 1 "$ENGINE_DIR/out")"
    fi
fi
# ------------------------------------------------------------------ a volume by a driver with options
if [ "$engine" = docker ]; then
    cay create --name vol --image localhost/cay-test:latest --option volumes=mem:/mem:driver=local:opt.type=tmpfs:opt.device=tmpfs:opt.o=size=4m >/dev/null 2>"$ENGINE_DIR/err" || bad "a volume: $(cat "$ENGINE_DIR/err")"
    same "options reach the driver of a volume" "$(cay exec vol -- sh -c 'df -k /mem | awk "NR == 2 { print \$1, \$2 }"')" "tmpfs 4096"
    cay rm -f vol >/dev/null
    api -X DELETE "http://e/v1.41/volumes/mem" >/dev/null
fi
refused "a published port without a network" option_invalid cay --json create --image localhost/cay-test:latest --option publish=80
exit $failed
