#include "squashfs/server/decompressor.hpp"

#include <sqfs/compressor.h>
#include <zstd.h>
#ifdef SARUS_HAVE_LIBISAL
#include <isa-l/igzip_lib.h>
#endif
#ifdef SARUS_HAVE_LZO2
#include <lzo/lzo1x.h>
#endif

#include "base/error.hpp"
#include "squashfs/reader/handles.hpp"

namespace sarus::squashfs {

namespace {

[[noreturn]] void damaged() {
    throw Error("the compressed data are damaged");
}

/// libsquashfs would make a context for every block.
class Zstd : public Decompressor {
public:
    std::size_t decompress(std::span<const unsigned char> in, std::span<unsigned char> out) override {
        const auto size = ZSTD_decompressDCtx(context.get(), out.data(), out.size(), in.data(), in.size());
        if (ZSTD_isError(size) != 0U) {
            damaged();
        }
        return size;
    }

private:
    struct FreeContext {
        void operator()(ZSTD_DCtx* freed) const noexcept { ZSTD_freeDCtx(freed); }
    };
    std::unique_ptr<ZSTD_DCtx, FreeContext> context{ZSTD_createDCtx()};
};

#ifdef SARUS_HAVE_LIBISAL
/// Twice as fast as zlib.
class Gzip : public Decompressor {
public:
    std::size_t decompress(std::span<const unsigned char> in, std::span<unsigned char> out) override {
        isal_inflate_init(state.get());
        state->crc_flag = ISAL_ZLIB;
        state->next_in = const_cast<unsigned char*>(in.data());  // read only
        state->avail_in = static_cast<std::uint32_t>(in.size());
        state->next_out = out.data();
        state->avail_out = static_cast<std::uint32_t>(out.size());
        if (isal_inflate(state.get()) != ISAL_DECOMP_OK || state->block_state != ISAL_BLOCK_FINISH) {
            damaged();
        }
        return out.size() - state->avail_out;
    }

private:
    std::unique_ptr<inflate_state> state = std::make_unique<inflate_state>();
};
#endif

#ifdef SARUS_HAVE_LZO2
/// libsquashfs has no LZO.
class Lzo : public Decompressor {
public:
    std::size_t decompress(std::span<const unsigned char> in, std::span<unsigned char> out) override {
        lzo_uint size = out.size();
        if (lzo1x_decompress_safe(in.data(), in.size(), out.data(), &size, nullptr) != LZO_E_OK) {
            damaged();
        }
        return size;
    }
};
#endif

class Library : public Decompressor {
public:
    Library(const sqfs_super_t& super, File& image) {
        sqfs_compressor_config_t config;
        sqfs_compressor_t* made = nullptr;
        image.check(sqfs_compressor_config_init(&config, static_cast<SQFS_COMPRESSOR>(super.compression_id),
                                                super.block_size, SQFS_COMP_FLAG_UNCOMPRESS),
                    "Failed to read");
        image.check(sqfs_compressor_create(&config, &made), "Failed to read");
        compressor.reset(made);
        if ((super.flags & SQFS_FLAG_COMPRESSOR_OPTIONS) != 0) {
            image.check(compressor->read_options(compressor.get(), image.get()), "Failed to read");
        }
    }
    std::size_t decompress(std::span<const unsigned char> in, std::span<unsigned char> out) override {
        const auto size = compressor->do_block(compressor.get(), in.data(), static_cast<sqfs_u32>(in.size()),
                                               out.data(), static_cast<sqfs_u32>(out.size()));
        if (size <= 0) {  // 0: more than fits
            damaged();
        }
        return static_cast<std::size_t>(size);
    }

private:
    Handle<sqfs_compressor_t> compressor;
};

}  // namespace

std::unique_ptr<Decompressor> makeDecompressor(const sqfs_super_t& super, File& image) {
    switch (super.compression_id) {
        case SQFS_COMP_ZSTD:
            return std::make_unique<Zstd>();
#ifdef SARUS_HAVE_LIBISAL
        case SQFS_COMP_GZIP:
            return std::make_unique<Gzip>();
#endif
#ifdef SARUS_HAVE_LZO2
        case SQFS_COMP_LZO:
            return std::make_unique<Lzo>();
#endif
        default:
            return std::make_unique<Library>(super, image);
    }
}

}  // namespace sarus::squashfs
