// Unpacks a squashfs. Nothing of it may appear outside of the directory, and after a refusal nothing is left
// at all.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "fuzz_files.hpp"
#include "image/build/unpacker.hpp"

/// Sizes that no memory holds are refused by malloc, as without a sanitizer; libsquashfs reports that. So are
/// those which only the sanitizer makes real: it writes to all that it gives.
extern "C" const char* __asan_default_options() {
    return "allocator_may_return_null=1:max_allocation_size_mb=256";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string& scratch = sarus::test::fuzz::scratchDirectory();
    const std::string image = scratch + "/image";
    const std::string target = scratch + "/unpacked/root";
    sarus::test::fuzz::write(image, {reinterpret_cast<const char*>(data), size});
    sarus::createDirectories(scratch + "/unpacked");
    try {
        sarus::image::build::unpackSquashfs(image, target);
        if (!sarus::isDirectory(target)) {
            std::abort();
        }
    } catch (const sarus::Error&) {
        if (sarus::pathExists(target)) {
            std::abort();
        }
    }
    sarus::removeTree(target);
    if (::rmdir((scratch + "/unpacked").c_str()) != 0) {
        std::abort();  // the unfinished tree was left
    }
    return 0;
}
