// Converts one or two layers of tar data into a squashfs and reads that back: the tar reader, the merger and the writer.
//
// Input: one byte of switches, one byte that says where (in 256ths) the lower layer ends, then the layers. Unless the switches
// say otherwise the checksums of tar headers are corrected first, since hardly any mutation would get past them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "fuzz_files.hpp"
#include "image/build/image_builder.hpp"
#include "image/build/squashfs_reader.hpp"

namespace {

using namespace sarus::image::build;

constexpr unsigned int keepChecksums = 1;
constexpr unsigned int oneLayer = 2;
constexpr std::size_t blockSize = 512;

void correctChecksum(std::string& archive, std::size_t header) {
    archive.replace(header + 148, 8, "        ");
    unsigned int sum = 0;
    for (std::size_t i = 0; i < blockSize; ++i) {
        sum += static_cast<unsigned char>(archive[header + i]);
    }
    char digits[8];
    std::snprintf(digits, sizeof digits, "%06o", sum);
    archive.replace(header + 148, 7, digits, 7);
}

/// Follows the headers as a reader would, roughly: by the octal sizes.
void correctChecksums(std::string& archive) {
    for (std::size_t header = 0; header + blockSize <= archive.size();) {
        const std::string_view block(archive.data() + header, blockSize);
        if (block.find_first_not_of('\0') == std::string_view::npos) {
            return;
        }
        std::uint64_t size = std::strtoull(std::string(block.substr(124, 11)).c_str(), nullptr, 8);
        const char type = block[156];
        const bool hasData =
            type == '0' || type == '\0' || type == 'x' || type == 'L' || type == 'K' || type == 'g' || type == 'S';
        size = hasData ? std::min<std::uint64_t>(size, archive.size()) : 0;
        correctChecksum(archive, header);
        header += blockSize + (size + blockSize - 1) / blockSize * blockSize;
    }
}

Layer makeLayer(const std::string& path, std::string_view bytes) {
    sarus::test::fuzz::write(path, bytes);
    Hasher hasher("sha256");
    hasher.update({reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()});
    const auto digest = hasher.finish();
    return {path, digest, bytes.size(), digest};
}

/// Everything that is in the image can be read, and its entries are as many as the builder says.
void readBack(const std::string& image, std::uint64_t expected) {
    SquashfsReader reader(image);
    SquashfsContent content(reader);
    std::uint64_t entries = 0;
    const std::function<void(const sqfs_inode_generic_t&)> visit = [&](const sqfs_inode_generic_t& directory) {
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
    std::size_t lowerSize = bytes.size() * data[1] / 256 / blockSize * blockSize;
    if ((data[0] & oneLayer) != 0) {
        lowerSize = 0;
    }
    std::string lower = bytes.substr(0, lowerSize);
    std::string upper = bytes.substr(lowerSize);
    BuildRequest request;
    for (std::string* layer : {&lower, &upper}) {
        if ((data[0] & keepChecksums) == 0) {
            correctChecksums(*layer);
        }
        if (layer == &upper || !layer->empty()) {
            request.image.layers.push_back(makeLayer(sarus::cat(scratch, "/layer", request.image.layers.size()), *layer));
        }
    }
    request.outputPath = scratch + "/image";
    request.owner = {1000, 1000};
    request.squashfs.workers = 1;
    request.limits = {std::uint64_t{4} << 20U, 10'000};
    BuildResult result;
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
