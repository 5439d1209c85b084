#pragma once

#include <string>

#include "base/text.hpp"
#include "image/store/index.hpp"
#include "squashfs/identity.hpp"

namespace sarus::test {

/// The hexadecimal digits of an identity that begins with the given characters.
inline std::string identity(const std::string& start) {
    std::string digits;
    for (const char c : start) {
        digits += cat('3', c);  // the digits of ASCII
    }
    return digits + std::string(2 * squashfs::identitySize - digits.size(), '0');
}

/// What a lookup sees of a squashfs file with that identity.
inline std::string squashfs(const std::string& start, const std::string& content) {
    auto text = cat("hsqs", std::string(92, '.'), squashfs::identityMark, start);
    text.resize(96 + squashfs::identityMark.size() + squashfs::identitySize, '\0');
    return text + content;
}

/// The text of the `.meta` file of such a squashfs file with four bytes of content.
inline std::string metadataFor(const std::string& start, const std::string& id,
                               const std::string& command = "sh") {
    const auto size = squashfs(start, "data").size();
    return image::serializeStoredMetadata({{command}, {}, "", {}, {}},
                                          {"", id, "", size, {}, identity(start)});
}

}  // namespace sarus::test
