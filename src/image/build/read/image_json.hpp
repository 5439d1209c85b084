#pragma once

// Shared by the readers of OCI layouts and of docker save's archives. Include this only in source files of
// this directory: it includes the JSON library.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "image/build/hash/hasher.hpp"
#include "oci/image/platform.hpp"

namespace sarus::image::build {

using Json = nlohmann::json;

constexpr std::uint64_t largestManifest = 4U << 20U;
constexpr std::uint64_t largestConfig = 4U << 20U;  // the limit of skopeo and podman
constexpr std::size_t mostLayers = 4096;

/// Both throw Error, with `what` in the message. parseJson accepts any JSON value.
Json parseJson(const std::string& text, const std::string& what);
Json parseJsonObject(const std::string& text, const std::string& what);

/// "" if it is missing or not a string.
std::string stringMember(const Json& object, const char* key);
/// Both throw Error if it is missing; the second also if it is not a list.
const Json& member(const Json& object, const char* key, std::string_view what);
const Json& arrayMember(const Json& object, const char* key, std::string_view what);

/// The digests of the uncompressed layers in an image configuration, lowest first; must match the number of
/// layers. Throws Error.
std::vector<Digest> diffIds(const Json& config, std::size_t layers);

/// Compares only fields that are present: configurations often lack the variant listed in their index.
/// Without `wanted`, only the operating system must be this machine's. Throws Error.
void checkPlatform(const Json& config, const std::optional<oci::Platform>& wanted);

oci::Platform platformOfConfig(const Json& config);

}  // namespace sarus::image::build
