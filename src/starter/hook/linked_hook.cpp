#include "starter/hook/linked_hook.hpp"

#include "hooks/glibc/program.hpp"
#include "hooks/mpi/program.hpp"
#include "starter/linked/linked_hooks.hpp"

namespace sarus::starter {

std::optional<hooks::HookProgram> findLinkedHook(const char* path) {
    const auto name = linkedHookName(path);
    return name == "glibc_hook" ? std::optional(hooks::glibc::program())
           : name == "mpi_hook" ? std::optional(hooks::mpi::program())
                                : std::nullopt;
}

}  // namespace sarus::starter
