#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "base/file_io.hpp"

namespace sarus::test {

/// A directory on the way to which only root can write, unlike one below /tmp.
class RootOwnedDirectory {
public:
    RootOwnedDirectory() {
        directory = "/run/sarus-test-XXXXXX";
        if (::mkdtemp(directory.data()) == nullptr) {
            throwErrno("Failed to create a directory in /run");
        }
        ::chmod(directory.c_str(), 0755);
    }
    RootOwnedDirectory(const RootOwnedDirectory&) = delete;
    RootOwnedDirectory& operator=(const RootOwnedDirectory&) = delete;
    ~RootOwnedDirectory() {
        try {
            removeTree(directory);
        } catch (const Error&) {
            // the test's own assertions matter more
        }
    }
    const std::string& path() const { return directory; }
    std::string operator/(const std::string& name) const { return directory + "/" + name; }

private:
    std::string directory;
};

}  // namespace sarus::test
