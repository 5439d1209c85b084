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
constexpr int levelForFiles = 3;
constexpr int longMatchesLog = 14;
constexpr int shortMatchesLog = 13;
constexpr int shortestMatch = 4;
constexpr int levelForFragments = 2;
constexpr int fragmentMatchesLog = 14;
// Of the tables, inodes become no smaller with more than level 2, listings do.
constexpr int levelForInodes = 2;
constexpr int levelForListings = 3;

void set(ZSTD_CCtx* context, ZSTD_cParameter parameter, int value) {
    if (ZSTD_isError(ZSTD_CCtx_setParameter(context, parameter, value)) != 0U) {
        throw Error(cat("zstd refuses the value ", value, " for its parameter ", static_cast<int>(parameter)));
    }
}

}  // namespace

void BlockCompressor::Free::operator()(ZSTD_CCtx_s* freed) const noexcept {
    ZSTD_freeCCtx(freed);
}

BlockCompressor::Zstd BlockCompressor::makeZstd() {
    Zstd made(ZSTD_createCCtx());
    if (!made) {
        throw Error("Failed to initialise zstd: out of memory");
    }
    return made;
}

BlockCompressor::BlockCompressor(const SquashfsOptions& options) {
    if (options.ownZstdParameters) {
        forFiles = makeZstd();
        set(forFiles.get(), ZSTD_c_compressionLevel, levelForFiles);
        set(forFiles.get(), ZSTD_c_hashLog, longMatchesLog);
        set(forFiles.get(), ZSTD_c_chainLog, shortMatchesLog);
        set(forFiles.get(), ZSTD_c_minMatch, shortestMatch);
        forFragments = makeZstd();
        set(forFragments.get(), ZSTD_c_compressionLevel, levelForFragments);
        set(forFragments.get(), ZSTD_c_hashLog, fragmentMatchesLog);
        forInodes = makeZstd();
        set(forInodes.get(), ZSTD_c_compressionLevel, levelForInodes);
        forListings = makeZstd();
        set(forListings.get(), ZSTD_c_compressionLevel, levelForListings);
        return;
    }
    const auto config = options.compressorConfig(false);
    sqfs_compressor_t* made = nullptr;
    if (sqfs_compressor_create(&config, &made) != 0) {
        throw Error(cat("This build of libsquashfs cannot compress with ", options.compressor));
    }
    compressor.reset(made);
}

ZSTD_CCtx_s* BlockCompressor::zstdFor(BlockContent content) noexcept {
    switch (content) {
        case BlockContent::file:
            return forFiles.get();
        case BlockContent::fragments:
            return forFragments.get();
        case BlockContent::inodes:
            return forInodes.get();
        case BlockContent::listings:
            break;
    }
    return forListings.get();
}

std::int32_t BlockCompressor::compress(BlockContent content, std::span<const unsigned char> in,
                                       std::span<unsigned char> out) noexcept {
    std::int64_t size = 0;
    if (!compressor) {
        const auto result = ZSTD_compress2(zstdFor(content), out.data(), out.size(), in.data(), in.size());
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
