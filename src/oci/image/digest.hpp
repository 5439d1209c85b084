#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace sarus::oci {

/// A content digest in the form of the OCI image specification (descriptor.md, "Digests"): "sha256:<64 hex
/// digits>" or "sha512:<128 hex digits>", lower case. Its parts are valid file names.
class Digest {
public:
    /// Accepts the whole string or throws Error.
    explicit Digest(std::string_view text);
    /// A digest from the computed value.
    Digest(std::string_view algorithm, std::span<const unsigned char> value);

    static bool isValid(std::string_view text) noexcept;

    const std::string& text() const noexcept { return whole; }
    std::string_view algorithm() const noexcept { return std::string_view(whole).substr(0, colon); }
    std::string_view hex() const noexcept { return std::string_view(whole).substr(colon + 1); }
    /// The path of its blob below the directory "blobs" of a layout (image-layout.md).
    std::string blobName() const;
    bool operator==(const Digest& other) const noexcept { return whole == other.whole; }

private:
    std::string whole;
    std::size_t colon;
};

}  // namespace sarus::oci
