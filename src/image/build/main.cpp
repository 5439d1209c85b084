// sarus-image-builder: converts OCI layouts to squashfs, and unpacks squashfs. Runs as the user who started it.

#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/standard_streams.hpp"
#include "base/text.hpp"
#include "image/build/compressor_library.hpp"
#include "image/build/image_builder.hpp"
#include "image/build/unpacker.hpp"

namespace sarus::image::build {
namespace {

constexpr const char* usage =
    "usage: sarus-image-builder build LAYOUT_DIRECTORY OUTPUT.squashfs [options]\n"
    "         --manifest-digest DIGEST    image or image index of the layout\n"
    "         --platform OS/ARCH[/VARIANT] default: this machine's\n"
    "         --owner UID:GID             owner of all files; default: the caller\n"
    "         --mksquashfs-options TEXT   as for mksquashfs\n"
    "         --max-size BYTES            limit for the unpacked layers\n"
    "         --max-entries NUMBER        limit for the entries of all layers\n"
    "         --progress auto|plain|none  default: auto\n"
    "         --progress-fd NUMBER        descriptor for it; default: standard error\n"
    "       sarus-image-builder unpack IMAGE.squashfs DIRECTORY";

/// Command line: words, and options with a value each ("--name value" or "--name=value").
class Arguments {
public:
    explicit Arguments(std::vector<std::string> all) : rest(std::move(all)) {}

    bool empty() const noexcept { return next == rest.size(); }
    std::string take() { return rest[next++]; }

    /// If the next argument is the option, takes its value.
    bool option(std::string_view name, std::string& value) {
        const std::string& argument = rest[next];
        if (argument.starts_with(cat(name, '='))) {
            value = argument.substr(name.size() + 1);
            ++next;
            return true;
        }
        if (argument != name) {
            return false;
        }
        if (next + 1 == rest.size()) {
            throw Error(cat("The option ", name, " lacks its value"), usage);
        }
        value = rest[next + 1];
        next += 2;
        return true;
    }

private:
    std::vector<std::string> rest;
    std::size_t next = 0;
};

std::uint64_t number(std::string_view option, std::string_view text) {
    const auto value = parseNumber(text);
    if (!value) {
        throw Error(cat("Invalid value '", printable(text), "' for ", option), "it must be a whole number");
    }
    return *value;
}

Owner parseOwner(const std::string& text) {
    const auto parts = split(text, ':');
    const auto uid = parseNumber(parts[0]);
    const auto gid = parts.size() == 2 ? parseNumber(parts[1]) : std::nullopt;
    if (!uid || !gid || *uid >= 0xFFFFFFFFU || *gid >= 0xFFFFFFFFU) {
        throw Error(cat("Invalid value '", printable(text), "' for --owner"), "it must be UID:GID");
    }
    return {static_cast<std::uint32_t>(*uid), static_cast<std::uint32_t>(*gid)};
}

int parseDescriptor(const std::string& text) {
    const auto fd = number("--progress-fd", text);
    if (fd > INT_MAX || ::fcntl(static_cast<int>(fd), F_GETFD) < 0) {
        throw Error(cat("Invalid value '", printable(text), "' for --progress-fd"), "it must be an open descriptor");
    }
    return static_cast<int>(fd);
}

// What to remove when a signal ends the program; written before the handlers are installed.
char unfinishedOutput[4096];

void removeAndDie(int signal) {
    ::unlink(unfinishedOutput);
    ::raise(signal);  // SA_RESETHAND: the default action, once the handler returns
}

void removeOnSignals(const std::string& path) {
    if (path.size() >= sizeof unfinishedOutput) {
        throw Error("The name of the output is too long");
    }
    std::memcpy(unfinishedOutput, path.c_str(), path.size() + 1);
    struct sigaction action {};
    action.sa_handler = removeAndDie;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXCPU}) {
        ::sigaction(signal, &action, nullptr);
    }
    ::signal(SIGXFSZ, SIG_IGN);  // the write fails with EFBIG instead, which makes a message
}

void build(Arguments& arguments) {
    ImageSelection selection;
    BuildRequest request;
    request.owner = {::geteuid(), ::getegid()};
    std::string progressStyle = "auto";
    std::vector<std::string> words;
    std::string value;
    while (!arguments.empty()) {
        if (arguments.option("--manifest-digest", value)) {
            selection.manifestDigest = value;
        } else if (arguments.option("--platform", value)) {
            selection.platform = Platform::parse(value);
        } else if (arguments.option("--owner", value)) {
            request.owner = parseOwner(value);
        } else if (arguments.option("--mksquashfs-options", value)) {
            request.squashfs = parseMksquashfsOptions(value);
        } else if (arguments.option("--max-size", value)) {
            request.limits.unpackedBytes = number("--max-size", value);
        } else if (arguments.option("--max-entries", value)) {
            request.limits.entries = number("--max-entries", value);
        } else if (arguments.option("--progress", value)) {
            progressStyle = value;
        } else if (arguments.option("--progress-fd", value)) {
            request.progress.fd = parseDescriptor(value);
        } else {
            words.push_back(arguments.take());
        }
    }
    if (words.size() != 2 || words[0].starts_with('-') || words[1].starts_with('-')) {
        throw Error("The image builder's arguments are wrong", usage);
    }
    request.progress.style = parseProgressStyle(progressStyle, request.progress.fd);
    selection.layoutDirectory = words[0];
    request.outputPath = words[1];
    request.image = openImage(selection);
    removeOnSignals(request.outputPath);
    const auto result = buildImage(request);
    [[maybe_unused]] static const auto* const keptToTheEnd = new std::shared_ptr<void>(result.leftovers);
    nlohmann::ordered_json line;
    line["manifestDigest"] = request.image.manifestDigest;
    line["configDigest"] = request.image.configDigest;
    line["squashfsDigest"] = result.squashfsDigest;
    line["squashfsSize"] = result.squashfsSize;
    line["entries"] = result.entries;
    line["owner"] =
        cat(request.squashfs.owner.value_or(request.owner.uid), ':', request.squashfs.group.value_or(request.owner.gid));
    line["builder"] = SARUS_VERSION;
    line["compressor"] = compressorLibrary(request.squashfs.compressor);
    printLine(line.dump());
}

void unpack(Arguments& arguments) {
    std::vector<std::string> words;
    while (!arguments.empty()) {
        words.push_back(arguments.take());
    }
    if (words.size() != 2 || words[0].starts_with('-') || words[1].starts_with('-')) {
        throw Error("The image builder's arguments are wrong", usage);
    }
    ::signal(SIGXFSZ, SIG_IGN);  // the write fails with EFBIG instead, which makes a message
    unpackSquashfs(words[0], words[1]);
}

int run(std::vector<std::string> words) {
    // Buffers of a block's size come and go all the time: reusing them saves the kernel from clearing fresh pages for each.
    ::mallopt(M_MMAP_THRESHOLD, 16 << 20);
    ::mallopt(M_TRIM_THRESHOLD, 64 << 20);
    // They are allocated on one thread and freed on another. With a heap for each thread, what one gives back would not be there
    // for the next layer's: a quarter more memory. There are too few allocations for the threads to wait for each other.
    ::mallopt(M_ARENA_MAX, 1);
    Arguments arguments(std::move(words));
    const std::string command = arguments.empty() ? std::string() : arguments.take();
    if (command == "build") {
        build(arguments);
    } else if (command == "unpack") {
        unpack(arguments);
    } else if (command == "help" || command == "--help") {
        printLine(usage);
    } else {
        throw Error(cat("Unknown command '", printable(command), "'"), usage);
    }
    return 0;
}

}  // namespace
}  // namespace sarus::image::build

int main(int argc, char** argv) {
    sarus::openMissingStandardStreams();
    try {
        const int status = sarus::image::build::run({argv + std::min(argc, 1), argv + argc});
        if (sarus::outputError() != 0) {
            throw sarus::Error::fromErrno("Failed to write to standard output", sarus::outputError());
        }
        return status;
    } catch (const sarus::Error& error) {
        sarus::printError(error.what());
        if (!error.hint().empty()) {
            sarus::printError(error.hint());
        }
        return error.exitStatus();
    } catch (const std::bad_alloc&) {
        sarus::printError("The image builder ran out of memory");
    } catch (const std::exception& error) {
        sarus::printError(error.what());
    }
    return 1;
}
