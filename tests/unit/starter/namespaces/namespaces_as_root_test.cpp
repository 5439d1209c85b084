#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#include <string>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "starter/isolated.hpp"
#include "starter/namespaces/namespaces.hpp"

namespace sarus::starter::namespaces_as_root_test {
namespace {

using test::isolated;

constexpr uid_t user = 12345;

/// As a login does, whose programs may write the files of their own in /proc.
bool becomeUser() {
    return ::setgroups(0, nullptr) == 0 && ::setresgid(user, user, user) == 0 &&
           ::setresuid(user, user, user) == 0 && ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;
}

TEST(Namespaces, ARootlessStarterMapsTheCallerToZeroAndHasAllCapabilitiesThere) {
    EXPECT_EQ(0, isolated([] {
                  if (!becomeUser()) {
                      return 1;
                  }
                  auto credentials = Credentials::acquire(Mode::rootless);
                  enterNamespaces(credentials);
                  const bool mapped = splitWords(readFile("/proc/self/uid_map")) ==
                                      std::vector<std::string>{"0", "12345", "1"};
                  const bool denied = trim(readFile("/proc/self/setgroups")) == "deny";
                  const bool mayMount = ::mount("tmpfs", "/tmp", "tmpfs", 0, nullptr) == 0;
                  return mapped && denied && mayMount && ::getuid() == 0 && credentials.uid() == user ? 0 : 2;
              }));
}

TEST(Namespaces, MountsOfAPrivilegedStarterStayInItsNamespace) {
    EXPECT_EQ(0, isolated([] {
                  auto credentials = Credentials::acquire(Mode::privileged);
                  enterNamespaces(credentials);
                  const auto root = split(readFile("/proc/self/mountinfo"), '\n');
                  for (const auto& line : root) {
                      if (line.find(" shared:") != std::string::npos) {
                          return 1;
                      }
                  }
                  return 0;
              }));
}

TEST(Namespaces, TheSettingThatForbidsUserNamespacesIsNamed) {
    EXPECT_EQ(0, isolated([] {
                  // The limit belongs to a user namespace: only this process and its children see the change.
                  if (!becomeUser() || ::unshare(CLONE_NEWUSER) != 0) {
                      return 1;
                  }
                  const auto limit = openFile("/proc/sys/user/max_user_namespaces", O_WRONLY);
                  writeAll(limit.get(), "0", "limit");
                  auto credentials = Credentials::acquire(Mode::rootless);
                  try {
                      enterNamespaces(credentials);
                  } catch (const Error& error) {
                      const std::string message = error.what();
                      return message.find("user.max_user_namespaces=0") != std::string::npos ? 0 : 2;
                  }
                  return 3;
              }));
}

}  // namespace
}  // namespace sarus::starter::namespaces_as_root_test
