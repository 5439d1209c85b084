#include "podman_hpc/config/own_hooks.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

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

/// A file that starts podman-hpc's hook.
struct OwnFile {
    std::string path;
    Json document;
};

std::vector<OwnFile> findOwnFiles(const std::string& directory) {
    std::vector<OwnFile> found;
    const UniqueFd opened(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!opened) {
        return found;
    }
    for (const auto& path : listFiles(opened.get(), directory, {".json"})) {
        const auto text = readCheckedFile(opened.get(), path);
        auto file =
            text.find(hookAnnotation) == std::string::npos ? Json() : Json::parse(text, nullptr, false);
        if (file.is_object() && file.contains("hook") && file["hook"].is_object()) {
            found.push_back({path, std::move(file)});
        }
    }
    return found;
}

/// The text of a hook file with these variables in front of its own.
std::string withVariables(Json file, const std::vector<std::string>& variables) {
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

HookRegistration requireHook(const Settings& settings) {
    const auto& directory = settings.text(Key::hooksDir);
    const auto files = findOwnFiles(directory);
    if (files.empty()) {
        throw Error(cat("no file of ", printable(directory), " registers the hook of modules"),
                    "podman-hpc configure-hooks");
    }
    const auto& [file, document] = files.front();
    const auto program = document["hook"].value("path", Json());
    const auto path = program.is_string() ? program.get<std::string>() : std::string();
    if (::access(path.c_str(), X_OK) != 0) {
        throw Error(cat(printable(file), " names ", printable(path), ", which cannot be executed"),
                    "podman-hpc configure-hooks --force");
    }
    return {file, path};
}

std::string provideOwnHooks(const Settings& settings, const std::string& command, uid_t uid) {
    const auto& modules = settings.text(Key::modulesDir);
    std::vector<std::string> variables{cat(callVariable, '=', command), cat(modulesVariable, '=', modules)};
    if (command == "run") {  // which gives Podman all annotations of the hook: they are not the image's
        variables.push_back(cat(hook_contracts::trustVariable, "=true"));
    }
    std::vector<std::pair<std::string, std::string>> files;
    for (auto& [path, document] : findOwnFiles(settings.text(Key::hooksDir))) {
        files.emplace_back(fileNameOf(path), withVariables(std::move(document), variables));
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
