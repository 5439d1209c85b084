#include "image/build/write/content_key.hpp"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <algorithm>

#include "base/error.hpp"

namespace sarus::image::build {

ContentKeys::Secret ContentKeys::newSecret() {
    Secret secret{};
    if (RAND_bytes(secret.data(), static_cast<int>(secret.size())) != 1) {
        throw Error("Failed to get random numbers");
    }
    return secret;
}

void ContentKeys::Free::operator()(evp_mac_st* freed) const noexcept {
    EVP_MAC_free(freed);
}

void ContentKeys::Free::operator()(evp_mac_ctx_st* freed) const noexcept {
    EVP_MAC_CTX_free(freed);
}

ContentKeys::ContentKeys(const Secret& conversionSecret, const char* preferred)
    : secret(conversionSecret), algorithm(EVP_MAC_fetch(nullptr, preferred, nullptr)) {
    if (!algorithm) {
        // Machines restricted to approved algorithms (FIPS) have HMAC, which serves the same purpose at a
        // quarter of the speed.
        algorithm.reset(EVP_MAC_fetch(nullptr, "HMAC", nullptr));
        approved = true;
    }
    context.reset(EVP_MAC_CTX_new(algorithm.get()));
    if (!context) {
        throw Error("Failed to initialise the comparison of contents");
    }
}

ContentKey ContentKeys::of(std::span<const unsigned char> content) {
    static char hash[] = "SHA256";
    const std::array<OSSL_PARAM, 2> withHash{OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, hash, 0),
                                             OSSL_PARAM_construct_end()};
    std::array<unsigned char, EVP_MAX_MD_SIZE> whole{};
    std::size_t size = 0;
    if (EVP_MAC_init(context.get(), secret.data(), secret.size(), approved ? withHash.data() : nullptr) !=
            1 ||
        EVP_MAC_update(context.get(), content.data(), content.size()) != 1 ||
        EVP_MAC_final(context.get(), whole.data(), &size, whole.size()) != 1) {
        throw Error("Failed to compare contents");
    }
    ContentKey key{};
    std::copy_n(whole.begin(), key.size(), key.begin());
    return key;
}

}  // namespace sarus::image::build
