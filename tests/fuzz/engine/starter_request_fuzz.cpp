#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "engine/starter_request.hpp"

/// What the parser accepts has one form only: writing it again gives the same bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    try {
        const auto request = sarus::engine::parseRequest(bytes);
        if (sarus::engine::serializeRequest(request) != bytes) {
            std::abort();
        }
    } catch (const sarus::Error&) {
        return 0;  // refused, as most inputs should be
    }
    return 0;
}
