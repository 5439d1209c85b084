#include <unistd.h>

#include <algorithm>
#include <map>
#include <span>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/text.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/doctor/registry_names.hpp"
#include "doctor/node_checks.hpp"
#include "image/transfer/login.hpp"
#include "image/transfer/pull_failure.hpp"
#include "image/transfer/skopeo.hpp"
#include "image/transfer/skopeo_message.hpp"

namespace sarus::cli {

namespace {

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

/// By the rules of containers-registries.conf(5).
std::vector<std::string> configurationFiles() {
    const auto chosen = hostVariable("CONTAINERS_REGISTRIES_CONF").value_or("");
    const auto own = cat(hostVariable("HOME").value_or(""), "/.config/containers");
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

/// The command that writes these lines of registries.conf.
std::string howToAllow(const std::string& server, std::span<const std::string> lines) {
    constexpr const char* directory = "~/.config/containers/registries.conf.d";
    auto command = cat("mkdir -p ", directory, " && printf '%s\\n'");
    for (const auto& line : lines) {
        command += cat(' ', shellWord(line));
    }
    return cat(command, " >", directory, '/', shellWord(cat(server, ".conf")), " # if you trust it");
}

/// `file`: the one that names the registry; "" if the caller does.
Findings checkRegistry(const image::Skopeo& skopeo, const std::string& registry, const std::string& file) {
    const auto server = registry.substr(0, registry.find('/'));
    const auto image = cat(registry, "/sarus-doctor:no-such-tag");
    const auto result = [&] {
        try {
            return skopeo.inspectRaw({.name = cat("docker://", image), .server = server, .image = image});
        } catch (const Error& error) {
            return image::ToolResult{.status = {.code = 1}, .out = {}, .err = error.hint()};
        }
    }();
    const auto lines = image::explainPullFailure(result.err, server, false);
    const auto message = image::skopeoMessage(result.err);
    const auto mirrors = message.find("(Mirrors also failed");
    const auto own = mirrors == std::string::npos ? message : message.substr(message.find("]): ", mirrors));
    const auto isMirror = [](std::string_view line) { return line.starts_with("The mirror "); };
    Findings all;
    if (result.status.ok() || image::isRegistrysAnswer(own)) {
        all.push_back(doctor::ok(cat(printable(server), " answers")));
    } else if (std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
                   return isMirror(line) && image::isRegistrysAnswer(line);
               })) {
        all.push_back(doctor::ok(cat("a mirror of ", printable(server), " answers")));
    } else {
        const auto& reason = lines.front();
        const bool lacksTls = lines.size() > 1 && lines[1] == "[[registry]]";  // which the user can allow
        all.push_back(doctor::warning(
            reason.find(server) == std::string::npos ? cat(printable(server), ": ", reason) : reason,
            lacksTls ? howToAllow(server, std::span(lines).subspan(1, 3))
                     : cat("curl -v ", shellWord(cat("https://", server, "/v2/")))));
    }
    for (const auto& line : lines) {
        if (isMirror(line) && !image::isRegistrysAnswer(line)) {
            all.push_back(doctor::warning(line, cat("Correct or remove the mirror in ", printable(file))));
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

Findings checkRegistries(const Patient& patient, const std::vector<std::string>& further) {
    image::forgetForeignHome();
    std::map<std::string, std::string> files;  // by the names of registries
    for (const auto& file : configurationFiles()) {
        if (pathExists(file)) {
            for (const auto& name : registriesIn(readFile(file))) {
                files.emplace(name, file);
            }
        }
    }
    for (const auto& name : further) {
        files.emplace(name, "registries.conf");
    }
    const auto& skopeo = patient.config.skopeoPath;
    if (files.empty()) {
        return {doctor::ok("registries.conf names none; sarus doctor --registry HOST asks one")};
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
    for (const auto& [name, file] : files) {
        checks.push_back(
            {.name = "registry",
             .run = [&, &registry = name,
                     &configuration = file] { return checkRegistry(client, registry, configuration); },
             .asksNetwork = true});
    }
    return doctor::examine(checks);
}

}  // namespace sarus::cli
