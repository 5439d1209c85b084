#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::image {

/// The programs that convert images and use each other's squashfs files.
enum class Converter { sarus, podmanHpc };

/// Throws Error for an unknown name.
Converter parseConverter(std::string_view name);

/// A name for what layers (the digests of their uncompressed archives, lowest first) unpack to: 64
/// hexadecimal digits; "" if a digest is missing or there are no layers.
std::string layersIdOf(const std::vector<std::string>& diffIds);

/// Notes in the user's home where the squashfs file of these layers is, for the other program. It is a hint:
/// failures are ignored, and nothing removes the note when the file disappears.
void noteConversion(Converter by, const std::string& layersId, const std::string& squashfs) noexcept;

/// The noted path, unchecked.
std::optional<std::string> notedConversion(Converter by, const std::string& layersId);

}  // namespace sarus::image
