#include "image/build/write/content_key.hpp"

#include <openssl/evp.h>
#include <openssl/opensslv.h>
#include <openssl/rand.h>

#include <algorithm>
#include <string_view>

#include "base/error.hpp"

#if OPENSSL_VERSION_NUMBER >= 0x30000000L
#include <openssl/core_names.h>
#include <openssl/params.h>
#endif

namespace sarus::image::build {

ContentKeys::Secret ContentKeys::newSecret() {
    Secret secret{};
    if (RAND_bytes(secret.data(), static_cast<int>(secret.size())) != 1) {
        throw Error("Failed to get random numbers");
    }
    return secret;
}

#if OPENSSL_VERSION_NUMBER >= 0x30000000L

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

#else  // OpenSSL 1.1.1 has no EVP_MAC: there, the codes are signatures of a private key

void ContentKeys::Free::operator()(evp_mac_st*) const noexcept {}
void ContentKeys::Free::operator()(evp_mac_ctx_st*) const noexcept {}

ContentKeys::ContentKeys(const Secret& conversionSecret, const char* preferred)
    : secret(conversionSecret), approved(std::string_view(preferred) != "POLY1305") {}

ContentKey ContentKeys::of(std::span<const unsigned char> content) {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
        EVP_PKEY_new_raw_private_key(approved ? EVP_PKEY_HMAC : EVP_PKEY_POLY1305, nullptr, secret.data(),
                                     secret.size()),
        &EVP_PKEY_free);
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> signature(EVP_MD_CTX_new(),
                                                                            &EVP_MD_CTX_free);
    std::array<unsigned char, EVP_MAX_MD_SIZE> whole{};
    std::size_t size = whole.size();
    if (!key || !signature ||
        EVP_DigestSignInit(signature.get(), nullptr, approved ? EVP_sha256() : nullptr, nullptr, key.get()) !=
            1 ||
        EVP_DigestSign(signature.get(), whole.data(), &size, content.data(), content.size()) != 1) {
        throw Error("Failed to compare contents");
    }
    ContentKey result{};
    std::copy_n(whole.begin(), result.size(), result.begin());
    return result;
}

#endif

}  // namespace sarus::image::build
