#include "image/build/digest.hpp"

#include <openssl/evp.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

Digest makeDigest(std::string_view algorithm, std::span<const unsigned char> value) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text = cat(algorithm, ':');
    for (const auto byte : value) {
        text += digits[byte >> 4U];
        text += digits[byte & 15U];
    }
    return Digest(text);
}

}  // namespace

Digest sha256Digest(const std::array<unsigned char, 32>& value) {
    return makeDigest("sha256", value);
}

Digest::Digest(std::string_view text) : whole(text), colon(whole.find(':')) {
    std::size_t digits = 0;
    if (colon != std::string::npos) {
        digits = algorithm() == "sha256" ? 64 : algorithm() == "sha512" ? 128 : 0;
    }
    if (digits == 0 || hex().size() != digits || hex().find_first_not_of("0123456789abcdef") != std::string_view::npos) {
        throw Error(cat("Invalid digest '", printable(text.substr(0, 200)), "'"),
                    "a digest is 'sha256:' and 64 lower-case hexadecimal digits (or 'sha512:' and 128)");
    }
}

void Hasher::Free::operator()(evp_md_ctx_st* freed) const noexcept {
    EVP_MD_CTX_free(freed);
}

Hasher::Hasher(std::string_view algorithm) : context(EVP_MD_CTX_new()), algorithmName(algorithm) {
    const EVP_MD* method = algorithm == "sha512" ? EVP_sha512() : EVP_sha256();
    if (!context || EVP_DigestInit_ex(context.get(), method, nullptr) != 1) {
        throw Error(cat("Failed to initialise ", algorithm));
    }
}

void Hasher::update(std::span<const unsigned char> data) {
    if (EVP_DigestUpdate(context.get(), data.data(), data.size()) != 1) {
        throw Error(cat("Failed to compute ", algorithmName));
    }
}

Digest Hasher::finish() {
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    if (EVP_DigestFinal_ex(context.get(), raw, &size) != 1) {
        throw Error(cat("Failed to compute ", algorithmName));
    }
    return makeDigest(algorithmName, {raw, size});
}

}  // namespace sarus::image::build
