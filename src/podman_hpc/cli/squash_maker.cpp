#include "podman_hpc/cli/squash_maker.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "doctor/subordinate_ids.hpp"
#include "image/store/conversions.hpp"
#include "podman_hpc/cli/podman.hpp"

namespace sarus::podman_hpc {

namespace {

constexpr int unreadableLayerStatus = 3;  // of sarus-image-builder

constexpr const char* compression = "-comp lz4";  // as the reference compresses

std::string builderProgram(const Surroundings& from) {
    auto program = cat(from.prefix, "/libexec/sarus-image-builder");
    if (!pathExists(program)) {
        throw Error(cat("The program ", printable(program), " does not exist"),
                    "Install podman-hpc completely");
    }
    return program;
}

bool isEmpty(const std::string& directory) {
    return Directory(directory, Missing::isError).next() == nullptr;
}

/// Whether all layers lie unpacked in the store.
bool areFiles(const SquashOrder& order) {
    constexpr std::uint64_t emptyArchive = 1024;
    return order.local.driver == "overlay" && order.layers.complete &&
           std::all_of(order.layers.layers.begin(), order.layers.layers.end(), [&](const PodmanLayer& layer) {
               const auto diff = cat(order.local.layer(layer.id), "/diff");
               return isDirectory(diff) && (layer.size <= emptyArchive || !isEmpty(diff));
           });
}

ExitStatus run(const std::vector<std::string>& arguments, int input) {
    throwIfInterrupted();
    const auto nowhere = openFile("/dev/null", O_WRONLY);
    auto child = start({.path = arguments.front(),
                        .args = arguments,
                        .stdinFd = input,
                        .stdoutFd = nowhere.get(),
                        .ownGroup = true});
    const SignalForwarding forwarding(child);
    const auto status = child.wait();
    throwIfInterrupted();
    return status;
}

/// Whether the containers of this user have one id alone.
bool hasOneId(const Surroundings& from) {
    const auto ids =
        from.uid == 0 ? std::nullopt : doctor::countSubordinateIds(from.uid, from.variable("USER"));
    return ids && ids->none();
}

/// False if the layers refer to files that are not there.
bool buildFromLayers(const SquashOrder& order, const Call& call, const Settings& settings,
                     const Surroundings& from) {
    std::vector<std::string> arguments;
    if (from.uid != 0) {
        arguments = podmanArguments(withCommand(call, "unshare"), settings, "", {}, false);
    }
    std::uint64_t size = 0;
    for (const auto& layer : order.layers.layers) {
        size += layer.size;
    }
    arguments.insert(arguments.end(), {builderProgram(from), "build-directories", "-", "--mksquashfs-options",
                                       compression, "--expected-size", cat(size), "--converted-by", "sarus"});
    if (hasOneId(from)) {
        arguments.insert(arguments.end(), {"--owner", "0:0"});
    }
    for (const auto& layer : order.layers.layers) {
        const auto tarSplit = order.local.tarSplit(layer.id);
        arguments.insert(arguments.end(),
                         {"--diff-id", layer.diffId, "--tar-split", pathExists(tarSplit) ? tarSplit : "",
                          cat(order.local.layer(layer.id), "/diff")});
    }
    const auto status = run(arguments, order.output);
    if (!status.ok() && status.code != unreadableLayerStatus) {
        throw Error(cat("Failed to squash the image ", order.image.id));
    }
    return status.ok();
}

void runMksquashfs(const SquashOrder& order, const Settings& settings) {
    const auto& name = settings.text(Key::mksquashfsBin);
    const auto program = name.starts_with('/') ? std::optional(name) : findProgram(name);
    if (!program || !pathExists(*program)) {
        throw Error(
            cat("Failed to squash the image ", order.image.id, ": some of its layers are not in ",
                printable(order.local.root), ", and there is no ", printable(name), " in PATH"),
            "Pull the image again, or set mksquashfs_bin to a static mksquashfs of version 4.6 or newer");
    }
    ::unlink(order.target.c_str());  // of an interrupted migration; mksquashfs would append to it
    const auto directory = order.target.substr(0, order.target.rfind('/') + 1);
    const auto status = run({settings.text(Key::podmanBin),
                             "run",
                             "--rm",
                             "--root",
                             order.local.root,
                             "-v",
                             cat(*program, ":/mksq"),
                             "-v",
                             cat(directory, ":/sqout"),
                             "--user",
                             "0",
                             "--entrypoint",
                             "/mksq",
                             order.image.id,
                             "/",
                             cat("/sqout/", order.link, ".squash"),
                             "-comp",
                             "lz4",
                             "-xattrs-exclude",
                             "security.capability",
                             "-e",
                             "/sqout",
                             "-e",
                             "/mksq",
                             "-e",
                             "/proc",
                             "-e",
                             "/sys",
                             "-e",
                             "/dev"},
                            -1);
    if (!status.ok()) {
        ::unlink(order.target.c_str());
        throw Error(cat("Failed to squash the image ", order.image.id, " with ", printable(*program)));
    }
}

}  // namespace

void makeSquash(const SquashOrder& order, const Call& call, const Settings& settings,
                const Surroundings& from) {
    if (!areFiles(order) || !buildFromLayers(order, call, settings, from)) {
        logDebug("podman-hpc", "The layers cannot be read as files");
        runMksquashfs(order, settings);
    }
}

void makeSquashOfLayout(const SquashOrder& order, const std::string& layout, const Surroundings& from) {
    // A container with one id could not enter what belongs to others.
    const auto* owner = hasOneId(from) ? "0:0" : "keep";
    const auto status = run({builderProgram(from), "build", layout, "-", "--owner", owner,
                             "--mksquashfs-options", compression, "--converted-by", "sarus"},
                            order.output);
    if (!status.ok()) {
        throw Error(cat("Failed to squash the image ", order.image.id));
    }
}

void noteSquash(const StorePaths& store, const StoreLists& lists, const PodmanImage& image) {
    std::vector<std::string> diffIds;
    for (const auto& layer : chainOf(lists.layers, image.layer).layers) {
        diffIds.push_back(layer.diffId);
    }
    image::noteConversion(image::Converter::podmanHpc, image::layersIdOf(diffIds),
                          store.squash(linkOf(store, image.layer)));
}

}  // namespace sarus::podman_hpc
