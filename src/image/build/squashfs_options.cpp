#include "image/build/squashfs_options.hpp"

#include <sqfs/block.h>
#include <sqfs/super.h>

#include <array>
#include <bit>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

[[noreturn]] void refuse(std::string_view option, std::string_view why) {
    throw Error(cat("mksquashfsOptions: ", why, " '", printable(option), "'"),
                "sarus.json(5) lists the options that the image builder understands, under mksquashfsOptions");
}

class OptionParser {
public:
    explicit OptionParser(std::string_view text) : words(splitWords(text)) {}

    SquashfsOptions parse() {
        // As with mksquashfs, what belongs to the compressor is read once it is known.
        for (position = 0; position < words.size(); ++position) {
            if (words[position] == "-comp") {
                setCompressor(value());
            }
        }
        for (position = 0; position < words.size(); ++position) {
            const std::string option = words[position];
            if (!parseFlag(option) && !parseSetting(option) && !parseCompressorSetting(option)) {
                refuse(option, "the image builder cannot honour the option");
            }
        }
        if (dictionaryPercent != 0) {
            options.dictionarySize = static_cast<std::uint32_t>(std::uint64_t{options.blockSize} * dictionaryPercent / 100);
        }
        return options;
    }

private:
    std::string value() {
        if (position + 1 >= words.size()) {
            refuse(words[position], "a value is missing behind the option");
        }
        return words[++position];
    }

    std::uint64_t number(std::string_view option, std::string_view text, std::uint64_t least, std::uint64_t most) {
        std::uint64_t unit = 1;
        if (!text.empty()) {
            const char suffix = text.back();
            unit = suffix == 'k' || suffix == 'K'   ? 1U << 10U
                   : suffix == 'm' || suffix == 'M' ? 1U << 20U
                   : suffix == 'g' || suffix == 'G' ? 1U << 30U
                                                    : 1;
            text.remove_suffix(unit == 1 ? 0 : 1);
        }
        const auto parsed = parseNumber(text);
        if (!parsed || *parsed > most || *parsed * unit < least || *parsed * unit > most) {
            refuse(cat(option, ' ', words[position]), "invalid value in");
        }
        return *parsed * unit;
    }

    std::uint64_t numberValue(std::string_view option, std::uint64_t least, std::uint64_t most) {
        return number(option, value(), least, most);
    }

    void setCompressor(const std::string& name) {
        options.compressor = name;
        options.ownZstdParameters = false;
        if (name == "gzip") {
            options.level = SQFS_GZIP_DEFAULT_LEVEL;
        } else if (name == "zstd") {
            options.level = SQFS_ZSTD_DEFAULT_LEVEL;
        } else if (name != "xz" && name != "lz4") {
            refuse(cat("-comp ", name), "the image builder cannot honour");
        }
    }

    bool parseFlag(std::string_view option) {
        struct Flag {
            std::string_view name;
            bool SquashfsOptions::*member;
            bool setting;
        };
        static constexpr std::array flags{
            Flag{"-no-xattrs", &SquashfsOptions::xattrs, false},
            Flag{"-xattrs", &SquashfsOptions::xattrs, true},
            Flag{"-no-duplicates", &SquashfsOptions::duplicates, false},
            Flag{"-duplicate-checking", &SquashfsOptions::duplicates, true},
            Flag{"-no-fragments", &SquashfsOptions::fragments, false},
            Flag{"-noD", &SquashfsOptions::compressData, false},
            Flag{"-noDataCompression", &SquashfsOptions::compressData, false},
            Flag{"-no-sparse", &SquashfsOptions::sparse, false},
            Flag{"-nopad", &SquashfsOptions::padding, false},
            Flag{"-exports", &SquashfsOptions::exportable, true},
            Flag{"-no-exports", &SquashfsOptions::exportable, false},
        };
        static constexpr std::array withoutEffect{"-noappend", "-no-progress", "-progress",     "-quiet",
                                                  "-info",     "-no-recovery", "-reproducible", "-exit-on-error"};
        for (const auto& flag : flags) {
            if (flag.name == option) {
                options.*flag.member = flag.setting;
                return true;
            }
        }
        if (option == "-all-root" || option == "-root-owned") {
            options.owner = 0;
            options.group = 0;
            return true;
        }
        for (const std::string_view name : withoutEffect) {
            if (name == option) {
                return true;
            }
        }
        return false;
    }

    bool parseSetting(const std::string& option) {
        constexpr std::uint64_t largestId = 0xFFFFFFFEU;
        if (option == "-comp") {
            value();  // done before
        } else if (option == "-b") {
            const auto size = numberValue(option, SQFS_MIN_BLOCK_SIZE, SQFS_MAX_BLOCK_SIZE);
            if (!std::has_single_bit(size)) {
                refuse(cat("-b ", words[position]), "the block size must be a power of two:");
            }
            options.blockSize = static_cast<std::uint32_t>(size);
            options.ownZstdParameters = false;
        } else if (option == "-processors") {
            options.workers = static_cast<unsigned int>(numberValue(option, 1, 1024));
        } else if (option == "-mem") {
            value();
            // mksquashfs reads a plain number as megabytes.
            const bool plain = words[position].find_first_not_of("0123456789") == std::string::npos;
            options.memory = number(option, plain ? words[position] + 'M' : words[position], 4U << 20U, std::uint64_t{1} << 40U);
        } else if (option == "-force-uid") {
            options.owner = static_cast<std::uint32_t>(numberValue(option, 0, largestId));
        } else if (option == "-force-gid") {
            options.group = static_cast<std::uint32_t>(numberValue(option, 0, largestId));
        } else if (option == "-all-time") {
            options.allTimes = static_cast<std::uint32_t>(numberValue(option, 0, 0xFFFFFFFFU));
        } else if (option == "-mkfs-time" || option == "-fstime") {
            options.creationTime = static_cast<std::uint32_t>(numberValue(option, 0, 0xFFFFFFFFU));
        } else {
            return false;
        }
        return true;
    }

    bool parseCompressorSetting(const std::string& option) {
        const auto& compressor = options.compressor;
        if (option == "-Xcompression-level" && compressor == "gzip") {
            options.level = static_cast<std::uint32_t>(numberValue(option, SQFS_GZIP_MIN_LEVEL, SQFS_GZIP_MAX_LEVEL));
        } else if (option == "-Xcompression-level" && compressor == "zstd") {
            options.level = static_cast<std::uint32_t>(numberValue(option, SQFS_ZSTD_MIN_LEVEL, SQFS_ZSTD_MAX_LEVEL));
            options.ownZstdParameters = false;
        } else if (option == "-Xwindow-size" && compressor == "gzip") {
            options.windowSize = static_cast<std::uint16_t>(numberValue(option, SQFS_GZIP_MIN_WINDOW, SQFS_GZIP_MAX_WINDOW));
        } else if (option == "-Xstrategy" && compressor == "gzip") {
            setStrategies(value());
        } else if (option == "-Xhc" && compressor == "lz4") {
            options.compressorFlags |= SQFS_COMP_FLAG_LZ4_HC;
        } else if (option == "-Xbcj" && compressor == "xz") {
            setFilters(value());
        } else if (option == "-Xdict-size" && compressor == "xz") {
            setDictionary(value());
        } else {
            return false;
        }
        return true;
    }

    struct NamedFlag {
        std::string_view name;
        std::uint16_t flag;
    };

    void setNamed(std::string_view option, std::string_view list, std::span<const NamedFlag> names) {
        for (const auto& name : split(list, ',')) {
            std::uint16_t found = 0;
            for (const auto& known : names) {
                found = known.name == name ? known.flag : found;
            }
            if (found == 0) {
                refuse(cat(option, ' ', list), "invalid value in");
            }
            options.compressorFlags = static_cast<std::uint16_t>(options.compressorFlags | found);
        }
    }

    void setStrategies(std::string_view list) {
        static constexpr std::array names{
            NamedFlag{"default", SQFS_COMP_FLAG_GZIP_DEFAULT}, NamedFlag{"filtered", SQFS_COMP_FLAG_GZIP_FILTERED},
            NamedFlag{"huffman_only", SQFS_COMP_FLAG_GZIP_HUFFMAN}, NamedFlag{"run_length_encoded", SQFS_COMP_FLAG_GZIP_RLE},
            NamedFlag{"fixed", SQFS_COMP_FLAG_GZIP_FIXED}};
        setNamed("-Xstrategy", list, names);
    }

    void setFilters(std::string_view list) {
        static constexpr std::array names{
            NamedFlag{"x86", SQFS_COMP_FLAG_XZ_X86},           NamedFlag{"powerpc", SQFS_COMP_FLAG_XZ_POWERPC},
            NamedFlag{"ia64", SQFS_COMP_FLAG_XZ_IA64},         NamedFlag{"arm", SQFS_COMP_FLAG_XZ_ARM},
            NamedFlag{"armthumb", SQFS_COMP_FLAG_XZ_ARMTHUMB}, NamedFlag{"sparc", SQFS_COMP_FLAG_XZ_SPARC}};
        setNamed("-Xbcj", list, names);
    }

    void setDictionary(std::string_view text) {
        if (!text.empty() && text.back() == '%') {
            const auto percent = parseNumber(text.substr(0, text.size() - 1));
            if (!percent || *percent == 0 || *percent > 100) {
                refuse(cat("-Xdict-size ", text), "invalid value in");
            }
            dictionaryPercent = static_cast<std::uint32_t>(*percent);
        } else {
            options.dictionarySize =
                static_cast<std::uint32_t>(number("-Xdict-size", text, SQFS_XZ_MIN_DICT_SIZE, SQFS_XZ_MAX_DICT_SIZE));
        }
    }

    std::vector<std::string> words;
    std::size_t position = 0;
    std::uint32_t dictionaryPercent = 0;
    SquashfsOptions options;
};

}  // namespace

SquashfsOptions parseMksquashfsOptions(std::string_view text) {
    return OptionParser(text).parse();
}

sqfs_compressor_config_t SquashfsOptions::compressorConfig(bool uncompress) const {
    const int id = sqfs_compressor_id_from_name(compressor.c_str());
    sqfs_compressor_config_t config;
    const auto flags = static_cast<std::uint16_t>(uncompress ? compressorFlags | SQFS_COMP_FLAG_UNCOMPRESS : compressorFlags);
    if (id < 0 || sqfs_compressor_config_init(&config, static_cast<SQFS_COMPRESSOR>(id), blockSize, flags) != 0) {
        throw Error(cat("libsquashfs refuses the settings of the compressor ", compressor));
    }
    if (compressor == "gzip" || compressor == "zstd") {
        config.level = level;
    }
    if (windowSize) {
        config.opt.gzip.window_size = *windowSize;
    }
    if (dictionarySize) {
        config.opt.xz.dict_size = *dictionarySize;
    }
    return config;
}

}  // namespace sarus::image::build
