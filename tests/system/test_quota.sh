#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_quota.sh CAY ext4|xfs: the disk limit that the kernel holds, on a filesystem of its own. Root only. Prints TAP.
set -u
cay=$(realpath "$1") fs=$2
[ "$(id -u)" = 0 ] || { echo '1..0 # SKIP quota needs root'; exit 77; }
command -v "mkfs.$fs" >/dev/null || { echo "1..0 # SKIP there is no mkfs.$fs here"; exit 77; }
# Mounts of its own: nothing stays mounted, however this ends.
[ "${IN_QUOTA-}" = 1 ] || exec env IN_QUOTA=1 unshare -m --propagation private "$0" "$@"
t=$(mktemp -d /tmp/cay-quota.XXXXXX)
export CAY_HOME="$t/fs/home" XDG_RUNTIME_DIR="$t/run" NO_COLOR=1
unset CAY_PROVIDER
n=0 bad=0 code=0
cleanup() {
    "$cay" ls -q 2>/dev/null | while read -r i; do "$cay" rm -qf "$i" 2>/dev/null; done
    cd /
    rm -rf "$CAY_HOME" # the keeper leaves when its directory does
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        umount "$t/fs" 2>/dev/null && break
        mountpoint -q "$t/fs" || break
        sleep 0.3
    done
    rm -rf --one-file-system "$t" 2>/dev/null
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP
ok() {
    if [ $? = 0 ]; then r=ok; else r='not ok' bad=1; fi
    n=$((n + 1))
    echo "$r $n - $1"
    [ "$r" = ok ] || { sed 's/^/# out: /' "$t/out"; sed 's/^/# err: /' "$t/err"; echo "# status: $code"; } | head -30
}
run() { code=0; timeout -k1 60 "$@" >"$t/out" 2>"$t/err" </dev/null || code=$?; }
is() { [ "$code" = "$1" ]; }
says() { grep -qF -- "$1" "$t/out"; }

mkdir -p "$t/fs" "$t/run"
truncate -s 512M "$t/image"
case $fs in
ext4) mkfs.ext4 -q -O quota,project "$t/image" ;;
xfs) mkfs.xfs -q "$t/image" ;;
esac >"$t/out" 2>&1 || { echo "1..0 # SKIP mkfs.$fs failed"; exit 77; }
mount -o loop,prjquota "$t/image" "$t/fs" 2>"$t/err" || { echo "1..0 # SKIP loop mounts with prjquota are not possible here: $(head -n 1 "$t/err")"; exit 77; }

run "$cay" doctor --require disk-quota; is 0; ok "doctor finds project quota on $fs"
run "$cay" create -q --disk 20m --inodes 600 --require disk-quota; id=$(cat "$t/out"); is 0; ok 'create with a required limit makes a sandbox'
x() { run "$cay" exec "$id" -- "$@"; }

# S-40: in many files, because a single one is bounded by a limit of the process already.
x sh -c 'i=0; while head -c 1000000 /dev/zero >"$1/f$i"; do i=$((i + 1)); [ $i -lt 90 ] || break; done; exit 3' sh /workspace
grep -qi 'no space\|quota exceeded' "$t/err"; ok 'writing beyond the limit ends with no space'
run "$cay" exec --json "$id" -- sh -c 'head -c 500000 /dev/zero >more'; says '"disk"'; ok 'the result of a command names the disk as the reason'
total() { x sh -c 'cat /workspace/f* /home/user/f* /tmp/f* 2>/dev/null | wc -c'; cat "$t/out"; }
b=$(total); [ "$b" -ge $((20 * 1048576 * 95 / 100)) ] && [ "$b" -le $((20 * 1048576 * 105 / 100)) ]; ok "writing ends within five per cent of the limit ($b)"
x sh -c 'for d in /home/user /tmp; do i=0; while head -c 100000 /dev/zero >"$d/f$i" && [ $i -lt 300 ]; do i=$((i + 1)); done; done' 2>/dev/null
b=$(total); [ "$b" -le $((20 * 1048576 * 105 / 100)) ]; ok "home and temporary directory count too ($b)"
run "$cay" create -q; id2=$(cat "$t/out"); is 0; ok 'the store still commits while a sandbox is full'
run "$cay" exec "$id2" -- sh -c 'head -c 5000000 /dev/zero >f'; is 0; ok 'another sandbox still writes'
x sh -c 'rm -f /workspace/f* /home/user/f* /tmp/f*; head -c 5000000 /dev/zero >g'; is 0; ok 'removed space can be written again'

# S-41
x sh -c 'mkdir n; i=0; while [ $i -lt 2000 ]; do true >n/$i || break; i=$((i + 1)); done 2>/dev/null; ls n | wc -l'
f=$(cat "$t/out"); [ "${f:-0}" -ge 500 ] && [ "$f" -le 600 ]; ok "inodes end at their limit ($f)"
x rm -r n g; is 0; ok 'files can be removed at the limit of inodes'

# Renames between work and upper are inside one project.
run "$cay" run -q --user root --require disk-quota -- sh -c 'echo x >>/etc/profile && mv /etc/profile /etc/q && mkdir /etc/d && mv /etc/d /etc/e && rm -r /etc/e'
is 0; ok 'copy-up, rename and remove work'
run "$cay" kill "$id"; run "$cay" resume "$id"; is 0; ok 'a stopped sandbox starts again'
x sh -c 'echo y >kept; mkdir a; mv a b; ls'; is 0 && says kept; ok 'a restarted sandbox can be written'
x sh -c 'i=0; while head -c 1000000 /dev/zero >"f$i"; do i=$((i + 1)); [ $i -lt 90 ] || break; done; cat f* | wc -c' 2>/dev/null
[ "$(cat "$t/out")" -le $((20 * 1048576 * 105 / 100)) ]; ok 'a restarted sandbox has the same limit'
run "$cay" rm -f "$id" "$id2"; is 0; ok 'rm removes sandboxes with a limit'

# A volume has a limit of its own.
run "$cay" volume create vol --size 10m; is 0 && [ ! -s "$t/err" ]; ok 'a volume with a limit that holds is made'
run "$cay" run -q --disk 100m --volume vol:/vol -- sh -c 'i=0; while head -c 1000000 /dev/zero >/vol/f$i; do i=$((i + 1)); [ $i -lt 50 ] || break; done; cat /vol/f* | wc -c'
grep -qi 'no space\|quota exceeded' "$t/err" && [ "$(cat "$t/out")" -le $((10 * 1048576)) ]; ok 'writing into a volume ends at its limit'
run "$cay" run -q --disk 5m --volume vol:/vol -- sh -c 'head -c 4000000 /dev/zero >f && rm /vol/f0 && echo x >/vol/g'; is 0; ok 'files of a volume do not count as those of the sandbox'
run "$cay" volume inspect vol; says '"quota": "on"'; ok 'volume inspect says that the limit is on'
run "$cay" volume rm vol; is 0; ok 'volume rm removes a volume with a limit'
echo "1..$n"
exit "$bad"
