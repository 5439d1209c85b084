#include "doctor/finding.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/columns.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "oci/json/json_writer.hpp"

namespace sarus::doctor {

namespace {

using Grade = Finding::Grade;

struct GradeStyle {
    std::string_view name;
    std::string_view colour;
};

/// By the numbers of the grades.
constexpr std::array styles{GradeStyle{"ok", "32"}, GradeStyle{"note", "36"}, GradeStyle{"warning", "33"},
                            GradeStyle{"error", "31"}};

const GradeStyle& styleOf(const Finding& finding) {
    return styles.at(static_cast<std::size_t>(finding.grade));
}

std::string padding(std::string_view text, std::size_t width) {
    return std::string(text.size() < width ? width - text.size() : 0, ' ');
}

}  // namespace

Finding ok(std::string message) {
    return {"", Grade::ok, std::move(message)};
}

Finding note(std::string message, std::string cure) {
    return {"", Grade::note, std::move(message), std::move(cure)};
}

Finding warning(std::string message, std::string cure) {
    return {"", Grade::warning, std::move(message), std::move(cure)};
}

Finding error(std::string message, std::string cure) {
    return {"", Grade::error, std::move(message), std::move(cure)};
}

int report(const std::vector<Finding>& findings, bool asJson) {
    printLine(asJson ? formatJson(findings)
                     : formatText(findings, terminalWidth(STDOUT_FILENO), hasColours(STDOUT_FILENO)));
    return statusOf(findings);
}

std::string formatText(const std::vector<Finding>& findings, std::size_t width, bool coloured) {
    constexpr std::size_t gradeColumn = 9;
    constexpr std::size_t messageColumn = 28;
    constexpr std::size_t narrow = 2 * messageColumn;
    constexpr std::size_t narrowIndent = 4;
    const bool isNarrow = width != 0 && width < narrow;
    const auto indent = isNarrow ? narrowIndent : messageColumn;
    const auto newLine = cat('\n', std::string(indent, ' '));
    std::string out;
    for (const auto& finding : findings) {
        const auto& [grade, colour] = styleOf(finding);
        const auto name = cat(padding(grade, gradeColumn), finding.check);
        out += cat(out.empty() ? "" : "\n", coloured ? cat("\033[1;", colour, 'm') : "", grade,
                   coloured ? "\033[0m" : "", name,
                   isNarrow ? newLine : padding(cat(grade, name), messageColumn),
                   foldLine(finding.message, width, indent));
        if (!finding.cure.empty()) {
            out += cat(newLine, foldLine(cat("cure: ", finding.cure), width, indent));
        }
    }
    return out;
}

std::string formatJson(const std::vector<Finding>& findings) {
    oci::JsonWriter json;
    json.beginArray();
    for (const auto& finding : findings) {
        json.beginObject().member("check", finding.check).member("status", styleOf(finding).name);
        json.member("message", finding.message).member("cure", finding.cure).endObject();
    }
    return json.endArray().text();
}

int statusOf(const std::vector<Finding>& findings) {
    const auto has = [&](Grade grade) {
        return std::any_of(findings.begin(), findings.end(),
                           [&](const Finding& finding) { return finding.grade == grade; });
    };
    return has(Grade::error) ? 2 : has(Grade::warning) ? 1 : 0;
}

}  // namespace sarus::doctor
