#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus::starter {

/// What the starter remembers of a container while it runs: the runtimes do not tell all of it again.
struct ContainerRecord {
    std::string image;                     ///< reference, or the path of a file
    std::vector<std::string> command;      ///< argv of its first process
    std::vector<std::string> environment;  ///< "NAME=value"
    std::string workdir;
    std::optional<std::string> apparmorProfile = std::nullopt;  ///< what confines it holds for every process that joins it
    std::optional<std::string> selinuxLabel = std::nullopt;
    bool incomplete = false;   ///< set by RecordFile: variables or arguments are missing which were too large to be remembered
    bool idMapHelper = false;  ///< its user was made by the helper inside (engine::needsIdMapHelper)
};

/// The record's file `.<name>.json`, beside the runtime's states. It is locked as long as its container lives, so that nobody
/// takes what a killed starter left behind for a running container: where no record is locked, nobody looks after the runtime's
/// state. The destructor removes the file.
class RecordFile {
public:
    /// Removes what a dead container of this name has left. Throws Error "A container with the name ... exists already" if a
    /// record of this name is locked, or the runtime's state names a process that runs.
    ///
    /// A record has less than 300 KiB: /run is small and everybody's, and a user's variables may have megabytes. What would make
    /// it larger is left out, smaller variables and arguments after it are not.
    static RecordFile create(const std::string& runtimeRoot, const std::string& containerName, const ContainerRecord& record);

    RecordFile(RecordFile&& other) noexcept : fd(std::move(other.fd)), path(std::exchange(other.path, {})) {}
    RecordFile& operator=(RecordFile&&) = delete;
    ~RecordFile() { remove(); }

    int descriptor() const noexcept { return fd.get(); }
    /// Notes, once, the cgroup that goes with the container.
    void noteCgroup(const std::string& directory);
    void remove() noexcept;
    /// The other process of a fork owns the file from now on.
    void release() noexcept { path.clear(); }

private:
    RecordFile(UniqueFd file, std::string name) noexcept : fd(std::move(file)), path(std::move(name)) {}

    UniqueFd fd;
    std::string path;
};

/// Removes what is left of containers whose starters were killed together with their janitors and runtimes: records, the
/// runtime's states, cgroups. Starts at the same time are not disturbed, nor is a container whose first process still runs. What
/// cannot be removed stays.
void sweepDeadContainers(const std::string& runtimeRoot);

/// True if the runtime knows no first process of the container, or one that is gone.
bool hasEnded(const std::string& runtimeRoot, const std::string& containerName);

/// nullopt if there is no living container of that name. Throws Error for a file that is no record.
std::optional<ContainerRecord> readRecord(const std::string& runtimeRoot, const std::string& containerName);

}  // namespace sarus::starter
