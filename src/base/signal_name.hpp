#pragma once

#include <string_view>

namespace sarus {

/// "TERM" for SIGTERM; empty for a real-time signal and a number without a name. As glibc's sigabbrev_np,
/// which musl and glibc before 2.32 lack.
std::string_view signalName(int number) noexcept;

}  // namespace sarus
