#include "hook_contracts/mpi.hpp"

#include "base/text.hpp"

namespace sarus::hook_contracts {

std::vector<HookDevice> devicesOfMpiHook(const HookCall& call) {
    std::vector<HookDevice> devices;
    for (const std::string_view variable : call.hook.env) {
        if (!variable.starts_with(mpiBindMounts) || variable.substr(mpiBindMounts.size(), 1) != "=") {
            continue;
        }
        for (const auto& path : split(variable.substr(mpiBindMounts.size() + 1), ':')) {
            if (path.starts_with('/')) {
                devices.push_back({path, "rw"});
            }
        }
    }
    return devices;
}

}  // namespace sarus::hook_contracts
