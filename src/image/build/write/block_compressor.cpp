#include "image/build/write/block_compressor.hpp"

#include <sqfs/error.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

// docs/measurements/conversion.md has the measurements. Blocks of files use the tables of zstd's level 3,
// reduced to fit into the second-level cache of most processors together with the block; searching for
// shorter matches compensates for the loss in size. Small files and ends of files differ too much for more
// than level 2 to pay, with half of its table.
struct Parameters {
    int level;
    int hashLog;   ///< size of the table of 8-byte matches; 0: the level's own value, here and below
    int chainLog;  ///< size of the table of the shortest matches
    int minMatch;
};
constexpr std::array<Parameters, 2> parameters{{
    {3, 14, 13, 4},  // BlockContent::file
    {2, 14, 0, 0},   // fragments
}};

using DoBlock = decltype(sqfs_compressor_t::do_block);
DoBlock lz4Block = nullptr;

/// libsquashfs's lz4 returns results that are larger than the input, as its tables then contain them;
/// unsquashfs calls that damage.
sqfs_s32 smallerBlock(sqfs_compressor_t* compressor, const sqfs_u8* in, sqfs_u32 size, sqfs_u8* out,
                      sqfs_u32 outSize) {
    const auto result = lz4Block(compressor, in, size, out, outSize);
    return result > 0 && static_cast<sqfs_u32>(result) >= size ? 0 : result;
}

}  // namespace

squashfs::Handle<sqfs_compressor_t> makeCompressor(const SquashfsOptions& options) {
    const auto config = options.compressorConfig();
    sqfs_compressor_t* made = nullptr;
    if (sqfs_compressor_create(&config, &made) != 0) {
        throw Error(cat("This build of libsquashfs cannot compress with ", options.compressor));
    }
    if (options.compressor == "lz4") {
        static std::once_flag once;
        std::call_once(once, [&] { lz4Block = made->do_block; });  // all of them have the same
        made->do_block = smallerBlock;
    }
    return squashfs::Handle<sqfs_compressor_t>(made);
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

/// All kinds of blocks share one context, which takes half the memory of two. Returns whether zstd accepts
/// it.
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
