#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sarus::image {

struct BuilderSettings {
    std::string path;  ///< of sarus-image-builder
    std::string mksquashfsOptions;
    std::optional<std::uint64_t> maxUnpackedSize{};  ///< bytes; the builder's own limit if absent
    std::optional<std::uint64_t> maxEntries{};       ///< the builder's own limit if absent
    std::optional<std::string> platform{};           ///< the image must be for it; this machine's if absent
    bool quiet = false;                              ///< no progress on standard error
};

/// What the builder reports about a squashfs file that it has written.
struct BuildResult {
    std::string manifestDigest;  ///< of the manifest in the layout
    std::string configDigest;
    std::string squashfsDigest;  ///< "fsverity-sha256:..."
    std::uint64_t squashfsSize = 0;
    std::string owner;       ///< of all files, "UID:GID"
    std::string builder;     ///< its version
    std::string compressor;  ///< the library and its version
};

/// Parses the builder's line of JSON. Throws Error if something is missing or malformed.
BuildResult parseBuildResult(std::string_view json);

/// Runs the builder (a program of its own, since it parses hostile archives and is heavy to load). Throws Error with the
/// builder's message; `output` does not exist then.
BuildResult buildSquashfs(const BuilderSettings& settings, const std::string& layout, const std::string& output);

}  // namespace sarus::image
