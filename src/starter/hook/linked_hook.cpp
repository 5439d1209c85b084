#include "starter/hook/linked_hook.hpp"

#include <array>

#include "hooks/amdgpu/program.hpp"
#include "hooks/decorator/program.hpp"
#include "hooks/glibc/program.hpp"
#include "hooks/ldcache/program.hpp"
#include "hooks/mount/program.hpp"
#include "hooks/mpi/program.hpp"
#include "starter/linked/linked_hooks.hpp"

namespace sarus::starter {

std::optional<hooks::HookProgram> findLinkedHook(const char* path) {
    constexpr std::array programs{hooks::amdgpu::program,  hooks::decorator::program, hooks::glibc::program,
                                  hooks::ldcache::program, hooks::mount::program,     hooks::mpi::program};
    const auto name = linkedHookName(path);
    for (const auto program : programs) {
        if (auto hook = program(); hook.program == name) {
            return hook;
        }
    }
    return std::nullopt;
}

}  // namespace sarus::starter
