# shellcheck shell=sh
# PID 1 of a sandbox. $1 is HOME, $2 the workspace; $3 is where a certificate bundle may lie and $4 its place. Says on stdout what it found, and ends when its stdin does.
# No signal from inside ends it: it is PID 1 of its namespace.
trap '' HUP INT QUIT TERM USR1 USR2 ALRM TSTP TTIN TTOU
umask 022
mkdir -p "$1" || exit 125
if [ -f "$3" ]; then
    mkdir -p "${4%/*}" && cat "$3" >"$4" && rm -f "$3" || exit 125
fi
for file in "$2"/* "$2"/.[!.]* "$2"/..?*; do
    if [ -e "$file" ] || [ -L "$file" ]; then echo 'workspace=used'; break; fi
done
printf 'shell=%s\n' "$(command -v bash || echo /bin/sh)"
printf 'python=%s\nready=1\n' "$(command -v python3)"

# 40 is AF_VSOCK. Without an interpreter nothing in the image can open a socket of that family to try.
vsock=untested
if command -v python3 >/dev/null; then
    vsock=$(python3 -I -S -c '
import _socket
try:
    _socket.socket(40, 1)
    print("open")
except OSError as error:
    print(error.errno)' 2>/dev/null)
elif command -v perl >/dev/null; then
    vsock=$(perl -e 'print socket(my $s, 40, 1, 0) ? "open" : $! + 0' 2>/dev/null)
fi
printf 'vsock=%s\n' "$vsock"

# Whatever is orphaned becomes a child of this shell, which reaps while it waits for a child: so a child reads the
# stdin for it. A command may end that one, and then there is another. When no process can be started any more, a
# shell gives up; it then begins again in its own place, for which it needs none.
exec 3<&0 </dev/null >/dev/null 2>&1
# shellcheck disable=SC2016 # it is expanded by the shell that it becomes
hold='
    trap "exec /bin/sh -c \"\$1\" init \"\$1\"" EXIT
    while :; do
        cat <&3 &
        wait "$!"
        [ "$?" -gt 128 ] || break
    done
    trap - EXIT'
unset PWD OLDPWD
exec /bin/sh -c "$hold" init "$hold"
