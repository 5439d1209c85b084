#pragma once

#include <sys/stat.h>

#include "base/temporary_directory.hpp"

namespace sarus::test {

/// A directory on the way to which only root can write, unlike one below /tmp.
class RootOwnedDirectory : public TemporaryDirectory {
public:
    RootOwnedDirectory() : TemporaryDirectory("/run") { ::chmod(path().c_str(), 0755); }
};

}  // namespace sarus::test
