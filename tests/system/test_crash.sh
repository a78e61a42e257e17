#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Kills at every fault point of keeper, helpers, init and client, one after another, under load. Then nothing that was
# acknowledged may be lost (judged by `ledger`), and once the sandboxes are removed nothing may be left (by `leftovers`).
#
# Also: random:N kills the keeper N times at random moments of a load, and a client for each five of these; waves:N:W makes and removes N sandboxes W at once,
# cycles:N one after another with a look at the keeper's size.
#
# test_crash.sh BUILD USER [--every N[:K] | POINT…]     every Nth, from the Kth on; needs a build with -Dfaults=true; USER is root or one of tools/test-users
set -u
build=$1 user=$2
shift 2
if [ "${ROOM-}" = "" ]; then
    [ "$(id -u)" = 0 ] || { echo 'skipped: a room of its own needs root'; exit 77; }
    id "$user" >/dev/null 2>&1 || { echo "skipped: there is no user $user; make it by tools/test-users"; exit 77; }
    ROOM=$(mktemp -d) || exit 1
    export ROOM
    flag=
    [ "$user" = root ] || flag="-d $user"
    # shellcheck disable=SC2086
    "$build/tests/support/alone" $flag "$ROOM" "$0" "$build" "$user" "$@"
    rc=$?
    rmdir "$ROOM"
    exit $rc
fi

crash=$build/tests/system/crash
home=$ROOM/home
export CAY_HOME="$home" CAY_LIBEXEC="$build" LEDGER="$ROOM/led/ledger" XDG_RUNTIME_DIR="$ROOM/run" CAY_FAULT_HITS="$ROOM/led/hits"
unset CAY_FAULT XDG_DATA_HOME
cd "$ROOM" || exit 1

as() {
    if [ "$user" = root ]; then
        "$@" </dev/null
    else
        HOME=$ROOM setpriv --reuid="$user" --regid="$user" --init-groups "$@" </dev/null
    fi
}
# The judges end without giving memory back, which is no finding of a build with sanitizers.
judge() {
    program=$1
    shift
    ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" "$build/tests/support/$program" "$@"
}
role() { as timeout -k1 60 "$crash" "$@" 2>>said; }
hits() { od -An -tu4 -N4 led/hits | tr -d ' '; }
run_dir() { # where the sockets of this state directory are
    for d in /run/cay/* "$ROOM"/run/cay/*; do
        [ -e "$d/start.lock" ] && echo "$d"
    done
}

begin() {
    rm -rf led home run
    mkdir -p led home run
    chmod 700 home run
    head -c 4096 /dev/zero >led/hits
    chown -R "$user" led home run
    rm -rf /run/cay/*
    : >said
    judge leftovers before before "$home" "$ROOM/run" >judged 2>&1
}

# A keeper that leaves in peace takes everything with it; what it may not take is the state directory itself.
finish() {
    role end || echo "end failed" >>judged
    role signal 15 || echo "keeper does not leave" >>judged
    if [ "$(hits)" != "$before_end" ]; then # killed on its way out: the next one does the rest
        role start
        role signal 15
    fi
    # One whose maker was cut off has no owner, which is looked for every second: a keeper that left before leaves it to the next.
    if [ -n "$(ls home/sandboxes 2>/dev/null)" ]; then
        role start
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            [ -z "$(ls home/sandboxes)" ] || sleep 0.5
        done
        role signal 15
    fi
    left=$(cd home 2>/dev/null && find sandboxes -mindepth 1 2>/dev/null | head -3)
    [ -z "$left" ] || echo "left: files $left" >>judged
    left=$(find home/layers -mindepth 1 -maxdepth 1 -name '[sg]*' 2>/dev/null | head -3)
    [ -z "$left" ] || echo "left: layers $left" >>judged
    dirs=$(run_dir)
    for d in $dirs; do
        left=$(find "$d" -mindepth 1 ! -name '*.lock' ! -name keeper.err ! -name p | head -3)
        [ -z "$left" ] || echo "left: $left" >>judged
        cat "$d/keeper.err" >>said 2>/dev/null
    done
    rm -rf home run /run/cay/*
    mkdir -p home run
    chmod 700 home run
    # shellcheck disable=SC2086
    judge leftovers after before "$home" "$ROOM/run" $dirs >>judged 2>&1 || :
}

one() { # POINT
    begin
    case $1 in
    store.connected | store.upgrade) CAY_FAULT="$1=kill" role base ;;
    init.adopt.*) CAY_FAULT="$1=kill" role start ;; # those that are to be adopted
    esac
    role base || echo "base failed" >>judged
    role signal 9
    case $1 in # it outlives its keeper; here another one has to be started
    lender.egress.*) kill -9 "$(cut -d' ' -f1 "$(run_dir)/egress.pid")" ;;
    esac
    case $1 in
    random:*)
        i=0
        while [ $i -lt "${1#*:}" ]; do
            role load 2 "kill:$(od -An -N2 -tu2 /dev/urandom | awk '{print $1 % 2000}')" &
            for _ in 1 2 3 4 5; do
                sleep "0.$(od -An -N1 -tu1 /dev/urandom | tr -d ' ')"
                role signal 9
                i=$((i + 1))
            done
            wait
        done
        ;;
    waves:*)
        n=${1#*:}
        role waves "${n%:*}" "${n#*:}"
        ;;
    cycles:*) as "$crash" cycles "${1#*:}" 2>>said ;;
    client.claim.*)
        role load 2 "$1=kill"
        role start
        sleep 1.5 # an owner is looked for every second
        ;;
    keeper.* | zygote.* | janitor.* | lender.* | init.*)
        CAY_FAULT="$1=kill" role start
        role load 2
        ;;
    *) role load 2 "$1=kill" ;;
    esac || echo "a client crashed" >>judged
    case $1 in init.bind.*) role signal 9 ;; esac # what was stopped meanwhile is looked at through a keeper that can bind
    role observe >observed || echo "observe failed" >>judged
    init=
    case $1 in init.*) init=init ;; esac
    judge ledger led/ledger observed $init >>judged 2>&1
    before_end=$(hits)
    finish
    case $1 in *:*) ;; *) [ "$(hits)" -gt 0 ] || echo "not reached" >>judged ;; esac
    errors=$(grep -c '^client' said)
    if [ -s judged ]; then
        verdict=FAILED
        bad=$((bad + 1))
    else
        verdict=ok
    fi
    total=$((total + 1))
    printf '%-28s %4s %7s  %s\n' "$1" "$(hits)" "$errors" "$verdict"
    if [ -s judged ] || [ -n "${VERBOSE-}" ]; then
        sort -u judged | head -20 | sed 's/^/    # /'
        grep -avE '^ *#[0-9]+ |^$' said | sort | uniq -c | head -20 | sed 's/^/    # said: /'
    fi
}

mount -t tmpfs -o mode=755 none /run/cay 2>/dev/null || { mkdir -p /run/cay && mount -t tmpfs -o mode=755 none /run/cay; }
chmod 711 "$ROOM"
chmod 700 /run/cay
bad=0 total=0
every=1:0
[ "${1-}" = --every ] && every=$2
case $every in *:*) ;; *) every=$every:0 ;; esac
# What brings things from other machines is not in the load: there is none here.
# shellcheck disable=SC2046
# Points of what is not in this load; who kills there: tests/system/test_fetch.py, test_templates.py and test_registry.py, test_archives.py, test_manifest.sh, test_on_snapshots.sh, test_disk_image.sh, tests/server/test_crash.py and test_pools.py, tests/docker.
others='^((disk|fetch|image|import|push|pull|template|workspace|answer|audit|task|docker|on|warm)\.|create\.warm|manifest\.text)'
# shellcheck disable=SC2046 # a word for each fault point
[ "${1---every}" != --every ] || set -- $({ "$build/cay-keeper" --faults; "$crash" faults; } | grep -vE "$others" | sort -u | awk "NR % ${every%:*} == ${every#*:}")
printf '%-28s %4s %7s  %s\n' point hits errors result
for p in "$@"; do
    one "$p"
done
echo "$total points, $bad failed, as $user"
[ "$bad" = 0 ]
