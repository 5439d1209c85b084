#include "image/build/write/squashfs_options.hpp"

#include <dlfcn.h>
#include <sqfs/block.h>
#include <sqfs/super.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

[[noreturn]] void refuse(std::string_view option, std::string_view why) {
    throw Error(
        cat("mksquashfsOptions: ", why, " '", printable(option), "'"),
        "sarus.json(5) lists the options that the image builder understands, under mksquashfsOptions");
}

class OptionParser;

struct Compressor {
    struct Setting {
        std::string_view option;
        void (OptionParser::*read)();
    };

    std::string_view name;     ///< for the option -comp
    std::string (*library)();  ///< with its version
    std::vector<Setting> settings;
    std::uint32_t level = 0;  ///< default
    std::uint32_t leastLevel = 0;
    std::uint32_t mostLevel = 0;  ///< 0: no levels
};

const Compressor* findCompressor(std::string_view name);

class OptionParser {
public:
    explicit OptionParser(std::string_view text) : words(splitWords(text)) {}

    SquashfsOptions parse() {
        // As with mksquashfs, options of the compressor are read once it is known.
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
            options.dictionarySize =
                static_cast<std::uint32_t>(std::uint64_t{options.blockSize} * dictionaryPercent / 100);
        }
        return options;
    }

private:
    std::string value() {
        if (position + 1 >= words.size()) {
            refuse(words[position], "the option lacks a value");
        }
        return words[++position];
    }

    std::uint64_t number(std::string_view option, std::string_view text, std::uint64_t least,
                         std::uint64_t most) {
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
        const auto* compressor = findCompressor(name);
        if (compressor == nullptr) {
            refuse(cat("-comp ", name), "the image builder cannot honour");
        }
        options.compressor = name;
        options.level = compressor->level;
        options.ownZstdParameters = false;
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
        static constexpr std::array withoutEffect{"-noappend",     "-no-progress",  "-progress",
                                                  "-quiet",        "-info",         "-no-recovery",
                                                  "-reproducible", "-exit-on-error"};
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
            value();  // already handled
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
            options.memory = number(option, plain ? words[position] + 'M' : words[position], 4U << 20U,
                                    std::uint64_t{1} << 40U);
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

    bool parseCompressorSetting(std::string_view option) {
        const auto& compressor = *findCompressor(options.compressor);
        for (const auto& setting : compressor.settings) {
            if (setting.option == option) {
                (this->*setting.read)();
                return true;
            }
        }
        return false;
    }

    void setLevel() {
        const auto& compressor = *findCompressor(options.compressor);
        options.level = static_cast<std::uint32_t>(
            numberValue("-Xcompression-level", compressor.leastLevel, compressor.mostLevel));
        options.ownZstdParameters = false;
    }

    void setWindow() {
        options.windowSize = static_cast<std::uint16_t>(
            numberValue("-Xwindow-size", SQFS_GZIP_MIN_WINDOW, SQFS_GZIP_MAX_WINDOW));
    }

    void setHighCompression() { options.compressorFlags |= SQFS_COMP_FLAG_LZ4_HC; }

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

    void setStrategies() {
        static constexpr std::array names{NamedFlag{"default", SQFS_COMP_FLAG_GZIP_DEFAULT},
                                          NamedFlag{"filtered", SQFS_COMP_FLAG_GZIP_FILTERED},
                                          NamedFlag{"huffman_only", SQFS_COMP_FLAG_GZIP_HUFFMAN},
                                          NamedFlag{"run_length_encoded", SQFS_COMP_FLAG_GZIP_RLE},
                                          NamedFlag{"fixed", SQFS_COMP_FLAG_GZIP_FIXED}};
        setNamed("-Xstrategy", value(), names);
    }

    void setFilters() {
        static constexpr std::array names{NamedFlag{"x86", SQFS_COMP_FLAG_XZ_X86},
                                          NamedFlag{"powerpc", SQFS_COMP_FLAG_XZ_POWERPC},
                                          NamedFlag{"ia64", SQFS_COMP_FLAG_XZ_IA64},
                                          NamedFlag{"arm", SQFS_COMP_FLAG_XZ_ARM},
                                          NamedFlag{"armthumb", SQFS_COMP_FLAG_XZ_ARMTHUMB},
                                          NamedFlag{"sparc", SQFS_COMP_FLAG_XZ_SPARC}};
        setNamed("-Xbcj", value(), names);
    }

    void setDictionary() {
        const std::string text = value();
        if (!text.empty() && text.back() == '%') {
            const auto percent = parseNumber(std::string_view(text).substr(0, text.size() - 1));
            if (!percent || *percent == 0 || *percent > 100) {
                refuse(cat("-Xdict-size ", text), "invalid value in");
            }
            dictionaryPercent = static_cast<std::uint32_t>(*percent);
        } else {
            options.dictionarySize = static_cast<std::uint32_t>(
                number("-Xdict-size", text, SQFS_XZ_MIN_DICT_SIZE, SQFS_XZ_MAX_DICT_SIZE));
        }
    }

    std::vector<std::string> words;
    std::size_t position = 0;
    std::uint32_t dictionaryPercent = 0;
    SquashfsOptions options;

    friend const Compressor* findCompressor(std::string_view name);
};

/// Calls a function of a library that libsquashfs has loaded; its headers are not needed otherwise.
std::string versionBy(const char* function) {
    using Version = const char* (*)();
    const auto version = reinterpret_cast<Version>(::dlsym(RTLD_DEFAULT, function));
    return version != nullptr ? cat(" ", version()) : std::string();
}

/// The builder's data about a compressor; sarus.json(5) lists the names.
const Compressor* findCompressor(std::string_view name) {
    using Parser = OptionParser;
    static const std::array compressors{
        Compressor{.name = "gzip",
                   .library = [] { return cat("zlib ", ::zlibVersion()); },
                   .settings = {{"-Xcompression-level", &Parser::setLevel},
                                {"-Xwindow-size", &Parser::setWindow},
                                {"-Xstrategy", &Parser::setStrategies}},
                   .level = SQFS_GZIP_DEFAULT_LEVEL,
                   .leastLevel = SQFS_GZIP_MIN_LEVEL,
                   .mostLevel = SQFS_GZIP_MAX_LEVEL},
        Compressor{.name = "xz",
                   .library = [] { return cat("xz", versionBy("lzma_version_string")); },
                   .settings = {{"-Xbcj", &Parser::setFilters}, {"-Xdict-size", &Parser::setDictionary}}},
        Compressor{.name = "lz4",
                   .library = [] { return cat("lz4", versionBy("LZ4_versionString")); },
                   .settings = {{"-Xhc", &Parser::setHighCompression}}},
        Compressor{.name = "zstd",
                   .library = [] { return cat("zstd ", ZSTD_versionString()); },
                   .settings = {{"-Xcompression-level", &Parser::setLevel}},
                   .level = SQFS_ZSTD_DEFAULT_LEVEL,
                   .leastLevel = SQFS_ZSTD_MIN_LEVEL,
                   .mostLevel = SQFS_ZSTD_MAX_LEVEL},
    };
    const auto found = std::find_if(compressors.begin(), compressors.end(),
                                    [&](const auto& one) { return one.name == name; });
    return found == compressors.end() ? nullptr : &*found;
}

}  // namespace

SquashfsOptions parseMksquashfsOptions(std::string_view text) {
    return OptionParser(text).parse();
}

std::string SquashfsOptions::compressorLibrary() const {
    return findCompressor(compressor)->library();
}

sqfs_compressor_config_t SquashfsOptions::compressorConfig() const {
    const int id = sqfs_compressor_id_from_name(compressor.c_str());
    sqfs_compressor_config_t config;
    if (id < 0 || sqfs_compressor_config_init(&config, static_cast<SQFS_COMPRESSOR>(id), blockSize,
                                              compressorFlags) != 0) {
        throw Error(cat("libsquashfs refuses the settings of the compressor ", compressor));
    }
    if (findCompressor(compressor)->mostLevel > 0) {
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
