// Finds an image in an archive: the index of members, manifest.json or index.json, and the configuration.
//
// Input: one byte of switches, then the archive. Unless the switches say otherwise the checksums of tar
// headers are corrected first.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "fuzz_files.hpp"
#include "fuzz_tar.hpp"
#include "image/build/read/layout.hpp"

namespace {

using namespace sarus::image::build;

constexpr unsigned int withName = 2;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1) {
        return 0;
    }
    std::string archive(reinterpret_cast<const char*>(data) + 1, size - 1);
    if ((data[0] & sarus::test::fuzz::keepChecksums) == 0) {
        sarus::test::fuzz::correctChecksums(archive);
    }
    const auto path = sarus::test::fuzz::scratchDirectory() + "/archive";
    sarus::test::fuzz::write(path, archive);
    for (const auto format : {SourceFormat::dockerArchive, SourceFormat::ociArchive}) {
        try {
            const auto image = openImage(
                {.source = path, .format = format, .name = (data[0] & withName) != 0 ? "tool:1" : ""});
            for (const auto& layer : image.layers) {
                const auto stored = layer.files->open(layer.name);
                if (stored.offset > archive.size() || stored.size > archive.size() - stored.offset) {
                    std::abort();  // what is read is not in the archive
                }
            }
        } catch (const sarus::Error&) {
            continue;  // refused, as most inputs should be
        }
    }
    return 0;
}
