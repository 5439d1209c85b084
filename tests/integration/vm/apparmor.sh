# shellcheck shell=sh disable=SC2009,SC2016,SC2034,SC2154 # variables that another part of the machine's script sets or reads
# The machine with AppArmor: cgroups of version 2, and the profile.

check lsm cat /sys/kernel/security/lsm
check cgroups cat /proc/self/cgroup
check apparmor-load apparmor_parser --skip-cache --replace /vm/apparmor.profile

leftovers() {
    eventually no ls -d "$step"/sarus-*
    ls -d "$step"/sarus-*
}

limits() {
    check "$engine-cgroup" sarus run "$image" cat /proc/self/cgroup
    echo 64 >"$step/pids.max"
    check "$engine-processes" sarus run --device=/dev/kmsg:r "$image" sh -c 'for i in $(seq 100); do sleep 1 & done; wait'
    echo max >"$step/pids.max"
    echo 100M >"$step/memory.max"
    check "$engine-memory" sarus run --device=/dev/kmsg:r "$image" dd if=/dev/zero of=/dev/null bs=200M count=1
    check "$engine-memory-refused" cat "$step/memory.events"
    check "$engine-memory-files" sarus run "$image" sh -c 'dd if=/dev/zero of=/big bs=1M count=200; df -k / | awk "END { print \$2 }"'
    echo max >"$step/memory.max"
    check "$engine-background" sarus run --device=/dev/kmsg:r "$image" sh -c 'sleep 1000 & echo ended'
    check "$engine-leftovers-of-background" leftovers
    check "$engine-cpus" sarus run --device=/dev/kmsg:r "$image" grep Cpus_allowed_list: /proc/self/status
    echo 1 >"$step/cpuset.cpus"
    check "$engine-cpuset" sarus run --device=/dev/kmsg:r "$image" grep Cpus_allowed_list: /proc/self/status
    echo >"$step/cpuset.cpus"
}

# Two containers at once, each with rules of its own; what `sarus exec` runs in them is held by the same rules and limits.
two_containers() {
    start reader --device=/dev/kmsg:r "$image" sh -c "$rights; echo ready; exec sleep 1000"
    start writer --device=/dev/kmsg:rw "$image" sh -c "echo ready; exec sleep 1000"
    use_devices='cat /proc/self/cgroup
        head -c 4 /dev/zero | wc -c
        echo x >/dev/null && echo null
        # A second attempt: the kernel may overwrite the line that is being read.
        { head -n 1 /dev/kmsg || head -n 1 /dev/kmsg; } >/dev/null && echo read
        echo hello >/dev/kmsg && echo written'
    check "$engine-reader" cat /tmp/reader
    check "$engine-reader-exec" sarus exec reader sh -c "$rights"
    check "$engine-reader-exec-elsewhere" elsewhere sarus exec reader sh -c "$rights"
    check "$engine-reader-devices" elsewhere sarus exec reader sh -c "$use_devices"
    check "$engine-writer-devices" elsewhere sarus exec writer sh -c "$use_devices"
    check "$engine-both-devices" sarus run --device=/dev/kmsg:r "$image" sh -c "$use_devices"
    echo $(($(cat "$step/pids.current") + 20)) >"$step/pids.max"
    check "$engine-exec-processes" elsewhere sarus exec reader sh -c 'for i in $(seq 100); do sleep 1 & done; wait'
    echo max >"$step/pids.max"
    echo 100M >"$step/memory.max"
    check "$engine-exec-memory" elsewhere sarus exec writer dd if=/dev/zero of=/dev/null bs=200M count=1
    echo max >"$step/memory.max"
    check "$engine-still-running" sarus exec reader echo alive
    sarus kill --signal=KILL reader
    sarus kill --signal=KILL writer
    wait
    check "$engine-leftovers-of-end" leftovers
}

# processes PATTERN: those with a command line that begins like this
processes() {
    ps -o pid,args | grep -E "^ *[0-9]+ $1"
}

# killed NAME PATTERN: the first process with such a command line is killed while it runs a container
killed() {
    start victim --device=/dev/kmsg:r "$image" sh -c "echo ready; sleep 1000 & exec sleep 1000"
    kill -KILL "$(processes "$2" | awk '{ print $1; exit }')"
    wait
    check "$engine-leftovers-of-$1" leftovers
    check "$engine-processes-of-$1" processes 'sleep 1000'
}

apparmor() {
    configure apparmorProfile sarus-test
    check "$engine-apparmor-denied" sarus run "$image" cat /etc/os-release
    check "$engine-apparmor-allowed" sarus run "$image" cat /etc/hosts
    start confined "$image" sh -c "$rights; echo ready; exec sleep 1000"
    check "$engine-apparmor" cat /tmp/confined
    configure # as if the site had given up the profile in the meantime
    check "$engine-apparmor-exec" sarus exec confined sh -c "$rights"
    check "$engine-apparmor-exec-denied" sarus exec confined cat /etc/os-release
    sarus kill --signal=KILL confined
    wait
}

for name in $engines; do
    use "$name"
    limits
    two_containers
    killed starter '[^ ]*sarus-starter'
    killed runtime '(crun|runc) '
    apparmor
    check "$engine-mounts" grep -c squashfs /proc/self/mountinfo
    check "$engine-loops" sh -c 'cat /sys/block/loop*/loop/backing_file'
done

use setuid-crun
configure apparmorProfile no-such-profile
check no-profile sarus run "$image" true
for key in selinuxLabel selinuxMountLabel; do
    configure $key system_u:system_r:container_t:s0
    check "no-selinux-$key" sarus run "$image" true
done

. /vm/verity.sh
