#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/process_tree.hpp"
#include "base/subprocess.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "starter/isolated.hpp"
#include "starter/namespaces/holder_file.hpp"
#include "starter/namespaces/shared_namespaces.hpp"

namespace sarus::starter::shared_namespaces_as_root_test {
namespace {

using test::isolated;

constexpr uid_t user = 12345;

ino_t inodeOf(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

/// A process of the user that does something, and stays until the end of this object.
class Neighbour {
public:
    explicit Neighbour(const std::function<void()>& work) {
        std::array<int, 2> ends{};
        checkErrno(::pipe2(ends.data(), O_CLOEXEC), "pipe");
        const UniqueFd reader(ends[0]);
        UniqueFd writer(ends[1]);
        process = Child(checkErrno(::fork(), "fork"));
        if (process.pid() == 0) {
            run(work, writer.get());
        }
        writer.reset();
        char byte = 0;
        if (::read(reader.get(), &byte, 1) != 1) {
            throw Error("the neighbour has failed");
        }
    }

    pid_t pid() const { return process.pid(); }

private:
    [[noreturn]] static void run(const std::function<void()>& work, int ready) {
        try {
            work();
        } catch (const std::exception&) {
            ::_exit(1);
        }
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        [[maybe_unused]] const auto written = ::write(ready, "x", 1);
        for (;;) {
            ::pause();
        }
    }

    Child process;
};

/// Runs `body` as a user, with a directory of the user's own.
int asUser(const std::function<int(const std::string& directory)>& body) {
    const test::TemporaryDirectory directory;
    return isolated([&] {
        if (::chown(directory.path().c_str(), user, user) != 0 || ::setgroups(0, nullptr) != 0 ||
            ::setresgid(user, user, user) != 0 || ::setresuid(user, user, user) != 0 ||
            ::prctl(PR_SET_DUMPABLE, 1) != 0) {
            return 90;
        }
        return body(directory.path());
    });
}

UserNamespaces enter(const std::string& directory, bool helper = false) {
    auto credentials = Credentials::acquire(Mode::rootless);
    return enterSharedUserNamespace(credentials, {.directory = directory, .createsUser = helper});
}

/// The file in which starters without a helper find each other: one that has been there has made it.
std::string recordIn(const std::string& directory) {
    {
        const Neighbour maker([&] { enter(directory); });
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(directory.c_str()), &::closedir);
    while (const dirent* entry = ::readdir(entries.get())) {
        if (entry->d_name[0] != '.') {
            return cat(directory, '/', static_cast<const char*>(entry->d_name));
        }
    }
    throw Error("there is no record");
}

void makeUserNamespace(const std::string& uidMap, const std::string& gidMap) {
    checkErrno(::unshare(CLONE_NEWUSER), "unshare");
    writeAll(openFile("/proc/self/setgroups", O_WRONLY).get(), "deny", "setgroups");
    writeAll(openFile("/proc/self/uid_map", O_WRONLY).get(), uidMap, "uid_map");
    writeAll(openFile("/proc/self/gid_map", O_WRONLY).get(), gidMap, "gid_map");
}

constexpr int heldNumber = 50;

/// What a starter does, with maps of its own choice: another user namespace below its own, held under a known
/// number.
void holdNamespaces(const std::string& uidMap, const std::string& gidMap) {
    makeUserNamespace(uidMap, gidMap);
    const Neighbour inside([] { checkErrno(::unshare(CLONE_NEWUSER), "unshare"); });
    ::dup2(openFile(cat("/proc/", inside.pid(), "/ns/user"), O_RDONLY).get(), heldNumber);
}

/// Whether a starter enters the user namespace of a process which a record names as the holder.
bool isEntered(const std::string& record, const std::string& directory, const std::function<void()>& holder) {
    const Neighbour neighbour(holder);
    const Process process(neighbour.pid());
    replaceFile(record,
                formatHolders(
                    {{.pid = process.pid(), .started = process.started(), .first = heldNumber, .second = 0}}),
                0600);
    const auto theirs = inodeOf(cat("/proc/", neighbour.pid(), "/ns/user"));
    return isolated([&] {
               enter(directory);
               return inodeOf("/proc/self/ns/user") == theirs ? 0 : 1;
           }) == 0;
}

TEST(SharedNamespaces, TheSecondStarterEntersThoseOfTheFirst) {
    for (const bool helper : {false, true}) {
        EXPECT_EQ(
            0, asUser([&](const std::string& directory) {
                const Neighbour first([&] { static const auto kept = enter(directory, helper); });
                const auto own = inodeOf("/proc/self/ns/user");
                const auto common = enter(directory, helper);
                const auto outer = inodeOf("/proc/self/ns/user");
                const bool entered = outer == inodeOf(cat("/proc/", first.pid(), "/ns/user")) && outer != own;
                const bool mapped = ::getuid() == 0 && ::getgid() == 0;
                return entered && mapped && common.container && (common.payload.get() >= 0) == helper ? 0 : 1;
            }));
    }
}

TEST(SharedNamespaces, WithoutADirectoryAStarterHasItsOwn) {
    EXPECT_EQ(0, asUser([](const std::string&) { return !enter({}).container && ::getuid() == 0 ? 0 : 1; }));
    EXPECT_EQ(0, asUser([](const std::string&) {
                  return !enter("/missing").container && ::getuid() == 0 ? 0 : 1;
              }));
}

TEST(SharedNamespaces, OnlyNamespacesLikeTheStartersOwnAreEntered) {
    EXPECT_EQ(0, asUser([](const std::string& directory) {
                  const auto record = recordIn(directory);
                  const auto zero = cat("0 ", user, " 1");
                  const auto other = cat("1 ", user, " 1");
                  const auto entered = [&](const std::function<void()>& holder) {
                      return isEntered(record, directory, holder);
                  };
                  if (!entered([&] { holdNamespaces(zero, zero); })) {
                      return 1;
                  }
                  if (entered([&] { holdNamespaces(other, zero); }) ||
                      entered([&] { holdNamespaces(zero, other); })) {
                      return 2;
                  }
                  const bool notBelow = entered([&] {
                      makeUserNamespace(zero, zero);
                      ::dup2(openFile("/proc/self/ns/user", O_RDONLY).get(), heldNumber);
                  });
                  const bool tooDeep = entered([&] {
                      makeUserNamespace(cat(user, " ", user, " 1"), cat(user, " ", user, " 1"));
                      holdNamespaces(zero, zero);
                  });
                  const bool outside =
                      entered([&] { ::dup2(openFile("/proc/self/ns/user", O_RDONLY).get(), heldNumber); });
                  return notBelow ? 3 : tooDeep ? 4 : outside ? 5 : 0;
              }));
}

}  // namespace
}  // namespace sarus::starter::shared_namespaces_as_root_test
