#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_workspace.sh BUILD ENGINE: workspaces as tar archives, out of containers and into them, also from and to another provider; many files of a manifest in
# one go; containers that are ready before anybody asks. Run by tests/docker/with.
set -eu
build=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/lib.sh"
engine=${2:-docker}
export CAY_PROVIDER="$engine"
tmp=$ENGINE_DIR/w
mkdir -p "$tmp"
containers() { api "http://e/v1.41/containers/json?all=true" | grep -o '"Id":"[0-9a-f]*"' | wc -l; }
tree() { cay exec "$1" -- sh -c 'cd /workspace && find . ! -type p | sort | while read -r f; do if [ -L "$f" ]; then echo "$f -> $(readlink "$f")"; elif [ -d "$f" ]; then echo "$f/ $(stat -c %a "$f")"; else echo "$f $(stat -c "%a %U" "$f") $(md5sum <"$f")"; fi; done'; }

# ------------------------------------------------------------------ a manifest of many files
python3 - "$tmp" <<'P'
import json, os, sys
tmp = sys.argv[1]
os.makedirs(tmp + "/src/sub")
for i in range(700):
    open("%s/src/sub/l%d" % (tmp, i), "w").write("local %d\n" % i * (i % 40))
os.symlink("sub/l1", tmp + "/src/link")
os.chmod(tmp + "/src/sub/l2", 0o755)
e = {"d%d" % d: {"type": "dir", "children": {"f%d" % i: {"type": "file", "content": "x%d" % i * 50} for i in range(d, 1200, 12)}} for d in range(12)}
e["run.sh"] = {"type": "file", "content": "#!/bin/sh\necho ran\n", "permissions": {"owner": 7, "group": 5, "other": 5, "directory": False}}
e["src"] = {"type": "local_dir", "src": "src"}
e["secret"] = {"type": "file", "content": "passing", "ephemeral": True}
json.dump({"version": 1, "entries": e}, open(tmp + "/m.json", "w"))
P
cay create --name many --manifest "$tmp/m.json" >/dev/null || bad "create with a manifest"
same "all files of a manifest are there" "$(cay exec many -- sh -c 'find /workspace -type f | wc -l | tr -d " "')" 1902
same "a program of a manifest runs" "$(cay exec many -- ./run.sh 2>&1)" ran
same "files of a manifest belong to the user" "$(cay exec many -- sh -c 'find /workspace ! -user user | wc -l | tr -d " "')" 0
same "links of a manifest are links" "$(cay exec many -- sh -c 'readlink src/link; wc -l <src/link | tr -d " "')" "sub/l1
1"
printf x >"$tmp/src/sub/l1"; chmod 000 "$tmp/src/sub/l1"
mv "$tmp/src/sub" "$tmp/src/sub2"; ln -s /etc "$tmp/src/out"
if cay --json create --name bad --manifest "$tmp/m.json" >"$tmp/out" 2>&1; then bad "a link that leads out is taken"; else ok "a link that leads out: $(grep -o '"reason": *"[a-z_]*"' "$tmp/out")"; fi
same "a refused manifest leaves no container" "$(containers)" 1

# ------------------------------------------------------------------ a workspace as a tar
cay exec many -- sh -c 'echo changed >d1/f1; ln -s d1/f1 l; ln -s "$(printf "%0400d" 0)" far; mkdir -m 700 closed; echo deep >closed/x; mkfifo pipe; printf "a b\n" >"with blank"'
was=$(tree many | grep -v "^./secret")
cay snapshot many --label kept >/dev/null || bad "no snapshot is taken"
cay exec many -- rm d1/f1
cay snapshot export kept --format tar -o "$tmp/kept.tar" >/dev/null || bad "export of a snapshot"
same "an export leaves no container" "$(containers)" 1
same "an exported tar has the files of the snapshot" "$(tar -xOf "$tmp/kept.tar" ./d1/f1)" changed
same "the root of an exported tar is ." "$(tar -tf "$tmp/kept.tar" | head -1)" .
same "an exported tar has no pipe and no ephemeral file" "$(tar -tf "$tmp/kept.tar" | grep -cE 'pipe|secret' || :)" 0
same "an exported tar has long targets of links" "$(tar -tvf "$tmp/kept.tar" | grep -o -- "-> 0*$" | tr -d "\n" | wc -c | tr -d " ")" 403
same "an exported tar has modes and links" "$(tar -tvf "$tmp/kept.tar" | awk '$6 == "./closed/" || $6 == "./l" { print $1, $6, $7, $8 }')" "drwx------ ./closed/  
lrwxrwxrwx ./l -> d1/f1"
cay snapshot export many --format tar -o "$tmp/now.tar" >/dev/null || bad "export of a sandbox"
same "a sandbox is saved as it is now" "$(tar -tf "$tmp/now.tar" | grep -c '^./d1/f1$' || :)" 0
refused "an export of all layers" snapshot_opaque cay --json snapshot export kept -o "$tmp/x"
if [ "$engine" = docker ]; then
    # and back: into a snapshot of files, which every provider takes
    if cay --provider native snapshot import "$tmp/kept.tar" --label came >"$tmp/out" 2>&1; then
        cay create --name again --from came >/dev/null || bad "a container with an archive's files"
        same "an imported tar gives the same files" "$(tree again | md5sum)" "$(echo "$was" | md5sum)"
        cay create --name native --from came --provider native >/dev/null && same "provider native has the files of an imported tar" "$(cay exec native -- cat closed/x)" deep
        cay exec native -- sh -c 'echo from-native >d1/f1'
        snap=$(cay snapshot native)
        cay create --name third --from "$snap" >/dev/null || bad "a container with native's files"
        same "a snapshot of native gives a container its files" "$(cay exec third -- cat d1/f1)" from-native
        refused "a snapshot that is not there" snapshot_not_found cay --json create --from sno-such
        cay kill third >/dev/null; cay resume third >/dev/null
        same "imported files stay after a restart" "$(cay exec third -- cat d1/f1)" from-native
        cay rm -f again native third >/dev/null
    else
        echo "SKIP: provider native does not run here: $(head -c 200 "$tmp/out")"
    fi
fi
same "one container is left" "$(containers)" 1
cay rm -f many >/dev/null

# ------------------------------------------------------------------ containers that are ready
if [ "$engine" = docker ]; then
    port=$(python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])')
    cay serve --listen "127.0.0.1:$port" >"$tmp/serve" 2>&1 & server=$!
    cay tenant create other >/dev/null || bad "no tenant is made"
    refused "a pool of an image for a tenant" warm_invalid cay --json pool set "docker:$CAY_DOCKER_IMAGE" --tenant other
    cay pool set "docker:$CAY_DOCKER_IMAGE" --low 1 --high 2 || bad "no pool is made"
    n=0; until [ "$(cay pool ls --json | grep -o '"ready": *[0-9]*' | grep -o '[0-9]*$')" = 2 ] || [ $((n += 1)) -gt 300 ]; do sleep 0.2; done
    same "a pool has two containers ready" "$(cay pool ls --json | grep -o '"ready": *[0-9]*' | grep -o '[0-9]*$')" 2
    same "containers of a pool are not listed" "$(cay ls -q | wc -l | tr -d ' ')" 0
    before=$(api "http://e/v1.41/containers/json" | grep -o '"Id":"[0-9a-f]*"' | sort)
    id=$(cay create --name quick --image "$CAY_DOCKER_IMAGE" --ttl 1h)
    mine=$(sed 's/ .*//' "$CAY_HOME/docker/$id/container")
    case $before in *"$mine"*) ok "create takes a container of the pool" ;; *) bad "a new one was made" ;; esac
    same "a container of the pool works" "$(cay exec quick -- sh -c 'echo here; id -un')" "here
user"
    printf '{"version":1,"entries":{"a":{"type":"file","content":"with files"}}}' >"$tmp/one.json"
    n=0; until [ "$(cay pool ls --json | grep -o '"ready": *[0-9]*' | grep -o '[0-9]*$')" -ge 1 ] || [ $((n += 1)) -gt 300 ]; do sleep 0.2; done
    before=$(api "http://e/v1.41/containers/json" | grep -o '"Id":"[0-9a-f]*"' | sort)
    id=$(cay create --name filled --image "$CAY_DOCKER_IMAGE" --manifest "$tmp/one.json")
    mine=$(sed 's/ .*//' "$CAY_HOME/docker/$id/container")
    case $before in *"$mine"*) ok "create with a manifest takes a container of the pool" ;; *) bad "a new one was made for a manifest" ;; esac
    same "a container of the pool gets the files of a manifest" "$(cay exec filled -- cat a)" "with files"
    id=$(cay create --name other --image "$CAY_DOCKER_IMAGE" -e A=b)
    mine=$(sed 's/ .*//' "$CAY_HOME/docker/$id/container")
    same "create with variables makes a new container" "$(cay exec other -- sh -c 'echo $A')" b
    cay pool rm "docker:$CAY_DOCKER_IMAGE"
    cay rm -f quick filled other >/dev/null
    n=0; until [ "$(containers)" = 0 ] || [ $((n += 1)) -gt 200 ]; do sleep 0.2; done
    same "no container of the pool is left" "$(containers)" 0
    kill $server; wait $server 2>/dev/null || :
fi
exit $failed
