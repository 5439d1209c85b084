#pragma once

#include <string>

#include "base/text.hpp"

namespace sarus::test {

inline std::string digestOf(char letter) {
    return "sha256:" + std::string(64, letter);
}

/// What the builder prints when an image is complete.
inline const std::string buildReport = cat(
    R"({"configDigest":")", digestOf('b'), R"(","config":"{\"os\":\"linux\"}","squashfsDigest":"fsverity-)",
    digestOf('c'),
    R"(","squashfsSize":4096,"entries":3,"owner":"1000:100","builder":"2.0.0","compressor":"zstd 1.5.4"})");

}  // namespace sarus::test
