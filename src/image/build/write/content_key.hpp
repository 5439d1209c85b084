#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

struct evp_mac_st;
struct evp_mac_ctx_st;

namespace sarus::image::build {

/// Represents the content of a file, or of a part: equal contents have equal keys.
using ContentKey = std::array<unsigned char, 16>;

/// For hash tables; a key is as good as random.
struct ContentKeyHash {
    std::size_t operator()(const ContentKey& key) const noexcept {
        std::size_t value = 0;
        std::memcpy(&value, key.data(), sizeof value);
        return value;
    }
};

/// Computes keys with a secret that lives as long as one conversion. Layers are untrusted: with a short fixed
/// hash, their authors could make two contents look equal, and one file show the content of another. Without
/// the secret they cannot: two given contents of up to 1 MiB get the same Poly1305 (RFC 8439, 2.5) with a
/// probability below 2^-86. So the set of equal contents does not depend on the secret either.
class ContentKeys {
public:
    using Secret = std::array<unsigned char, 32>;

    /// From the machine's random generator.
    static Secret newSecret();

    /// `preferred`: a message authentication code of OpenSSL with a key of 32 bytes. Falls back to HMAC if it
    /// is not allowed.
    explicit ContentKeys(const Secret& conversionSecret, const char* preferred = "POLY1305");

    ContentKey of(std::span<const unsigned char> content);

private:
    struct Free {
        void operator()(evp_mac_st* algorithm) const noexcept;
        void operator()(evp_mac_ctx_st* context) const noexcept;
    };
    Secret secret;
    std::unique_ptr<evp_mac_st, Free> algorithm;
    std::unique_ptr<evp_mac_ctx_st, Free> context;
    bool approved = false;
};

}  // namespace sarus::image::build
