#include "image/build/block_compressor.hpp"

#include <sqfs/error.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

// zstd's level 3 has tables of 2^16 and 2^15 entries for blocks of 128 KiB. Together with the block they are too large for the
// second-level cache of many processors.
constexpr int longMatchesLog = 14;
constexpr int shortMatchesLog = 15;

void set(ZSTD_CCtx* context, ZSTD_cParameter parameter, int value) {
    if (ZSTD_isError(ZSTD_CCtx_setParameter(context, parameter, value)) != 0U) {
        throw Error(cat("zstd refuses the value ", value, " for its parameter ", static_cast<int>(parameter)));
    }
}

}  // namespace

void BlockCompressor::Free::operator()(ZSTD_CCtx_s* freed) const noexcept {
    ZSTD_freeCCtx(freed);
}

BlockCompressor::BlockCompressor(const SquashfsOptions& options) {
    if (options.smallTables) {
        zstd.reset(ZSTD_createCCtx());
        if (!zstd) {
            throw Error("Failed to initialise zstd: out of memory");
        }
        set(zstd.get(), ZSTD_c_compressionLevel, static_cast<int>(options.level));
        set(zstd.get(), ZSTD_c_hashLog, longMatchesLog);
        set(zstd.get(), ZSTD_c_chainLog, shortMatchesLog);
        return;
    }
    const auto config = options.compressorConfig(false);
    sqfs_compressor_t* made = nullptr;
    if (sqfs_compressor_create(&config, &made) != 0) {
        throw Error(cat("This build of libsquashfs cannot compress with ", options.compressor));
    }
    compressor.reset(made);
}

std::int32_t BlockCompressor::compress(std::span<const unsigned char> in, std::span<unsigned char> out) noexcept {
    std::int64_t size = 0;
    if (zstd) {
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
