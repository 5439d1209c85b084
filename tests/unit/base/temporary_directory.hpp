#pragma once

#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "base/file_io.hpp"

namespace sarus::test {

/// A directory below TMPDIR (or /tmp) that exists as long as the object.
class TemporaryDirectory {
public:
    TemporaryDirectory()
        : TemporaryDirectory(std::getenv("TMPDIR") != nullptr ? std::getenv("TMPDIR") : "/tmp") {}
    explicit TemporaryDirectory(const std::string& base) : directory(base + "/sarus-test-XXXXXX") {
        if (::mkdtemp(directory.data()) == nullptr) {
            throwErrno("Failed to create a temporary directory in " + base);
        }
    }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    ~TemporaryDirectory() {
        try {
            removeTree(directory);
        } catch (const Error&) {
            // the test's own assertions matter more than what is left over
        }
    }
    const std::string& path() const { return directory; }
    std::string operator/(const std::string& name) const { return directory + "/" + name; }

private:
    std::string directory;
};

}  // namespace sarus::test
