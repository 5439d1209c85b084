#include "doctor/finding.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "oci/json/json_writer.hpp"

namespace sarus::doctor {

namespace {

using Grade = Finding::Grade;

std::string_view nameOf(Grade grade) {
    switch (grade) {
        case Grade::ok:
            return "ok";
        case Grade::note:
            return "note";
        case Grade::warning:
            return "warning";
        case Grade::error:
            break;
    }
    return "error";
}

std::string padded(std::string_view text, std::size_t width) {
    return cat(text, std::string(text.size() < width ? width - text.size() : 0, ' '));
}

}  // namespace

std::string formatText(const std::vector<Finding>& findings) {
    std::string out;
    for (const auto& finding : findings) {
        out += cat(padded(nameOf(finding.grade), 9), padded(finding.check, 19), finding.message, '\n');
        if (!finding.cure.empty()) {
            out += cat(std::string(28, ' '), "cure: ", finding.cure, '\n');
        }
    }
    return std::string(trim(out));
}

std::string formatJson(const std::vector<Finding>& findings) {
    oci::JsonWriter json;
    json.beginArray();
    for (const auto& finding : findings) {
        json.beginObject().member("check", finding.check).member("status", nameOf(finding.grade));
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
