#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace sarus::image::build {

/// A content digest as the OCI image specification writes it (descriptor.md, "Digests"): "sha256:<64 hex digits>" or
/// "sha512:<128 hex digits>", lower case.
class Digest {
public:
    /// Accepts the whole string or throws Error.
    explicit Digest(std::string_view text);

    const std::string& text() const noexcept { return whole; }
    std::string_view algorithm() const noexcept { return std::string_view(whole).substr(0, colon); }
    std::string_view hex() const noexcept { return std::string_view(whole).substr(colon + 1); }
    bool operator==(const Digest& other) const noexcept { return whole == other.whole; }

private:
    std::string whole;
    std::size_t colon;
};

/// The digest with this value.
Digest sha256Digest(const std::array<unsigned char, 32>& value);

/// Computes a digest over data that comes in parts.
class Hasher {
public:
    /// `algorithm`: "sha256" or "sha512".
    explicit Hasher(std::string_view algorithm);

    void update(std::span<const unsigned char> data);
    /// Ends the computation; call it once.
    Digest finish();

private:
    struct Free {
        void operator()(evp_md_ctx_st* context) const noexcept;
    };
    std::unique_ptr<evp_md_ctx_st, Free> context;
    std::string algorithmName;
};

}  // namespace sarus::image::build
