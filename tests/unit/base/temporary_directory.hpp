#pragma once

#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "base/file_io.hpp"

namespace sarus::test {

/// A directory below TMPDIR (or /tmp) that exists as long as the object.
class TemporaryDirectory {
public:
    TemporaryDirectory() {
        const char* base = std::getenv("TMPDIR");
        directory = std::string(base != nullptr ? base : "/tmp") + "/sarus-test-XXXXXX";
        if (::mkdtemp(directory.data()) == nullptr) {
            throwErrno("Failed to create a temporary directory");
        }
    }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    ~TemporaryDirectory() {
        try {
            removeTree(directory);
        } catch (const Error&) {
            // the test's own assertions matter more than what is left in /tmp
        }
    }
    const std::string& path() const { return directory; }
    std::string operator/(const std::string& name) const { return directory + "/" + name; }

private:
    std::string directory;
};

}  // namespace sarus::test
