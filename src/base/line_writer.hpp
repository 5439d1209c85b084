#pragma once

#include <functional>

namespace sarus {

/// Calls its argument, which writes one line, exactly once. It may switch identities before and after.
using LineWriter = std::function<void(const std::function<void()>& write)>;

/// Sets how base/log.hpp writes lines; empty: without switching identities. Not thread-safe.
void setLineWriter(LineWriter writer);

/// Messages on a terminal stay without colours, whatever the environment says.
void neverColour() noexcept;

}  // namespace sarus
