#!/bin/sh
# Runs $1 as the next command of a session: restores the session's directory and exported variables, and saves them at
# the end. What follows $1 are NAME=value pairs to export. Joined to one line by shell.py, whose docstring has the rules;
# so every statement ends with a semicolon, and comments stand at the start of a line. The braces have the whole parsed
# before anything of it runs. It has to be read by bash and by any POSIX shell.
# shellcheck disable=SC1090,SC2034,SC2046,SC2154,SC2163
{
__qs_state=${TMPDIR:-/tmp}/.quickstarted-session;
# The names of all exported variables, one a line.
__qs_names() {
    export -p | while IFS= read -r __qs_line; do
        case $__qs_line in "declare -x "*|"export "*) ;; *) continue ;; esac;
        __qs_line=${__qs_line%%=*}; __qs_line=${__qs_line##* };
        case $__qs_line in [!A-Za-z_]*|*[!A-Za-z0-9_]*) ;; *) printf "%s\n" "$__qs_line" ;; esac;
    done;
};
__qs_restore() {
    __qs_old=${OLDPWD-};
    if ! cd -- "${__qs_cwd%??}" 2>/dev/null; then
        cd .;
        printf "quickstarted: %s is gone; this command starts in %s\n" "${__qs_cwd%??}" "$PWD" >&2;
    fi;
    OLDPWD=$__qs_old;
    if [ -z "$OLDPWD" ]; then unset OLDPWD; fi;
    unset __qs_cwd __qs_old __qs_whole;
};
__qs_save() {
    set +aeuvxC;
    if [ -z "$__qs_saved" ]; then
        __qs_saved=1;
        umask 077;
        __qs_cwd=$(pwd; printf x);
        export __qs_cwd;
        { export -p && echo "__qs_whole=1"; } >"$__qs_state.new" && command -p mv -f "$__qs_state.new" "$__qs_state";
        unset __qs_cwd;
    fi;
    return "$1";
};
# A state that is not whole, because the disk was full or somebody wrote over it, is not read at all.
if [ -r "$__qs_state" ] && ( . "$__qs_state" && [ -n "$__qs_whole" ] ) >/dev/null 2>&1; then
    unset $(__qs_names);
    . "$__qs_state" 2>/dev/null;
    __qs_restore;
fi;
__qs_command=$1; shift; for __qs_line do export "$__qs_line"; done; set --; unset __qs_line; __qs_saved=;
trap "{ __qs_save \$?; } 2>/dev/null" EXIT;
eval "$__qs_command";
{ __qs_save $?; } 2>/dev/null;
exit $?;
}
