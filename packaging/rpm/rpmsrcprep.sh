#!/bin/sh
# Makes the source archive of packaging/rpm/sarus.spec (podman-hpc.spec is the same file) from the last commit. Usage: rpmsrcprep.sh [DIRECTORY]
# Without DIRECTORY, it goes where rpmbuild looks for it: rpmbuild -ba podman-hpc.spec
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd -P)
directory=${1:-$(rpm --eval '%{_sourcedir}')}
name=sarus-$(sed -n 's/^Version: *//p' "$root/packaging/rpm/sarus.spec")

fail() {
    echo "rpmsrcprep.sh: $1" >&2
    exit 1
}

git() { command git -c safe.directory="$root" -C "$root" "$@"; }
git rev-parse --verify --quiet HEAD >/dev/null || fail "$root is not a git repository: the source archive is made from a commit"
[ -z "$(git status --porcelain --untracked-files=no)" ] || echo "rpmsrcprep.sh: changes that are not committed are left out" >&2
mkdir -p "$directory"
git archive --format=tar --prefix="$name/" HEAD >"$directory/$name.tar.new"
gzip -n -f "$directory/$name.tar.new"
mv "$directory/$name.tar.new.gz" "$directory/$name.tar.gz"
echo "$directory/$name.tar.gz"
