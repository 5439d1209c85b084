#include "hooks/mpi/explain.hpp"

#include <utility>

#include "base/columns.hpp"
#include "base/text.hpp"
#include "oci/json/json_writer.hpp"

namespace sarus::hooks::mpi {

namespace {

std::string_view textOf(Role role) {
    return role == Role::mpi ? "mpi" : "dependency";
}

std::string_view textOf(Method method) {
    return method == Method::replace ? "replace" : "add";
}

void appendSection(std::string& text, std::string_view title, const std::vector<std::string>& lines) {
    for (const auto& line : lines) {
        text += cat(title, ": ", line, '\n');
    }
}

}  // namespace

std::string explainAsTable(const Survey& survey, const Configuration& configuration) {
    std::vector<std::vector<std::string>> rows{{"KIND", "ACTION", "HOST", "CONTAINER"}};
    for (const auto& injection : survey.plan.injections) {
        for (const auto& destination : injection.destinations) {
            rows.push_back({std::string(textOf(injection.role)), std::string(textOf(injection.method)),
                            printable(injection.library.path), printable(destination)});
        }
        for (const auto& link : injection.links) {
            rows.push_back({"link", "", printable(link), printable(injection.destinations.front())});
        }
    }
    for (const auto& path : configuration.bindMounts) {
        rows.push_back({"mount", "", printable(path), printable(path)});
    }
    constexpr std::size_t gap = 2;
    auto text = formatColumns(std::move(rows), gap);
    appendSection(text, "note", survey.plan.notes);
    appendSection(text, "warning", survey.plan.warnings);
    appendSection(text, "problem", survey.plan.problems);
    return text;
}

std::string explainAsJson(const Survey& survey, const Configuration& configuration) {
    oci::JsonWriter json;
    json.beginObject().member("program", survey.program).key("injections").beginArray();
    for (const auto& injection : survey.plan.injections) {
        json.beginObject();
        json.member("kind", textOf(injection.role)).member("action", textOf(injection.method));
        json.member("host", injection.library.path).member("version", injection.library.name.text());
        json.member("container", injection.destinations).member("links", injection.links).endObject();
    }
    json.endArray().key("missing").beginArray();
    for (const auto& need : survey.missing) {
        json.beginObject().member("library", need.provider).member("found", need.isProviderFound);
        json.member("versions", need.versions).member("newestPresent", need.newestPresent);
        json.member("neededBy", need.neededBy).endObject();
    }
    json.endArray().member("bindMounts", configuration.bindMounts).member("notes", survey.plan.notes);
    json.member("warnings", survey.plan.warnings).member("problems", survey.plan.problems).endObject();
    return cat(json.text(), '\n');
}

}  // namespace sarus::hooks::mpi
