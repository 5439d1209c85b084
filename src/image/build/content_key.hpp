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

/// Stands for the content of a file, or a part of one: equal contents have equal keys.
using ContentKey = std::array<unsigned char, 16>;

/// For hash tables; a key is as good as random.
struct ContentKeyHash {
    std::size_t operator()(const ContentKey& key) const noexcept {
        std::size_t value = 0;
        std::memcpy(&value, key.data(), sizeof value);
        return value;
    }
};

/// Computes keys with a secret that lives as long as one conversion. Layers come from strangers, so that a fixed hash of a few
/// bytes would let them make two contents look equal and one file show what another contains. Who does not know the secret
/// cannot: two given contents of up to 1 MiB get the same Poly1305 (RFC 8439, 2.5) with a probability below 2^-86. What is found
/// to be equal therefore does not depend on the secret either.
class ContentKeys {
public:
    using Secret = std::array<unsigned char, 32>;

    /// The machine's random numbers.
    static Secret newSecret();

    /// `preferred`: a message authentication code of OpenSSL with a key of 32 bytes. Where it is not allowed, HMAC is taken.
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
