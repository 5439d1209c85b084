#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "image/types/reference.hpp"

namespace {

/// References become names of directories and files below the repository: no part may lead elsewhere.
void checkKey(const std::string& key) {
    for (const auto& part : sarus::split(key, '/')) {
        if (part.empty() || part == "." || part == ".." || part.find('\0') != std::string::npos) {
            std::abort();
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sarus::image;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (auto* parse : {&parseReference, &parseLoadReference}) {
        try {
            const auto reference = parse(text);
            checkKey(reference.uniqueKey());
            checkKey(reference.normalized().uniqueKey());
            if (parse == &parseReference && parseReference(reference.full()) != reference) {
                std::abort();  // what is shown names the same image when it is typed
            }
        } catch (const sarus::Error&) {
            continue;  // refused, as most inputs should be
        }
    }
    return 0;
}
