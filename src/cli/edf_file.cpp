#include "cli/edf_file.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/error.hpp"
#include "base/hex.hpp"
#include "base/text.hpp"

namespace sarus::cli {

/// The library relies on assertions in places that hostile texts reach.
[[noreturn]] inline void failTomlAssertion() {
    throw Error("not valid TOML");
}

}  // namespace sarus::cli

#undef NDEBUG  // it would turn the library's assertions into assumptions of the compiler
#define TOML_ASSERT(expression) (static_cast<bool>(expression) ? void() : ::sarus::cli::failTomlAssertion())
#define TOML_ENABLE_FORMATTERS 0
#define TOML_FLOAT_CHARCONV 0  // or the front end would need the mathematical library
#include <toml++/toml.h>

namespace sarus::cli {

namespace {

/// The destructor of deeper tables would recurse too deeply.
constexpr std::ptrdiff_t mostDotsInLine = 1000;

std::string kindOf(const toml::node& node) {
    switch (node.type()) {
        case toml::node_type::table:
            return "a table";
        case toml::node_type::array:
            return "a list";
        case toml::node_type::string:
            return "a string";
        case toml::node_type::integer:
            return "an integer";
        case toml::node_type::floating_point:
            return "a number";
        case toml::node_type::boolean:
            return "a boolean";
        default:
            return "a date or time";
    }
}

/// The fewest digits that give the same number.
std::string shortest(double number) {
    std::array<char, 64> digits{};
    for (int precision = 1; precision <= 17; ++precision) {
        std::snprintf(digits.data(), digits.size(), "%.*g", precision, number);
        if (std::strtod(digits.data(), nullptr) == number) {
            break;
        }
    }
    return digits.data();
}

class Reader {
public:
    explicit Reader(std::string_view file) : name(file) {}

    std::string where(const toml::node& node, std::string_view key) const {
        return cat(printable(name), ":", node.source().begin.line, ": ", printable(key));
    }

    [[noreturn]] void fail(const toml::node& node, std::string_view key, std::string_view expected,
                           std::string hint = {}) const {
        throw Error(cat(where(node, key), ": expected ", expected, ", found ", kindOf(node)),
                    std::move(hint));
    }

    EdfText text(const toml::node& node, std::string_view key, std::string_view expected = "a string") const {
        const auto* value = node.as_string();
        if (value == nullptr) {
            fail(node, key, expected, node.is_table() || node.is_array() ? "" : "Put the value in quotes");
        }
        if (value->get().find('\0') != std::string::npos) {
            throw Error(cat(where(node, key), ": the value holds a NUL character"));
        }
        return {value->get(), where(node, key)};
    }

    bool flag(const toml::node& node, std::string_view key) const {
        const auto* value = node.as_boolean();
        if (value == nullptr) {
            fail(node, key, "true or false (without quotes)");
        }
        return value->get();
    }

    std::vector<EdfText> list(const toml::node& node, std::string_view key) const {
        const auto* array = node.as_array();
        if (array == nullptr) {
            fail(node, key, "a list of strings");
        }
        std::vector<EdfText> texts;
        for (std::size_t i = 0; i < array->size(); ++i) {
            texts.push_back(text(*array->get(i), cat(key, "[", i, "]")));
        }
        return texts;
    }

    std::map<std::string, EdfText> variables(const toml::node& node, std::string_view key) const {
        const auto* table = node.as_table();
        if (table == nullptr) {
            fail(node, key, "a table of strings");
        }
        std::map<std::string, EdfText> result;
        for (const auto& [entry, value] : *table) {
            const std::string variable(entry.str());
            const auto path = cat(key, ".", variable);
            if (variable.empty() || variable.find('=') != std::string::npos ||
                variable.find('\0') != std::string::npos) {
                throw Error(cat(where(value, path), ": '", printable(variable),
                                "' cannot be the name of an environment variable"));
            }
            result.emplace(variable, text(value, path));
        }
        return result;
    }

    void annotations(const toml::node& node, const std::string& path,
                     std::map<std::string, EdfText>& result) const {
        const auto* table = node.as_table();
        if (table == nullptr) {
            fail(node, cat("annotations", path.empty() ? "" : ".", path), "a table of strings");
        }
        for (const auto& [entry, value] : *table) {
            const auto key = cat(path, path.empty() ? "" : ".", entry.str());
            if (value.is_table()) {
                annotations(value, key, result);
                continue;
            }
            const auto shown = cat("annotations.", key);
            if (entry.str().empty() || key.find('=') != std::string::npos ||
                key.find('\0') != std::string::npos) {
                throw Error(cat(where(value, shown), ": this cannot be the name of an annotation"));
            }
            // "a.b" = 1 and [a] b = 2 are different keys for TOML.
            if (!result.emplace(key, EdfText{annotationText(value, shown), where(value, shown)}).second) {
                throw Error(cat(where(value, shown), ": this annotation is given twice"));
            }
        }
    }

private:
    std::string annotationText(const toml::node& node, const std::string& key) const {
        if (const auto* flag = node.as_boolean()) {
            return flag->get() ? "true" : "false";
        }
        if (const auto* number = node.as_integer()) {
            return cat(number->get());
        }
        if (const auto* number = node.as_floating_point()) {
            const auto written = shortest(number->get());
            return written.find_first_of(".en") == std::string::npos ? written + ".0" : written;
        }
        return text(node, key, "a string, a number or a boolean").text;
    }

    std::string_view name;
};

/// TOML allows no control characters except these three. The library overlooks some.
bool isForbidden(char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\r') || c == 0x7F;
}

void checkLines(std::string_view text, std::string_view file) {
    for (std::size_t number = 1; !text.empty(); ++number) {
        const auto end = std::min(text.find('\n'), text.size());
        const auto line = text.substr(0, end);
        if (std::count(line.begin(), line.end(), '.') > mostDotsInLine) {
            throw Error(
                cat(printable(file), ":", number, ": the line has more than ", mostDotsInLine, " dots"));
        }
        if (std::any_of(line.begin(), line.end(), isForbidden)) {
            throw Error(
                cat(printable(file), ":", number, ": not valid TOML: it contains a control character"));
        }
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

/// The text with each byte that is not ASCII replaced by `?` and its number, which TOML allows in strings and
/// comments only, as it does the bytes.
std::string asciiText(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < 0x80) {
            result += c;
        } else {
            result += '?';
            result += hexOf(static_cast<unsigned char>(c));
        }
    }
    return result;
}

toml::table parseToml(std::string_view text, std::string_view file) {
    checkLines(text, file);
    try {
        // What the library (3.3) does with a character that is not ASCII is undefined outside of strings.
        static_cast<void>(toml::parse(asciiText(text), file));
        return toml::parse(text, file);
    } catch (const toml::parse_error& error) {
        throw Error(cat(printable(file), ":", error.source().begin.line,
                        ": not valid TOML: ", printable(error.description())));
    } catch (Error& error) {
        error.addContext(printable(file));
        throw;
    }
}

}  // namespace

EdfFile parseEdf(std::string_view text, const std::string& file) {
    static const std::vector<std::string> known{"image",      "base_environment", "mounts",   "devices",
                                                "workdir",    "entrypoint",       "writable", "env",
                                                "annotations"};
    if (text.size() > maxEdfSize) {
        throw Error(cat(printable(file), ": the file is larger than ", formatSize(maxEdfSize)));
    }
    const auto document = parseToml(text, file);
    const Reader reader(file);
    EdfFile edf;
    for (const auto& [entry, node] : document) {
        const std::string key(entry.str());
        if (key == "base_environment") {
            edf.bases = node.is_string() ? std::vector{reader.text(node, key)} : reader.list(node, key);
        } else if (key == "image") {
            edf.image = reader.text(node, key);
        } else if (key == "workdir") {
            edf.workdir = reader.text(node, key);
        } else if (key == "entrypoint") {
            edf.entrypoint = reader.flag(node, key);
        } else if (key == "writable") {
            edf.writable = reader.flag(node, key);
        } else if (key == "mounts") {
            edf.mounts = reader.list(node, key);
        } else if (key == "devices") {
            edf.devices = reader.list(node, key);
        } else if (key == "env") {
            edf.env = reader.variables(node, key);
        } else if (key == "annotations") {
            reader.annotations(node, "", edf.annotations);
        } else {
            const auto guess = closestMatch(key, known);
            edf.warnings.push_back(cat(reader.where(node, key), ": unknown key, ignored",
                                       guess ? cat(" (did you mean '", *guess, "'?)") : ""));
        }
    }
    return edf;
}

}  // namespace sarus::cli
