# shellcheck shell=sh disable=SC2154 # variables and functions of vm/common.sh
# Images with the kernel's own fs-verity: the repository of the user is on ext4.

use setuid-crun
configure
sed -i '1s/{/{ "imagePolicy": { "verify": true },/' "$prefix/etc/sarus.json"
mkdir /verity
check verity-mount mount -o loop /vm/ext4 /verity
cp -a "$home/.sarus" /verity/repository
mount --bind /verity/repository "$home/.sarus"
file=$home/.sarus/images/$image/latest.squashfs
check verity-unprotected sarus run "$image" echo ran
check verity-enable fsverity enable "$file"
check verity-measure fsverity measure "$file"
check verity-recorded sarus inspect --json "$image"
check verity-verified sarus run "$image" echo ran
check verity-write /usr/bin/setpriv --reuid "$uid" --regid "$gid" --init-groups sh -c "echo x >>$file"
configure
sed -i '1s|{|{ "imagePolicy": { "digestsFile": "/verity/allowed" },|' "$prefix/etc/sarus.json"
echo "fsverity-sha256:$(printf '%064d' 0)" >/verity/allowed
check verity-unlisted sarus run "$image" echo ran
fsverity measure "$file" | sed 's/^sha256:/fsverity-sha256:/' >/verity/allowed
check verity-listed sarus run "$image" echo ran
configure
umount "$home/.sarus"
