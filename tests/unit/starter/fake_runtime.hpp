#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <string>

#include "base/eventually.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "starter/entry/installation.hpp"

namespace sarus::test {

/// A directory with a program `crun` which does what a test wants, and a rootless starter's session whose
/// site uses it.
class FakeRuntime {
public:
    explicit FakeRuntime(const std::string& script) {
        writeAll(openFile(directory / "crun", O_WRONLY | O_CREAT, 0755).get(),
                 "#!/bin/sh\ncd " + directory.path() + "\necho \"$@\" > arguments\n" + script + "\n",
                 "script");
        session.config.runcPath = directory / "crun";
        session.config.tempDir = directory.path();
        session.config.securityChecks = false;
        session.paths = std::make_unique<PathChecker>(TrustedOwners());
    }

    /// Puts this process into the state of a starter; not to be undone.
    static void becomeStarter() {
        sigset_t all;
        ::sigfillset(&all);
        ::sigprocmask(SIG_SETMASK, &all, nullptr);
        ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0,
                0);  // a test has not the privileges with which a starter installs filters
    }

    std::string operator/(const std::string& name) const { return directory / name; }
    bool has(const std::string& name) const { return pathExists(directory / name); }
    std::string arguments() const { return readFile(directory / "arguments"); }

    /// False if the file does not appear in time.
    bool await(const std::string& name, int milliseconds = 120'000) const {
        return eventually([&] { return has(name); }, milliseconds);
    }

    TemporaryDirectory directory;
    starter::Session session{.entry = {},
                             .credentials = starter::Credentials::acquire(starter::Mode::rootless)};
};

}  // namespace sarus::test
