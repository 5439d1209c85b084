#include "image/build/image_builder.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <memory>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "image/build/layer_merger.hpp"

namespace sarus::image::build {

namespace {

/// The file that is being written; removed unless the conversion succeeds.
class OutputFile {
public:
    explicit OutputFile(std::string outputPath)
        : path(std::move(outputPath)), file(openFile(path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644)) {}
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
    bool kept = false;
};

std::uint64_t blobBytes(const ImageSource& image) {
    std::uint64_t total = 0;
    for (const auto& layer : image.layers) {
        total += layer.size;
    }
    return total;
}

/// Refuses to start where there is certainly not enough space. The squashfs of compressed layers is about as large as they are,
/// unless upper layers hide much of the lower ones; a third of that is what even such an image needs.
void checkSpace(const BuildRequest& request, int output) {
    struct statvfs status {};
    if (::fstatvfs(output, &status) != 0 || status.f_blocks == 0) {
        return;  // filesystems that cannot tell
    }
    const std::uint64_t available = static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
    const std::uint64_t expected = blobBytes(request.image);
    if (available < expected / 3) {
        throw Error(cat("Not enough space to convert the image: it needs about ", formatSize(expected), ", and ",
                        formatSize(available), " are available in the directory of ", request.outputPath),
                    "free some space, or choose another directory for the image repository");
    }
}

void readLayers(const BuildRequest& request, LayerMerger& merger, ReadCounters& counters, HashJobs& jobs) {
    const auto& layers = request.image.layers;
    std::unique_ptr<LayerStream> current;
    std::unique_ptr<LayerStream> following;
    const auto open = [&](std::size_t layer) {
        return std::make_unique<LayerStream>(layers[layer], counters, request.limits.unpackedBytes, &jobs);
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
            error.addContext(cat("Failed to convert layer ", layers[layer].digest.text()));
            throw;
        }
        current->verify();
    }
}

void readMissing(const BuildRequest& request, LayerMerger& merger, ReadCounters& counters) {
    for (const auto& [number, inodes] : merger.merge()) {
        const auto& layer = request.image.layers[number];
        LayerStream stream(layer, counters, 2 * request.limits.unpackedBytes);  // the second reading is no further content
        TarReader archive(stream);
        merger.readMissing(inodes, archive);
        stream.verify();
    }
}

/// What one conversion keeps in memory.
struct Conversion {
    Conversion(const BuildRequest& request, int output)
        : writer(output, request.outputPath, request.squashfs, request.squashfs.workers.value_or(availableCpus())),
          merger(writer, static_cast<std::uint32_t>(request.image.layers.size()), request.limits.entries,
                 request.limits.unpackedBytes) {}

    SquashfsWriter writer;
    LayerMerger merger;
};

}  // namespace

unsigned int availableCpus() {
    // More CPUs than a cpu_set_t can name are no reason to fail.
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) {
        return std::max(1U, std::thread::hardware_concurrency());
    }
    return static_cast<unsigned int>(std::max(1, CPU_COUNT(&cpus)));
}

BuildResult buildImage(const BuildRequest& request) {
    OutputFile output(request.outputPath);
    checkSpace(request, output.fd());
    ReadCounters counters;
    BuildResult result{};
    const Progress progress(request.progress, "Converting layers", blobBytes(request.image),
                            [&] { return counters.blobBytes.load(); });
    const auto conversion = std::make_shared<Conversion>(request, output.fd());
    auto& writer = conversion->writer;
    auto& merger = conversion->merger;
    try {
        readLayers(request, merger, counters, writer.hashJobs());
        readMissing(request, merger, counters);
    } catch (...) {
        writer.abandon();
        throw;
    }
    writer.finishContent();
    result.entries = writer.writeTree(merger.tree(), merger.xattrSets(), request.owner);
    result.squashfsSize = writer.size();
    result.squashfsDigest = writer.digest();
    result.leftovers = conversion;
    output.keep();
    return result;
}

}  // namespace sarus::image::build
