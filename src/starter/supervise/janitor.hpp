#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "starter/devices/device_cgroup.hpp"
#include "starter/entry/audit.hpp"
#include "starter/entry/credentials.hpp"
#include "starter/runtime/pid_file.hpp"
#include "starter/supervise/container_record.hpp"

namespace sarus::starter {

/// What to remove when a container has ended.
struct Remains {
    /// Runtime state of this container; "" for an exec command, which has none of these.
    std::string stateDirectory;
    std::optional<DeviceCgroup> deviceCgroup{};
    std::optional<RecordFile> record{};
    UniqueFd storageLock{};  ///< of a kept container (container_storage.hpp): nobody enters it before the end
};

/// A process that keeps the starter's identity (if privileged: root with few capabilities) after the starter
/// drops it. When the container has ended, it removes what remains. If the starter is killed, it ends the
/// container first: by the runtime's own means, then by SIGKILL, also the program of a runtime that was
/// killed together with the starter. Then it records the end.
class Janitor {
public:
    /// Forks before the runtime starts, so that a killed starter leaves no unknown runtime. From now on the
    /// janitor removes what remains; the descriptors in `remains` stay open here. `program`: where the
    /// runtime will name the program, or nullptr. Throws Error.
    Janitor(const Credentials& credentials, Remains& remains, const PidFile* program, AuditLog audit = {});
    Janitor(const Janitor&) = delete;
    Janitor& operator=(const Janitor&) = delete;
    /// Waits until cleanup is complete. Ends a runtime that was not reaped.
    ~Janitor();

    pid_t pid() const noexcept { return id; }
    /// The runtime reports its process here before it starts (RuntimeInvocation::janitor).
    int control() const noexcept { return writer.get(); }
    /// Reports that the runtime was reaped, and waits until cleanup is complete. `status`: of the container.
    void finish(int status);

private:
    void wait();

    pid_t id = -1;
    UniqueFd writer;
};

}  // namespace sarus::starter
