#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/context.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/starter_call.hpp"
#include "doctor/examination.hpp"

namespace sarus::cli {

namespace {

/// This process touches nothing that a file server may hold: the checks read the configuration themselves.
int doctorRun(Context& context, const Arguments& arguments) {
    using std::chrono::seconds;
    constexpr seconds networkPatience{15};
    constexpr seconds hookPatience{30};
    struct Topic {
        const char* name;
        std::vector<Finding> (*check)(const Patient& patient);
        seconds patience{10};
    };
    const auto prefix = context.prefix();
    std::vector<doctor::Check> checks;
    for (const auto& [name, check, patience] :
         {Topic{"configuration", checkConfiguration}, Topic{"installation", checkInstallation},
          Topic{"permissions", checkPermissions}, Topic{"node", checkNode},
          Topic{"security modules", checkSecurityModules}, Topic{"OCI runtime", checkRuntime},
          Topic{"hooks", checkHooks, hookPatience}, Topic{"repository", checkRepository},
          Topic{"central repository", checkCentralRepository},
          Topic{"temporary files", checkTemporaryDirectory}, Topic{"skopeo", checkDownloads},
          Topic{"Slurm", checkSlurm}}) {
        checks.push_back({name, [prefix, run = check] { return run(makePatient(prefix)); }, patience});
    }
    checks.push_back({"registry",
                      [&] { return checkRegistries(makePatient(prefix), arguments.values("registry")); },
                      networkPatience});
    return report(doctor::examine(checks), arguments.has("json"));
}

int configRun(Context& context, const Arguments& arguments) {
    const auto& files = arguments.positionals();
    return report(
        reviewConfiguration(files.empty() ? cat(context.prefix(), "/etc/sarus.json") : files[0],
                            files.empty() ? missingConfiguration : "Name a file: sarus config check FILE"),
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
