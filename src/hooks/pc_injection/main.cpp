#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "hook_contracts/callers_settings.hpp"
#include "hooks/kit/injection/counterparts.hpp"
#include "hooks/kit/injection/need_lookup.hpp"
#include "hooks/kit/injection/version_check.hpp"
#include "hooks/pc_injection/plan.hpp"
#include "oci/runtime/runtime_devices.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;
using namespace sarus::hooks::pc_injection;

constexpr std::string_view usage =
    "Usage: pc_injection_hook SETTING...            (a precreate hook: reads the container's config.json and "
    "writes the\n"
    "                                                changed one)\n"
    "       pc_injection_hook SETTING... --check    (looks for mistakes in its configuration)\n"
    "       pc_injection_hook SETTING... --explain [--root=DIRECTORY] [--env=NAME=VALUE]...  (shows the "
    "edits)\n"
    "\n"
    "SETTING is --lib=PATH, --dependency-lib=PATH, --allow-unversioned-primary-overwrite, --file=PATH,\n"
    "--env=NAME=VALUE or --mount=SOURCE:DESTINATION:OPTIONS. With --explain, --env belongs to the "
    "container.\n"
    "The variables INJECTION_PRIMARY_LIBS, INJECTION_DEPENDENCY_LIBS, INJECTION_EXTRA_FILES,\n"
    "INJECTION_EXTRA_ENV and INJECTION_EXTRA_MOUNTS are the same as lists.\n";

/// The changes of one container's config.json.
struct Edits {
    std::vector<oci::RuntimeMount> mounts{};
    std::vector<std::pair<std::string, std::string>> variables{};
    std::vector<std::string> warnings{};
};

/// The edits for one container, whose files are read with the rights of its user.
class Editing {
public:
    Editing(Settings theSettings, HookContext& context)
        : settings(std::move(theSettings)),
          root(context.rootfs()),
          present(context.config().mounts()),
          libraryPath(context.containerVariable("LD_LIBRARY_PATH").value_or("")) {}

    Edits make() {
        const container_root::ContainerView view;
        const auto& like = (settings.primary.empty() ? settings.dependency : settings.primary).front().elf;
        const LibrarySearch search(root, libraryPath);
        auto plan = planInjection(settings, findCounterparts(search, like));
        if (!plan.problems.empty()) {
            throw Error(join(plan.problems, "; "));
        }
        edits.warnings = std::move(plan.warnings);
        requireVersions(plan.injections, search);
        for (const auto& injection : plan.injections) {
            mountLibrary(injection);
        }
        for (const auto& file : settings.files) {
            addMount({file, "bind", file, readOnly()});
        }
        for (const auto& mount : settings.mounts) {
            addMount(mount);
        }
        edits.variables.insert(edits.variables.end(), settings.variables.begin(), settings.variables.end());
        return std::move(edits);
    }

private:
    static std::vector<std::string> readOnly() { return {"ro", "rbind", "nosuid", "nodev"}; }

    std::vector<ContainerLibrary> findCounterparts(const LibrarySearch& search, const ElfFile& like) const {
        const auto isWanted = [&](std::string_view fileName) {
            const auto name = parseLibraryName(fileName);
            return name &&
                   std::any_of(settings.primary.begin(), settings.primary.end(), [&](const auto& library) {
                       return library.name.linkerName == name->linkerName;
                   });
        };
        Counterparts counterparts(root);
        for (const auto& found : search.findAll(like, isWanted, ElfDetail::everything)) {
            counterparts.add(found, false);
        }
        return std::move(counterparts.list);
    }

    /// Symbol versions that a library of the container lacks are an error, as for mpi_hook. A library that it
    /// lacks may come with a mount.
    void requireVersions(const std::vector<Injection>& injections, const LibrarySearch& search) {
        const VersionsByName nothingLoaded;
        NeedLookup lookup(search, settings.files, nothingLoaded, libraryPath);
        for (const auto& need : findMissingNeeds(injections, std::ref(lookup))) {
            if (isFatal(need) && need.isProviderFound) {
                throw Error(
                    cat("The host's libraries cannot work in this container, which lacks ", describe(need)));
            }
            edits.warnings.push_back(cat("The container may lack ", describe(need)));
        }
    }

    /// Without links, if it exists.
    std::string resolve(const std::string& path) const {
        const auto place = tryOpenInRoot(root, path);
        const auto top = pathOfDescriptor(root);
        const auto found = place ? pathOfDescriptor(place.get()) : "";
        return isSameOrBelow(found, top) && found.size() > top.size() ? found.substr(top.size()) : path;
    }

    /// Where something else will be mounted, the OCI runtime would make missing files, perhaps on the host.
    /// Empty if nothing hides the place. `isNew`: a new tmpfs of the container does not.
    std::string whatHides(const std::string& place, bool isNew) const {
        const auto found = std::find_if(present.begin(), present.end(), [&](const auto& mount) {
            return isSameOrBelow(place, resolve(mount.destination)) && !(isNew && mount.type == "tmpfs");
        });
        return found == present.end() ? ""
                                      : cat(" is hidden by the mount on ", printable(found->destination));
    }

    void mountLibrary(const Injection& injection) {
        const bool isNew = injection.method == Method::add;
        const auto& path = injection.library.path;
        if (const auto why = whatHides(resolve("/run"), true); isNew && !why.empty()) {
            throw Error(cat("Failed to add ", printable(path), ": the container's /run", why));
        }
        for (const auto& destination : injection.destinations) {
            const auto place = isNew ? destination : resolve(destination);
            const auto hidden = isNew ? std::string() : whatHides(place, false);
            if (hidden.empty() && !oci::isReserved(place)) {
                addMount({place, "bind", path, readOnly()});
            } else {
                edits.warnings.push_back(cat(printable(path), " does not replace the container's ",
                                             printable(place), hidden.empty() ? "" : ", which", hidden));
            }
        }
        if (isNew) {
            edits.variables = {{"LD_LIBRARY_PATH", libraryPathWith(libraryPath)}};
        }
    }

    /// A mount that is there already is not repeated.
    void addMount(const oci::RuntimeMount& mount) {
        for (const auto* mounts : {&present, &edits.mounts}) {
            for (const auto& other : *mounts) {
                if (other.destination == mount.destination) {
                    if (other.source != mount.source || other.options != mount.options) {
                        throw Error(cat("There are different mounts on the container's ",
                                        printable(mount.destination)));
                    }
                    return;
                }
            }
        }
        edits.mounts.push_back(mount);
    }

    Settings settings;
    int root;
    std::vector<oci::RuntimeMount> present;
    std::string libraryPath;
    Edits edits;
};

void check(const HookSetup& setup, Findings&) {
    readSettings(setup);
}

void explain(const HookSetup& setup, const ExplainRequest& request) {
    const auto edits = Editing(readSettings(setup), request.container()).make();
    for (const auto& mount : edits.mounts) {
        printLine(cat("mount ", printable(mount.source), " on ", printable(mount.destination), " (",
                      join(*mount.options, ","), ')'));
    }
    for (const auto& [name, value] : edits.variables) {
        printLine(cat("variable ", printable(name), '=', printable(value)));
    }
    for (const auto& warning : edits.warnings) {
        printLine(cat("warning: ", warning));
    }
}

void filter(const HookSetup& setup, const std::string& input, const HookLogger& log) {
    auto context =
        HookContext::ofConfiguration(oci::BundleConfig::parse(input, "standard input"),
                                     setup.environment.find(hook_contracts::bundleVariable).value_or(""));
    const auto edits = Editing(readSettings(setup), context).make();
    auto config = std::move(context).takeConfig();
    for (const auto& mount : edits.mounts) {
        config.addMount(mount);
    }
    for (const auto& [name, value] : edits.variables) {
        config.setVariable(name, value);
    }
    for (const auto& warning : edits.warnings) {
        log.warn(warning);
    }
    answerWith(config);
}

}  // namespace

int main(int argc, char** argv) {
    return hookMain(
        argc, argv,
        {.program = "pc_injection_hook",
         .logName = "pc_injection hook",
         .usage = usage,
         .variables = {"INJECTION_PRIMARY_LIBS", "INJECTION_DEPENDENCY_LIBS", "INJECTION_EXTRA_FILES",
                       "INJECTION_EXTRA_ENV", "INJECTION_EXTRA_MOUNTS", "LDCONFIG_PATH"},
         .takesArguments = true,
         .check = check,
         .explain = explain,
         .filter = filter});
}
