#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "oci/image/digest.hpp"

struct evp_md_ctx_st;

namespace sarus::image::build {

using oci::Digest;

/// Computes a digest of data that arrives in parts.
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

/// The digest of a whole text.
Digest digestOf(std::string_view algorithm, std::string_view text);

}  // namespace sarus::image::build
