#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/installation_prefix.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "hooks/kit/linker_cache/linker_cache.hpp"
#include "hooks/kit/run_hook.hpp"
#include "oci/json/json_writer.hpp"
#include "podman_hpc/config/own_hooks.hpp"
#include "podman_hpc/config/site_file.hpp"
#include "podman_hpc/hook_tool/failure_log.hpp"
#include "podman_hpc/hook_tool/module_directory.hpp"
#include "podman_hpc/hook_tool/rule_log.hpp"
#include "podman_hpc/hook_tool/rule_runner.hpp"
#include "podman_hpc/hook_tool/runtime_message.hpp"
#include "podman_hpc/modules/module.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;
using namespace sarus::podman_hpc;

constexpr std::string_view usage =
    "Usage: podman_hpc_hook                               (an OCI hook: reads the container's state)\n"
    "       podman_hpc_hook --check                       (looks for mistakes in its configuration)\n"
    "       podman_hpc_hook --explain [--root=DIRECTORY] [--env=NAME=VALUE]...\n"
    "                                                     (shows what it would do and changes nothing)\n"
    "\n"
    "Copies and binds what the site modules say for podman-hpc: podman_hpc_hook(1).\n";

/// A variable of the container or, behind it, of the hook's JSON file.
std::optional<std::string> variableOf(const HookSetup& setup, const HookContext& context,
                                      std::string_view name) {
    auto value = context.containerVariable(name);
    return value ? value : setup.environment.find(name);
}

/// Never one that the container's environment names: an image can write it.
std::string modulesDirectory(const HookSetup& setup) {
    const auto configured = setup.environment.find(modulesVariable);
    auto directory = configured ? *configured : siteFile(installationPrefix(), "modules.d");
    requireTrustedModules(directory);
    return directory;
}

/// Values for `$NAME` in rules: those that podman-hpc passes, then those of the hook's JSON file. Podman
/// gives every hook the caller's HOME. It counts only if podman-hpc passes it, because an image can enable
/// modules.
std::function<std::optional<std::string>(const std::string&)> ruleVariables(const HookSetup& setup,
                                                                            const HookContext& context) {
    const auto passed = splitWords(context.annotation(variablesAnnotation).value_or(""));
    return [&setup, &context, passed](const std::string& name) -> std::optional<std::string> {
        if (std::find(passed.begin(), passed.end(), name) != passed.end()) {
            return context.annotation(cat(variableAnnotationPrefix, name));
        }
        return name == "HOME" ? std::nullopt : setup.environment.find(name);
    };
}

/// The enabled modules.
std::vector<Module> enabledModules(const HookSetup& setup, const HookContext& context,
                                   const std::string& directory,
                                   const std::function<void(const std::string&)>& warn) {
    auto modules = loadModules(directory, warn);
    std::erase_if(modules, [&](const Module& module) {
        return module.variable.empty() || !variableOf(setup, context, module.variable);
    });
    return modules;
}

std::string indented(const std::string& json) {
    const auto parsed = nlohmann::ordered_json::parse(json, nullptr, false);
    return parsed.is_discarded()
               ? json
               : parsed.dump(4, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string stateText(const oci::ContainerState& state) {
    oci::JsonWriter json;
    json.beginObject().member("ociVersion", state.ociVersion).member("id", state.id);
    json.member("pid", state.pid).member("root", state.root).member("bundle", state.bundle);
    json.key("annotations").beginObject();
    for (const auto& [name, value] : state.annotations) {
        json.member(name, value);
    }
    return indented(json.endObject().endObject().text());
}

std::string moduleText(const Module& module) {
    oci::JsonWriter json;
    json.beginObject().member("name", module.name).member("cli_arg", module.flag);
    json.member("env", module.variable).member("additional_args", module.podmanArguments);
    json.member("copy", module.copyRules).member("bind", module.bindRules);
    return json.endObject().text();
}

RuleLog openRuleLog(const HookSetup& setup, const HookContext& context, const HookLogger& log) {
    const auto path = ruleVariables(setup, context)(hookLogVariable);
    if (!path || path->empty()) {
        return {};
    }
    try {
        return RuleLog::open(*path);
    } catch (const Error& error) {
        log.warn(error.hint().empty() ? error.what() : cat(error.what(), ". ", error.hint()));
        return {};
    }
}

void logInput(const RuleLog& file, const HookContext& context, const std::vector<Module>& modules) {
    file.line(firstLogLine);
    file.line(stateText(context.state()));
    file.line("config.json");
    file.line(indented(context.config().serialize()));
    std::string all;
    for (const auto& module : modules) {
        all += cat(all.empty() ? "" : ",", moduleText(module));
    }
    file.line(indented(cat('[', all, ']')));
}

void updateLibraries(int root, const RuleLog& file, const HookLogger& log) {
    try {
        updateLinkerCacheIfPossible(root, log);
    } catch (const Error& error) {
        file.line(cat("ldconfig failed: ", error.what()));
        log.warn(error.what());
    }
}

void applyModules(const HookSetup& setup, HookContext& context, const HookLogger& log) {
    const auto directory = modulesDirectory(setup);
    const auto file = openRuleLog(setup, context, log);
    std::vector<std::string> broken;
    const auto modules = enabledModules(setup, context, directory, [&](const std::string& message) {
        broken.push_back(message);
        log.warn(message);
    });
    logInput(file, context, modules);
    for (const auto& message : broken) {
        file.line(cat("Error: ", message));
    }
    if (modules.empty()) {
        return;
    }
    const auto variable = ruleVariables(setup, context);
    const int root = context.rootfs();
    RuleRunner runner(root, file);
    for (const auto& module : modules) {
        file.line(cat("Loading ", module.name));
        file.line(cat("Module: ", moduleText(module)));
        try {
            runner.run(planModule(module, directory, variable));
        } catch (Error& error) {
            file.line(cat("Error: ", error.what()));
            throw error.addContext(cat("module ", module.name)).setHint(cat("Its file is ", module.file));
        }
    }
    if (runner.touchedLibraries()) {
        updateLibraries(root, file, log);
    }
    file.line("chroot return: None");
}

/// The process that has started the hook.
pid_t runtimeProcess = 0;

void runAsHook(const HookSetup& setup, HookContext& context, const HookLogger& log) {
    if (!setup.environment.find(callVariable)) {
        log.info("Does nothing: podman-hpc has not started this container");
        return;
    }
    const FailureLog failures(context.rootfsPath());
    try {
        applyModules(setup, context, log);
    } catch (const Error& error) {
        failures.add(context.state().id, error.what());
        tellPodman(runtimeProcess, cat("podman_hpc_hook: ", error.what()));
        throw;
    }
}

void explain(const HookSetup& setup, const ExplainRequest& request) {
    const auto& context = request.container();
    const auto directory = modulesDirectory(setup);
    const auto modules = enabledModules(setup, context, directory, [](const std::string& message) {
        printError(cat("podman_hpc_hook: ", message));
    });
    if (modules.empty()) {
        printLine("nothing: no module is enabled");
    }
    for (const auto& module : modules) {
        printLine(cat("module ", printable(module.name)));
        for (const auto& entry : planModule(module, directory, ruleVariables(setup, context)).entries) {
            if (!entry.problem.empty()) {
                printLine(cat("  skip ", printable(entry.rule), ": ", entry.problem));
            } else if (entry.placements.empty()) {
                printLine(cat("  skip ", printable(entry.rule), ": there is no such file on this node"));
            }
            for (const auto& placement : entry.placements) {
                printLine(cat(entry.isBind ? "  bind " : "  copy ", printable(placement.source), " to ",
                              printable(placement.target)));
            }
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    runtimeProcess = ::getppid();
    return hookMain(argc, argv,
                    {.program = "podman_hpc_hook",
                     .logName = "podman_hpc hook",
                     .usage = usage,
                     .variables = {modulesVariable, callVariable, hookLogVariable},
                     .explain = explain,
                     .run = runAsHook});
}
