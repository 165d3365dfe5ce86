# shellcheck shell=sh
# Becomes a command, once the daemon says so. $1 is the pipe for its output, empty to make one here; $2 its directory;
# $3 is "input" when it reads stdin; then its argv. Announces itself on stderr: `pid=` and its line of /proc, or
# `refused=` and why.
if [ -n "$1" ]; then
    exec 3>"$1" || exit 125
else
    # What goes on after this command keeps an open pipe: the engine closes its own soon after the command's end.
    __sandboxd=/run/.sandboxd.$$
    if command -p mkfifo -m 600 "$__sandboxd"; then
        ( { cat; exec cat >/dev/null; } <"$__sandboxd" 2>/dev/null & )
        exec 3>"$__sandboxd" || exit 125
        command -p rm -f "$__sandboxd"
    else
        exec 3>&1
    fi
fi
if ! cd -- "$2" 2>/dev/null; then
    printf 'refused=directory\n' >&2
    exit 126
fi
__sandboxd=missing
case $4 in
*/*)
    if [ -d "$4" ] || { [ -e "$4" ] && ! [ -x "$4" ]; }; then __sandboxd=denied; fi
    if [ -f "$4" ] && [ -x "$4" ]; then __sandboxd=found; fi
    ;;
?*)
    set -f
    IFS=:
    for __sandboxd_directory in $PATH; do
        if [ -f "${__sandboxd_directory:-.}/$4" ] && [ -x "${__sandboxd_directory:-.}/$4" ]; then
            __sandboxd=found
            break
        fi
    done
    set +f
    unset IFS __sandboxd_directory
    ;;
esac
if [ "$__sandboxd" != found ]; then
    printf 'refused=%s\n' "$__sandboxd" >&2
    exit 127
fi
read -r __sandboxd </proc/$$/stat || exit 125
printf 'pid=%s\n' "$__sandboxd" >&2
read -r __sandboxd || exit 125
# The engine and the shell put these in; a command's environment is what it was given.
unset __sandboxd PWD OLDPWD
if [ "$3" = input ]; then
    shift 3
    exec "$@" >&3 2>&1 3>&-
fi
shift 3
exec "$@" </dev/null >&3 2>&1 3>&-
