#pragma once

#include <atomic>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/pipe.hpp"
#include "base/unique_fd.hpp"
#include "image/transfer/image_proxy.hpp"
#include "image/transfer/skopeo.hpp"
#include "image/transfer/transfer_monitor.hpp"
#include "oci/image/image_manifest.hpp"

namespace sarus::image {

/// An image on its way from a registry into an OCI layout, through skopeo's proxy: first the manifest and the
/// configuration, then the layers, beside other work and from the top one down. Use it only where the
/// signature policy accepts everything: the proxy may ignore it.
///
/// Functions throw Error. If refusal() then gives a reason, the proxy cannot do it, and Skopeo::copy() may.
class ImageDownload {
public:
    /// Starts the proxy. `layoutDirectory` holds blobs of earlier downloads.
    ImageDownload(const Skopeo& skopeoSettings, const ImageSource& imageSource,
                  const std::string& layoutDirectory);
    ImageDownload(const ImageDownload&) = delete;
    ImageDownload& operator=(const ImageDownload&) = delete;
    /// Ends the download, and removes what is incomplete.
    ~ImageDownload();

    /// Gets manifest and configuration. The layout then lacks nothing but layers.
    void fetchDocuments();
    /// Downloads in a thread the layers that are missing. Until one is complete and verified, its name is
    /// growingBlobName(). Returns a descriptor that reaches its end when the download ends.
    int start();
    /// Waits for the end of the download. Throws its error.
    void finish();

    bool hasFailed() const noexcept { return failed; }
    /// To be asked after a failure.
    const std::string& refusal() const noexcept { return proxy.refusal(); }

private:
    void tryToFetchDocuments();
    /// What the proxy has printed since the last call.
    std::string newLog();
    oci::ImageManifest parse(const std::string& text);
    bool isStored(const oci::Descriptor& blob) const;
    UniqueFd createGrowing(const oci::Digest& digest) const;
    void complete(const oci::Digest& digest) const;
    void store(const oci::Digest& digest, std::string_view content) const;
    void run() noexcept;
    void fetchLayers();

    const Skopeo& skopeo;
    ImageSource source;
    std::string layout;
    UniqueFd directory;
    std::vector<oci::Descriptor> missing{};  ///< layers, the topmost first
    ProxyProgram program;
    off_t logRead = 0;
    std::optional<TransferMonitor> monitor;
    ImageProxy proxy;
    Pipe lifeline{};
    std::exception_ptr failure{};
    std::atomic<bool> failed = false;
    std::thread thread{};
};

}  // namespace sarus::image
