#pragma once

#include <string_view>

namespace sarus::image::build {

/// Whether two texts name the same image, ignoring the server, as do "docker.io/library/tool:latest",
/// "localhost/tool" and "tool".
bool sameImageName(std::string_view a, std::string_view b);

/// Whether the text is a single word, such as the tags with which some tools mark the images of an OCI
/// layout.
bool isOnlyTag(std::string_view name);

/// The tag of an image's name; "latest" if it has none.
std::string_view tagOf(std::string_view name);

}  // namespace sarus::image::build
