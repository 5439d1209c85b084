# shellcheck shell=sh disable=SC2034,SC2154 # variables that another part of the machine's script sets or reads
# The machine with SELinux: labels of containers and of their mounts.

check lsm cat /sys/kernel/security/lsm
check policy-load dd if=/vm/selinux.policy of=/sys/fs/selinux/load bs=1M
echo 1 >/sys/fs/selinux/enforce
check enforcing cat /sys/fs/selinux/enforce

label=system_u:system_r:container_t:s0:c1,c2
mount_label=system_u:object_r:container_file_t:s0:c1,c2

# labelled NAME TYPE: a folder /NAME, the files of which have this type
labelled() {
    mkdir "/$1"
    mount -t tmpfs -o "mode=755,context=\"system_u:object_r:$2\"" "$1" "/$1"
    echo "in $1" >"/$1/file"
    chmod 666 "/$1/file"
}
labelled secret secret_t:s0
labelled shared container_file_t:s0:c1
labelled foreign container_file_t:s0:c0
check node-reads-secret cat /secret/file

for name in $engines; do
    use "$name"
    configure selinuxLabel $label selinuxMountLabel $mount_label
    start labelled --mount=type=bind,src=/secret,dst=/secret --mount=type=bind,src=/shared,dst=/shared \
        --mount=type=bind,src=/foreign,dst=/foreign "$image" sh -c "$rights; cat /proc/self/mountinfo; echo ready; exec sleep 1000"
    check "$engine-label" cat /tmp/labelled
    use_files='cat /shared/file; cat /secret/file; cat /foreign/file
        echo x >/tmp/own && cat /tmp/own && echo x >/dev/null && echo x >/dev/shm/file-$$ || echo "not in /dev/shm"'
    check "$engine-files" sarus run --mount=type=bind,src=/secret,dst=/secret --mount=type=bind,src=/shared,dst=/shared \
        --mount=type=bind,src=/foreign,dst=/foreign "$image" sh -c "$use_files"
    configure # as if the site had given up the labels in the meantime
    check "$engine-exec" sarus exec labelled sh -c "$rights"
    check "$engine-exec-files" sarus exec labelled sh -c "$use_files"
    sarus kill --signal=KILL labelled
    wait
    check "$engine-plain" sarus run "$image" cat /proc/self/attr/current
    configure selinuxLabel system_u:system_r:confined_t:s0 selinuxMountLabel $mount_label
    check "$engine-forbidden" sarus run "$image" echo started
    configure selinuxLabel $label
    check "$engine-unlabelled-files" sarus run "$image" echo started
done

use setuid-crun
for key in selinuxLabel selinuxMountLabel; do
    configure $key system_u:system_r:no_such_t:s0
    check "invalid-$key" sarus run "$image" echo started
done
