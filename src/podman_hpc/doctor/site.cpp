#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "doctor/node_checks.hpp"
#include "podman_hpc/doctor/doctor.hpp"
#include "podman_hpc/modules/module.hpp"

namespace sarus::podman_hpc {

namespace {

using Grade = Finding::Grade;

constexpr std::size_t largestFile = 1U << 24U;

/// The program that a hook's file starts for the annotation of podman-hpc; "" if it is another hook.
std::string hookProgram(const std::string& file) {
    const auto json = nlohmann::json::parse(readFile(file, largestFile), nullptr, false);
    const auto annotation = nlohmann::json::json_pointer("/when/annotations/podman_hpc.hook_tool");
    const auto path = nlohmann::json::json_pointer("/hook/path");
    const bool isOurs =
        json.is_object() && json.contains(annotation) && json.contains(path) && json[path].is_string();
    return isOurs ? json[path].get<std::string>() : "";
}

Finding checkHook(const std::string& directory) {
    for (const auto& file : doctor::filesIn(directory, {".json"})) {
        const auto program = hookProgram(file);
        if (program.empty()) {
            continue;
        }
        if (::access(program.c_str(), X_OK) != 0) {
            return {"hook", Grade::error,
                    cat(printable(file), " names ", printable(program), ", which cannot be executed"),
                    "podman-hpc configure-hooks --force"};
        }
        return {"hook", Grade::ok, cat(printable(program), ", registered in ", printable(file))};
    }
    return {"hook", Grade::error,
            cat("no file of ", printable(directory), " registers the hook: modules copy and bind nothing"),
            "podman-hpc configure-hooks"};
}

Finding checkModules(const std::string& directory) {
    std::size_t usable = 0;
    for (const auto& file : moduleFiles(directory)) {
        for (const auto& problem : checkModule(file, {}).problems) {
            if (problem.isError) {
                return {"modules", Grade::error, problem.message, "podman-hpc module check"};
            }
        }
        ++usable;
    }
    return usable == 0 ? Finding{"modules", Grade::note, cat("there are none in ", printable(directory))}
                       : Finding{"modules", Grade::ok, cat(usable, " in ", printable(directory))};
}

/// The latest failure that the hook has recorded.
std::vector<Finding> checkFailures(const std::string& graphRoot) {
    const auto file = cat(graphRoot, "/podman_hpc_hook.log");
    if (::access(file.c_str(), R_OK) != 0) {
        return {};
    }
    const auto text = readFile(file, largestFile);
    const auto lines = split(trim(text), '\n');
    return {{"hook failures", Grade::warning, printable(lines.back()),
             cat("mend the module, then rm ", printable(file))}};
}

}  // namespace

std::vector<Finding> checkSite(const Patient& patient) {
    const auto& settings = patient.settings;
    std::vector<Finding> all{checkHook(settings.text(Key::hooksDir)),
                             checkModules(settings.text(Key::modulesDir)),
                             doctor::checkCdi({"/etc/cdi", "/var/run/cdi"}, "podman-hpc run --device")};
    const auto failures = checkFailures(settings.text(Key::graphRoot));
    all.insert(all.end(), failures.begin(), failures.end());
    return all;
}

}  // namespace sarus::podman_hpc
