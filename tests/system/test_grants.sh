#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_grants.sh CAY: directories of the host shown inside, and foreign roots, as whoever runs this.
set -u
cay=$(realpath "$1")
. "$(dirname "$0")/lib.sh"
run() { timeout -k 1 20 "$cay" run "$@" </dev/null 2>"$tmp/err"; }

mkdir -p "$tmp/g/.git/hooks" "$tmp/g/.vscode"
echo kept >"$tmp/g/.git/config"
echo text >"$tmp/g/file"
chmod -R a+rX "$tmp"

ok "a grant is read" same "$(run --mount "$tmp/g:/data" -- cat /data/file)" text
run --mount "$tmp/g:/data" -- touch /data/new
ok "a grant is read-only unless asked" [ ! -e "$tmp/g/new" ]
ok 'the kernel refuses a write to a read-only grant' grep -q "Read-only file system" "$tmp/err"

user=root
run --mount "$tmp/g:/data:rw" --user $user -- sh -c 'echo in > /data/new'
ok "a writable grant is written" same "$(cat "$tmp/g/new" 2>/dev/null)" in
ok 'a writable grant is announced' grep -q "writable from inside" "$tmp/err"
run --mount "$tmp/g:/data:rw" --user $user -- sh -c 'echo evil > /data/.git/config; echo evil > /data/.git/hooks/pre-commit;
    mv /data/.git /data/.old; rm -rf /data/.vscode; echo x > /data/.vscode/tasks.json'
ok "the checkout's config stays" same "$(cat "$tmp/g/.git/config")" kept
ok "no hook is planted" [ ! -e "$tmp/g/.git/hooks/pre-commit" ]
ok "the repository is not moved away" [ -d "$tmp/g/.git" ]
ok 'a covered path is not announced' [ -z "$(grep appeared "$tmp/err")" ]
run --mount "$tmp/g:/data:rw" --user $user -- sh -c 'echo evil > /data/.envrc; echo evil > /data/.git/commondir'
ok "what was missing is told when it appears" [ "$(grep -c "\.envrc appeared in\|\.git/commondir appeared in" "$tmp/err")" = 2 ]
rm -f "$tmp/g/.envrc" "$tmp/g/.git/commondir"
ok "no editor's settings are planted" [ ! -e "$tmp/g/.vscode/tasks.json" ]

for bad in /proc /sys /dev / "$CAY_HOME" "$tmp/g/file" "$tmp/missing"; do
    run --mount "$bad:/x" -- true
    rc=$?
    ok "grant of $bad is refused" [ $rc = 125 -o $rc = 2 ]
    ok "the refusal of a grant names $bad" grep -q "$bad" "$tmp/err"
done
run --mount "$tmp/g:/../x" -- true
rc=$?
ok "a target with .. is refused" [ $rc = 125 -o $rc = 2 ]

# A small foreign root: a shell, what it links, and nothing else.
r="$tmp/root"
mkdir -p "$r/usr/bin" "$r/etc"
ln -s usr/bin "$r/bin"
for p in bash cat id; do
    cp "/usr/bin/$p" "$r/usr/bin/"
    ldd "/usr/bin/$p" | grep -o '/[^ ]*\.so[^ ]*' | while read -r l; do
        mkdir -p "$r$(dirname "$l")" && cp -L "$l" "$r$l"
    done
done
ln -s bash "$r/usr/bin/sh"
ok "a foreign root runs" same "$(run --root "$r" -- /bin/sh -c 'cat /etc/hostname')" cay
ok 'a foreign root is found by a relative path' same "$(cd "$tmp" && run --root root -- /bin/sh -c 'echo $0')" /bin/sh
run --root "$r" -- /bin/sh -c 'echo x > /etc/x && cat /etc/x' >"$tmp/out"
ok 'a foreign root is writable inside' same "$(cat "$tmp/out")" x
ok 'a foreign root is untouched outside' [ ! -e "$r/etc/x" -a ! -e "$r/etc/hosts" ]

verdict
