#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oci/image/platform.hpp"

namespace sarus::oci {

/// What a container inherits from its image: the part of the OCI image configuration (image-spec, config.md,
/// "config") stored beside an image in its `.meta` file. Absent fields are empty.
struct ImageMetadata {
    std::vector<std::string> cmd;
    std::vector<std::string> entrypoint;
    std::string workingDir;
    std::vector<std::string> env;  ///< "NAME=value", in the image's order
    std::map<std::string, std::string> labels;
    std::vector<std::string> volumes{};  ///< sorted

    bool operator==(const ImageMetadata&) const = default;
};

/// Reads the text of a `.meta` file: keys Cmd, Entrypoint, WorkingDir, Env, Labels, Volumes, each of which
/// may be missing or null. Throws Error naming the key and the expected value.
ImageMetadata parseImageMetadata(std::string_view json);

/// The text of a `.meta` file; omits Labels and Volumes if there are none.
std::string serializeImageMetadata(const ImageMetadata& metadata);

/// The same fields from an OCI or Docker image configuration blob.
ImageMetadata parseImageConfig(std::string_view json);

/// The platform in such a configuration; members that it lacks are "". Throws Error.
Platform platformOfConfig(std::string_view json);

}  // namespace sarus::oci
