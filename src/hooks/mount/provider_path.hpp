#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sarus::hooks::mount {

/// The first directory of a container's FI_PROVIDER_PATH, a colon-separated list in which libfabric also
/// accepts entries that are not directories ("+file", "@file"); nullopt if there is none.
std::optional<std::string> firstProviderDirectory(std::string_view value);

/// Whether the name is libfabric's: "libfabric.so." and numbers.
bool isLibfabric(std::string_view fileName) noexcept;

/// The directory in which the libfabric that a program of the container would load looks for providers:
/// "libfabric" beside the library; nullopt if the root filesystem has none for this machine. `libraryPath`:
/// the container's LD_LIBRARY_PATH.
std::optional<std::string> findProviderDirectory(int root, std::string_view libraryPath);

}  // namespace sarus::hooks::mount
