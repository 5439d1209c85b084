// Converts one or two layers of tar data into a squashfs and reads that back: the tar reader, the merger and
// the writer.
//
// Input: one byte of switches, one byte that says where (in 256ths) the lower layer ends, then the layers.
// Unless the switches say otherwise the checksums of tar headers are corrected first, since hardly any
// mutation would get past them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "fuzz_files.hpp"
#include "fuzz_tar.hpp"
#include "image/build/image_builder.hpp"
#include "squashfs/reader/reader.hpp"

namespace {

using namespace sarus::image::build;
namespace squashfs = sarus::squashfs;

constexpr unsigned int oneLayer = 2;
using sarus::test::fuzz::correctChecksums;

Layer makeLayer(const std::string& path, std::string_view bytes) {
    sarus::test::fuzz::write(path, bytes);
    const auto digest = digestOf("sha256", bytes);
    const auto slash = path.rfind('/');
    const auto files = openSourceDirectory(sarus::openFile(path.substr(0, slash), O_RDONLY | O_DIRECTORY));
    return {files, path.substr(slash + 1), digest, bytes.size(), digest};
}

/// Everything that is in the image can be read, and its entries are as many as the builder says.
void readBack(const std::string& image, std::uint64_t expected) {
    squashfs::Reader reader(image);
    squashfs::ContentReader content(reader);
    std::uint64_t entries = 0;
    const std::function<void(const sqfs_inode_generic_t&)> visit =
        [&](const sqfs_inode_generic_t& directory) {
            for (const auto& entry : reader.list(directory)) {
                ++entries;
                reader.xattrs(*entry.inode);
                const auto type = entry.inode->base.type;
                if (type == SQFS_INODE_FILE || type == SQFS_INODE_EXT_FILE) {
                    content.read(*entry.inode, [](std::uint64_t, std::span<const char>) {});
                } else if (type == SQFS_INODE_DIR || type == SQFS_INODE_EXT_DIR) {
                    visit(*entry.inode);
                }
            }
        };
    visit(*reader.root());
    if (entries != expected) {
        std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) {
        return 0;
    }
    const std::string& scratch = sarus::test::fuzz::scratchDirectory();
    std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
    std::size_t lowerSize = bytes.size() * data[1] / 256 / 512 * 512;
    if ((data[0] & oneLayer) != 0) {
        lowerSize = 0;
    }
    std::string lower = bytes.substr(0, lowerSize);
    std::string upper = bytes.substr(lowerSize);
    BuildRequest request;
    for (std::string* layer : {&lower, &upper}) {
        if ((data[0] & sarus::test::fuzz::keepChecksums) == 0) {
            correctChecksums(*layer);
        }
        if (layer == &upper || !layer->empty()) {
            request.layers.push_back(makeLayer(sarus::cat(scratch, "/layer", request.layers.size()), *layer));
        }
    }
    request.outputPath = scratch + "/image";
    request.owner = {1000, 1000};
    request.squashfs.workers = 1;
    request.limits = {std::uint64_t{4} << 20U, 10'000};
    BuildResult result{};
    try {
        result = buildImage(request);
    } catch (const sarus::Error&) {
        if (sarus::pathExists(request.outputPath)) {
            std::abort();  // refused, as most inputs should be, but not cleaned up
        }
        return 0;
    }
    readBack(request.outputPath, result.entries);  // an Error from here is a finding
    return 0;
}
