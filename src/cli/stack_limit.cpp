#include "cli/stack_limit.hpp"

#include <sys/resource.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::cli {

namespace {

std::optional<std::uint64_t> inherited;

}  // namespace

void raiseStackLimit() {
    constexpr rlim_t needed = 128U << 10U;
    rlimit limit{};
    if (::getrlimit(RLIMIT_STACK, &limit) != 0) {
        return;
    }
    inherited = limit.rlim_cur;
    if (limit.rlim_cur >= needed) {
        return;
    }
    limit.rlim_cur = std::min(limit.rlim_max, needed);
    if (limit.rlim_max < needed || ::setrlimit(RLIMIT_STACK, &limit) != 0) {
        throw Error(cat("The limit RLIMIT_STACK of ", *inherited, " bytes is too low"),
                    cat("It must be at least ", needed, " bytes (see ulimit)"));
    }
}

std::optional<std::uint64_t> callerStackLimit() {
    return inherited;
}

}  // namespace sarus::cli
