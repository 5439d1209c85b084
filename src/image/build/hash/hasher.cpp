#include "image/build/hash/hasher.hpp"

#include <openssl/evp.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

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
    return {algorithmName, {raw, size}};
}

Digest digestOf(std::string_view algorithm, std::string_view text) {
    Hasher hasher(algorithm);
    hasher.update({reinterpret_cast<const unsigned char*>(text.data()), text.size()});
    return hasher.finish();
}

}  // namespace sarus::image::build
