#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace sarus {

/// pipe(2). Both ends are close-on-exec, and neither is a standard stream.
struct Pipe {
    UniqueFd reader;
    UniqueFd writer;
};

/// Throws Error.
Pipe makePipe();

/// A pipe to read, and the function that receives each piece.
struct Inflow {
    int fd;
    std::function<void(std::string_view)> take;
};

/// Appends to `out`, which must outlive the result, up to `limit` bytes in all, and drops the rest.
std::function<void(std::string_view)> appendTo(std::string& out, std::size_t limit);

/// A function to call periodically while reading pipes.
struct Tick {
    std::chrono::milliseconds interval;
    std::function<void()> call;
};

/// Reads the pipes until all writers have closed them. False if that takes longer than `patience`. Throws
/// Error.
bool readToEnd(std::initializer_list<Inflow> pipes, std::optional<std::chrono::milliseconds> patience = {},
               const std::optional<Tick>& tick = {});

}  // namespace sarus
