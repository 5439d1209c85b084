#include "podman_hpc/cli/squash.hpp"

#include <unistd.h>

#include "base/error.hpp"
#include "base/hex.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/pipe.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "podman_hpc/cli/commands.hpp"
#include "podman_hpc/cli/podman.hpp"
#include "podman_hpc/cli/registry_migration.hpp"
#include "podman_hpc/cli/squash_maker.hpp"
#include "podman_hpc/config/podman_files.hpp"
#include "podman_hpc/store/damage.hpp"
#include "podman_hpc/store/migration.hpp"

namespace sarus::podman_hpc {

int migrateCommand(const Call& call, const Surroundings& from);
int rmsqi(const Call& call, const Surroundings& from);

namespace {

constexpr std::size_t idLength = 64;

/// The only word of the command.
std::string imageArgument(const Call& call) {
    std::string image;
    for (const auto& word : call.words) {
        const auto usage = cat(call.command, " [options] IMAGE");
        if (word.starts_with('-')) {
            throw usageError(cat("No such option: ", printable(word)), usage);
        }
        if (!image.empty()) {
            throw usageError(cat("Got unexpected extra argument (", printable(word), ')'), usage);
        }
        image = word;
    }
    if (image.empty()) {
        throw usageError("Missing argument 'IMAGE'.", cat(call.command, " [options] IMAGE"));
    }
    return image;
}

StorePaths squashStore(const std::string& directory, const Surroundings& from) {
    provideSquashStore(directory, from.uid);
    return {directory};
}

StorePaths localStore(const Settings& settings, const Surroundings& from) {
    const auto driver = from.variable("STORAGE_DRIVER").value_or("");
    return {settings.text(Key::graphRoot), driver.empty() ? "overlay" : driver};
}

/// The id that Podman finds for a name, such as an alias of registries.conf; "" if none.
std::string askPodman(const Call& call, const Settings& settings, const std::string& word) {
    auto arguments = podmanArguments(withCommand(call, "inspect"), settings, "", {}, false);
    arguments.insert(arguments.end(), {"--type", "image", "--format", "{{.Id}}", "--", word});
    const auto result = capturePodman(arguments);
    return result.status.ok() ? std::string(trim(result.out)) : "";
}

void report(MigrationResult result, const std::string& image, const std::string& squashDir) {
    printLine(cat("INFO: ", printable(image),
                  result == MigrationResult::migrated  ? " is now in "
                  : result == MigrationResult::renamed ? " has new names in "
                  : result == MigrationResult::mended  ? " is mended in "
                                                       : " is already in ",
                  printable(squashDir)));
}

void migrateWord(const std::string& word, const Call& call, const Settings& settings,
                 const std::string& squashDir, const Surroundings& from) {
    const InterruptScope interrupts;
    const auto store = squashStore(squashDir, from);
    mendLists(store, printWarning);
    const auto local = localStore(settings, from);
    const auto lists = readLists(local);
    if (!lists.areSound()) {
        printWarning(cat("Podman's own store is damaged: ", printable(lists.problem())));
    }
    const auto* image = findImage(lists.images, word);
    if (image == nullptr) {
        image = findImageById(lists.images, askPodman(call, settings, word));
    }
    if (image == nullptr) {
        throw Error(cat("Image ", printable(word), " not found in ", printable(local.root)),
                    cat("Pull it first: podman-hpc pull ", printable(word)));
    }
    const auto result = migrate(
        local, lists, *image, store,
        [&](const SquashOrder& order) { makeSquash(order, call, settings, from); }, printWarning);
    if (result == MigrationResult::migrated) {
        noteSquash(store, lists, *image);
    }
    report(result, shownName(*image), squashDir);
}

/// Runs Podman and returns what it prints on standard output.
std::pair<ExitStatus, std::string> captureOutput(const std::vector<std::string>& arguments) {
    auto pipe = makePipe();
    std::string text;
    auto child = start({.path = arguments.front(),
                        .args = arguments,
                        .stdinFd = STDIN_FILENO,
                        .stdoutFd = pipe.writer.get()});
    pipe.writer.reset();
    constexpr std::size_t limit = 8U << 20U;
    readToEnd({{pipe.reader.get(), appendTo(text, limit)}}, {});
    return {child.wait(), text};
}

}  // namespace

void requirePodmanDirectories(const Settings& settings, const Surroundings& from) {
    if (settings.text(Key::mountProgram).empty()) {
        throw Error("No fuse-overlayfs-wrap binary found in PATH",
                    "Install fuse-overlayfs or set mount_program");
    }
    requireOwnDirectory(settings.text(Key::graphRoot), from.uid);
    requireOwnDirectory(settings.text(Key::runRoot), from.uid);
}

int migrateCommand(const Call& call, const Surroundings& from) {
    const auto image = imageArgument(call);
    const auto settings = settingsOf(call, from);
    const auto squashDir = squashDirectory(from, call.squashDir);
    requirePodman(settings);
    requirePodmanDirectories(settings, from);
    provideConfigHome(settings, squashDir, from);
    changeEnvironment(podmanEnvironment(settings, from, false));
    constexpr std::string_view registry = "docker://";
    if (image.starts_with(registry)) {
        const InterruptScope interrupts;
        const auto store = squashStore(squashDir, from);
        mendLists(store, printWarning);
        const auto [result, name] = migrateFromRegistry(image.substr(registry.size()), settings, store, from);
        report(result, name, squashDir);
    } else {
        migrateWord(image, call, settings, squashDir, from);
    }
    return 0;
}

int rmsqi(const Call& call, const Surroundings& from) {
    const auto image = imageArgument(call);
    const auto squashDir = squashDirectory(from, call.squashDir);
    const InterruptScope interrupts;
    for (const auto& line : removeSquashed(squashStore(squashDir, from), image, printWarning)) {
        printLine(line);
    }
    return 0;
}

int pullAndMigrate(const std::vector<std::string>& arguments, const Call& call, const Settings& settings,
                   const std::string& squashDir, const Surroundings& from) {
    const auto [status, output] = captureOutput(arguments);
    printLine(trim(output));
    if (!status.ok()) {
        printError("Pull failed.");
        return status.shellStatus();
    }
    printLine(cat("INFO: Migrating image to ", printable(squashDir)));
    bool found = false;
    for (const auto& line : split(output, '\n')) {
        if (line.size() == idLength && isHex(line)) {
            found = true;
            migrateWord(line, call, settings, squashDir, from);
        }
    }
    if (!found) {
        throw Error("Podman did not tell which image it has pulled", "Run podman-hpc migrate IMAGE");
    }
    return 0;
}

}  // namespace sarus::podman_hpc
