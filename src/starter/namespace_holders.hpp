#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus::starter {

/// A starter that is in the shared user namespace of the starters and keeps the containers' open (shared_namespaces.hpp).
struct NamespaceHolder {
    pid_t pid = 0;
    std::uint64_t started = 0;  ///< as Process::started()
    int container = 0;          ///< its descriptor of the namespace that the OCI runtime gives to a container
    int payload = 0;            ///< its descriptor of the one below, in which a container's program is; 0 if there is none
    bool operator==(const NamespaceHolder&) const = default;
};

/// The text of a holder's file. Every holder takes the same space, so that a write which shortens the file is complete at any
/// moment: what is left of a longer one is holders as well.
std::string formatHolders(const std::vector<NamespaceHolder>& holders);

/// nullopt if any of it is damaged.
std::optional<std::vector<NamespaceHolder>> parseHolders(std::string_view text);

/// The holders of one set of namespaces, in a file which is locked as long as this object lives. A process that is killed gives
/// the lock back and leaves a file that can be read, or one that counts as damaged.
class HolderFile {
public:
    /// Opens and locks `<directory>/<name>`, or makes it. Throws Error if it cannot be locked in a short time, or belongs to
    /// somebody else. `directory`: existing, the caller's alone. `owner`: as the present user namespace shows the caller.
    static HolderFile open(const std::string& directory, const std::string& name, uid_t owner);

    /// In the order in which they came. Empty for a damaged file.
    std::vector<NamespaceHolder> read() const;
    void write(const std::vector<NamespaceHolder>& holders) const;

private:
    explicit HolderFile(UniqueFd file) noexcept : fd(std::move(file)) {}

    UniqueFd fd;
};

/// Removes the files in `directory` that nobody has written to for a day, but for those in use at this moment: who holds what
/// they name keeps it, and only the next start makes new namespaces.
void sweepHolderFiles(const std::string& directory);

}  // namespace sarus::starter
