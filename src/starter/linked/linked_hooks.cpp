#include "starter/linked/linked_hooks.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include <build_ids.hpp>

#include "base/unique_fd.hpp"

namespace sarus::starter {

namespace {

struct LinkedHook {
    std::string_view program;
    std::string_view buildId;
};

constexpr std::array linkedHooks{
    LinkedHook{"amdgpu_hook", AMDGPU_HOOK_BUILD_ID}, LinkedHook{"decorator_hook", DECORATOR_HOOK_BUILD_ID},
    LinkedHook{"glibc_hook", GLIBC_HOOK_BUILD_ID},   LinkedHook{"ldcache_hook", LDCACHE_HOOK_BUILD_ID},
    LinkedHook{"mount_hook", MOUNT_HOOK_BUILD_ID},   LinkedHook{"mpi_hook", MPI_HOOK_BUILD_ID}};

/// Linkers put the note with the build id (ELF gABI "Note Section", NT_GNU_BUILD_ID) near the beginning.
bool beginsWithBuildId(const char* path, std::string_view buildId) {
    std::array<char, 4096> head{};
    const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    const auto size = file ? ::read(file.get(), head.data(), head.size()) : -1;
    return size > 0 && !buildId.empty() &&
           std::string_view(head.data(), static_cast<std::size_t>(size)).find(buildId) !=
               std::string_view::npos;
}

}  // namespace

std::string_view linkedHookName(const char* path) {
    const std::string_view whole(path);
    const auto name = whole.substr(whole.rfind('/') + 1);
    const auto* const found = std::find_if(linkedHooks.begin(), linkedHooks.end(),
                                           [&](const LinkedHook& hook) { return hook.program == name; });
    return found != linkedHooks.end() && beginsWithBuildId(path, found->buildId) ? found->program : "";
}

}  // namespace sarus::starter
