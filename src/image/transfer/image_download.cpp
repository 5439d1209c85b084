#include "image/transfer/image_download.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/interrupt.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "image/types/growing_blob.hpp"

namespace sarus::image {

namespace {

/// With more, the layers that the builder reads first come later (docs/measurements/conversion.md). With one,
/// a line that limits each connection would be slow.
constexpr std::size_t streamsAtOnce = 3;

std::string growingName(const oci::Digest& digest) {
    return growingBlobName(digest.hex());
}

std::string blobPath(const oci::Digest& digest) {
    return cat("blobs/", digest.blobName());
}

/// A thread that leaves all signals to the others. Throws std::system_error.
template <typename Function>
std::thread threadWithoutSignals(Function function) {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const std::unique_ptr<sigset_t, void (*)(sigset_t*)> restored(
        &before, [](sigset_t* mask) { ::pthread_sigmask(SIG_SETMASK, mask, nullptr); });
    return std::thread(std::move(function));
}

}  // namespace

ImageDownload::ImageDownload(const Skopeo& skopeoSettings, const ImageSource& imageSource,
                             const std::string& layoutDirectory)
    : skopeo(skopeoSettings),
      source(imageSource),
      layout(layoutDirectory),
      directory(openFile(layout, O_PATH | O_DIRECTORY)),
      program(skopeo.startProxy(source)),
      monitor(std::in_place, skopeo.transfer(source, layout, 0)),
      proxy(std::move(program.socket),
            {monitor->watch().interval, [this, process = program.tool.process.pid()] {
                 monitor->watch().look(process);
                 monitor->hear(newLog());
             }}) {}

std::string ImageDownload::newLog() {
    std::string text(64U << 10U, '\0');
    const auto count = ::pread(program.log.get(), text.data(), text.size(), logRead);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    logRead += static_cast<off_t>(text.size());
    return text;
}

ImageDownload::~ImageDownload() {
    program.tool = {};  // its end ends the thread
    if (thread.joinable()) {
        thread.join();
    }
    for (const auto& layer : missing) {
        ::unlinkat(directory.get(), growingName(layer.digest).c_str(), 0);
    }
}

void ImageDownload::fetchDocuments() {
    const SignalForwarding forwarding(program.tool.process);
    try {
        tryToFetchDocuments();
    } catch (...) {
        failed = true;
        throw;
    }
}

void ImageDownload::tryToFetchDocuments() {
    proxy.open(source.name);
    const auto [text, registryDigest] = proxy.manifest();
    const oci::Digest digest(cat("sha256:", sha256Hex(text)));
    const auto manifest = parse(text);
    if (::mkdirat(directory.get(), "blobs/sha256", 0755) != 0 && errno != EEXIST) {
        throwErrno("Failed to create a directory in the cache");
    }
    if (const auto& config = manifest.config; !isStored(config)) {
        // The registry has no configuration for a manifest that the proxy has converted.
        const auto content =
            digest.text() == registryDigest ? proxy.blob(config.digest.text(), config.size) : proxy.config();
        if (sha256Hex(content) != config.digest.hex()) {
            proxy.refuse("the configuration does not match its digest");
        }
        store(config.digest, content);
    }
    store(digest, text);
    const auto index = openFileAt(directory.get(), "index.json", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    writeAll(index.get(),
             cat(R"({"schemaVersion":2,"manifests":[{"mediaType":)",
                 R"("application/vnd.oci.image.manifest.v1+json","digest":")", digest.text(), R"(","size":)",
                 text.size(), "}]}"),
             "the index of the layout");
}

oci::ImageManifest ImageDownload::parse(const std::string& text) {
    try {
        auto manifest = oci::parseImageManifest(text);
        auto blobs = manifest.layers;
        blobs.push_back(manifest.config);
        if (std::any_of(blobs.begin(), blobs.end(),
                        [](const auto& blob) { return blob.digest.algorithm() != "sha256"; })) {
            proxy.refuse("not all digests are sha256");
        }
        std::set<std::string> seen;
        for (auto layer = manifest.layers.rbegin(); layer != manifest.layers.rend(); ++layer) {
            if (seen.insert(layer->digest.text()).second && !isStored(*layer)) {
                missing.push_back(*layer);
            }
        }
        return manifest;
    } catch (const Error& error) {
        proxy.refuse(error.what());
    }
}

bool ImageDownload::isStored(const oci::Descriptor& blob) const {
    struct stat status {};
    return ::fstatat(directory.get(), blobPath(blob.digest).c_str(), &status, 0) == 0 &&
           static_cast<std::uint64_t>(status.st_size) == blob.size;
}

UniqueFd ImageDownload::createGrowing(const oci::Digest& digest) const {
    return openFileAt(directory.get(), growingName(digest), O_WRONLY | O_CREAT, 0644);
}

void ImageDownload::complete(const oci::Digest& digest) const {
    checkErrno(
        ::renameat(directory.get(), growingName(digest).c_str(), directory.get(), blobPath(digest).c_str()),
        cat("Failed to put ", digest.text(), " into the cache"));
}

void ImageDownload::store(const oci::Digest& digest, std::string_view content) const {
    writeAll(createGrowing(digest).get(), content, digest.text());
    complete(digest);
}

int ImageDownload::start() {
    std::uint64_t bytes = 0;
    for (const auto& layer : missing) {
        createGrowing(layer.digest);  // the builder opens it before its first byte comes
        bytes += layer.size;
    }
    monitor.emplace(skopeo.transfer(source, layout, bytes));
    lifeline = makePipe();
    try {
        thread = threadWithoutSignals([this] { run(); });
    } catch (const std::system_error& error) {
        failed = true;
        proxy.refuse(error.what());
    }
    return lifeline.reader.get();
}

void ImageDownload::run() noexcept {
    try {
        fetchLayers();
    } catch (...) {
        failure = std::current_exception();
        failed = true;
    }
    monitor.reset();  // wipes its line, in whose place the builder then shows its own
    lifeline.writer.reset();
}

void ImageDownload::fetchLayers() {
    auto following = missing.begin();
    while (following != missing.end() || proxy.streamCount() > 0) {
        if (following != missing.end() && proxy.streamCount() < streamsAtOnce) {
            const auto file = std::make_shared<UniqueFd>(createGrowing(following->digest));
            proxy.begin(following->digest.text(), following->size,
                        [file, name = following->digest.text()](std::string_view piece) {
                            writeAll(file->get(), piece, name);
                        });
            ++following;
            continue;
        }
        const auto stream = proxy.next();
        const oci::Digest digest(stream->digest);
        proxy.finish(stream);
        complete(digest);
    }
}

void ImageDownload::finish() {
    {
        const SignalForwarding forwarding(program.tool.process);  // its end ends the thread
        thread.join();
    }
    throwIfInterrupted();
    if (failure) {
        std::rethrow_exception(failure);
    }
}

}  // namespace sarus::image
