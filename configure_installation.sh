#!/bin/sh
# Finalises an installation: permissions, passwd and group caches, etc/sarus.json. It works on the directory in which it lies and may be
# run again at any time (for example after an upgrade); an existing etc/sarus.json is kept as etc/sarus.json.bak.
set -eu
umask 022
LC_ALL=C
export LC_ALL

usage() {
    cat <<'TEXT'
Usage: configure_installation.sh [--rootless]

Run it as root: only libexec/sarus-starter becomes set-user-ID root; everything else runs with the user's own rights.
With --rootless no file gets a privileged bit and no root is needed: the installation belongs to the user who runs this
and serves that user, through user namespaces.

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

rootless=no
for option in "$@"; do
    case "$option" in
        --rootless) rootless=yes ;;
        -h|--help) usage; exit 0 ;;
        *) usage >&2; fail "unknown option '$option'" ;;
    esac
done

prefix=$(cd "$(dirname "$0")" && pwd -P)
cd "$prefix"

for file in bin/sarus libexec/sarus-starter etc/templates/sarus.json.in; do
    [ -f "$file" ] || fail "$prefix is not an installation of Sarus ($file is missing): this script has to lie in the top directory of one"
done
if [ "$rootless" = no ] && [ "$(id -u)" -ne 0 ]; then
    fail "this script has to be run as root (or with --rootless, for an installation that serves one user without privileges)"
fi

# A path goes into a JSON string as it is, so what JSON would need to have escaped is refused.
checkPath() {
    case "$2" in
        /*) ;;
        *) fail "$1 is '$2', but an absolute path is needed" ;;
    esac
    case "$2" in
        *[\"\\]* | *[[:cntrl:]]*) fail "$1 is '$2', which contains a quote, a backslash or a control character" ;;
    esac
}

checkPath "the installation directory" "$prefix"

# Nobody but root may be able to change what runs with privileges: that holds for the whole installation and for the way to it.
secureTree() {
    chown -R --no-dereference root:root "$prefix/bin" "$prefix/libexec" "$prefix/etc" "$prefix/var"
    chown root:root "$prefix" "$prefix/configure_installation.sh"
    find "$prefix/bin" "$prefix/libexec" "$prefix/etc" "$prefix/var" ! -type l -exec chmod go-w {} +
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

setPermissions() {
    mkdir -p var/OCIBundleDir
    chmod 0755 var var/OCIBundleDir
    if [ "$rootless" = yes ]; then
        clearPrivilegedBits
        echo "Rootless installation: no program is SUID root"
        return
    fi
    echo "Setting Sarus as SUID root"
    secureTree
    clearPrivilegedBits
    chmod u+s libexec/sarus-starter
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

# Prints the first of the candidates (paths in the installation or absolute ones, or names to look up in PATH) which is a program.
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

# report WHAT PATH CONSEQUENCE: says what was found, or what follows from its absence.
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
    umoci=$(findProgram bin/umoci umoci /usr/local/bin/umoci)
    report umoci "$umoci" "it is not needed"
    mksquashfs=$(findProgram mksquashfs)
    report mksquashfs "$mksquashfs" "it is not needed"
    # A static init runs in every image; a dynamic one only where the image has its libraries.
    init=$(findProgram bin/tini-static-amd64 /tini-static tini-static /tini tini)
    report "init program" "$init" "'sarus run --init' will not be available (Debian package 'tini')"

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

# Without root, the usual place of a user's repository is used where it is the user's: ~/.sarus, that is <parent of home>/<user>/.sarus.
defaultLocalRepositoryBase() {
    if [ "$rootless" = no ]; then
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
    localBase=${SARUS_LOCAL_REPO_BASE_DIR:-$(defaultLocalRepositoryBase)}
    if [ "$rootless" = yes ]; then
        centralized=${SARUS_CENTRALIZED_REPO_DIR:-$prefix/var/centralized_repository}
        if [ "$localBase" = "$prefix/var/repositories" ]; then
            mkdir -p "$localBase"
        fi
    else
        centralized=${SARUS_CENTRALIZED_REPO_DIR:-/var/sarus/centralized_repository}
    fi
    echo "Setting local repository base directory to: $localBase"
    echo "Setting centralized repository directory to: $centralized"
}

# substitution NAME VALUE: the sed command which fills in @NAME@, or drops the lines that use it where there is no value.
substitution() {
    if [ -z "$2" ]; then
        echo "/@$1@/d"
        return
    fi
    checkPath "$1" "$2"
    printf 's|@%s@|%s|g\n' "$1" "$(printf '%s' "$2" | sed 's/[&|\\]/\\&/g')"
}

# publish FILE: standard input becomes FILE at once and completely, or not at all.
publish() {
    temporary=$(mktemp "$1.XXXXXX")
    if ! cat >"$temporary" || ! chmod 0644 "$temporary" || ! sync "$temporary"; then
        rm -f "$temporary"
        fail "cannot write $prefix/$1"
    fi
    mv -f "$temporary" "$1"
}

configureSarus() {
    echo "Configuring etc/sarus.json"
    findPrograms
    chooseRepositories
    script=$(
        substitution INSTALL_PATH "$prefix"
        substitution SKOPEO_PATH "$skopeo"
        substitution UMOCI_PATH "$umoci"
        substitution MKSQUASHFS_PATH "$mksquashfs"
        substitution INIT_PATH "$init"
        substitution RUNC_PATH "$runtime"
        substitution LOCAL_REPO_BASE_DIR "$localBase"
        substitution CENTRALIZED_REPO_DIR "$centralized"
    )
    if [ -e etc/sarus.json ]; then
        cp -p etc/sarus.json etc/sarus.json.bak
        echo "Kept the existing configuration as etc/sarus.json.bak"
    fi
    sed "$script" etc/templates/sarus.json.in | publish etc/sarus.json
    echo "Successfully configured etc/sarus.json."
}

configureHooks() {
    for template in etc/hooks.d/*.json.in; do
        [ -f "$template" ] || continue
        rendered=${template%.in}
        echo "Configuring $rendered"
        sed "$(substitution INSTALL_PATH "$prefix"; substitution HOOK_BASE_DIR "$localBase")" "$template" | publish "$rendered"
    done
}

# Loaded by the administrator where AppArmor restricts user namespaces.
configureAppArmor() {
    mkdir -p etc/apparmor.d
    sed "$(substitution INSTALL_PATH "$prefix")" etc/templates/apparmor.d/sarus-starter.in | publish etc/apparmor.d/sarus-starter
}

setPermissions
createCaches
setSchemaOwnership
configureSarus
configureHooks
configureAppArmor

echo "To execute sarus commands run first:"
echo "export PATH=$prefix/bin:\${PATH}"
echo "To persist that for future sessions, consider adding the previous line to your .bashrc or equivalent file"
