#include "podman_hpc/config/own_hooks.hpp"

#include <fcntl.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/config_files.hpp"
#include "base/file_io.hpp"
#include "base/path_checker.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "hook_contracts/callers_settings.hpp"
#include "podman_hpc/config/podman_files.hpp"

namespace sarus::podman_hpc {

namespace {

using Json = nlohmann::ordered_json;

/// The text of a hook file with these variables in front of its own; "" for other files.
std::string withVariables(const std::string& text, const std::vector<std::string>& variables) {
    auto file = text.find(hookAnnotation) == std::string::npos ? Json() : Json::parse(text, nullptr, false);
    if (!file.is_object() || !file.contains("hook") || !file["hook"].is_object()) {
        return "";
    }
    auto env = Json(variables);
    const auto nameOf = [](const std::string& entry) { return entry.substr(0, entry.find('=') + 1); };
    const auto before =
        file["hook"].value("env", Json::array({"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}));
    for (const auto& entry : before) {
        const auto isReplaced = [&](const std::string& own) {
            return entry.is_string() && nameOf(own) == nameOf(entry.get<std::string>());
        };
        if (std::none_of(variables.begin(), variables.end(), isReplaced)) {
            env.push_back(entry);
        }
    }
    file["hook"]["env"] = std::move(env);
    return file.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void requireTrustedModules(const std::string& directory, uid_t uid) {
    try {
        PathChecker paths({.alsoTrusted = {uid}, .stickyParents = true});
        if (paths.check(directory)) {
            paths.checkTree(directory);
        }
    } catch (Error& error) {
        throw error.addContext("modules_dir")
            .setHint(
                "A module brings files of the node into containers: let only root or yourself write to it");
    }
}

}  // namespace

std::string provideOwnHooks(const Settings& settings, const std::string& command, uid_t uid) {
    const auto& directory = settings.text(Key::hooksDir);
    const auto& modules = settings.text(Key::modulesDir);
    std::vector<std::string> variables{cat(callVariable, '=', command), cat(modulesVariable, '=', modules)};
    if (command == "run") {  // which gives Podman all annotations of the hook: they are not the image's
        variables.push_back(cat(hook_contracts::trustVariable, "=true"));
    }
    std::vector<std::pair<std::string, std::string>> files;
    if (const UniqueFd opened(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)); opened) {
        for (const auto& path : listFiles(opened.get(), directory, {".json"})) {
            if (auto text = withVariables(readCheckedFile(opened.get(), path), variables); !text.empty()) {
                files.emplace_back(path.substr(path.rfind('/') + 1), std::move(text));
            }
        }
    }
    if (files.empty()) {
        return "";
    }
    requireTrustedModules(modules, uid);
    std::string all;
    for (const auto& [name, text] : files) {
        all += cat(name, '\0', text, '\0');
    }
    constexpr std::size_t enough = 32;
    auto own = cat(settings.text(Key::configHome), "/hooks-", sha256Hex(all).substr(0, enough));
    requireOwnDirectory(own, uid);
    for (const auto& [name, text] : files) {
        writeIfAbsent(cat(own, '/', name), text, 0600);
    }
    return own;
}

}  // namespace sarus::podman_hpc
