#include "base/file_lock.hpp"

#include <gtest/gtest.h>

#include "base/mount_table.hpp"

namespace sarus::file_lock_test {
namespace {

bool isOfNode(const std::string& type, const std::string& superOptions) {
    MountEntry mount;
    mount.type = type;
    mount.superOptions = superOptions;
    return hasLocksOfNode(mount);
}

TEST(FileLock, IsOfTheNodeWhereTheMountSaysSo) {
    EXPECT_FALSE(isOfNode("nfs4", "rw,vers=4.2,proto=tcp,local_lock=none"));
    EXPECT_FALSE(isOfNode("nfs", "rw,vers=3,proto=tcp,local_lock=posix"));
    EXPECT_TRUE(isOfNode("nfs", "rw,vers=3,nolock,proto=tcp,local_lock=all"));
    EXPECT_TRUE(isOfNode("nfs", "rw,vers=3,proto=tcp,local_lock=flock"));
    EXPECT_FALSE(isOfNode("lustre", "rw,flock,lazystatfs"));
    EXPECT_TRUE(isOfNode("lustre", "rw,localflock,lazystatfs"));
    EXPECT_TRUE(isOfNode("beegfs", "rw"));
    EXPECT_FALSE(isOfNode("ext4", "rw"));
    EXPECT_FALSE(hasLocksOfNode("/nonexistent"));
}

}  // namespace
}  // namespace sarus::file_lock_test
