#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>

#include "base/directory.hpp"
#include "base/isolated_process.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "container_root/editor.hpp"
#include "hooks/kit/root_fixture.hpp"
#include "oci/runtime/runtime_devices.hpp"

namespace sarus::container_root::editor_as_root_test {
namespace {

using test::inMountNamespace;
using test::Root;

int errnoOf(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.errnum() != 0 ? error.errnum() : -1;
    }
    return 0;
}

void mountTmpfs(const std::string& directory) {
    createDirectories(directory);
    checkErrno(::mount("tmpfs", directory.c_str(), "tmpfs", 0, nullptr), "mount tmpfs");
}

std::string targetOf(const std::string& link) {
    char target[256]{};
    return ::readlink(link.c_str(), target, sizeof target - 1) < 0 ? "no link" : target;
}

/// `root` is a mount of its own, as a container's is.
struct Place {
    Root host;
    std::string rootPath;
    UniqueFd root;

    Place() : rootPath(host / "rootfs") {
        mountTmpfs(rootPath);
        root = openFile(rootPath, O_PATH | O_DIRECTORY);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    /// What is mounted in the root filesystem goes before the directories are removed, which must never reach
    /// into it.
    ~Place() { ::umount2(rootPath.c_str(), MNT_DETACH); }
    std::string operator/(const std::string& path) const { return rootPath + "/" + path; }
};

/// Other programs' mounts vanish from this namespace, too, when they remove the directories below them.
std::vector<std::string> mountsIn(const Place& place) {
    auto lines = split(readFile("/proc/self/mountinfo"), '\n');
    std::erase_if(lines,
                  [&](const std::string& line) { return line.find(place.rootPath) == std::string::npos; });
    return lines;
}

/// A tmpfs of the host that is mounted in the container, too.
void mountHostsTmpfs(const Place& place, const std::string& path) {
    mountTmpfs(place.host / "shared");
    createDirectories(place / path);
    checkErrno(::mount((place.host / "shared").c_str(), (place / path).c_str(), nullptr, MS_BIND, nullptr),
               "bind");
}

TEST(RootEditorReplaceAsRoot, ReplacesAFileOfTheRootItself) {
    inMountNamespace([] {
        const Place place;
        createDirectories(place / "etc");
        ASSERT_EQ(::symlink("/somewhere", (place / "etc/file").c_str()), 0);
        Editor(place.root.get()).replaceFile("/etc/file", "new", 0644);
        EXPECT_EQ(readFile(place / "etc/file"), "new");
        EXPECT_EQ(targetOf(place / "etc/file"), "no link");
    });
}

TEST(RootEditorReplaceAsRoot, NeverInAMountFromElsewhereWhateverLinkLeadsThere) {
    inMountNamespace([] {
        const Place place;
        place.host.write("etc/ld.so.cache", "the host's");
        createDirectories(place / "x/y");
        ASSERT_EQ(::symlink("/x/y", (place / "etc").c_str()), 0);
        checkErrno(::mount((place.host / "etc").c_str(), (place / "x/y").c_str(), nullptr, MS_BIND, nullptr),
                   "bind");
        const Editor editor(place.root.get());
        EXPECT_EQ(errnoOf([&] { editor.replaceFile("/etc/ld.so.cache", "the image's", 0644); }), EXDEV);
        EXPECT_EQ(readFile(place.host / "etc/ld.so.cache"), "the host's");
    });
}

TEST(RootEditorBindAsRoot, CreatesWhatIsMissingAndMountsFilesAndDirectories) {
    inMountNamespace([] {
        const Place place;
        place.host.write("file", "text");
        place.host.write("directory/inner", "inside");
        const Editor editor(place.root.get());
        editor.bind(place.host / "file", "/a/b/file", {.readonly = true});
        editor.bind(place.host / "directory", "/a/directory", {});
        EXPECT_EQ(readFile(place / "a/b/file"), "text");
        EXPECT_EQ(readFile(place / "a/directory/inner"), "inside");
        struct statvfs status {};
        ASSERT_EQ(::statvfs((place / "a/b/file").c_str(), &status), 0);
        EXPECT_EQ(status.f_flag & (ST_RDONLY | ST_NOSUID), static_cast<unsigned long>(ST_RDONLY | ST_NOSUID));
        ASSERT_EQ(::statvfs((place / "a/directory").c_str(), &status), 0);
        EXPECT_EQ(status.f_flag & (ST_RDONLY | ST_NOSUID), static_cast<unsigned long>(ST_NOSUID));
    });
}

TEST(RootEditorBindAsRoot, LinksOfTheImageDoNotLeadOut) {
    inMountNamespace([] {
        const Place place;
        place.host.write("file", "text");
        createDirectories(place.host / "outside");
        ASSERT_EQ(::symlink((place.host / "outside").c_str(), (place / "link").c_str()), 0);
        ASSERT_EQ(::symlink("../../../../../../tmp", (place / "up").c_str()), 0);
        const Editor editor(place.root.get());
        editor.bind(place.host / "file", "/up/file", {});
        EXPECT_EQ(readFile(place / "tmp/file"), "text");
        errnoOf([&] { editor.bind(place.host / "file", "/link/file", {}); });
        EXPECT_FALSE(pathExists(place.host / "outside/file"));
    });
}

TEST(RootEditorBindAsRoot, ExistingEntriesOfOtherMountsAreCoveredButNothingIsCreatedThere) {
    inMountNamespace([] {
        const Place place;
        place.host.write("file", "text");
        mountHostsTmpfs(place, "users");
        replaceFile(place / "users/present", "old", 0644);
        const Editor editor(place.root.get());
        editor.bind(place.host / "file", "/users/present", {});
        EXPECT_EQ(readFile(place / "users/present"), "text");
        EXPECT_EQ(errnoOf([&] { editor.bind(place.host / "file", "/users/new", {}); }), EXDEV);
        EXPECT_EQ(errnoOf([&] { editor.bind(place.host / "file", "/users/deep/new", {}); }), EXDEV);
        EXPECT_FALSE(pathExists(place / "users/new"));
        EXPECT_FALSE(pathExists(place / "users/deep"));
    });
}

TEST(RootEditorBindAsRoot, EntriesAreCreatedInATmpfsOfTheContainersOwn) {
    inMountNamespace([] {
        const Place place;
        place.host.write("file", "text");
        mountTmpfs(place / "run");
        const Editor editor(place.root.get());
        editor.bind(place.host / "file", "/run/munge/new", {});
        EXPECT_EQ(readFile(place / "run/munge/new"), "text");
    });
}

TEST(RootEditorBindAsRoot, ReadOnlyMountOfTheRootIsLiftedOnlyMeanwhile) {
    inMountNamespace([] {
        const Place place;
        place.host.write("file", "text");
        constexpr unsigned long flags = MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_RDONLY;
        checkErrno(::mount(nullptr, place.rootPath.c_str(), nullptr, flags, nullptr), "remount");
        Editor(place.root.get()).bind(place.host / "file", "/new", {});
        EXPECT_EQ(readFile(place / "new"), "text");
        struct statvfs status {};
        ASSERT_EQ(::statvfs(place.rootPath.c_str(), &status), 0);
        constexpr unsigned long kept = ST_RDONLY | ST_NOSUID | ST_NODEV;
        EXPECT_EQ(status.f_flag & kept, kept);
    });
}

TEST(RootEditorBindAsRoot, EntriesAreCreatedInADevOfTheContainersOwnOnly) {
    inMountNamespace([] {
        const Place place;
        mountTmpfs("/dev");  // stands in for the node's
        ASSERT_EQ(::mknod("/dev/null", S_IFCHR | 0666, makedev(1, 3)), 0);
        mountTmpfs(place / "dev");
        Editor(place.root.get()).bind("/dev/null", "/dev/dri/card0", {});
        EXPECT_TRUE(pathExists(place / "dev/dri/card0"));
        ASSERT_EQ(::umount2((place / "dev").c_str(), MNT_DETACH), 0);
        ASSERT_EQ(::mount("/dev", (place / "dev").c_str(), nullptr, MS_BIND, nullptr), 0);
        const Editor editor(place.root.get());
        EXPECT_EQ(errnoOf([&] { editor.bind("/dev/null", "/dev/sarus-test-device", {}); }), EXDEV);
        EXPECT_FALSE(pathExists("/dev/sarus-test-device"));
    });
}

TEST(RootEditorBindAsRoot, WhatTheRuntimeMadeInDevIsNeitherCoveredNorReplaced) {
    inMountNamespace([] {
        const Place place;
        place.host.write("file", "text");
        mountTmpfs(place / "dev");
        ASSERT_EQ(::mknod((place / "dev/null").c_str(), S_IFCHR | 0666, makedev(1, 3)), 0);
        ASSERT_EQ(::symlink("/dev/null", (place / "library.so").c_str()), 0);
        ASSERT_EQ(::symlink("/dev", (place / "lib").c_str()), 0);
        const Editor editor(place.root.get());
        for (const auto* destination :
             {"/dev/null", "/library.so", "/lib/null", "/dev/tty", "/dev/../lib/./zero"}) {
            EXPECT_EQ(errnoOf([&] { editor.bind(place.host / "file", destination, {}); }), EXDEV)
                << destination;
        }
        createDirectories(place / "dev/shm");
        createDirectories(place.host / "directory");
        for (const auto* destination : {"/dev", "/lib", "/dev/shm", "/"}) {
            EXPECT_EQ(errnoOf([&] { editor.bind(place.host / "directory", destination, {}); }), EXDEV)
                << destination;
        }
        EXPECT_FALSE(pathExists(place / "dev/zero")) << "what is refused leaves nothing behind";
        EXPECT_EQ(errnoOf([&] { editor.copyFile(place.host / "file", "/lib/null"); }), EXDEV);
        EXPECT_EQ(errnoOf([&] { editor.link("/lib", {"null"}, "/dev"); }), EXDEV);
        struct stat status {};
        ASSERT_EQ(::stat((place / "dev/null").c_str(), &status), 0);
        EXPECT_EQ(status.st_rdev, makedev(1, 3));
        editor.bind(place.host / "file", "/dev/own", {});
        EXPECT_EQ(readFile(place / "dev/own"), "text");
    });
}

TEST(RootEditorBindAsRoot, OnlyWhoMayReplacesSharedMemoryAndMessageQueues) {
    inMountNamespace([] {
        const Place place;
        place.host.write("directory/mark", "text");
        mountTmpfs(place / "dev");
        ASSERT_EQ(::symlink("/dev", (place / "lib").c_str()), 0);
        createDirectories(place / "dev/shm");
        createDirectories(place / "dev/mqueue");
        ASSERT_EQ(::mount("mqueue", (place / "dev/mqueue").c_str(), "mqueue", 0, nullptr), 0);
        const Editor hook(place.root.get());
        const Editor engine(place.root.get(), {.mayCoverShared = true});
        for (const auto* destination : {"/dev/shm", "/dev/mqueue", "/lib/shm", "/lib/mqueue"}) {
            EXPECT_EQ(errnoOf([&] { hook.bind(place.host / "directory", destination, {}); }), EXDEV)
                << destination;
        }
        engine.bind(place.host / "directory", "/dev/shm", {});
        engine.bind(place.host / "directory", "/lib/mqueue", {});
        EXPECT_TRUE(pathExists(place / "dev/shm/mark"));
        EXPECT_TRUE(pathExists(place / "dev/mqueue/mark"));
        for (const auto* destination : {"/dev", "/lib", "/dev/pts", "/"}) {
            EXPECT_EQ(errnoOf([&] { engine.bind(place.host / "directory", destination, {}); }), EXDEV)
                << destination;
        }
    });
}

TEST(RootEditorBindAsRoot, KindsMustAgreeAndTheRootItselfIsNoDestination) {
    inMountNamespace([] {
        const Place place;
        place.host.write("file", "text");
        createDirectories(place / "directory");
        replaceFile(place / "present", "old", 0644);
        const Editor editor(place.root.get());
        EXPECT_EQ(errnoOf([&] { editor.bind(place.host / "file", "/directory", {}); }), EISDIR);
        EXPECT_EQ(errnoOf([&] { editor.bind(place.host.path(), "/present", {}); }), ENOTDIR);
        EXPECT_EQ(errnoOf([&] { editor.bind(place.host.path(), "/directory/..", {}); }), EXDEV);
        EXPECT_EQ(errnoOf([&] { editor.bind(place.host / "missing", "/new", {}); }), ENOENT);
        EXPECT_FALSE(pathExists(place / "new")) << "a source that is missing leaves nothing behind";
    });
}

TEST(RootEditorBindAsRoot, WhatIsThereAlreadyIsNotMountedAgain) {
    inMountNamespace([] {
        const Place place;
        place.host.write("file", "text");
        const Editor editor(place.root.get());
        editor.bind(place.host / "file", "/file", {});
        const auto before = mountsIn(place);
        editor.bind(place.host / "file", "/file", {});
        EXPECT_EQ(mountsIn(place), before);
    });
}

TEST(RootEditorBindAsRoot, NoFilesystemOfTheKernelIsCoveredOrGetsEntries) {
    inMountNamespace([] {
        const Place place;
        place.host.write("file", "text");
        createDirectories(place.host / "directory");
        for (const auto* type : {"proc", "sysfs", "devpts", "mqueue"}) {
            createDirectories(place / cat("deep/", type));
            ASSERT_EQ(::mount(type, (place / cat("deep/", type)).c_str(), type, 0, nullptr), 0) << type;
        }
        ASSERT_EQ(::symlink("/deep/proc/sys/kernel", (place / "innocent").c_str()), 0);
        ASSERT_EQ(::symlink("/", (place / "up").c_str()), 0);
        const Editor editor(place.root.get());
        const auto before = mountsIn(place);
        for (const auto* destination : {"/deep/proc/version", "/innocent/hostname", "/deep/proc/new",
                                        "/deep/mqueue/new", "/deep/devpts/ptmx"}) {
            EXPECT_EQ(errnoOf([&] { editor.bind(place.host / "file", destination, {}); }), EXDEV)
                << destination;
        }
        for (const auto* destination :
             {"/deep/proc", "/deep/sysfs", "/deep/devpts", "/deep/mqueue", "/deep/proc/sys", "/innocent",
              "/deep", "/deep/../up/deep", "/", "/up", "/deep/mqueue/new"}) {
            EXPECT_EQ(errnoOf([&] { editor.bind(place.host / "directory", destination, {}); }), EXDEV)
                << destination;
        }
        EXPECT_EQ(errnoOf([&] { editor.link("/deep/mqueue", {"link"}, "/up"); }), EXDEV);
        EXPECT_EQ(errnoOf([&] { editor.replaceFile("/deep/mqueue/file", "text", 0644); }), EXDEV);
        EXPECT_EQ(mountsIn(place), before);
        editor.bind(place.host / "file", "/opt/file", {});
        EXPECT_EQ(readFile(place / "opt/file"), "text");
    });
}

/// As for hooks in front of the OCI runtime, which then mounts there and makes the devices.
TEST(RootEditorBindAsRoot, PlacesOfTheRuntimeAreFreeBeforeItStarts) {
    inMountNamespace([] {
        const Place place;
        place.host.write("file", "text");
        createDirectories(place.host / "directory");
        for (const auto* directory : {"dev", "proc", "elsewhere/kernel", "usr"}) {
            createDirectories(place / directory);
        }
        mountTmpfs(place / "dev");
        ASSERT_EQ(::symlink("elsewhere/kernel", (place / "sys").c_str()), 0);
        ASSERT_EQ(::symlink("/dev", (place / "lib").c_str()), 0);
        ASSERT_EQ(::symlink("../proc", (place / "usr/lib").c_str()), 0);
        const Editor editor(place.root.get());
        const auto before = mountsIn(place);
        for (const auto* destination :
             {"/", "/dev", "/lib", "/dev/pts", "/lib/pts", "/dev/shm", "/lib/mqueue", "/proc", "/proc/sys",
              "/usr/lib", "/usr/lib/self", "/sys", "/sys/fs/cgroup", "/elsewhere/kernel", "/elsewhere"}) {
            EXPECT_EQ(errnoOf([&] { editor.bind(place.host / "directory", destination, {}); }), EXDEV)
                << destination;
        }
        for (const auto* destination : {"/dev/null", "/lib/zero", "/dev/core", "/dev/fd/0", "/dev/pts/ptmx",
                                        "/proc/x", "/usr/lib/x", "/sys/x", "/elsewhere/kernel/x"}) {
            EXPECT_EQ(errnoOf([&] { editor.bind(place.host / "file", destination, {}); }), EXDEV)
                << destination;
            EXPECT_EQ(errnoOf([&] { editor.copyFile(place.host / "file", destination); }), EXDEV)
                << destination;
        }
        EXPECT_EQ(errnoOf([&] { editor.link("/lib", {"tty"}, "/usr"); }), EXDEV);
        EXPECT_EQ(errnoOf([&] { editor.link("/usr/lib", {"x"}, "/usr"); }), EXDEV);
        EXPECT_EQ(errnoOf([&] { editor.replaceLink("/dev/stdin", "/usr"); }), EXDEV);
        EXPECT_EQ(errnoOf([&] { editor.makeDirectory("/proc/sys"); }), EXDEV);
        EXPECT_EQ(errnoOf([&] { editor.makeDirectoryOf(1, 1, "/dev/pts/x", 0700); }), EXDEV);
        EXPECT_EQ(mountsIn(place), before);
        for (const auto name : oci::runtimeDevices) {
            EXPECT_FALSE(pathExists(place / cat("dev/", name))) << name;
        }
        for (const auto* directory : {"proc", "elsewhere/kernel"}) {
            Directory entries(place / directory, Missing::isError);
            const char* const name = entries.next();
            EXPECT_EQ(name, nullptr) << directory << '/' << name;
        }
        editor.bind(place.host / "file", "/dev/kgni0", {});
        editor.bind(place.host / "file", "/lib/infiniband/uverbs0", {});
        EXPECT_EQ(readFile(place / "dev/infiniband/uverbs0"), "text");
    });
}

struct stat statusAt(const std::string& path) {
    struct stat status {};
    checkErrno(::lstat(path.c_str(), &status), path);
    return status;
}

TEST(RootEditorUsersEntriesAsRoot, TheUsersOwnRightsDecideOnAnyMount) {
    inMountNamespace([] {
        const Place place;
        mountHostsTmpfs(place, "home");
        checkErrno(::chown((place / "home").c_str(), 1000, 1000), "chown");
        createDirectories(place / "closed", 0700);
        createDirectories(place / "proc");
        checkErrno(::chmod((place / "").c_str(), 0755), "chmod");
        const ContainerViewer viewer({.uid = 1000, .gid = 1000, .groups = {}});
        const Editor editor(place.root.get());
        editor.makeUsersDirectory(1000, 1000, "/home/.ssh", 0700);
        EXPECT_EQ(statusAt(place / "home/.ssh").st_uid, 1000U);
        EXPECT_EQ(statusAt(place / "home/.ssh").st_mode & 07777U, 0700U);
        editor.makeUsersDirectory(1000, 1000, "/new/.ssh", 0700);
        EXPECT_EQ(statusAt(place / "new/.ssh").st_uid, 1000U) << "where only root may, for the user";

        const auto directory = editor.findUsersDirectory("/home/.ssh");
        ASSERT_EQ(::symlink("/foreign", (place / "home/.ssh/keys").c_str()), 0);
        editor.replaceUsersFile(directory.get(), "keys", "text", 0600);
        EXPECT_EQ(readFile(place / "home/.ssh/keys"), "text");
        EXPECT_EQ(statusAt(place / "home/.ssh/keys").st_uid, 1000U);
        EXPECT_EQ(statusAt(place / "home/.ssh/keys").st_mode & 07777U, 0600U);
        const auto root = editor.find("/");
        EXPECT_EQ(errnoOf([&] { editor.replaceUsersFile(root.get(), "keys", "text", 0600); }), EACCES);

        EXPECT_TRUE(editor.openUsersFile("/home/deep/pid"));
        EXPECT_EQ(statusAt(place / "home/deep/pid").st_uid, 1000U);
        EXPECT_EQ(errnoOf([&] { editor.openUsersFile("/closed/pid"); }), EACCES);
        EXPECT_EQ(errnoOf([&] { editor.openUsersFile("/proc/pid"); }), EXDEV);
        ASSERT_EQ(::mkfifo((place / "home/fifo").c_str(), 0666), 0);
        EXPECT_THROW(editor.openUsersFile("/home/fifo"), Error);
    });
}

TEST(RootEditorOverlayAsRoot, ChangesStayInMemoryAndNothingIsCoveredThatMustNotBe) {
    inMountNamespace([] {
        const Place place;
        mountHostsTmpfs(place, "home");
        createDirectories(place / "home/.ssh");
        place.host.write("shared/.ssh/old", "the user's");
        checkErrno(::chown((place / "home/.ssh").c_str(), 1000, 1000), "chown");
        ASSERT_EQ(::symlink("/dev", (place / "home/dev").c_str()), 0);
        mountTmpfs(place / "dev");
        const ContainerViewer viewer({.uid = 1000, .gid = 1000, .groups = {}});
        const Editor editor(place.root.get());
        const MemoryOverlay overlay{.owner = 1000, .group = 1000, .size = "1m", .workshop = "/opt/workshop"};
        editor.coverByOverlay("/home/.ssh", overlay);
        EXPECT_EQ(readFile(place / "home/.ssh/old"), "the user's");
        editor.replaceUsersFile(editor.findUsersDirectory("/home/.ssh").get(), "new", "text", 0600);
        EXPECT_EQ(readFile(place / "home/.ssh/new"), "text");
        EXPECT_FALSE(pathExists(place.host / "shared/.ssh/new"));
        EXPECT_FALSE(pathExists(place / "opt/workshop/upper"))
            << "nobody reaches the overlay's own directories";
        for (const auto* path : {"/home/dev", "/dev", "/"}) {
            EXPECT_EQ(errnoOf([&] { editor.coverByOverlay(path, overlay); }), EXDEV) << path;
        }
    });
}

TEST(RootEditorLinkAsRoot, MakesReplacesAndKeepsLinks) {
    inMountNamespace([] {
        const Place place;
        createDirectories(place / "lib");
        replaceFile(place / "lib/libx.so.1.2", "library", 0644);
        replaceFile(place / "lib/libx.so", "another", 0644);
        const Editor editor(place.root.get());
        using Names = std::vector<std::string>;
        EXPECT_EQ(editor.link("/lib", {"libx.so.1"}, "/lib/libx.so.1.2"), Names{"libx.so.1"});
        EXPECT_EQ(editor.link("/lib", {"libx.so.1"}, "/lib/libx.so.1.2"), Names());
        EXPECT_EQ(editor.link("/lib", {"libx.so.1.2"}, "/lib/libx.so.1.2"), Names()) << "the file itself";
        EXPECT_EQ(editor.link("/lib", {"libx.so"}, "/lib/libx.so.1.2"), Names{"libx.so"});
        EXPECT_EQ(targetOf(place / "lib/libx.so"), "/lib/libx.so.1.2");
        const Names several{"libx.so.1", "libx.so.2", "libx.so.1.2", "libx.so.3"};
        EXPECT_EQ(editor.link("/lib", several, "/lib/libx.so.1.2"), (Names{"libx.so.2", "libx.so.3"}));
        EXPECT_EQ(targetOf(place / "lib/libx.so.3"), "/lib/libx.so.1.2");
        EXPECT_EQ(editor.link("/lib64", {"libx.so"}, "/lib/libx.so.1.2"), Names());
    });
}

TEST(RootEditorBindAsRoot, DestinationsMayBeFoundTogether) {
    inMountNamespace([] {
        const Place place;
        place.host.write("one", "host 1");
        place.host.write("two", "host 2");
        replaceFile(place / "a", "container", 0644);
        const Editor editor(place.root.get());
        auto found = editor.findAll({"/a", "/new/b"});
        ASSERT_EQ(found.size(), 2U);
        EXPECT_TRUE(found[0]);
        EXPECT_FALSE(found[1]);
        editor.bind(place.host / "one", "/a", {}, std::move(found[0]));
        editor.bind(place.host / "two", "/new/b", {}, std::move(found[1]));
        EXPECT_EQ(readFile(place / "a", 100), "host 1");
        EXPECT_EQ(readFile(place / "new/b", 100), "host 2");
    });
}

TEST(RootEditorLinkAsRoot, DirectoriesMountPointsAndOtherMountsAreNotReplaced) {
    inMountNamespace([] {
        const Place place;
        place.host.write("file", "text");
        createDirectories(place / "lib/libd.so");
        replaceFile(place / "lib/libx.so.1", "library", 0644);
        const Editor editor(place.root.get());
        EXPECT_NE(errnoOf([&] { editor.link("/lib", {"libd.so"}, "/lib/libx.so.1"); }), 0);
        editor.bind(place.host / "file", "/lib/libm.so", {});
        EXPECT_NE(errnoOf([&] { editor.link("/lib", {"libm.so"}, "/lib/libx.so.1"); }), 0);
        mountHostsTmpfs(place, "users");
        EXPECT_EQ(errnoOf([&] { editor.link("/users", {"libx.so"}, "/lib/libx.so.1"); }), EXDEV);
        EXPECT_EQ(errnoOf([&] { editor.link("/lib", {"liby.so"}, "/lib/missing"); }), ENOENT);
        for (const auto* name : {"users/libx.so", "lib/liby.so"}) {
            EXPECT_FALSE(pathExists(place / name)) << name;
        }
    });
}

}  // namespace
}  // namespace sarus::container_root::editor_as_root_test
