#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "starter/cgroups.hpp"
#include "starter/container_record.hpp"
#include "starter/credentials.hpp"

namespace sarus::starter {

/// A process which keeps the starter's identity (root with few capabilities, where it is privileged) while the starter itself
/// gives it up. When the container has ended, it removes the device cgroup and what a dying runtime left in its state directory.
/// If the starter was killed, it ends the container first: by the runtime's own means, then by SIGKILL.
class Janitor {
public:
    /// Forks. The cgroup and the record belong to the janitor from now on. `stateDirectory` is the runtime's directory for this
    /// container; "" for a command that runs beside a container, which belongs to another janitor.
    static Janitor start(const Credentials& credentials, pid_t runtime, std::string stateDirectory,
                         std::optional<DeviceCgroup> deviceCgroup, std::optional<RecordFile> record);

    pid_t pid() const noexcept { return id; }
    /// Tells it that the runtime was reaped, and waits until everything is tidy.
    void finish();

private:
    Janitor(pid_t process, UniqueFd theControl) noexcept : id(process), control(std::move(theControl)) {}

    pid_t id;
    UniqueFd control;
};

}  // namespace sarus::starter
