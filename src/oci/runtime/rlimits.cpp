#include "oci/runtime/rlimits.hpp"

#include <utility>

namespace sarus::oci {

std::optional<__rlimit_resource> findRlimit(std::string_view type) {
    constexpr std::pair<std::string_view, __rlimit_resource> known[] = {
        {"RLIMIT_AS", RLIMIT_AS},
        {"RLIMIT_CORE", RLIMIT_CORE},
        {"RLIMIT_CPU", RLIMIT_CPU},
        {"RLIMIT_DATA", RLIMIT_DATA},
        {"RLIMIT_FSIZE", RLIMIT_FSIZE},
        {"RLIMIT_LOCKS", RLIMIT_LOCKS},
        {"RLIMIT_MEMLOCK", RLIMIT_MEMLOCK},
        {"RLIMIT_MSGQUEUE", RLIMIT_MSGQUEUE},
        {"RLIMIT_NICE", RLIMIT_NICE},
        {"RLIMIT_NOFILE", RLIMIT_NOFILE},
        {"RLIMIT_NPROC", RLIMIT_NPROC},
        {"RLIMIT_RSS", RLIMIT_RSS},
        {"RLIMIT_RTPRIO", RLIMIT_RTPRIO},
        {"RLIMIT_RTTIME", RLIMIT_RTTIME},
        {"RLIMIT_SIGPENDING", RLIMIT_SIGPENDING},
        {"RLIMIT_STACK", RLIMIT_STACK}};
    for (const auto& [name, resource] : known) {
        if (name == type) {
            return resource;
        }
    }
    return std::nullopt;
}

}  // namespace sarus::oci
