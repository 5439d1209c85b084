#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/context.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/starter_call.hpp"
#include "doctor/node_checks.hpp"

namespace sarus::cli {

namespace {

using doctor::Check;

/// This process touches nothing that a file server may hold: the checks read the configuration themselves.
std::vector<Check> allChecks(const std::string& prefix, const std::vector<std::string>& registries) {
    const auto with = [prefix](Findings (*check)(const Patient& patient)) {
        return [prefix, check] { return check(makePatient(prefix)); };
    };
    std::vector<Check> checks{
        {"configuration", with(checkConfiguration)},
        {"starter",
         [prefix] {
             Context context;
             return checkStarter(makePatient(prefix),
                                 [&](const auto& request) { return askStarter(context, request); });
         }},
        {"programs", with(checkPrograms)},
    };
    for (auto& check : doctor::nodeChecks(doctor::Program::sarus, [prefix] {
             const auto patient = makePatient(prefix);
             return doctor::NodeNeeds{.hasPrivileges = patient.isPrivileged,
                                      .kernelMountsImages = patient.kernelMountsImages(),
                                      .cdiDirectories = patient.config.cdiSpecDirs,
                                      .deviceOption = "sarus run --device"};
         })) {
        checks.push_back(std::move(check));
    }
    const auto add = [&](Check check) { checks.push_back(std::move(check)); };
    add({"seccomp", with(checkSeccomp)});
    add({"OCI runtime", with(checkRuntime)});
    add({"init", with(checkInit)});
    add({"remap-root", with(checkRemapRoot)});
    add({"hooks", with(checkHooks), std::chrono::seconds(30)});
    add({"repository", with(checkRepository)});
    add({"central repository", with(checkCentralRepository)});
    add({"temporary files", with(checkTemporaryDirectory)});
    add({"skopeo", with(checkDownloads)});
    add({"Slurm", with(checkSlurm), std::chrono::seconds(10), true});
    add({"Slurm plugin", with(checkSlurmPlugin)});
    add({"registry", [prefix, registries] { return checkRegistries(makePatient(prefix), registries); },
         std::chrono::seconds(15), true});
    return checks;
}

int doctorRun(Context& context, const Arguments& arguments) {
    const auto registries = arguments.values("registry");
    auto checks = allChecks(context.prefix(), registries);
    if (arguments.has("local")) {
        if (!registries.empty()) {
            throw usageError("The options '--local' and '--registry' cannot be used together", "doctor");
        }
        std::erase_if(checks, [](const Check& check) { return check.asksNetwork; });
    }
    return report(doctor::examine(checks), arguments.has("json"));
}

int configRun(Context& context, const Arguments& arguments) {
    const auto& files = arguments.positionals();
    const auto file = files.empty() ? cat(context.prefix(), "/etc/sarus.json") : files[0];
    const auto cure =
        files.empty() ? howToConfigure(context.prefix()) : "Name a file: sarus config check FILE";
    return report(doctor::examine({{"configuration", [&] { return reviewConfiguration(file, cure); }}}),
                  arguments.has("json"));
}

}  // namespace

Subcommand doctorCommand() {
    return {.name = "doctor",
            .usage = "sarus doctor [OPTIONS]",
            .description = "Check this node, this installation and this account",
            .note =
                "Note: Each finding comes with the command that mends it. Nothing is changed.\n"
                "      The exit status is 0 without warnings, 1 with warnings, 2 with errors.",
            .options = {jsonOption(),
                        {.longName = "local",
                         .help = "Ask no other machines: no registries, no controller of Slurm"},
                        {.longName = "registry",
                         .takesValue = true,
                         .repeatable = true,
                         .help = "Ask this registry too, besides those of registries.conf"}},
            .run = doctorRun};
}

Subcommand configCommand() {
    return {.name = "config",
            .usage = "sarus config check [OPTIONS] [FILE]",
            .description = "Find all mistakes in a configuration file",
            .note =
                "Note: FILE is a sarus.json. Default: that of the installation.\n"
                "      The exit status is 0 without warnings, 1 with warnings, 2 with errors.",
            .options = {jsonOption()},
            .maxPositionals = 1,
            .completions = {Completion::files},
            .aliases = {"config check"},
            .run = configRun};
}

}  // namespace sarus::cli
