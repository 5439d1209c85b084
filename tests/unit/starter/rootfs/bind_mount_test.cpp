#include "starter/rootfs/bind_mount.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "starter/small_files.hpp"
#include "starter/system_calls.hpp"

namespace sarus::starter::bind_mount_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class BindMount : public ::testing::Test {
protected:
    BindMount() { prepare(); }

    /// A host with a directory and a file, and the root of a container.
    std::string prepare() {
        directory = std::make_unique<test::TemporaryDirectory>();
        createDirectories(*directory / "host/data");
        createDirectories(*directory / "root/dev");
        test::makeFile(*directory / "host/file");
        return directory->path();
    }

    template <typename Work>
    void inTree(Work work) const {
        const auto root = openFile(*directory / "root", O_PATH | O_DIRECTORY);
        const auto credentials = Credentials::acquire(Mode::privileged);
        const auto editor = editorFor(root.get(), credentials);
        work(ContainerTree(credentials, config, editor));
    }

    /// The calls for one mount or device.
    template <typename Work>
    std::vector<std::string> callsOf(Work work) const {
        test::SystemCalls calls(directory->path());
        inTree(work);
        return calls.made();
    }

    static engine::PlannedMount mountOf(const std::string& source, const std::string& destination,
                                        engine::MountOrigin origin = engine::MountOrigin::user) {
        return {.source = source, .destination = destination, .origin = origin, .request = "R"};
    }

    static engine::PlannedDevice newNode() {
        return {.source = "/dev/gpu",
                .destination = "/dev/dri/gpu",
                .access = "rw",
                .origin = engine::MountOrigin::cdi,
                .request = "v.com/c=d",
                .node = oci::DeviceNodeEdit{.path = "/dev/dri/gpu",
                                            .hostPath = "",
                                            .type = "c",
                                            .major = 195,
                                            .minor = 1,
                                            .fileMode = 0660,
                                            .permissions = "",
                                            .uid = 0,
                                            .gid = 44}};
    }

    std::unique_ptr<test::TemporaryDirectory> directory;
    engine::SiteConfig config;
};

TEST_F(BindMount, AMountOfTheUserCreatesItsDestinationAndShowsNoDevices) {
    EXPECT_THAT(
        callsOf([](const ContainerTree& tree) { tree.bind(mountOf("/data", "/mnt/data")); }),
        ElementsAre("mkdir root/mnt", "mkdir root/mnt/data", "open_tree host/data",
                    "mount_setattr host/data (nosuid,nodev)", "move_mount host/data on root/mnt/data"));
    EXPECT_TRUE(isDirectory(*directory / "root/mnt/data"));
}

TEST_F(BindMount, AMountOfTheSiteShowsDevicesAndKeepsItsAttributes) {
    auto mount = mountOf(*directory / "host/file", "/f", engine::MountOrigin::site);
    mount.readonly = mount.noexec = true;
    EXPECT_THAT(callsOf([&](const ContainerTree& tree) { tree.bind(mount); }),
                ElementsAre("open_tree host/file", "mount_setattr host/file (ro,nosuid,noexec)",
                            "move_mount host/file on root/f"));
}

TEST_F(BindMount, NothingIsMountedWhereARuleForbidsIt) {
    config.userMounts.notAllowedPrefixesOfPath = {"/etc"};
    createDirectories(*directory / "root/etc");
    ASSERT_EQ(::symlink("etc", (*directory / "root/innocent").c_str()), 0);
    test::SystemCalls calls(directory->path());
    inTree([](const ContainerTree& tree) {
        EXPECT_THROW(tree.bind(mountOf("/data", "/innocent/x")), Error);
        EXPECT_THROW(tree.bind(mountOf("/data", "/dev/null")), Error);
        EXPECT_THROW(tree.bind(mountOf("/missing", "/x")), Error);
        EXPECT_THROW(tree.bind(mountOf("/data", "/..")), Error);
        EXPECT_THROW(tree.bind(mountOf("/file", "/etc")), Error);
        EXPECT_NO_THROW(tree.bind(mountOf("/missing", "/x", engine::MountOrigin::workloadManager)));
    });
    EXPECT_THAT(calls.mounted(), IsEmpty());
}

TEST_F(BindMount, AMemoryFilesystemHasTheSizeThatTheUserChoseOrItsShare) {
    auto mount = mountOf("tmpfs", "/x");
    const auto mounted = [&](std::uint64_t size, std::optional<std::uint64_t> share) {
        mount.tmpfsSize = size;
        test::SystemCalls calls(directory->path());
        const auto root = openFile(*directory / "root", O_PATH | O_DIRECTORY);
        const auto credentials = Credentials::acquire(Mode::privileged);
        const auto editor = editorFor(root.get(), credentials);
        ContainerTree(credentials, config, editor, share).bind(mount);
        const auto call = calls.made().back();
        return call.substr(call.find("gid=100") + 7);
    };
    EXPECT_EQ(mounted(0, std::nullopt), ")") << "the kernel's default";
    EXPECT_EQ(mounted(0, 1U << 20U), ",size=1048576,nr_inodes=256)");
    EXPECT_EQ(mounted(4096, 1U << 20U), ",size=4096)");
}

TEST_F(BindMount, AUserMayReplaceSharedMemory) {
    test::SystemCalls calls(directory->path());
    inTree(
        [](const ContainerTree& tree) { EXPECT_EQ(tree.bind(mountOf("/data", "/dev//shm")), "/dev/shm"); });
    EXPECT_EQ(calls.mounted().size(), 1U);
}

TEST_F(BindMount, TheContainersOwnFilesAreNoSource) {
    test::SystemCalls calls(directory->path());
    const auto root = openFile(*directory / "host", O_PATH | O_DIRECTORY);
    const auto credentials = Credentials::acquire(Mode::privileged);
    const auto editor = editorFor(root.get(), credentials);
    const ContainerTree tree(credentials, config, editor);
    EXPECT_THROW(tree.bind(mountOf("/data", "/x")), Error);
    EXPECT_THAT(calls.mounted(), IsEmpty());
}

TEST_F(BindMount, ADeviceOfTheHostIsBoundAndGivesItsRule) {
    std::optional<oci::RuntimeDeviceRule> rule;
    const auto calls = callsOf([&](const ContainerTree& tree) {
        rule = tree.bindDevice({.source = "/dev/null",
                                .destination = "/x",
                                .access = "rw",
                                .origin = engine::MountOrigin::site,
                                .request = "R"});
    });
    EXPECT_THAT(calls, ElementsAre("open_tree /dev/null", "mount_setattr /dev/null (nosuid)",
                                   "move_mount /dev/null on root/x"));
    ASSERT_TRUE(rule);
    EXPECT_EQ(cat(rule->type, *rule->major, ':', *rule->minor, rule->access), "c1:3rw");
}

TEST_F(BindMount, ANewNodeIsMadeInDevBoundAndLosesItsFirstName) {
    EXPECT_THAT(
        callsOf([](const ContainerTree& tree) { tree.bindDevice(newNode()); }),
        ElementsAre("mkdir root/dev/dri", "mknod root/dev/.sarus-node c 195:1",
                    "chown root/dev/.sarus-node 0:44", "chmod root/dev/.sarus-node",
                    "open_tree root/dev/.sarus-node", "mount_setattr root/dev/.sarus-node (nosuid)",
                    "move_mount root/dev/.sarus-node on root/dev/dri/gpu", "unlink root/dev/.sarus-node"));
    EXPECT_FALSE(pathExists(*directory / "root/dev/.sarus-node"));
}

TEST_F(BindMount, ARefusedCallIsAnErrorThatNamesTheMountAndLeavesNothing) {
    test::failEachCall(
        [this] { return prepare(); },
        [this] { inTree([](const ContainerTree& tree) { tree.bind(mountOf("/data", "/mnt/data")); }); },
        [](const std::string&, const Error* error, const test::SystemCalls& calls) {
            ASSERT_NE(error, nullptr);
            EXPECT_THAT(error->what(), StartsWith("Failed to bind mount /data on container's /mnt/data: "));
            EXPECT_THAT(error->what(), HasSubstr("Input/output error"));
            EXPECT_THAT(calls.mounted(), IsEmpty());
        });
}

TEST_F(BindMount, ARefusedCallForANodeIsAnErrorThatNamesTheDeviceAndLeavesNothing) {
    test::failEachCall([this] { return prepare(); },
                       [this] { inTree([](const ContainerTree& tree) { tree.bindDevice(newNode()); }); },
                       [this](const std::string& call, const Error* error, const test::SystemCalls& calls) {
                           ASSERT_NE(error, nullptr);
                           EXPECT_THAT(error->what(),
                                       StartsWith("Invalid device request 'v.com/c=d': Failed to "));
                           EXPECT_THAT(error->what(), HasSubstr("Input/output error"));
                           const bool nameStays = call.starts_with("unlink");
                           EXPECT_EQ(pathExists(*directory / "root/dev/.sarus-node"), nameStays);
                           EXPECT_EQ(calls.mounted().empty(), !nameStays);
                       });
}

TEST_F(BindMount, OlderKernelsMountFirstAndWhatCannotBeLimitedIsUnmounted) {
    test::SystemCalls calls(directory->path());
    for (const auto* call : {"open_tree", "mount_setattr", "move_mount"}) {
        calls.refuse(call, ENOSYS);
    }
    inTree([](const ContainerTree& tree) { EXPECT_THROW(tree.bind(mountOf("/data", "/x")), Error); });
    EXPECT_THAT(calls.made(), ElementsAre("mkdir root/x", "open_tree host/data",
                                          "mount host/data on root/x (bind,recursive)", "umount root/x"))
        << "the mount is only pretended, and not found in the table of mounts";
    EXPECT_THAT(calls.mounted(), IsEmpty());
}

}  // namespace
}  // namespace sarus::starter::bind_mount_test
