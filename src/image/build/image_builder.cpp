#include "image/build/image_builder.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "image/build/hash/hash_pool.hpp"
#include "image/build/merge/layer_merger.hpp"
#include "image/build/read/layer_promise.hpp"
#include "image/build/read/squashfs_layer.hpp"
#include "image/build/read/tar_reader.hpp"
#include "image/build/reuse.hpp"
#include "image/import/space.hpp"

namespace sarus::image::build {

namespace {

/// The output file; removed unless the conversion succeeds, or the caller opened it.
class OutputFile {
public:
    explicit OutputFile(const BuildRequest& request)
        : path(request.outputPath),
          file(request.output >= 0 ? UniqueFd(checkErrno(::fcntl(request.output, F_DUPFD_CLOEXEC, 3),
                                                         "Failed to duplicate the output"))
                                   : openFile(path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644)),
          kept(request.output >= 0) {}
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;
    ~OutputFile() {
        if (!kept) {
            ::unlink(path.c_str());
        }
    }

    int fd() const noexcept { return file.get(); }
    void keep() noexcept { kept = true; }

private:
    std::string path;
    UniqueFd file;
    bool kept;
};

std::uint64_t blobBytes(const std::vector<Layer>& layers) {
    std::uint64_t total = 0;
    for (const auto& layer : layers) {
        total += layer.size;
    }
    return total;
}

ForcedOwner forcedOwner(const std::optional<Owner>& owner, const SquashfsOptions& options) {
    ForcedOwner forced{.uid = options.owner, .gid = options.group};
    if (owner) {
        forced = {.uid = options.owner.value_or(owner->uid), .gid = options.group.value_or(owner->gid)};
    }
    return forced;
}

void readLayers(const BuildRequest& request, LayerMerger& merger, ReadCounters& counters, HashPool& hashes) {
    const auto& layers = request.layers;
    std::unique_ptr<LayerStream> current;
    std::unique_ptr<LayerStream> following;
    const auto open = [&](std::size_t layer) {
        return std::make_unique<LayerStream>(layers[layer], counters, request.limits.unpackedBytes, &hashes);
    };
    for (std::size_t layer = layers.size(); layer-- > 0;) {
        current = following ? std::move(following) : open(layer);
        if (layer > 0) {
            following = open(layer - 1);
        }
        TarReader archive(*current);
        try {
            merger.readLayer(static_cast<std::uint32_t>(layer), archive);
        } catch (Error& error) {
            error.addContext(cat("Failed to convert layer ", layers[layer].text()));
            throw;
        }
        current->verify();
    }
}

/// A layer's directory, beside what its archive had.
class CheckedDirectory final : public MemberSource {
public:
    CheckedDirectory(const std::string& path, const std::string& promisePath, ReadCounters& counters)
        : members(path, counters.blobBytes) {
        try {
            if (!promisePath.empty()) {
                promise.emplace(promisePath);
            }
        } catch (const Error& error) {
            damage = error.what();
        }
    }

    bool next(TarEntry& entry) override {
        const bool isThere = members.next(entry);
        if (isThere && promise) {
            promise->keep(entry);
        }
        return isThere;
    }
    void readContent(const std::function<void(std::span<const unsigned char>)>& sink) override {
        members.readContent(sink);
    }
    ChunkPtr chunk() const override { return members.chunk(); }
    /// What is known to be missing, or why nothing is known; "" if the promise is kept.
    std::string problem() const {
        const auto broken = promise ? promise->broken() : std::nullopt;
        return broken ? cat("it does not have '", printable(*broken), "' as the layer does") : damage;
    }

private:
    LayerDirectory members;
    std::optional<LayerPromise> promise;
    std::string damage;
};

/// False if a directory has not all that its layer's archive had.
bool readDirectories(const BuildRequest& request, LayerMerger& merger, ReadCounters& counters) {
    bool isComplete = true;
    for (std::size_t layer = request.directories.size(); layer-- > 0;) {
        const auto& path = request.directories[layer];
        CheckedDirectory members(path, request.promises.empty() ? "" : request.promises[layer], counters);
        merger.readLayer(static_cast<std::uint32_t>(layer), members);
        if (const auto problem = members.problem(); !problem.empty()) {
            printNote(request.progress, cat("WARNING: ", printable(path), " may not be complete: ", problem,
                                            ". Pull the image again if you miss something"));
            isComplete = false;
        }
    }
    return isComplete;
}

/// The layer of a container, or the image below it.
std::unique_ptr<MemberSource> openContainerLayer(const BuildRequest& request, std::uint32_t number,
                                                 ReadCounters& counters) {
    if (number == 0) {
        return std::make_unique<SquashfsLayer>(request.image, counters.blobBytes);
    }
    return std::make_unique<LayerDirectory>(request.directories.front(), request.container,
                                            counters.blobBytes);
}

void readContainer(const BuildRequest& request, LayerMerger& merger, ReadCounters& counters) {
    for (const std::uint32_t layer : {1U, 0U}) {
        merger.readLayer(layer, *openContainerLayer(request, layer, counters));
    }
}

void readMissing(const BuildRequest& request, LayerMerger& merger, ReadCounters& counters) {
    for (const auto& [number, inodes] : merger.merge()) {
        if (!request.image.empty()) {
            merger.readMissing(inodes, *openContainerLayer(request, number, counters));
            continue;
        }
        if (!request.directories.empty()) {
            LayerDirectory members(request.directories[number], counters.blobBytes);
            merger.readMissing(inodes, members);
            continue;
        }
        const auto& layer = request.layers[number];
        LayerStream stream(layer, counters,
                           2 * request.limits.unpackedBytes);  // the second reading adds no content
        TarReader archive(stream);
        merger.readMissing(inodes, archive);
        stream.verify();
    }
}

/// The image as another program has converted it.
std::optional<BuildResult> reuse(const BuildRequest& request, const std::string& layersId, int output) {
    const auto path = request.convertedBy ? notedConversion(*request.convertedBy, layersId) : std::nullopt;
    const auto reused = path ? reuseSquashfs(*path, layersId, forcedOwner(request.owner, request.squashfs),
                                             output, request.progress)
                             : std::nullopt;
    if (!reused) {
        return std::nullopt;
    }
    printNote(request.progress, cat("Taken from ", printable(*path), " without conversion"));
    return BuildResult{reused->digest, reused->size, reused->entries, reused->compressor, layersId};
}

struct Conversion {
    BuildResult result;
    std::uint64_t peak;  ///< bytes that the file takes until it is finished
};

enum class Purpose { file, size };

/// Converts into an empty file, or only to know the size, into /dev/null.
Conversion convert(const BuildRequest& request, const std::string& layersId, int output, Purpose purpose) {
    ReadCounters counters;
    const Progress progress(
        request.progress, purpose == Purpose::file ? "Converting layers" : "Measuring layers",
        blobBytes(request.layers) + request.directoryBytes, [&] { return counters.blobBytes.load(); });
    HashPool hashes;
    Inodes inodes;  // the writer's threads refer to it
    SquashfsWriter writer(output, request.outputPath, request.squashfs,
                          request.squashfs.workers.value_or(availableCpus()), hashes);
    LayerMerger merger(writer.contents(), inodes,
                       static_cast<std::uint32_t>(request.layers.size() + request.directories.size() +
                                                  (request.image.empty() ? 0 : 1)),
                       request.limits.entries, request.limits.unpackedBytes);
    bool isComplete = true;
    if (request.image.empty()) {
        readLayers(request, merger, counters, hashes);
        isComplete = readDirectories(request, merger, counters);
    } else {
        readContainer(request, merger, counters);
    }
    readMissing(request, merger, counters);
    writer.contents().finish();
    // A user with one id has unpacked the directories without their owners.
    const bool ownersAreKnown = request.directories.empty() || !request.owner;
    writer.writeTree(merger.tree(), merger.xattrSets(), forcedOwner(request.owner, request.squashfs),
                     ownersAreKnown && isComplete ? layersId : "");
    BuildResult result{};
    result.squashfsSize = writer.size();
    result.squashfsDigest = purpose == Purpose::file ? writer.identify() : "";
    result.entries = writer.entryCount();
    result.compressor = request.squashfs.compressorLibrary();
    result.layersId = writer.isRecorded() ? layersId : "";
    return {result, writer.peak()};
}

/// Refuses to start if the file does not fit beside what is on the disk. It is about as large as the blobs,
/// but nobody knows how well plain layers can be compressed and how much upper layers hide. So where little
/// space is left, a conversion to nowhere tells.
void checkSpace(const BuildRequest& request, const std::string& layersId, int output) {
    const auto lacks = [&](std::uint64_t needed) {
        const auto available = availableSpace(output);
        return available && *available < needed ? available : std::nullopt;
    };
    if (!lacks(blobBytes(request.layers))) {
        return;
    }
    const auto nowhere = openFile("/dev/null", O_WRONLY);
    const auto needed = convert(request, layersId, nowhere.get(), Purpose::size).peak;
    if (const auto available = lacks(needed)) {
        throw Error(
            cat("Not enough space to convert the image: its file needs ", formatSize(needed), ", and ",
                formatSize(*available), " are available in the directory of ", printable(request.outputPath)),
            "Free some space, or choose another directory for the image repository");
    }
}

}  // namespace

std::string idOfLayers(const std::vector<Layer>& layers) {
    std::vector<std::string> digests;
    for (const auto& layer : layers) {
        digests.push_back(layer.diffId.text());
    }
    return layersIdOf(digests);
}

unsigned int availableCpus() {
    // More CPUs than a cpu_set_t can hold are no reason to fail.
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) {
        return std::max(1U, std::thread::hardware_concurrency());
    }
    return static_cast<unsigned int>(std::max(1, CPU_COUNT(&cpus)));
}

BuildResult buildImage(const BuildRequest& request) {
    OutputFile output(request);
    const auto layersId = request.layers.empty() ? request.layersId : idOfLayers(request.layers);
    if (auto reused = reuse(request, layersId, output.fd())) {
        output.keep();
        return *reused;
    }
    checkSpace(request, layersId, output.fd());
    auto result = convert(request, layersId, output.fd(), Purpose::file).result;
    output.keep();
    return result;
}

}  // namespace sarus::image::build
