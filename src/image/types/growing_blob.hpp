#pragma once

#include <string>
#include <string_view>

#include "base/text.hpp"

namespace sarus::image {

/// The name, in the directory of an OCI layout, of a blob that `sarus pull` still downloads. Below "blobs" is
/// only what is complete and verified.
inline std::string growingBlobName(std::string_view hexDigest) {
    return cat("growing-", hexDigest);
}

}  // namespace sarus::image
