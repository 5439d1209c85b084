#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <array>
#include <string>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "starter/entry/credentials.hpp"
#include "starter/isolated.hpp"
#include "starter/root_owned_directory.hpp"

namespace sarus::starter::credentials_as_root_test {
namespace {

using test::isolated;

constexpr uid_t user = 12345;
constexpr gid_t group = 12346;

/// The identity which a set-user-ID root program of that user starts with.
void becomeSetUserIdProgram() {
    const std::array<gid_t, 2> groups{group, 12347};
    checkErrno(::setgroups(groups.size(), groups.data()), "setgroups");
    checkErrno(::setresgid(group, group, group), "setresgid");
    checkErrno(::setresuid(user, 0, 0), "setresuid");
}

bool idsAre(uid_t expectedUser, gid_t expectedGroup) {
    std::array<uid_t, 3> users{};
    std::array<gid_t, 3> groups{};
    ::getresuid(&users[0], &users[1], &users[2]);
    ::getresgid(&groups[0], &groups[1], &groups[2]);
    return users == std::array{expectedUser, expectedUser, expectedUser} &&
           groups == std::array{expectedGroup, expectedGroup, expectedGroup};
}

std::string statusLine(const std::string& name) {
    const auto status = readFile("/proc/thread-self/status");
    const auto begin = status.find(name);
    return status.substr(begin, status.find('\n', begin) - begin);
}

TEST(Credentials, TheCallerIsTheRealUserAndTheProcessBecomesRootCompletely) {
    EXPECT_EQ(0, isolated([] {
                  becomeSetUserIdProgram();
                  const auto credentials = Credentials::acquire(Mode::privileged);
                  const bool right = credentials.uid() == user && credentials.gid() == group &&
                                     credentials.groups() == std::vector<gid_t>{group, 12347};
                  return right && idsAre(0, 0) ? 0 : 1;
              }));
}

TEST(Credentials, AsUserAllIdsAreTheCallersAndNoCapabilityIsEffective) {
    EXPECT_EQ(0, isolated([] {
                  becomeSetUserIdProgram();
                  const auto credentials = Credentials::acquire(Mode::privileged);
                  const bool inside = credentials.asUser([] {
                      return idsAre(user, group) && statusLine("CapEff:").ends_with("0000000000000000");
                  });
                  return inside && idsAre(0, 0) && !statusLine("CapEff:").ends_with("0000000000000000") ? 0
                                                                                                        : 1;
              }));
}

TEST(Credentials, AsUserOpensOnlyWhatTheCallerMayOpen) {
    EXPECT_EQ(0, isolated([] {
                  const test::RootOwnedDirectory directory;
                  writeAll(openFile(directory / "secret", O_WRONLY | O_CREAT, 0600).get(), "x", "secret");
                  becomeSetUserIdProgram();
                  const auto credentials = Credentials::acquire(Mode::privileged);
                  const bool refused = credentials.asUser([&] {
                      return ::open((directory / "secret").c_str(), O_RDONLY) < 0 && errno == EACCES;
                  });
                  return refused && ::open((directory / "secret").c_str(), O_RDONLY) >= 0 ? 0 : 1;
              }));
}

TEST(Credentials, TheIdentityIsRestoredAfterAnException) {
    EXPECT_EQ(0, isolated([] {
                  becomeSetUserIdProgram();
                  const auto credentials = Credentials::acquire(Mode::privileged);
                  try {
                      credentials.asUser([] { throw Error("no"); });
                  } catch (const Error&) {
                      return idsAre(0, 0) ? 0 : 1;
                  }
                  return 2;
              }));
}

TEST(Credentials, CallsMayBeNested) {
    EXPECT_EQ(0, isolated([] {
                  becomeSetUserIdProgram();
                  const auto credentials = Credentials::acquire(Mode::privileged);
                  return credentials.asUser([&] {
                      credentials.asUser([] {});
                      return idsAre(user, group) ? 0 : 1;
                  });
              }));
}

TEST(Credentials, TheMonitorIsTheCallersAndKeepsOnlyTheRightToKill) {
    EXPECT_EQ(0, isolated([] {
                  becomeSetUserIdProgram();
                  dropToMonitor(Credentials::acquire(Mode::privileged));
                  const bool only = statusLine("CapPrm:").ends_with("0000000000000020") &&
                                    statusLine("CapEff:").ends_with("0000000000000020");
                  return only && idsAre(user, group) && ::prctl(PR_GET_DUMPABLE) == 0 &&
                                 ::setresuid(0, 0, 0) != 0
                             ? 0
                             : 1;
              }));
}

TEST(Credentials, FilesOfTheCallerBelongToZeroInsideHisUserNamespace) {
    auto credentials = Credentials::acquire(Mode::rootless);
    EXPECT_EQ(credentials.ownerUid(), ::getuid());
    credentials.enteredUserNamespace();
    EXPECT_EQ(credentials.ownerUid(), 0U);
    EXPECT_EQ(credentials.ownerGid(), 0U);
}

}  // namespace
}  // namespace sarus::starter::credentials_as_root_test
