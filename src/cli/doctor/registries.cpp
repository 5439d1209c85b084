#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <span>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/doctor/registry_names.hpp"
#include "doctor/examination.hpp"
#include "doctor/node_checks.hpp"
#include "image/transfer/login.hpp"
#include "image/transfer/skopeo.hpp"

namespace sarus::cli {

namespace {

using Grade = Finding::Grade;

/// The value of a line `key = "value"`; "" if it is another line.
std::string valueOf(std::string_view line, std::string_view key) {
    const auto equal = line.find('=');
    if (equal == std::string_view::npos || trim(line.substr(0, equal)) != key) {
        return {};
    }
    const auto value = trim(line.substr(equal + 1));
    if (!value.starts_with('"') && !value.starts_with('\'')) {
        return std::string(trim(value.substr(0, value.find('#'))));
    }
    const auto end = value.find(value.front(), 1);
    return end == value.npos ? "" : std::string(value.substr(1, end - 1));
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

/// By the rules of containers-registries.conf(5).
std::vector<std::string> configurationFiles() {
    const auto chosen = variable("CONTAINERS_REGISTRIES_CONF");
    const auto own = cat(variable("HOME"), "/.config/containers");
    std::vector<std::string> files{!chosen.empty() ? chosen
                                   : pathExists(cat(own, "/registries.conf"))
                                       ? cat(own, "/registries.conf")
                                       : "/etc/containers/registries.conf"};
    for (const auto& directory : {std::string("/etc/containers"), own}) {
        const auto more = doctor::filesIn(cat(directory, "/registries.conf.d"), {".conf"});
        files.insert(files.end(), more.begin(), more.end());
    }
    return files;
}

/// Whether an error says that the registry has answered: nobody has the image that the doctor asks for.
bool isAnswer(std::string_view error) {
    constexpr std::array signs{"manifest unknown", "name unknown",
                               "unauthorized",     "access to the resource is denied",
                               "not found",        "authentication required",
                               " 403 (",           " 404 (",
                               "toomanyrequests"};
    constexpr std::array failures{"no such host", "x509", "connection refused"};
    const auto has = [&](std::string_view sign) { return error.find(sign) != std::string_view::npos; };
    return std::any_of(signs.begin(), signs.end(), has) &&
           std::none_of(failures.begin(), failures.end(), has);
}

std::vector<Finding> checkRegistry(const image::Skopeo& skopeo, const std::string& registry) {
    const auto server = registry.substr(0, registry.find('/'));
    const auto image = cat(registry, "/sarus-doctor:no-such-tag");
    image::ToolResult result;
    try {
        result = skopeo.inspectRaw({.name = cat("docker://", image), .server = server, .image = image});
    } catch (const Error& error) {
        return {{"registry", Grade::error, cat(printable(server), " does not answer"), error.hint()}};
    }
    const auto lines = image::explainPullFailure(result.err, server, false);
    std::vector<Finding> all;
    const auto message = image::skopeoMessage(result.err);
    const auto mirrors = message.find("(Mirrors also failed");
    const auto own = mirrors == std::string::npos ? message : message.substr(message.find("]): ", mirrors));
    if (result.status.ok() || isAnswer(own)) {
        all.push_back({"registry", Grade::ok, cat(printable(server), " answers")});
    } else {
        all.push_back({"registry", Grade::error, lines.front(),
                       lines.size() > 3 ? cat("Write to the file: ", join(std::span(lines).subspan(1), "; "))
                                        : cat("curl -v https://", printable(server), "/v2/")});
    }
    for (const auto& line : lines) {
        if (line.starts_with("The mirror ") && !isAnswer(line)) {
            all.push_back({"registry", Grade::warning, line, "Correct or remove it in registries.conf"});
        }
    }
    return all;
}

}  // namespace

std::vector<std::string> registriesIn(std::string_view text) {
    struct Registry {
        std::string prefix;
        std::string location;
        bool blocked = false;
    };
    std::vector<Registry> all;
    bool inside = false;
    for (const auto& raw : split(text, '\n')) {
        const auto line = trim(raw);
        if (line.starts_with('[')) {
            inside = line.starts_with("[[registry]]");
            if (inside) {
                all.emplace_back();
            }
        } else if (inside) {
            auto& registry = all.back();
            registry.prefix += valueOf(line, "prefix");
            registry.location += valueOf(line, "location");
            registry.blocked = registry.blocked || valueOf(line, "blocked") == "true";
        }
    }
    std::vector<std::string> names;
    for (const auto& registry : all) {
        const auto& name = registry.prefix.empty() || registry.prefix.starts_with("*.") ? registry.location
                                                                                        : registry.prefix;
        if (!registry.blocked && !name.empty()) {
            names.push_back(name);
        }
    }
    return names;
}

std::vector<Finding> checkRegistries(const Patient& patient, const std::vector<std::string>& further) {
    image::forgetForeignHome();
    std::set<std::string> names(further.begin(), further.end());
    for (const auto& file : configurationFiles()) {
        if (pathExists(file)) {
            const auto found = registriesIn(readFile(file));
            names.insert(found.begin(), found.end());
        }
    }
    const auto& skopeo = patient.config.skopeoPath;
    if (names.empty()) {
        return {{"registry", Grade::ok, "registries.conf names none; sarus doctor --registry HOST asks one"}};
    }
    if (::access(skopeo.c_str(), X_OK) != 0) {
        return {};  // checkDownloads() reports it
    }
    constexpr std::uint64_t patienceMs = 8000;
    image::SkopeoSettings settings{
        .path = skopeo, .policy = std::nullopt, .registriesDPath = patient.config.containersRegistriesDPath};
    settings.timings = {patienceMs, patienceMs};
    if (const auto& policy = patient.config.containersPolicy) {
        settings.policy = image::PolicyChoice{policy->path, policy->enforce};
    }
    const image::Skopeo client(settings, patient.config.tempDir);
    std::vector<doctor::Check> checks;
    for (const auto& name : names) {
        checks.push_back({"registry", [&client, name] { return checkRegistry(client, name); }});
    }
    return doctor::examine(checks);
}

}  // namespace sarus::cli
