#include "image/build/block_compressor.hpp"

#include <sqfs/error.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

// docs/conversion.md has the measurements. Blocks of files get the tables of zstd's level 3, made so small that they fit into the
// second-level cache of most processors together with the block; to find shorter matches makes up for what that costs in size.
// Small files and the ends of others differ too much for more than level 2 to pay, and it gets half of its table.
// Of the tables, inodes become no smaller with more than level 2, listings do.
struct Parameter {
    BlockContent content;
    ZSTD_cParameter name;
    int value;
};
constexpr std::array parameters{
    Parameter{BlockContent::file, ZSTD_c_compressionLevel, 3},
    Parameter{BlockContent::file, ZSTD_c_hashLog, 14},   // where 8 bytes were seen
    Parameter{BlockContent::file, ZSTD_c_chainLog, 13},  // where the shortest matches were seen
    Parameter{BlockContent::file, ZSTD_c_minMatch, 4},
    Parameter{BlockContent::fragments, ZSTD_c_compressionLevel, 2},
    Parameter{BlockContent::fragments, ZSTD_c_hashLog, 14},
    Parameter{BlockContent::inodes, ZSTD_c_compressionLevel, 2},
    Parameter{BlockContent::listings, ZSTD_c_compressionLevel, 3},
};

}  // namespace

SquashfsPtr<sqfs_compressor_t> makeCompressor(const SquashfsOptions& options) {
    const auto config = options.compressorConfig(false);
    sqfs_compressor_t* made = nullptr;
    if (sqfs_compressor_create(&config, &made) != 0) {
        throw Error(cat("This build of libsquashfs cannot compress with ", options.compressor));
    }
    return SquashfsPtr<sqfs_compressor_t>(made);
}

void BlockCompressor::Free::operator()(ZSTD_CCtx_s* freed) const noexcept {
    ZSTD_freeCCtx(freed);
}

BlockCompressor::BlockCompressor(const SquashfsOptions& options) {
    if (options.ownZstdParameters) {
        for (auto& context : zstd) {
            context.reset(ZSTD_createCCtx());
            if (!context) {
                throw Error("Failed to initialise zstd: out of memory");
            }
        }
        for (const auto& [content, name, value] : parameters) {
            auto* const context = zstd[static_cast<std::size_t>(content)].get();
            if (ZSTD_isError(ZSTD_CCtx_setParameter(context, name, value)) != 0U) {
                throw Error(cat("zstd refuses the value ", value, " for its parameter ", static_cast<int>(name)));
            }
        }
        return;
    }
    compressor = makeCompressor(options);
}

std::int32_t BlockCompressor::compress(BlockContent content, std::span<const unsigned char> in,
                                       std::span<unsigned char> out) noexcept {
    std::int64_t size = 0;
    if (!compressor) {
        auto* const context = zstd[static_cast<std::size_t>(content)].get();
        const auto result = ZSTD_compress2(context, out.data(), out.size(), in.data(), in.size());
        if (ZSTD_isError(result) != 0U) {
            return ZSTD_getErrorCode(result) == ZSTD_error_dstSize_tooSmall ? 0 : SQFS_ERROR_COMPRESSOR;
        }
        size = static_cast<std::int64_t>(result);
    } else {
        size = compressor->do_block(compressor.get(), in.data(), static_cast<sqfs_u32>(in.size()), out.data(),
                                    static_cast<sqfs_u32>(out.size()));
    }
    return size < static_cast<std::int64_t>(in.size()) ? static_cast<std::int32_t>(size) : 0;
}

}  // namespace sarus::image::build
