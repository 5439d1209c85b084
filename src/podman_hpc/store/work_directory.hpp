#pragma once

#include <string>

#include "base/unique_fd.hpp"

namespace sarus::podman_hpc {

/// A directory for one download below `parent`, locked while it is in use and removed by the destructor. The
/// constructor removes those of programs that were killed. Throws Error.
class WorkDirectory {
public:
    explicit WorkDirectory(const std::string& parent);
    WorkDirectory(const WorkDirectory&) = delete;
    WorkDirectory& operator=(const WorkDirectory&) = delete;
    ~WorkDirectory();

    const std::string& path() const { return name; }

private:
    bool take();

    std::string name;
    UniqueFd directory;
};

}  // namespace sarus::podman_hpc
