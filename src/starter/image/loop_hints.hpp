#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus::starter {

/// A loop device, as recorded when it was bound.
struct LoopBinding {
    unsigned number = 0;
    /// Set by the kernel, differs whenever something else is bound; 0 before Linux 5.15.
    std::uint64_t sequence = 0;

    bool operator==(const LoopBinding&) const = default;
};

/// The hints which loop device holds an image: root's files in a directory shared by all starters of the
/// node.
class LoopHints {
public:
    /// Creates the directory if it is missing. Without a directory that belongs to root alone there are no
    /// hints.
    LoopHints(const std::string& directory, const struct stat& image);

    /// The devices named by the hints for this image. Takes no lock, so a stopped lock holder does not
    /// prevent others from sharing a bound device.
    std::vector<LoopBinding> read() const;

    /// Locks a hint for this image, if there is a registry and not all locks are taken. If the owner of a
    /// lock does not proceed in time (because its job is suspended), all others meet at the next hint instead
    /// of each taking a device.
    void lock(std::chrono::milliseconds timeout);

    /// The content of the locked hint.
    std::optional<LoopBinding> locked() const;

    /// Writes the device to the locked hint. A failure only costs the next starter a device of its own.
    /// Writes nothing if the file has changed meanwhile: it has another hint then.
    void record(const LoopBinding& device, const struct stat& image) const;

private:
    void sweepOthers(unsigned own) const;

    std::string name;
    UniqueFd registry;
    UniqueFd file;  ///< the locked hint
};

}  // namespace sarus::starter
