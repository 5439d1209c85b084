#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/text.hpp"

namespace sarus::hook_contracts {

/// Where a rootless container finds the helper that becomes its program. config.json calls it as
/// `<helper> [--enter=FD] <uid> <gid> <command> [arguments]`: the program's ids are these, not those of
/// `process.user`.
inline constexpr const char* idMapHelperInside = "/dev/.sarus-idmap";

struct IdMapCall {
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::optional<int> payloadNamespace;  ///< a descriptor of the container's first process
};

/// What `process.args` says to the helper; nullopt if they begin with another program.
inline std::optional<IdMapCall> findIdMapCall(std::span<const std::string> args) {
    constexpr std::string_view enter = "--enter=";
    if (args.empty() || args.front() != idMapHelperInside) {
        return std::nullopt;
    }
    IdMapCall call;
    args = args.subspan(1);
    if (!args.empty() && args.front().starts_with(enter)) {
        const auto fd = parseNumber(std::string_view(args.front()).substr(enter.size()));
        call.payloadNamespace = fd ? std::optional(static_cast<int>(*fd)) : std::nullopt;
        args = args.subspan(1);
    }
    const auto uid = args.size() > 1 ? parseNumber(args[0]) : std::nullopt;
    const auto gid = args.size() > 1 ? parseNumber(args[1]) : std::nullopt;
    if (!uid || !gid) {
        return std::nullopt;
    }
    call.uid = static_cast<std::uint32_t>(*uid);
    call.gid = static_cast<std::uint32_t>(*gid);
    return call;
}

}  // namespace sarus::hook_contracts
