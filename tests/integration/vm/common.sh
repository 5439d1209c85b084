# shellcheck shell=sh disable=SC2034,SC2154 # variables that another part of the machine's script sets or reads
# Read first by the checks of every machine, after the variables that the test writes: engines (their names), prefix_ENGINE with "_" for
# "-", image, temp_dir, and uid, gid, user and home of the user.

mkdir -p "$temp_dir" /sys/fs/cgroup/job
chmod 1777 "$temp_dir"
echo 0 >/proc/sys/kernel/dmesg_restrict
echo '+memory +pids +cpuset +cpu' >/sys/fs/cgroup/cgroup.subtree_control
echo '+memory +pids +cpuset +cpu' >/sys/fs/cgroup/job/cgroup.subtree_control

# use ENGINE: `sarus` is that of this engine from now on, in the cgroup $step of a step of a job
use() {
    engine=$1
    eval "prefix=\$prefix_$(echo "$1" | tr - _)"
    step=/sys/fs/cgroup/job/$1
    mkdir -p "$step"
}

# configure [KEY VALUE]...: the engine's sarus.json as it was installed, with these strings added
configure() {
    [ -e "$prefix/plain.json" ] || cp "$prefix/etc/sarus.json" "$prefix/plain.json"
    cp "$prefix/plain.json" /tmp/sarus.json
    while [ $# -gt 0 ]; do
        sed -i "1s/{/{ \"$1\": \"$2\",/" /tmp/sarus.json
        shift 2
    done
    cat /tmp/sarus.json >"$prefix/etc/sarus.json"
}

sarus() {
    # shellcheck disable=SC2016  # the inner shell expands it
    sh -c 'echo $$ >$0/cgroup.procs; exec "$@"' "$step" /usr/bin/setpriv --reuid "$uid" --regid "$gid" --init-groups -- \
        env -i HOME="$home" USER="$user" PATH=/usr/bin:/bin "$prefix/bin/sarus" "$@"
}

# start NAME OPTIONS... IMAGE COMMAND...: a container which prints "ready" and goes on; what it prints goes to /tmp/NAME
start() {
    name=$1
    shift
    rm -f "/tmp/$name"
    sarus run --name="$name" "$@" 2>&1 </dev/null | cat >"/tmp/$name" &
    eventually grep -q ready "/tmp/$name"
}

# eventually COMMAND...: waits until it succeeds, at most for some seconds
eventually() {
    attempt=0
    until "$@" >/dev/null 2>&1 || [ $((attempt += 1)) -gt 300 ]; do
        sleep 0.05
    done
}

# elsewhere COMMAND...: from the cgroup of another step
elsewhere() {
    mine=$step
    step=/sys/fs/cgroup/job/elsewhere
    mkdir -p $step
    "$@"
    result=$?
    step=$mine
    return $result
}

no() {
    ! "$@"
}

# What the kernel knows of the rights of a process.
# shellcheck disable=SC2034  # used by the checks
rights='cat /proc/self/cgroup /proc/self/attr/current; echo; grep -E "^(Uid|Gid|Groups|Cap.*|NoNewPrivs|Seccomp|Cpus_allowed_list):" /proc/self/status'
