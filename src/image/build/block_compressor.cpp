#include "image/build/block_compressor.hpp"

#include <sqfs/error.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

// docs/conversion.md has the measurements. Blocks of files get the tables of zstd's level 3, made so small that they fit into the
// second-level cache of most processors together with the block; to find shorter matches makes up for what that costs in size.
// Small files and the ends of others differ too much for more than level 2 to pay, and it gets half of its table.
// Of the tables, inodes become no smaller with more than level 2, listings do.
struct Parameters {
    int level;
    int hashLog;   ///< of the table of where 8 bytes were seen; 0 is the level's own value, here and below
    int chainLog;  ///< of the table of where the shortest matches were seen
    int minMatch;
};
constexpr std::array<Parameters, 4> parameters{{
    {3, 14, 13, 4},  // BlockContent::file
    {2, 14, 0, 0},   // fragments
    {2, 0, 0, 0},    // inodes
    {3, 0, 0, 0},    // listings
}};

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
    if (!options.ownZstdParameters) {
        compressor = makeCompressor(options);
        return;
    }
    zstd.reset(ZSTD_createCCtx());
    if (!zstd || !choose(chosen)) {
        throw Error("Failed to initialise zstd: out of memory, or it refuses the builder's parameters");
    }
}

/// All kinds of blocks share one context, which has a quarter of the memory of four. Returns whether zstd agrees.
bool BlockCompressor::choose(BlockContent content) noexcept {
    const auto& [level, hashLog, chainLog, minMatch] = parameters[static_cast<std::size_t>(content)];
    const std::array values{std::pair(ZSTD_c_compressionLevel, level), std::pair(ZSTD_c_hashLog, hashLog),
                            std::pair(ZSTD_c_chainLog, chainLog), std::pair(ZSTD_c_minMatch, minMatch)};
    chosen = content;
    return std::all_of(values.begin(), values.end(), [&](const auto& value) {
        return ZSTD_isError(ZSTD_CCtx_setParameter(zstd.get(), value.first, value.second)) == 0U;
    });
}

std::int32_t BlockCompressor::compress(BlockContent content, std::span<const unsigned char> in,
                                       std::span<unsigned char> out) noexcept {
    std::int64_t size = 0;
    if (!compressor) {
        if (content != chosen && !choose(content)) {
            return SQFS_ERROR_COMPRESSOR;
        }
        const auto result = ZSTD_compress2(zstd.get(), out.data(), out.size(), in.data(), in.size());
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
