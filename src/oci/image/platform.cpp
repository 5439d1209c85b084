#include "oci/image/platform.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::oci {

Platform hostPlatform() {
#if defined(__x86_64__)
    return {"linux", "amd64", ""};
#elif defined(__aarch64__)
    return {"linux", "arm64", "v8"};
#elif defined(__arm__) && __ARM_ARCH >= 7
    return {"linux", "arm", "v7"};
#elif defined(__arm__)
    return {"linux", "arm", "v6"};
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
    return {"linux", "ppc64le", ""};
#elif defined(__s390x__)
    return {"linux", "s390x", ""};
#elif defined(__riscv) && __riscv_xlen == 64
    return {"linux", "riscv64", ""};
#else
#error "Name this architecture as container images do"
#endif
}

Platform parsePlatformName(std::string_view text) {
    constexpr std::size_t longest = 64;
    const auto parts = split(text, '/');
    const auto isName = [](const std::string& part) {
        return !part.empty() && part.size() <= longest && part[0] != '-' &&
               part.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-") == std::string::npos;
    };
    if (parts.size() < 2 || parts.size() > 3 || !std::all_of(parts.begin(), parts.end(), isName)) {
        throw Error(cat("Invalid platform '", printable(text), "'"),
                    "Write it like linux/arm64 or linux/arm/v7");
    }
    return {parts[0], parts[1], parts.size() == 3 ? parts[2] : std::string()};
}

std::string toString(const Platform& platform) {
    return cat(platform.os, '/', platform.architecture, platform.variant.empty() ? "" : "/",
               platform.variant);
}

namespace {

constexpr int exactMatch = 1000;

/// The number of a variant, "v8" or "8"; -1 if it has none.
int generation(const std::string& architecture, std::string_view variant) {
    if (variant.empty()) {
        return architecture == "arm64" ? 8 : architecture == "arm" ? 7 : architecture == "amd64" ? 1 : 0;
    }
    const auto number = parseNumber(variant.starts_with('v') ? variant.substr(1) : variant);
    return number && *number < 100 ? static_cast<int>(*number) : -1;
}

}  // namespace

int suitability(const Platform& wanted, const Platform& offered) {
    if (wanted.os != offered.os || wanted.architecture != offered.architecture) {
        return -1;
    }
    if (wanted.variant == offered.variant) {
        return exactMatch;
    }
    const int need = generation(offered.architecture, offered.variant);
    return need <= generation(wanted.architecture, wanted.variant) ? need : -1;
}

}  // namespace sarus::oci
