# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# For the tests beside this file, which source it once $cay is the program: a directory $tmp with a state directory in it, checks
# that are counted, and an end that leaves nothing. Who has more to end defines leave(), which comes first.
tmp=$(mktemp -d)
export CAY_HOME="$tmp/home"
passed=0 failed=0
leave() { :; }
finish() {
    leave
    for id in $("$cay" ls -q 2>/dev/null </dev/null); do "$cay" rm -f "$id" >/dev/null 2>&1 </dev/null; done
    pid=$(pgrep -f "^[^ ]*cay-keeper $CAY_HOME ")
    [ -n "$pid" ] && kill "$pid" && while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
    chmod -R u+rwx "$tmp" 2>/dev/null
    rm -rf "$tmp" 2>/dev/null # of what belongs to other ids inside, who started this takes the rest
}
trap finish EXIT
ok() { # NAME CONDITION…
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        [ -s "$tmp/err" ] && sed 's/^/  err: /' "$tmp/err" | head -n 5
    fi
}
same() { [ "$1" = "$2" ] || { echo "  got: $1"; false; }; }
says() { grep -qF -- "$1" "$tmp/err"; } # of the last command of c()
not() { ! "$@"; }
verdict() { # the last line of a test
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}
