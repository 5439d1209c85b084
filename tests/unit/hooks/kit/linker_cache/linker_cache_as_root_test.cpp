#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "hooks/kit/container_namespaces.hpp"
#include "hooks/kit/hook_context.hpp"
#include "hooks/kit/linker_cache/library_directories.hpp"
#include "hooks/kit/linker_cache/library_table.hpp"
#include "hooks/kit/linker_cache/linker_cache.hpp"
#include "hooks/kit/root_fixture.hpp"

namespace sarus::hooks::linker_cache_as_root_test {
namespace {

/// Runs `body` in a child with a mount namespace of its own; true if it returns true.
template <typename Body>
bool inOwnMountNamespace(Body body) {
    const pid_t child = ::fork();
    if (child == 0) {
        bool good = false;
        try {
            checkErrno(::unshare(CLONE_NEWNS), "unshare");
            checkErrno(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "make private");
            good = body();
        } catch (const std::exception& error) {
            ::dprintf(2, "%s\n", error.what());
        }
        ::_exit(good ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status == 0;
}

void mountOver(const std::string& from, const std::string& to) {
    checkErrno(::mount(from.c_str(), to.c_str(), nullptr, MS_BIND, nullptr), "bind " + from);
}

/// The path of a library as this machine's dynamic linker finds it.
std::string hostLibrary(const std::string& name) {
    const auto host = openFile("/", O_PATH | O_DIRECTORY);
    for (const auto& library : containerLibraries(host.get())) {
        if (library.name == name && library.flags != ld_cache_flags::elfLibc6) {
            return library.path;
        }
    }
    return {};
}

TEST(LinkerCacheAsRoot, isAcceptedByTheRealDynamicLinker) {
    // A root with one real program; its second library lies in a directory which only the cache leads to.
    const test::Root root;
    const auto host = openFile("/", O_PATH | O_DIRECTORY);
    const auto linkers = findDynamicLinkers(host.get());
    const auto program = readElf(openFile("/bin/ls", O_RDONLY).get());
    ASSERT_TRUE(program && program->interpreter);
    ASSERT_GE(program->needed.size(), 2U) << "/bin/ls of this machine needs libc only";
    root.write("bin/ls", readFile("/bin/ls"));
    root.write(program->interpreter->substr(1), readFile(*program->interpreter));
    createDirectories(root / "etc");
    std::vector<std::string> pending = program->needed;
    std::vector<std::string> done;
    while (!pending.empty()) {
        const auto name = pending.back();
        pending.pop_back();
        if (std::find(done.begin(), done.end(), name) != done.end() ||
            program->interpreter->ends_with(name)) {
            continue;
        }
        done.push_back(name);
        const auto path = hostLibrary(name);
        ASSERT_FALSE(path.empty()) << name;
        root.write("opt/odd place/" + name, readFile(path, 64U << 20U));
        const auto needed = readElf(openFile(path, O_RDONLY).get())->needed;
        pending.insert(pending.end(), needed.begin(), needed.end());
    }
    root.write("etc/ld.so.conf", "include ld.so.conf.d/*.conf\n");
    root.write("etc/ld.so.conf.d/odd.conf", "/opt/odd place\n");
    const auto listInside = [&root] {
        return runAndCapture(
            {"/usr/sbin/chroot", {"chroot", root.path(), "/bin/ls", "/etc"}, std::vector<std::string>{}});
    };
    EXPECT_FALSE(listInside().status.ok()) << "the test must depend on the cache";
    EXPECT_EQ(updateLinkerCache(root.fd()).update, LinkerCacheUpdate::written);
    const auto listed = listInside();
    EXPECT_TRUE(listed.status.ok()) << listed.err;
    EXPECT_NE(listed.out.find("ld.so.cache"), std::string::npos);
}

TEST(LinkerCacheAsRoot, isNotWrittenIntoAMountOfTheUser) {
    const test::Root root;
    root.glibc();
    root.library("usr/lib/libx.so.1", "libx.so.1");
    root.write("host/ld.so.cache", "the host's");
    createDirectories(root / "x");
    removeTree(root / "etc");
    ASSERT_EQ(::symlink("x", (root / "etc").c_str()), 0);
    EXPECT_TRUE(inOwnMountNamespace([&] {
        mountOver(root / "host", root / "x");
        const auto inside = openFile(root.path(), O_PATH | O_DIRECTORY);
        try {
            updateLinkerCache(inside.get());
            return false;
        } catch (const Error& error) {
            return error.errnum() == EXDEV;
        }
    }));
    EXPECT_EQ(readFile(root / "host/ld.so.cache"), "the host's");
}

TEST(LinkerCacheAsRoot, isWrittenAgainAfterAMountOverALibraryOrADirectory) {
    const test::Root root;
    root.glibc();
    root.library("usr/lib/libx.so.1", "libx.so.1");
    root.library("opt/host/libx.so.2", "libx.so.2");
    root.library("opt/directory/liby.so.1", "liby.so.1");
    root.library("usr/lib/lib with spaces.so.1", "lib with spaces.so.1");
    const auto update = [](int fd) { return updateLinkerCache(fd).update; };
    ::usleep(40'000);  // older than the tick of the clock
    EXPECT_EQ(update(root.fd()), LinkerCacheUpdate::written);
    EXPECT_EQ(update(root.fd()), LinkerCacheUpdate::unchanged);
    const auto isMadeAgainWith = [&](const std::string& from, const std::string& to,
                                     const std::string& name) {
        return inOwnMountNamespace([&] {
            mountOver(root / from, root / to);
            const auto inside = openFile(root.path(), O_PATH | O_DIRECTORY);
            const bool written = update(inside.get()) == LinkerCacheUpdate::written;
            const bool unchanged = update(inside.get()) == LinkerCacheUpdate::unchanged;
            const auto bytes = readFile(root / "etc/ld.so.cache");
            return written && unchanged && LdCache::parse(bytes).entries().at(0).name == name;
        });
    };
    EXPECT_TRUE(isMadeAgainWith("opt/host/libx.so.2", "usr/lib/libx.so.1", "libx.so.2"));
    EXPECT_EQ(update(root.fd()), LinkerCacheUpdate::written) << "the mount is gone";
    EXPECT_TRUE(isMadeAgainWith("opt/directory", "usr/lib", "liby.so.1"));
    EXPECT_EQ(update(root.fd()), LinkerCacheUpdate::written);
    EXPECT_TRUE(isMadeAgainWith("opt/host/libx.so.2", "usr/lib/lib with spaces.so.1", "libx.so.2"));
}

TEST(LinkerCacheAsRoot, remembersNothingOfMountedFilesystems) {
    const test::Root root;
    root.glibc();
    root.library("usr/lib/libkept.so.1", "libkept.so.1");
    createDirectories(root / "opt");
    root.write("etc/ld.so.conf", "/opt\n");
    EXPECT_TRUE(inOwnMountNamespace([&] {
        checkErrno(::mount("none", (root / "opt").c_str(), "tmpfs", 0, nullptr), "mount tmpfs");
        root.library("opt/libmounted.so.1", "libmounted.so.1");
        ::usleep(40'000);  // older than the tick of the clock
        const auto inside = openFile(root.path(), O_PATH | O_DIRECTORY);
        updateLinkerCache(inside.get());
        const auto bytes = readFile(root / "etc/ld.so.cache");
        ElfBytes source{std::string_view(bytes)};
        const auto notes = readLdCacheNote(source, bytes.size(), &LdCacheNotes::libraries).value_or("");
        const auto table = LibraryTable::parse(notes);
        return bytes.find("/opt/libmounted.so.1") != std::string::npos &&
               table.directory("/usr/lib").knows("libkept.so.1") &&
               !table.directory("/opt").knows("libmounted.so.1");
    }));
}

TEST(LinkerCacheAsRoot, failsClearlyOnAReadOnlyRoot) {
    const test::Root root;
    const test::Root other;
    root.glibc();
    EXPECT_TRUE(inOwnMountNamespace([&] {
        // Without an upper directory, nobody can write.
        const auto layers = "lowerdir=" + root.path() + ":" + other.path();
        checkErrno(::mount("none", root.path().c_str(), "overlay", 0, layers.c_str()), "mount overlay");
        const auto inside = openFile(root.path(), O_PATH | O_DIRECTORY);
        try {
            updateLinkerCache(inside.get());
        } catch (const Error& error) {
            return error.errnum() == EROFS;
        }
        return false;
    }));
}

/// A process with namespaces of its own that sleeps until it is told to end: a container which waits for its
/// hooks.
class WaitingContainer {
public:
    WaitingContainer(int flags, const std::string& from, const std::string& to) {
        int ready[2];
        checkErrno(::pipe2(ready, O_CLOEXEC), "pipe");
        child = ::fork();
        if (child == 0) {
            const bool good = ::unshare(flags) == 0 &&
                              ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                              ::mount(from.c_str(), to.c_str(), nullptr, MS_BIND, nullptr) == 0;
            (void)!::write(ready[1], good ? "y" : "n", 1);
            ::pause();
            ::_exit(0);
        }
        ::close(ready[1]);
        char answer = 'n';
        (void)!::read(ready[0], &answer, 1);
        ::close(ready[0]);
        started = answer == 'y';
    }
    ~WaitingContainer() {
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
    }
    pid_t child = -1;
    bool started = false;
};

TEST(NamespacesAsRoot, aHookSeesTheContainersMountsFromOutsideAndFromInside) {
    const test::Root bundle;
    bundle.write("config.json", R"({"root":{"path":"rootfs"}})");
    createDirectories(bundle / "rootfs");
    bundle.write("content/marker", "x");
    const WaitingContainer container(CLONE_NEWNS, bundle / "content", bundle / "rootfs");
    ASSERT_TRUE(container.started);
    const auto hook = [&](bool insideAlready) {
        return inOwnMountNamespace([&] {
            if (insideAlready && !enterNamespace(container.child, NamespaceKind::mount)) {
                return false;
            }
            bundle.write("state", cat(R"({"id":"c","pid":)", container.child, R"(,"bundle":")", bundle.path(),
                                      R"("})"));
            auto context = HookContext::read(openFile(bundle / "state", O_RDONLY).get());
            const bool sees = ::faccessat(context.rootfs(), "marker", F_OK, 0) == 0;
            return sees && !enterNamespace(container.child, NamespaceKind::mount);
        });
    };
    EXPECT_TRUE(hook(false));
    EXPECT_TRUE(hook(true));
}

TEST(NamespacesAsRoot, aPidOfAnotherPidNamespaceLeadsNowhere) {
    // As runc starts createContainer hooks: in the container's pid namespace, while /proc is still the
    // host's.
    EXPECT_TRUE(inOwnMountNamespace([] {
        checkErrno(::unshare(CLONE_NEWPID), "unshare");
        const pid_t init = ::fork();
        if (init == 0) {
            const pid_t second =
                ::fork();  // as 2 inside; 2 outside is a thread of the kernel, or somebody else's
            if (second == 0) {
                ::_exit(enterNamespace(::getpid(), NamespaceKind::mount) ? 1 : 0);
            }
            int status = 1;
            ::waitpid(second, &status, 0);
            ::_exit(WEXITSTATUS(status));
        }
        int status = 1;
        ::waitpid(init, &status, 0);
        return status == 0;
    }));
}

}  // namespace
}  // namespace sarus::hooks::linker_cache_as_root_test
