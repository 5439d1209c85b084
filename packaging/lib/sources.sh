#!/bin/sh
# Sourced by build scripts: software of others, from Debian's source packages. `work` is a directory that the script removes.
# shellcheck disable=SC2154

# fetchSource PACKAGE[/SUITE] DIRECTORY: downloads a source package. The machine's own package sources are read as sources of source packages, in a
# private state of apt. So apt checks the signature of the mirror and by it the .dsc, and the .dsc names the digests of the files. If Debian's part of
# the package is not there, the release of the software itself is downloaded alone; apt knows its digest, too. What apt says is in $work/apt.log.
fetchSource() {
    command -v apt-get >/dev/null 2>&1 || { echo "apt-get is missing" >"$work/apt.log"; return 1; }
    apt=$work/apt
    case "$1" in */*) suite=${1#*/} ;; *) suite='' ;; esac
    if [ ! -d "$apt/parts$suite" ]; then
        mkdir -p "$apt/lists$suite/partial" "$apt/cache/archives/partial" "$apt/parts$suite"
        for file in /etc/apt/sources.list.d/*.sources; do
            [ ! -f "$file" ] || sed "s/^Types:.*/Types: deb-src/; ${suite:+s/^Suites: *[^ -]*\( .*\)*\$/Suites: $suite/}" "$file" >"$apt/parts$suite/$(basename "$file")"
        done
        for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
            [ ! -f "$file" ] || sed -n "s/^[[:space:]]*deb\(-src\)\{0,1\}[[:space:]]/deb-src /${suite:+; s/^\(deb-src \(\[.*\] \)*[^ ]*\) *[^ -]* /\1 $suite /}; /^deb-src /p" "$file" |
                sort -u >"$apt/parts$suite/$(basename "$file" .list).list"
        done
        cat >"$apt/apt$suite.conf" <<CONF
Dir::State "$apt";
Dir::State::Lists "$apt/lists$suite";
Dir::State::status "/var/lib/dpkg/status";
Dir::Cache "$apt/cache";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$apt/parts$suite";
APT::Sandbox::User "";
Acquire::Languages "none";
CONF
        APT_CONFIG=$apt/apt$suite.conf apt-get --quiet --quiet update >"$work/apt.log" 2>&1 || [ -n "$suite" ] || return
    fi
    (
        cd "$2" || exit
        export APT_CONFIG="$apt/apt$suite.conf"
        apt-get --quiet --quiet --download-only source "$1" && exit
        rm -f "${1%/*}"_*
        apt-get --quiet --quiet --download-only --tar-only source "$1"
    ) >>"$work/apt.log" 2>&1
}

# unpackSource NAME FROM TO: unpacks the source package NAME of a directory, with Debian's patches, or a file: a .dsc or a release archive. Prints its
# version.
unpackSource() {
    place=$2
    if [ -d "$2" ]; then
        place=''
        for candidate in "$2/$1"_*.dsc "$2/$1"_*.orig.tar.?z*; do
            [ -n "$place" ] || [ ! -f "$candidate" ] || place=$candidate
        done
        [ -n "$place" ] || { echo "$2 does not contain the source of $1" >&2; return 1; }
    fi
    case "$place" in
        *.dsc) dpkg-source --require-strong-checksums --extract "$place" "$3" >"$work/unpack.log" 2>&1 || { cat "$work/unpack.log" >&2; return 1; } ;;
        *) mkdir -p "$3" && tar -xf "$place" -C "$3" --strip-components=1 || return ;;
    esac
    basename "$place" | sed 's/^[^_]*_//; s/\.dsc$//; s/\.orig\.tar\..*//'
}
