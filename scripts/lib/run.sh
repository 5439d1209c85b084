#!/bin/sh
# Sourced by scripts. A command that `run` starts ends with the script, with all processes of its session: a shell that gets a signal would
# leave them behind. It reads nothing from standard input. The script may redefine atExit.
child=''
run() {
    setsid -- env --default-signal=INT,QUIT "$@" </dev/null &  # which a shell ignores in the background
    child=$!
    status=0
    wait "$child" || status=$?
    child=''
    return "$status"
}
atExit() { :; }
# By their session: cmake and ninja make process groups of their own.
endChild() {
    if [ -n "$child" ]; then
        kill -TERM "$child" 2>/dev/null || true  # it may not have a session yet
        for stat in /proc/[0-9]*/stat; do
            { read -r line <"$stat"; } 2>/dev/null || continue  # it has ended
            # shellcheck disable=SC2086  # state, parent, group, session
            set -- ${line##*) }
            pid=${stat#/proc/}
            [ "$4" != "$child" ] || kill -TERM "${pid%/stat}" 2>/dev/null || true
        done
        wait "$child" || true
    fi
    atExit
}
trap endChild EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
