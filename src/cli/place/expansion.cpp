#include "cli/place/expansion.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::cli {

namespace {

constexpr int deepestDefault = 16;
constexpr std::size_t longestResult = 1U << 20U;

bool isNameCharacter(char c, bool first) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

class Expansion {
public:
    Expansion(const VariableLookup& theLookup, std::string_view theWhere)
        : lookup(theLookup), where(theWhere) {}

    std::string run(std::string_view text, int depth) {
        if (depth > deepestDefault) {
            fail("the defaults of variables are nested too deeply");
        }
        std::string out;
        while (!text.empty()) {
            const auto dollar = std::min(text.find('$'), text.size());
            out += text.substr(0, dollar);
            text.remove_prefix(dollar);
            if (!text.empty()) {
                text.remove_prefix(1);
                out += takeReference(text, depth);
            }
            if (out.size() > longestResult) {
                fail("the value becomes too long");
            }
        }
        return out;
    }

private:
    [[noreturn]] void fail(std::string_view why, std::string hint = {}) const {
        throw Error(cat(where, ": ", why), std::move(hint));
    }

    static std::string takeName(std::string_view& text) {
        std::size_t end = 0;
        while (end < text.size() && isNameCharacter(text[end], end == 0)) {
            ++end;
        }
        std::string name(text.substr(0, end));
        text.remove_prefix(end);
        return name;
    }

    /// Expands a variable. The text begins after the '$'.
    std::string takeReference(std::string_view& text, int depth) {
        if (text.starts_with('$')) {
            text.remove_prefix(1);
            return "$";
        }
        if (text.starts_with('{')) {
            auto inner = takeBraces(text);
            const auto name = takeName(inner);
            if (name.empty() || (!inner.empty() && !inner.starts_with(":-"))) {
                fail("only ${NAME} and ${NAME:-DEFAULT} are supported", "Write '$$' for a dollar sign");
            }
            const auto value = lookup(name);
            if (inner.empty()) {
                return value ? *value : undefined(name);
            }
            return value && !value->empty() ? *value : run(inner.substr(2), depth + 1);
        }
        const auto name = takeName(text);
        if (name.empty()) {
            fail("the name of a variable is missing after '$'", "Write '$$' for a dollar sign");
        }
        const auto value = lookup(name);
        return value ? *value : undefined(name);
    }

    [[noreturn]] std::string undefined(const std::string& name) const {
        fail(cat("the variable '", name, "' is not defined"),
             cat("Set it, or give it a default: ${", name, ":-VALUE}"));
    }

    /// The text between the leading brace and its closing brace.
    std::string_view takeBraces(std::string_view& text) const {
        int open = 0;
        for (std::size_t i = 0; i < text.size(); ++i) {
            const bool opens = text[i] == '{' && (i == 0 || text[i - 1] == '$');
            open += opens ? 1 : text[i] == '}' ? -1 : 0;
            if (open == 0) {
                const auto inner = text.substr(1, i - 1);
                text.remove_prefix(i + 1);
                return inner;
            }
        }
        fail("the '}' for a '${' is missing");
    }

    const VariableLookup& lookup;
    std::string_view where;
};

}  // namespace

std::string expandVariables(std::string_view text, const VariableLookup& lookup, std::string_view where) {
    return Expansion(lookup, where).run(text, 0);
}

}  // namespace sarus::cli
