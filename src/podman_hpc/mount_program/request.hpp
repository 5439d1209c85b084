#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::podman_hpc {

/// A mount as containers/storage asks its mount program for one: PROGRAM -o OPTIONS TARGET.
struct OverlayRequest {
    std::vector<std::string> lower;  ///< topmost layer first; at least one
    std::string upper;               ///< "" for a mount that is only read
    std::string work;
    std::vector<std::string> further;  ///< other options as they are meant, without empty ones
    std::string target;
};

/// nullopt for any other call, such as one that asks for the version.
std::optional<OverlayRequest> parseOverlayRequest(const std::vector<std::string>& words);

/// Devices of an image or of a container do not work, unless the administrator wants it (`dev`): Podman's
/// own storage.conf says so, too, and any --storage-opt hides that file. False if the request said it before.
bool forbidDevices(OverlayRequest& request);

/// The options as a FUSE program reads them. parseOverlayRequest() gives the same request for the result.
std::string formatOptions(const OverlayRequest& request);

/// Splits at commas as libfuse does: `\` and three octal digits are one character, `\` and another one are
/// that one. As the kernel reads them, a value in double quotes may contain commas.
std::vector<std::string> splitMountOptions(std::string_view text);

/// Splits at colons. `\` and a character are that character.
std::vector<std::string> splitLayers(std::string_view text);

}  // namespace sarus::podman_hpc
