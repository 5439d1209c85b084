#!/bin/sh
# Finalises an installation: permissions, passwd and group caches, etc/sarus.json. It works on its own directory and may be run again
# at any time (for example after an upgrade). It never changes an existing etc/sarus.json, nor another file that the site has changed:
# what it would have written goes to a file beside it whose name ends in ".new".
set -eu
umask 022
LC_ALL=C
export LC_ALL

usage() {
    cat <<'TEXT'
Usage: configure_installation.sh [--rootless] [--dry-run]
       configure_installation.sh [--rootless] --check

Run this script as root. Only libexec/sarus-starter becomes set-user-ID root; everything else runs with the user's rights.
With --rootless, the script needs no root and sets no privileged bit: the installation belongs to the calling user and
serves that user through user namespaces.

  --dry-run   print what would change, and change nothing
  --check     print what is not as this script left it, or as the archive had it (share/sarus/manifest.sha256): status 1 if anything is

An existing etc/sarus.json stays. If this version would write another one, that is etc/sarus.json.new. The same holds for the files
of hooks and others that you have changed. The script replaces those that you have not changed, and keeps copies (FILE.~1~).

Environment:
  SARUS_LOCAL_REPO_BASE_DIR   base directory of the users' image repositories [/home]
  SARUS_CENTRALIZED_REPO_DIR  the centralized repository [/var/sarus/centralized_repository]
  SARUS_OCI_RUNTIME           path or name of the OCI runtime to use [the first of crun and runc]
TEXT
}

fail() {
    echo "ERROR: $1" >&2
    exit 1
}

rootless=no task=configure
for option in "$@"; do
    case "$option" in
        --rootless) rootless=yes ;;
        --dry-run) task=show ;;
        --check) task=check ;;
        -h|--help) usage; exit 0 ;;
        *) usage >&2; fail "unknown option '$option'" ;;
    esac
done

prefix=$(cd "$(dirname "$0")" && pwd -P)
cd "$prefix"

for file in bin/sarus libexec/sarus-starter etc/templates/sarus.json.in; do
    [ -f "$file" ] || fail "$prefix is not an installation of Sarus ($file is missing): this script must be in the top directory of an installation"
done
if [ "$task" = configure ] && [ "$rootless" = no ] && [ "$(id -u)" -ne 0 ]; then
    fail "run this script as root (or with --rootless, for an installation that serves one user without privileges)"
fi

# A path goes into a JSON string unescaped, so characters that JSON must escape are refused.
checkPath() {
    case "$2" in
        /*) ;;
        *) fail "$1 is '$2', but must be an absolute path" ;;
    esac
    case "$2" in
        *[\"\\]* | *[[:cntrl:]]*) fail "$1 is '$2', which contains a quote, a backslash or a control character" ;;
    esac
}

checkPath "the installation directory" "$prefix"

record=etc/rendered.sha256  # what this script wrote last, in the form of sha256sum
manifest=share/sarus/manifest.sha256  # of the archive, in the same form
privilegedMark=etc/set-user-id-root

# Only root may be able to change what runs with privileges: the whole installation and the directories on the way to it.
secureTree() {
    set -- "$prefix/bin" "$prefix/libexec" "$prefix/etc/." "$prefix/var/."  # the last two are links in Debian's package
    [ ! -d "$prefix/lib" ] || set -- "$@" "$prefix/lib"  # the plugin for Slurm
    [ ! -d "$prefix/dropbear" ] || set -- "$@" "$prefix/dropbear"
    chown -R --no-dereference root:root "$@"
    chown root:root "$prefix" "$prefix/configure_installation.sh"
    find "$@" ! -type l -exec chmod go-w {} +
    chmod go-w "$prefix" "$prefix/configure_installation.sh"

    directory=$(dirname "$prefix")
    while [ "$directory" != / ]; do
        mode=$(stat -c '%u %A' "$directory")
        case "$mode" in
            "0 "?????-??-?) ;;
            *) echo "WARNING: $directory is not owned by root alone ($mode): the security checks will refuse to start containers" >&2 ;;
        esac
        directory=$(dirname "$directory")
    done
}

clearPrivilegedBits() {
    find bin libexec -type f -exec chmod u-s,g-s {} +
}

# The group to which the site has restricted the privileged starter (mode 4750), if it has.
groupOfStarter() {
    case "$(stat -c '%u %A' libexec/sarus-starter)" in
        "0 -rws"???---) stat -c %g libexec/sarus-starter ;;
    esac
}

setPermissions() {
    mkdir -p var/OCIBundleDir
    chmod 0755 var var/OCIBundleDir
    if [ "$rootless" = yes ]; then
        clearPrivilegedBits
        rm -f "$privilegedMark"
        echo "Rootless installation: no program is SUID root"
        return
    fi
    echo "Setting Sarus as SUID root"
    group=$(groupOfStarter)
    secureTree
    clearPrivilegedBits
    if [ -n "$group" ]; then
        chgrp "$group" libexec/sarus-starter
        chmod u+s,o= libexec/sarus-starter
        echo "Only members of the group $group may start containers, as before"
    else
        chmod u+s libexec/sarus-starter
    fi
    # If the bit gets lost, 'sarus run' says so instead of starting containers without privileges silently.
    rm -f "$privilegedMark"  # whatever somebody made it before only root could change this directory
    echo "libexec/sarus-starter was made SUID root" >"$privilegedMark"
    echo "Successfully set Sarus as SUID root"
}

createCaches() {
    for database in passwd group; do
        echo "Creating cached $database database"
        libexec/update-passwd-cache "$database"
        echo "Successfully created cached $database database"
    done
}

setSchemaOwnership() {
    echo "Setting ownership of etc/sarus.schema.json"
    [ -f etc/sarus.schema.json ] || fail "etc/sarus.schema.json is missing"
    if [ "$rootless" = no ]; then
        chown root:root etc/*.schema.json
    fi
    chmod 0644 etc/*.schema.json
    echo "Successfully set ownership of etc/sarus.schema.json"
}

showPermissions() {
    if [ "$rootless" = yes ]; then
        [ ! -u libexec/sarus-starter ] || echo "Would make libexec/sarus-starter an ordinary program"
    else
        [ -u libexec/sarus-starter ] && [ -e "$privilegedMark" ] || echo "Would set libexec/sarus-starter SUID root"
        faultsOfPermissions | sed 's/^/Would change: /'
    fi
    echo "Would refresh etc/passwd and etc/group"
}

# What others than root could change of a set-user-ID installation.
faultsOfPermissions() {
    set -- ! -type l "(" ! -user 0 -o -perm /022 ")" -exec stat -c '%n (uid %u, mode %a) is not changed by root alone' {} +
    find "$prefix" configure_installation.sh -maxdepth 0 "$@"
    for tree in bin libexec etc/. lib dropbear; do
        [ ! -d "$tree" ] || find "$tree" "$@"
    done
}

# Prints what is not as it was installed, and returns whether nothing is. What the site has changed is no fault.
check() {
    faults=$(
        if [ -f "$manifest" ]; then
            sha256sum --check --quiet "$manifest" 2>/dev/null | sed 's/: FAILED open or read$/ is missing/; s/: FAILED$/ has changed/'
            find bin libexec lib dropbear -type f 2>/dev/null | while read -r file; do
                grep -qF "  $file" "$manifest" || echo "$file is not from the archive"
            done
        fi
        for file in etc/sarus.json etc/passwd etc/group; do
            [ -f "$file" ] || echo "$file is missing"
        done
        if [ "$rootless" = no ] && [ -e "$privilegedMark" ]; then
            [ -u libexec/sarus-starter ] || echo "libexec/sarus-starter has lost its set-user-ID bit"
            faultsOfPermissions
        fi
    )
    sha256sum --check --quiet "$record" 2>/dev/null | sed 's/: FAILED$/: changed by this site/; s/: FAILED open or read$/: removed by this site/'
    [ -f "$manifest" ] || echo "There is no $manifest: programs are not compared"
    if [ -n "$faults" ]; then
        printf '%s\n' "$faults" "Unpack the archive again, or run configure_installation.sh"
        return 1
    fi
    echo "$prefix is as it was installed"
}

# Prints the first candidate that is a program. Candidates are paths in the installation, absolute paths, or names for PATH.
findProgram() {
    for candidate in "$@"; do
        case "$candidate" in
            bin/*) candidate=$prefix/$candidate ;;
            /*) ;;
            *) candidate=$(command -v "$candidate" || true) ;;
        esac
        case "$candidate" in
            /*)
                if [ -f "$candidate" ] && [ -x "$candidate" ]; then
                    echo "$candidate"
                    return
                fi ;;
        esac
    done
}

# report WHAT PATH CONSEQUENCE: prints the path, or the consequence if there is none.
report() {
    if [ -n "$2" ]; then
        echo "Found $1: $2"
    else
        echo "Found no $1: $3"
    fi
}

findPrograms() {
    skopeo=$(findProgram bin/skopeo skopeo)
    [ -n "$skopeo" ] || fail "Failed to locate skopeo. Please install it (Debian package 'skopeo') and run this script again"
    report skopeo "$skopeo" ""
    report umoci "$(findProgram bin/umoci umoci /usr/local/bin/umoci)" "it is not needed"
    report mksquashfs "$(findProgram mksquashfs)" "it is not needed"
    # A static init runs in every image; a dynamic one runs only if the image has its libraries.
    init=$(findProgram bin/tini-static-amd64 bin/tini-static-arm64 /tini-static tini-static catatonit /tini tini)
    report "init program" "$init" "'sarus run --init' will not be available (Debian package 'catatonit' or 'tini')"
    if [ -n "$init" ] && head -c 4096 "$init" | grep -aq '/ld-'; then
        echo "This init program is dynamic: 'sarus run --init' works in images that have its libraries alone (Debian package 'catatonit' has a static one)"
    fi

    if [ -n "${SARUS_OCI_RUNTIME:-}" ]; then
        runtime=$(findProgram "$SARUS_OCI_RUNTIME")
        [ -n "$runtime" ] || fail "SARUS_OCI_RUNTIME is '$SARUS_OCI_RUNTIME', which is not a program"
    else
        runtime=$(findProgram bin/crun bin/runc bin/runc.amd64 crun runc)
        [ -n "$runtime" ] || fail "Failed to locate an OCI runtime. Please install one (Debian packages 'crun' and 'runc') and run this script again"
    fi
    case "$(basename "$runtime")" in
        *crun*) report crun "$runtime" "" ;;
        *) report runc "$runtime" "" ;;
    esac
}

# The path that an existing etc/sarus.json has for the key $1.
configured() {
    [ ! -f etc/sarus.json ] || sed -n '/"'"$1"'"/{s|.*"'"$1"'"[[:space:]]*:[[:space:]]*"\(/[^"\\]*\)".*|\1|p;q;}' etc/sarus.json
}

# Without root, use the usual place of a user's repository if the user owns it: ~/.sarus, that is <parent of home>/<user>/.sarus.
defaultLocalRepositoryBase() {
    if [ "$rootless" = no ] || [ "$(id -u)" -eq 0 ]; then
        echo /home
        return
    fi
    base=$(dirname "${HOME:-/}")
    if [ "$base" != / ] && [ "$(basename "$HOME")" = "$(id -un 2>/dev/null || true)" ] && [ -w "$HOME" ]; then
        echo "$base"
    else
        echo "$prefix/var/repositories"
    fi
}

chooseRepositories() {
    localBase=${SARUS_LOCAL_REPO_BASE_DIR:-$(configured localRepositoryBaseDir)}
    localBase=${localBase:-$(defaultLocalRepositoryBase)}
    centralized=${SARUS_CENTRALIZED_REPO_DIR:-$(configured centralizedRepositoryDir)}
    if [ "$rootless" = yes ] && [ "$(id -u)" -ne 0 ]; then
        centralized=${centralized:-$prefix/var/centralized_repository}
        if [ "$localBase" = "$prefix/var/repositories" ]; then
            [ "$task" != configure ] || mkdir -p "$localBase"
        fi
    else
        centralized=${centralized:-/var/sarus/centralized_repository}
    fi
    echo "Setting local repository base directory to: $localBase"
    echo "Setting centralized repository directory to: $centralized"
}

# substitution NAME VALUE: the sed command that fills in @NAME@, or drops its lines if there is no value.
substitution() {
    if [ -z "$2" ]; then
        echo "/@$1@/d"
        return
    fi
    checkPath "$1" "$2"
    case "$2" in
        *[\&\|]*) printf 's|@%s@|%s|g\n' "$1" "$(printf '%s' "$2" | sed 's/[&|]/\\&/g')" ;;
        *) printf 's|@%s@|%s|g\n' "$1" "$2" ;;
    esac
}

digestOf() {
    digest=$(sha256sum <"$1")
    echo "${digest%% *}"
}

# The digest of what this script wrote to FILE when it ran last; nothing if it did not.
lastDigestOf() {
    if [ -f "$record" ]; then
        while read -r digest name; do
            [ "$name" != "$1" ] || echo "$digest"
        done <"$record"
    fi
}

# show FILE: what render FILE would do.
show() {
    temporary=$(mktemp)
    cat >"$temporary"
    if [ ! -e "$1" ]; then
        echo "Would create $1"
    elif ! cmp -s "$1" "$temporary"; then
        if [ "$1" != etc/sarus.json ] && [ ! -L "$1" ] && [ "$(digestOf "$1")" = "$(lastDigestOf "$1")" ]; then
            echo "Would replace $1 (and keep a copy)"
        else
            echo "Would keep $1, which this site has changed"
            [ "$(digestOf "$temporary")" = "$(lastDigestOf "$1")" ] || echo "Would write $1.new"
        fi
        diff -u --label "$1" --label new "$1" "$temporary" || true
    fi
    rm -f "$temporary"
}

# render FILE: FILE gets the content of standard input, completely or not at all, unless the site has changed it.
render() {
    [ "$task" = configure ] || { show "$1"; return; }
    mkdir -p "$(dirname "$1")"
    temporary=$(mktemp "$1.XXXXXX")
    if ! cat >"$temporary" || ! chmod 0644 "$temporary" || ! sync "$temporary"; then
        rm -f "$temporary"
        fail "cannot write $prefix/$1"
    fi
    last=$(lastDigestOf "$1")
    new=$(digestOf "$temporary")
    if [ ! -e "$1" ]; then
        mv -fT "$temporary" "$1"
    elif [ "$(digestOf "$1")" = "$new" ]; then
        rm -f "$temporary" "$1.new"
    elif [ "$1" != etc/sarus.json ] && [ ! -L "$1" ] && [ "$(digestOf "$1")" = "$last" ]; then
        cp -pf --backup=numbered "$1" "$1"
        mv -fT "$temporary" "$1"
    elif [ "$new" = "$last" ]; then
        rm -f "$temporary"
        echo "Kept $1, which this site has changed"
    else
        mv -fT "$temporary" "$1.new"
        echo "Kept the existing $1. Compare it with what this version writes: $1.new"
    fi
    echo "$new  $1" >>"$record.new"
}

configureSarus() {
    echo "Configuring etc/sarus.json"
    findPrograms
    chooseRepositories
    script=$(
        substitution INSTALL_PATH "$prefix"
        substitution SKOPEO_PATH "$skopeo"
        substitution INIT_PATH "$init"
        substitution RUNC_PATH "$runtime"
        substitution LOCAL_REPO_BASE_DIR "$localBase"
        substitution CENTRALIZED_REPO_DIR "$centralized"
    )
    sed "$script" etc/templates/sarus.json.in | render etc/sarus.json
    echo "Successfully configured etc/sarus.json."
}

# The files of this machine's GNU C library, separated by colons; nothing if the machine has another one. They are in the directory
# of the libc.so.6 that programs load; the dynamic linker has another path.
findGlibc() {
    needed=$(ldd /bin/sh 2>/dev/null || true)
    libc=$(printf '%s\n' "$needed" | sed -n 's|.* => \(/[^ ]*/libc\.so\.6\) .*|\1|p')
    linker=$(printf '%s\n' "$needed" | sed -n 's|^[[:space:]]*\(/[^ ]*/ld[^ /]*\) (.*|\1|p')
    [ -n "$libc" ] || return 0
    list=$libc directory=${libc%/*}
    for name in libm.so.6 libmvec.so.1 libpthread.so.0 librt.so.1 libdl.so.2 libresolv.so.2 libutil.so.1 libanl.so.1 \
        libnss_files.so.2 libnss_dns.so.2 libnss_compat.so.2 libthread_db.so.1 libBrokenLocale.so.1; do
        if [ -f "$directory/$name" ]; then
            list=$list:$directory/$name
        fi
    done
    printf '%s\n' "$list${linker:+:$linker}"
}

# enableHook NAME: enables a hook that needs no choice of the site, at the first configuration. Debian's package manager installs the templates
# of the package sarus-hooks later.
enableHook() {
    if [ "$firstTime" = yes ] && [ ! -e "etc/hooks.d/$1.json.in" ] && [ -e "etc/templates/hooks.d/$1.json.in" ]; then
        if [ "$task" = show ]; then
            enabled="$enabled etc/templates/hooks.d/$1.json.in"
        else
            cp "etc/templates/hooks.d/$1.json.in" etc/hooks.d/
        fi
    fi
}

# The hooks get the directory of users that etc/sarus.json has, which may differ from what this version would write.
configureHooks() {
    base=$(configured localRepositoryBaseDir)
    script=$(
        substitution INSTALL_PATH "$prefix"
        substitution HOOK_BASE_DIR "${base:-$localBase}"
        substitution GLIBC_LIBS "$(findGlibc)"
    )
    # shellcheck disable=SC2086  # one word a template
    for template in etc/hooks.d/*.json.in $enabled; do
        [ -f "$template" ] || continue
        rendered=etc/hooks.d/$(basename "$template" .in)
        echo "Configuring $rendered"
        sed "$script" "$template" | render "$rendered"
    done
}

# The administrator loads it if AppArmor restricts user namespaces.
configureAppArmor() {
    sed "$(substitution INSTALL_PATH "$prefix")" etc/templates/apparmor.d/sarus-starter.in | render etc/apparmor.d/sarus-starter
}

# The administrator includes it in Slurm's plugstack.conf.
configureSlurm() {
    [ -f lib/slurm/spank_sarus.so ] || return 0
    sed "$(substitution INSTALL_PATH "$prefix")" etc/templates/plugstack.conf.in | render etc/plugstack.conf
}

# For the site's tree of environment modules; a package needs none, because its command is in everybody's PATH.
configureModule() {
    [ -f etc/templates/modulefile.in ] || return 0
    sed "$(substitution INSTALL_PATH "$prefix")" etc/templates/modulefile.in | render etc/modulefile
}

firstTime=no enabled=''
[ -e etc/sarus.json ] || firstTime=yes
installed=$(configured prefixDir)
if [ -n "$installed" ] && [ "$installed" != "$prefix" ]; then
    echo "WARNING: etc/sarus.json, which stays, is for an installation in $installed: replace that path in it by $prefix" >&2
fi
case "$task" in
    check) check; exit ;;
    show) showPermissions ;;
    configure)
        setPermissions
        rm -f "$record.new"
        createCaches
        setSchemaOwnership ;;
esac
configureSarus
if [ -x bin/ssh_hook ] && [ -x dropbear/bin/dropbear ]; then
    enableHook 07-ssh-hook
    enableHook 09-slurm-global-sync-hook
fi
configureHooks
configureAppArmor
configureSlurm
configureModule
[ "$task" = configure ] || exit 0
mv -fT "$record.new" "$record"

echo "To execute sarus commands run first:"
echo "export PATH=$prefix/bin:\${PATH}"
echo "To persist that for future sessions, consider adding the previous line to your .bashrc or equivalent file"
