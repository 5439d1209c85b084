#pragma once

#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace sarus::podman_hpc {

/// The file named by LOG_PLUGIN, in the reference's format. Without a file, lines go nowhere.
class RuleLog {
public:
    RuleLog() = default;

    /// Empties the file, or creates it. The image may have set LOG_PLUGIN: a new file is made only in a
    /// directory that everybody may write, such as /tmp, and an existing file must be the caller's own and a
    /// log of this kind. (An empty one may be a file that a shell reads.) Throws Error.
    static RuleLog open(const std::string& path);

    void line(std::string_view text) const;

private:
    UniqueFd file;
};

}  // namespace sarus::podman_hpc
