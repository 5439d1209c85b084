#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "engine/container_settings.hpp"
#include "starter/supervise/running_container.hpp"

namespace sarus::starter {

/// The starter's data about a running container that the runtimes do not provide.
struct ContainerRecord {
    std::string image;                     ///< reference, or the path of a file
    std::vector<std::string> command;      ///< argv of its first process
    std::vector<std::string> environment;  ///< "NAME=value"
    std::string workdir;
    std::vector<std::string> ownVariables = {};  ///< names: engine::ownVariables()
    /// The profile that also confines every process that joins it.
    std::optional<std::string> apparmorProfile = std::nullopt;
    std::optional<std::string> selinuxLabel = std::nullopt;
    bool incomplete = false;        ///< RecordFile has omitted large variables or arguments
    bool createsUser = false;       ///< sarus-enter created its user (engine::createsUserInside)
    bool remapRoot = false;         ///< the caller is root inside
    std::string imageContent = {};  ///< of the image file (squashfs::contentOf); "" if unknown
    /// nullopt if they are too large to be remembered.
    std::optional<engine::ContainerSettings> settings = std::nullopt;
};

/// The record's file `.<name>.json`, beside the runtime's states. It stays locked while its container lives:
/// without a locked record, a runtime's state is a leftover of a killed starter. The destructor removes the
/// file.
class RecordFile {
public:
    /// Removes leftovers of a dead container of this name, and waits some seconds for the end of one that is
    /// ending. Throws Error "A container with the name ... exists already" if a record of this name stays
    /// locked, or the runtime's state names a running process.
    ///
    /// A record stays below 330 KiB: /run is small and shared by all users, and a user's variables may have
    /// megabytes. Omits variables and arguments that would exceed this, and keeps smaller ones after them.
    static RecordFile create(const std::string& runtimeRoot, const std::string& containerName,
                             const ContainerRecord& record);

    RecordFile(RecordFile&& other) noexcept : fd(std::move(other.fd)), path(std::exchange(other.path, {})) {}
    RecordFile& operator=(RecordFile&&) = delete;
    ~RecordFile() { remove(); }

    int descriptor() const noexcept { return fd.get(); }
    /// Records a cgroup to be removed with the container.
    void noteCgroup(const std::string& directory);
    /// Removes the container's runtime state and cgroups, which a killed runtime leaves behind. Throws Error.
    void removeRemains(const std::string& runtimeRoot, const std::string& containerName) const;
    void remove() noexcept;
    /// The other process of a fork owns the file from now on.
    void release() noexcept { path.clear(); }

private:
    RecordFile(UniqueFd file, std::string name) noexcept : fd(std::move(file)), path(std::move(name)) {}

    UniqueFd fd;
    std::string path;
};

/// Removes leftovers of containers whose starters were killed together with their janitors and runtimes:
/// records, runtime states, cgroups. Does not disturb concurrent starts or containers whose first process
/// still runs. Keeps what it cannot remove.
void sweepDeadContainers(const std::string& runtimeRoot);

struct KnownContainer {
    std::string name;
    /// nullopt if somebody looks after it although the runtime has no state of it: it is about to begin, or
    /// has just ended.
    std::optional<RuntimeState> state;
    enum class Status { creating, created, running, stopped } status = Status::creating;
};

/// Those that the runtime has a state of, or that somebody looks after.
std::vector<KnownContainer> knownContainers(const std::string& runtimeRoot);

/// In milliseconds: what a busy node may need.
constexpr int longestStart = 60'000;

/// Waits until the runtime has written down the state of a container that somebody looks after, for
/// longestStart at most: it may do so slightly after the program has begun.
void awaitRuntimeState(const std::string& runtimeRoot, const std::string& containerName);

/// The containers that live or are about to, including that of a record which the caller holds.
std::size_t countContainers(const std::string& runtimeRoot);

/// True if the runtime knows no first process of the container, or that process is gone.
bool hasEnded(const std::string& runtimeRoot, const std::string& containerName);

/// nullopt if there is no living container of that name. Throws Error for an invalid file.
std::optional<ContainerRecord> readRecord(const std::string& runtimeRoot, const std::string& containerName);

}  // namespace sarus::starter
