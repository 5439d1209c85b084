#include "oci/json/json_lines.hpp"

#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace sarus::oci {

namespace {

class LineFinder {
public:
    explicit LineFinder(std::string_view document) : text(document) {}

    JsonLines run() {
        value("");
        return std::move(found);
    }

private:
    char next() {
        while (at < text.size() && std::string_view(" \t\r\n").find(text[at]) != std::string_view::npos) {
            line += text[at] == '\n' ? 1U : 0U;
            ++at;
        }
        return at < text.size() ? text[at] : '\0';
    }

    void value(const std::string& path) {
        switch (next()) {
            case '{':
                list('}', [&](std::size_t) { member(path); });
                break;
            case '[':
                list(']', [&](std::size_t index) {
                    next();
                    const auto element = cat(path, '[', index, ']');
                    found.lines.emplace(element, line);
                    value(element);
                });
                break;
            case '"':
                string();
                break;
            default:
                at = std::min(text.find_first_of(",]} \t\r\n", at), text.size());
        }
    }

    /// What is between the brackets, an entry a call.
    template <typename Entry>
    void list(char end, Entry entry) {
        ++at;
        for (std::size_t index = 0; next() != end && at < text.size(); ++index) {
            entry(index);
            if (next() == ',') {
                ++at;
            }
        }
        ++at;
    }

    void member(const std::string& object) {
        next();
        const auto start = line;
        const auto name = printable(nlohmann::json::parse(string()).get<std::string>());
        const auto path = object.empty() ? name : cat(object, '.', name);
        if (!found.lines.emplace(path, start).second) {
            found.lines[path] = start;  // the last one counts
            found.twice.push_back(path);
        }
        next();
        ++at;  // the colon
        value(path);
    }

    /// With its quotes.
    std::string_view string() {
        const auto begin = at++;
        while (at < text.size() && text[at] != '"') {
            at += text[at] == '\\' ? 2U : 1U;
        }
        at = std::min(at + 1, text.size());
        return text.substr(begin, at - begin);
    }

    std::string_view text;
    std::size_t at = 0;
    std::size_t line = 1;
    JsonLines found{};
};

}  // namespace

JsonLines findJsonLines(std::string_view text) {
    return LineFinder(text).run();
}

}  // namespace sarus::oci
