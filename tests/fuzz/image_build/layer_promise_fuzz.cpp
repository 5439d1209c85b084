// Reads containers/storage's description of a layer's archive. What it promises is kept by what it names.

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "fuzz_files.hpp"
#include "image/build/read/layer_promise.hpp"

using namespace sarus::image::build;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto path = sarus::test::fuzz::scratchDirectory() + "/tar-split.gz";
    gzFile_s* const file = ::gzopen(path.c_str(), "wb1");
    if (file == nullptr || ::gzwrite(file, data, static_cast<unsigned>(size)) != static_cast<int>(size) ||
        ::gzclose(file) != Z_OK) {
        return 0;
    }
    try {
        LayerPromise promise(path);
        for (std::size_t left = size; const auto missing = promise.broken(); --left) {
            TarEntry entry;
            entry.type = TarEntry::Type::directory;
            entry.path = *missing;
            promise.keep(entry);
            if (left == 0) {
                std::abort();  // more members than bytes: one is missing for ever
            }
        }
    } catch (const sarus::Error&) {
        // a damaged description
    }
    return 0;
}
