#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "hooks/kit/elf.hpp"
#include "hooks/kit/linker_cache/ld_cache.hpp"

/// Both ways of reading agree on the SONAME, and whatever is read is no larger than its file allows.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sarus::hooks;
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    try {
        ElfBytes source(bytes);
        const auto whole = readElf(source, ElfDetail::everything);
        const auto brief = readElf(source, ElfDetail::soname);
        if (whole.has_value() != brief.has_value() || (whole && whole->soname != brief->soname)) {
            std::abort();
        }
        if (whole) {
            ldCacheFlags(*whole);
        }
    } catch (const sarus::Error&) {
        return 0;  // refused, as most inputs should be
    }
    return 0;
}
