#include "oci/image/digest.hpp"

#include "base/error.hpp"
#include "base/hex.hpp"
#include "base/text.hpp"

namespace sarus::oci {

Digest::Digest(std::string_view text) : whole(text), colon(whole.find(':')) {
    if (!isValid(text)) {
        throw Error(cat("Invalid digest '", printable(text.substr(0, 200)), "'"),
                    "A digest is 'sha256:' and 64 lower-case hexadecimal digits (or 'sha512:' and 128)");
    }
}

Digest::Digest(std::string_view algorithm, std::span<const unsigned char> value)
    : Digest(cat(algorithm, ':', hexOf(value))) {}

std::string Digest::blobName() const {
    return cat(algorithm(), '/', hex());
}

bool Digest::isValid(std::string_view text) noexcept {
    const auto colon = text.find(':');
    const auto algorithm = text.substr(0, colon);
    const std::size_t digits = algorithm == "sha256" ? 64 : algorithm == "sha512" ? 128 : 0;
    return digits != 0 && text.size() == colon + 1 + digits && isHex(text.substr(colon + 1));
}

}  // namespace sarus::oci
