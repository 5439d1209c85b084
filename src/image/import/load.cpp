#include "image/import/load.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/interrupt.hpp"
#include "base/text.hpp"
#include "image/import/source_format.hpp"
#include "image/import/space.hpp"
#include "image/import/store_image.hpp"
#include "image/transfer/file_policy.hpp"
#include "image/transfer/login.hpp"
#include "image/transfer/skopeo_message.hpp"

namespace sarus::image {

namespace {

constexpr std::string_view standardInput = "-";

std::string loadFailure(const LoadRequest& request) {
    return request.file == standardInput ? "Failed to load the image of standard input"
                                         : cat("Failed to load image '", printable(request.file), "'");
}

/// The error of a failed load, with the reason in the lines below.
Error loadError(const LoadRequest& request, const Error& reason) {
    return Error(loadFailure(request), cat(reason.what(), reason.hint().empty() ? "" : "\n", reason.hint()));
}

mode_t fileType(int file) {
    struct stat status {};
    checkErrno(::fstat(file, &status), "Failed to examine the image file");
    return status.st_mode & S_IFMT;
}

std::uint64_t fileSize(int file) {
    struct stat status {};
    checkErrno(::fstat(file, &status), "Failed to examine the image file");
    return static_cast<std::uint64_t>(status.st_size);
}

/// A file that disappears when it is closed.
UniqueFd fileWithoutName(const std::string& directory) {
    const auto path = cat(directory, "/archive");
    auto file = openFile(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    checkErrno(::unlink(path.c_str()), cat("Failed to remove ", printable(path)));
    return file;
}

UniqueFd spool(int source, const std::string& directory) {
    auto copy = fileWithoutName(directory);
    std::array<char, 1U << 17U> buffer;
    while (true) {
        const auto count = ::read(source, buffer.data(), buffer.size());
        throwIfInterrupted();
        if (count < 0 && errno == EINTR) {
            continue;
        }
        checkErrno(count, "Failed to read standard input");
        if (count == 0) {
            return copy;
        }
        writeAll(copy.get(), {buffer.data(), static_cast<std::size_t>(count)},
                 cat("a temporary file in \"", printable(directory), '"'));
    }
}

/// The builder supports gzip and zstd, and is faster than their programs.
Command decompressor(const ImportSettings& settings, const std::string& compression) {
    if (compression == "gzip" || compression == "zstd") {
        return {.path = settings.builder.path, .args = {"sarus-image-builder", "decompress"}};
    }
    return {.path = findProgram(compression).value_or(cat("/usr/bin/", compression)),
            .args = {compression, "-dc"}};
}

UniqueFd decompress(const ImportSettings& settings, const LoadRequest& request, int source,
                    const std::string& compression, const std::string& directory) {
    // The unpacked data are not smaller than the archive.
    checkSpaceForSpooling(directory, fileSize(source), loadFailure(request));
    checkErrno(::lseek(source, 0, SEEK_SET), "Failed to read the image file");
    auto copy = fileWithoutName(directory);
    auto command = decompressor(settings, compression);
    command.stdinFd = source;
    command.stdoutFd = copy.get();
    const auto result =
        runTool(command, ToolStreams::captureErrors, compression == "xz" ? "xz-utils" : compression);
    if (!result.status.ok()) {
        throw Error(loadFailure(request), cat("Failed to decompress it into \"", printable(directory),
                                              "\": ", printable(trim(result.err))));
    }
    return copy;
}

UniqueFd openRequested(const LoadRequest& request) {
    if (request.file == standardInput) {
        if (::isatty(STDIN_FILENO) != 0) {
            throw Error("Standard input is a terminal",
                        "Give it an archive: 'docker save IMAGE | sarus load -'");
        }
        return UniqueFd(
            checkErrno(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), "Failed to duplicate standard input"));
    }
    auto file = openFile(request.file, O_RDONLY | O_NONBLOCK);  // do not wait for the writer of a FIFO
    if (const auto type = fileType(file.get()); type != S_IFREG && type != S_IFDIR) {
        throw Error(cat("The image file \"", printable(request.file), "\" is not a regular file"),
                    "To load an archive that another program writes: 'sarus load -' reads standard input");
    }
    return file;
}

/// A directory, or an uncompressed regular file.
UniqueFd openInPlace(const ImportSettings& settings, const LoadRequest& request,
                     const std::string& workDirectory) {
    auto file = openRequested(request);
    const auto type = fileType(file.get());
    if (type == S_IFDIR) {
        return file;
    }
    if (type != S_IFREG) {
        file = spool(file.get(), workDirectory);
    }
    const auto compression = compressionOf(file.get());
    return compression ? decompress(settings, request, file.get(), *compression, workDirectory)
                       : std::move(file);
}

std::string resolvedPath(const LoadRequest& request) {
    std::array<char, PATH_MAX> path{};
    return request.file != standardInput && ::realpath(request.file.c_str(), path.data()) != nullptr
               ? path.data()
               : "";
}

/// Only registries have signatures, so a policy either accepts files as they are or refuses them.
void checkPolicy(const ImportSettings& settings, const LoadRequest& request, const std::string& transport) {
    const auto file = policyFile(settings.skopeo.policy, hostVariable("HOME").value_or(""));
    if (!policyAccepts(readFile(file), transport, resolvedPath(request))) {
        throw Error(loadFailure(request),
                    cat("The signature policy (", printable(file), ") does not accept this image."));
    }
}

ImageReference referenceOf(const LoadRequest& request, const std::string& nameInArchive) {
    constexpr std::string_view local = "localhost/";  // Podman's prefix for local images
    if (request.reference) {
        return *request.reference;
    }
    std::string_view name = nameInArchive;
    if (name.starts_with(local)) {
        name.remove_prefix(local.size());
    }
    const bool onlyTag = name.find_first_of(":/") == std::string_view::npos;
    try {
        if (!onlyTag) {
            return parseLoadReference(name);
        }
    } catch (const Error&) {
        // The user did not type it: the hint is given below.
    }
    throw Error(loadFailure(request),
                name.empty()
                    ? std::string("The archive does not say what its image is called.\nGive a name: 'sarus "
                                  "load FILE NAME[:TAG]'")
                    : cat("The archive calls its image '", printable(nameInArchive),
                          "', which cannot be its name here.\nGive one: 'sarus load FILE NAME[:TAG]'"));
}

void loadInPlace(const Import& import, const LoadRequest& request, int file) {
    const BuildSource source{.path = {},
                             .descriptor = file,
                             .format = request.sourceFormat,
                             .name = request.reference ? request.reference->full() : std::string()};
    ImageDescription image;
    try {
        image = describeImage(import.settings.builder, source);
    } catch (const Error& error) {
        throwIfInterrupted();
        throw loadError(request, error);
    }
    checkPolicy(import.settings, request, image.format);
    const auto reference = referenceOf(request, image.name);
    if (!request.reference) {
        import.say(cat("# image            : ", reference.full()));
    }
    storeImage(import, source, {reference}, image);
}

/// Skopeo converts the filesystem of a SIF file to a layer, with programs of its own choice.
void loadSif(const Import& import, const LoadRequest& request, int file) {
    const auto reference = referenceOf(request, "");
    const auto size = fileSize(file);
    checkSpaceForSpooling(import.session.workDirectory(), size, loadFailure(request));
    const Skopeo skopeo(import.settings.skopeo, import.session.workDirectory());
    const auto layout = import.session.privateLayout();
    createDirectories(layout, 0700);
    // By descriptor: skopeo would interpret a colon in the path.
    const auto result =
        skopeo.copy({cat("sif:/proc/self/fd/", file), std::nullopt, file, true}, layout, size);
    if (!result.status.ok()) {
        throw Error(loadFailure(request), skopeoMessage(result.err));
    }
    const BuildSource source{.path = layout};
    storeImage(import, source, {reference}, tryToDescribe(import.settings, source));
}

}  // namespace

void loadImage(Repository& repository, const ImportSettings& settings, const LoadRequest& request) {
    constexpr std::array<std::string_view, 4> known{"docker-archive", "oci-archive", "oci", "sif"};
    if (!request.sourceFormat.empty() &&
        std::find(known.begin(), known.end(), request.sourceFormat) == known.end()) {
        throw Error(cat("Invalid source format '", printable(request.sourceFormat), "'"),
                    "Supported formats: docker-archive, oci-archive, oci, sif");
    }
    forgetForeignHome();
    openRequested(request);  // refuse unusable files before creating anything
    const InterruptScope interruptible;
    const Import import(repository, settings);
    const auto file = openInPlace(settings, request, import.session.workDirectory());
    const bool sif = request.sourceFormat.empty() ? fileType(file.get()) == S_IFREG && isSif(file.get())
                                                  : request.sourceFormat == "sif";
    if (sif) {
        loadSif(import, request, file.get());
    } else {
        loadInPlace(import, request, file.get());
    }
}

}  // namespace sarus::image
