# shellcheck shell=sh
# Signals what a command started, from inside its container: for engines whose processes the daemon can't reach.
# $1 is the signal's number, $2 the command's first process, $3 when that began; then the first processes of the other
# commands that run. Only builtins, so that it needs no second process. Exit code 0 when nothing is left to signal.
#
# Of the command are: what descends from its first process, and orphans that began no earlier than it did. A process
# below another command's first process, or below an older one, is not. Processes stand still before they are killed,
# so that none makes another meanwhile.
signal=$1 main=$2 began=$3
shift 3
others=" $* "

scan() {
    pids=
    for entry in /proc/[0-9]*; do
        pid=${entry#/proc/} stat=
        while read -r line || [ -n "$line" ]; do stat="$stat $line"; done 2>/dev/null <"$entry/stat"
        [ -n "$stat" ] || continue
        # shellcheck disable=SC2086 # to be split is what it is for
        fields ${stat##*) } || continue
        pids="$pids $pid"
        eval "parent_$pid=$parent age_$pid=$age"
    done
}

# The fields of /proc/PID/stat that follow the name.
fields() {
    [ "$1" != Z ] && [ "$1" != X ] || return 1
    parent=$2
    shift 19
    age=$1
}

is_ours() {
    at=$1
    while :; do
        [ "$at" != "$main" ] || return 0
        [ "$at" != $$ ] || return 1
        case $others in *" $at "*) return 1 ;; esac
        eval "age=\${age_$at-0} parent=\${parent_$at-0}"
        [ "$age" -ge "$began" ] || return 1
        [ "$parent" != 1 ] || return 0
        [ "$parent" != 0 ] || return 1
        at=$parent
    done
}

each() {
    count=0
    for pid in $pids; do
        if [ "$pid" != 1 ] && is_ours "$pid"; then
            case $seen in *" $pid "*) ;; *) count=$((count + 1)) seen="$seen$pid " ;; esac
            kill -"$1" "$pid" 2>/dev/null
        fi
    done
}

seen=' '
scan
if [ "$signal" != 9 ]; then
    each "$signal"
    exit 0
fi
rounds=0
while [ "$rounds" -lt 200 ]; do
    rounds=$((rounds + 1))
    each STOP
    if [ "$count" = 0 ]; then
        each KILL
        seen=' '
        scan
        each KILL
        [ "$count" != 0 ] || exit 0
        seen=' '
    fi
    scan
done
exit 1
