#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::cli {

/// A text of an environment definition file with its place ("FILE:LINE: KEY") for messages.
struct EdfText {
    std::string text;
    std::string where;
};

/// One environment definition file (EDF) in TOML 1.0. Variables are not expanded yet.
struct EdfFile {
    std::vector<EdfText> bases;  ///< `base_environment`: a name or a list of names
    std::optional<EdfText> image;
    std::optional<EdfText> workdir;
    std::optional<bool> entrypoint;
    std::optional<bool> writable;
    std::vector<EdfText> mounts;
    std::vector<EdfText> devices;
    std::map<std::string, EdfText> env;
    std::map<std::string, EdfText> annotations;  ///< nested tables are flattened with dots
    std::vector<std::string> warnings;           ///< unknown keys, which are ignored
};

/// Size limit of a file, in bytes.
constexpr std::size_t maxEdfSize = 64U << 10U;

/// Parses the text of an EDF. Throws Error "<file>:<line>: ..." for invalid TOML and for values of wrong
/// types.
EdfFile parseEdf(std::string_view text, const std::string& file);

}  // namespace sarus::cli
