// sarus-image-builder: converts OCI layouts and image archives to squashfs, and unpacks squashfs. Runs as the
// calling user.

#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "base/begin_process.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "image/build/image_builder.hpp"
#include "image/build/read/decompressor.hpp"
#include "image/build/read/layout.hpp"
#include "image/build/unpacker.hpp"
#include "image/types/build_report.hpp"

namespace sarus::image::build {
namespace {

constexpr const char* usage =
    "usage: sarus-image-builder build IMAGE OUTPUT.squashfs [options]\n"
    "       sarus-image-builder describe IMAGE [options]\n"
    "         IMAGE: directory of an OCI layout, OCI archive or archive of docker save; '-': standard input "
    "is one\n"
    "         --source-format FORMAT      oci, oci-archive or docker-archive; default: found out\n"
    "         --manifest-digest DIGEST    image or image index of the layout\n"
    "         --name NAME[:TAG]           which one of several images\n"
    "         --platform OS/ARCH[/VARIANT] default: this machine's\n"
    "         --owner UID:GID|keep        owner of all files; default: the caller\n"
    "         --mksquashfs-options TEXT   as for mksquashfs\n"
    "         --max-size BYTES            limit for the unpacked layers\n"
    "         --max-entries NUMBER        limit for the entries of all layers\n"
    "         --converted-by PROGRAM      copy the file that it made of the same layers: sarus or "
    "podman-hpc\n"
    "         --progress auto|plain|none  default: auto\n"
    "         --progress-fd NUMBER        descriptor for it; default: standard error\n"
    "         --download-fd NUMBER        descriptor that ends with a download of the layout's layers\n"
    "       sarus-image-builder describe-conversion [--owner UID:GID|keep] [--mksquashfs-options TEXT]\n"
    "       sarus-image-builder build-directories OUTPUT.squashfs DIRECTORY... [options]\n"
    "         DIRECTORY: an unpacked layer of Podman's overlay store, lowest first; OUTPUT '-': standard "
    "input, an empty file\n"
    "         --expected-size BYTES       of all layers, for the progress\n"
    "         --tar-split FILE            for each directory: what its layer had, or \"\"\n"
    "         --diff-id DIGEST            of each layer's archive, in their order\n"
    "       sarus-image-builder build-container IMAGE.squashfs DIRECTORY [options]   > standard input, an "
    "empty "
    "file\n"
    "         DIRECTORY: what a container of the image has written\n"
    "         --opaque-fd NUMBER          file with the inodes of its opaque directories, a line each\n"
    "         --leave-out PATH            as in the image; may be repeated\n"
    "       sarus-image-builder decompress < FILE > OTHER_FILE     (gzip, zstd)\n"
    "       sarus-image-builder unpack IMAGE.squashfs DIRECTORY";

/// Command line: words, and options with one value each ("--name value" or "--name=value").
class Arguments {
public:
    explicit Arguments(std::vector<std::string> all) : rest(std::move(all)) {}

    bool empty() const noexcept { return next == rest.size(); }
    std::string take() { return rest[next++]; }

    /// Takes the option's value if it is the next argument.
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
        throw Error(cat("Invalid value '", printable(text), "' for ", option), "It must be a whole number");
    }
    return *value;
}

Owner parseOwner(const std::string& text) {
    const auto parts = split(text, ':');
    const auto uid = parseNumber(parts[0]);
    const auto gid = parts.size() == 2 ? parseNumber(parts[1]) : std::nullopt;
    if (!uid || !gid || *uid >= 0xFFFFFFFFU || *gid >= 0xFFFFFFFFU) {
        throw Error(cat("Invalid value '", printable(text), "' for --owner"), "It must be UID:GID");
    }
    return {static_cast<std::uint32_t>(*uid), static_cast<std::uint32_t>(*gid)};
}

int parseDescriptor(std::string_view option, const std::string& text) {
    const auto fd = number(option, text);
    if (fd > INT_MAX || ::fcntl(static_cast<int>(fd), F_GETFD) < 0) {
        throw Error(cat("Invalid value '", printable(text), "' for ", option),
                    "It must be an open descriptor");
    }
    return static_cast<int>(fd);
}

// The file to remove when a signal ends the program; set before the handlers are installed.
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
        if (!isIgnoredByCaller(signal)) {
            ::sigaction(signal, &action, nullptr);
        }
    }
}

/// Takes the next argument if it selects an image.
bool selectionOption(Arguments& arguments, ImageSelection& selection) {
    std::string value;
    if (arguments.option("--manifest-digest", value)) {
        selection.manifestDigest.emplace(value);
    } else if (arguments.option("--platform", value)) {
        selection.platform = oci::parsePlatformName(value);
    } else if (arguments.option("--source-format", value)) {
        selection.format = parseSourceFormat(value);
    } else if (arguments.option("--name", value)) {
        selection.name = value;
    } else {
        return false;
    }
    return true;
}

void checkWords(const std::vector<std::string>& words, std::size_t count) {
    const bool strange = std::any_of(words.begin(), words.end(), [](const std::string& word) {
        return word.starts_with('-') && word != "-";
    });
    if (words.size() != count || strange) {
        throw Error("The image builder's arguments are wrong", usage);
    }
}

void describe(Arguments& arguments) {
    ImageSelection selection;
    std::vector<std::string> words;
    while (!arguments.empty()) {
        if (!selectionOption(arguments, selection)) {
            words.push_back(arguments.take());
        }
    }
    checkWords(words, 1);
    selection.source = words[0];
    const auto image = openImage(selection);
    printLine(serializeImageDescription({.format = std::string(toString(image.format)),
                                         .configDigest = image.configDigest.text(),
                                         .name = image.name,
                                         .config = image.config,
                                         .layersId = idOfLayers(image.layers)}));
}

/// Takes the next argument if it says how to convert.
bool buildOption(Arguments& arguments, BuildRequest& request, std::string& progressStyle) {
    std::string value;
    if (arguments.option("--owner", value)) {
        request.owner = value == "keep" ? std::nullopt : std::optional(parseOwner(value));
    } else if (arguments.option("--converted-by", value)) {
        request.convertedBy = parseConverter(value);
    } else if (arguments.option("--mksquashfs-options", value)) {
        request.squashfs = parseMksquashfsOptions(value);
    } else if (arguments.option("--max-size", value)) {
        request.limits.unpackedBytes = number("--max-size", value);
    } else if (arguments.option("--max-entries", value)) {
        request.limits.entries = number("--max-entries", value);
    } else if (arguments.option("--progress", value)) {
        progressStyle = value;
    } else if (arguments.option("--progress-fd", value)) {
        request.progress.fd = parseDescriptor("--progress-fd", value);
    } else {
        return false;
    }
    return true;
}

/// "-": standard input, which the caller has opened for writing too.
void setOutput(BuildRequest& request, const std::string& word) {
    if (word == "-") {
        request.output = STDIN_FILENO;
        request.outputPath = "the output";
        return;
    }
    request.outputPath = word;
    removeOnSignals(word);
}

std::string ownerText(const BuildRequest& request) {
    const auto& forced = request.squashfs;
    if (!request.owner) {
        return "keep";
    }
    return cat(forced.owner.value_or(request.owner->uid), ':', forced.group.value_or(request.owner->gid));
}

/// The owner of all files unless an option says otherwise.
Owner caller() {
    return {::geteuid(), ::getegid()};
}

void describeConversion(Arguments& arguments) {
    BuildRequest request;
    request.owner = caller();
    std::string progressStyle;
    while (!arguments.empty()) {
        if (!buildOption(arguments, request, progressStyle)) {
            throw Error("The image builder's arguments are wrong", usage);
        }
    }
    printLine(serializeConversionDescription(
        {ownerText(request), SARUS_VERSION, request.squashfs.compressorLibrary()}));
}

void buildFromDirectories(Arguments& arguments) {
    BuildRequest request;
    std::string progressStyle = "auto";
    std::vector<std::string> words;
    std::vector<std::string> diffIds;
    std::string value;
    while (!arguments.empty()) {
        if (arguments.option("--expected-size", value)) {
            request.directoryBytes = number("--expected-size", value);
        } else if (arguments.option("--diff-id", value)) {
            diffIds.push_back(value);
        } else if (arguments.option("--tar-split", value)) {
            request.promises.push_back(value);
        } else if (!buildOption(arguments, request, progressStyle)) {
            words.push_back(arguments.take());
        }
    }
    if (words.size() < 2 || (!request.promises.empty() && request.promises.size() != words.size() - 1)) {
        throw Error("The image builder's arguments are wrong", usage);
    }
    request.progress.style = parseProgressStyle(progressStyle, request.progress.fd);
    request.directories.assign(words.begin() + 1, words.end());
    if (diffIds.size() == request.directories.size()) {
        request.layersId = layersIdOf(diffIds);
    }
    setOutput(request, words[0]);
    printLine(cat(buildImage(request).squashfsSize));
}

std::set<std::uint64_t> readInodes(int fd) {
    constexpr std::size_t largest = 1U << 28U;
    checkErrno(::lseek(fd, 0, SEEK_SET), "Failed to read the opaque directories");
    std::set<std::uint64_t> inodes;
    const auto text = readAll(fd, largest, "the opaque directories");
    for (const auto& line : split(trim(text), '\n')) {
        if (!line.empty()) {
            inodes.insert(number("--opaque-fd", line));
        }
    }
    return inodes;
}

/// `sarus save` of a container. Files keep their owners.
void buildFromContainer(Arguments& arguments) {
    BuildRequest request;
    std::string progressStyle = "auto";
    std::vector<std::string> words;
    std::string value;
    setProgramName("sarus");
    while (!arguments.empty()) {
        if (arguments.option("--opaque-fd", value)) {
            request.container.opaque = readInodes(parseDescriptor("--opaque-fd", value));
        } else if (arguments.option("--leave-out", value)) {
            request.container.leftOut.insert(value);
        } else if (!buildOption(arguments, request, progressStyle)) {
            words.push_back(arguments.take());
        }
    }
    checkWords(words, 2);
    request.progress.style = parseProgressStyle(progressStyle, request.progress.fd);
    request.image = words[0];
    request.directories = {words[1]};
    struct stat status {};
    checkErrno(::stat(request.image.c_str(), &status), "Failed to examine the image");
    request.directoryBytes = static_cast<std::uint64_t>(status.st_size);
    setOutput(request, "-");
    buildImage(request);
}

void build(Arguments& arguments) {
    ImageSelection selection;
    BuildRequest request;
    request.owner = caller();
    std::string progressStyle = "auto";
    std::vector<std::string> words;
    std::string value;
    while (!arguments.empty()) {
        if (selectionOption(arguments, selection)) {
            continue;
        }
        if (buildOption(arguments, request, progressStyle)) {
            continue;
        }
        if (arguments.option("--download-fd", value)) {
            selection.download =
                std::make_shared<Download>(UniqueFd(parseDescriptor("--download-fd", value)));
            request.progress.isOurs = [download = selection.download] { return download->hasEnded(); };
            continue;
        }
        words.push_back(arguments.take());
    }
    checkWords(words, 2);
    request.progress.style = parseProgressStyle(progressStyle, request.progress.fd);
    selection.source = words[0];
    setOutput(request, words[1]);
    auto image = openImage(selection);
    request.layers = std::move(image.layers);
    const auto result = buildImage(request);
    printLine(
        serializeBuildReport({.manifestDigest = image.manifestDigest ? image.manifestDigest->text() : "",
                              .configDigest = image.configDigest.text(),
                              .config = image.config,
                              .squashfsDigest = result.squashfsDigest,
                              .squashfsSize = result.squashfsSize,
                              .entries = result.entries,
                              .owner = ownerText(request),
                              .builder = SARUS_VERSION,
                              .compressor = result.compressor,
                              .layersId = result.layersId}));
}

void unpack(Arguments& arguments) {
    std::vector<std::string> words;
    while (!arguments.empty()) {
        words.push_back(arguments.take());
    }
    checkWords(words, 2);
    unpackSquashfs(words[0], words[1]);
}

int run(std::vector<std::string> words) {
    // Block-sized buffers are allocated and freed constantly: reusing them saves the kernel from clearing
    // fresh pages for each.
    ::mallopt(M_MMAP_THRESHOLD, 16 << 20);
    ::mallopt(M_TRIM_THRESHOLD, 64 << 20);
    // Buffers are allocated on one thread and freed on another. With a heap per thread, freed buffers would
    // not be available to the next layer's thread: a quarter more memory. Allocations are too rare for
    // threads to wait for each other.
    ::mallopt(M_ARENA_MAX, 1);
    Arguments arguments(std::move(words));
    const std::string command = arguments.empty() ? std::string() : arguments.take();
    if (command == "build") {
        build(arguments);
    } else if (command == "build-directories") {
        buildFromDirectories(arguments);
    } else if (command == "build-container") {
        buildFromContainer(arguments);
    } else if (command == "describe") {
        describe(arguments);
    } else if (command == "describe-conversion") {
        describeConversion(arguments);
    } else if (command == "decompress") {
        if (!arguments.empty()) {
            throw Error("The image builder's arguments are wrong", usage);
        }
        decompressFile(STDIN_FILENO, STDOUT_FILENO);
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

namespace {

constexpr const char* limitsHint =
    "Limits of memory or processes may be too low for it (ulimit -v, ulimit -u)";

}  // namespace

int main(int argc, char** argv) {
    sarus::beginProcess();
    ::signal(SIGXFSZ, SIG_IGN);  // exceeding a file size limit is then an error with a message
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
        sarus::printError(limitsHint);
    } catch (const std::system_error& error) {  // from a thread that cannot start
        sarus::printError(error.what());
        sarus::printError(limitsHint);
    } catch (const std::exception& error) {
        sarus::printError(error.what());
    }
    return 1;
}
