#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "base/pipe.hpp"
#include "base/unique_fd.hpp"

namespace sarus::image {

/// The client of `skopeo experimental-image-proxy`, protocol 0.2 (cmd/skopeo/proxy.go in skopeo's sources):
/// requests and answers in JSON on a socket of type SOCK_SEQPACKET, contents through pipes. The proxy
/// verifies digests, but version 1.9 ignores the signature policy. For one thread at a time.
///
/// All functions throw Error. If the proxy is its cause, refusal() says why.
class ImageProxy {
public:
    /// Receives the pieces of a content.
    using Take = std::function<void(std::string_view)>;

    /// A content on its way.
    struct Stream {
        std::string digest;  ///< "" unless it is a blob
        std::uint32_t id;
        UniqueFd pipe;
        std::uint64_t missing;  ///< bytes; for contents of unknown size the most that is accepted
        Take take;
        std::chrono::steady_clock::time_point lastArrival;
    };
    using StreamPosition = std::list<Stream>::iterator;

    /// `whileWaiting` is called while it waits for the proxy.
    ImageProxy(UniqueFd proxySocket, Tick whileWaiting);

    /// Opens an image in skopeo's notation: "docker://...".
    void open(const std::string& name);

    struct Manifest {
        std::string text;    ///< in OCI's format
        std::string digest;  ///< in the registry, where it may have Docker's format
    };
    Manifest manifest();
    /// The configuration in OCI's format; its bytes may differ from those in the registry.
    std::string config();
    /// A small blob.
    std::string blob(const std::string& digest, std::uint64_t size);

    /// Requests a blob. Its bytes arrive during later calls, which pass on what `take` throws.
    StreamPosition begin(const std::string& digest, std::uint64_t size, Take take);
    /// Waits until a blob is complete, or looks as if it had failed.
    StreamPosition next();
    /// Waits until the blob is complete and verified.
    void finish(StreamPosition stream);

    std::size_t streamCount() const noexcept { return streams.size(); }

    /// Throws, with this text as the refusal.
    [[noreturn]] void refuse(const std::string& why);
    const std::string& refusal() const noexcept { return reason; }

private:
    struct Answer {
        std::uint64_t number = 0;
        std::string text{};
        std::uint32_t pipeId = 0;
        UniqueFd pipe{};
    };

    Answer call(std::string_view method, const std::string& arguments);
    Answer receive();
    StreamPosition addStream(Answer answer, const std::string& digest, std::uint64_t size, Take take);
    std::string whole(Answer answer, std::uint64_t limit);
    void wait();
    void pump(Stream& stream);

    UniqueFd socket;
    Tick tick;
    std::chrono::steady_clock::time_point nextTick;
    std::list<Stream> streams;
    std::vector<char> buffer;
    std::uint64_t image = 0;
    bool hasAnswer = false;
    std::string reason;
};

}  // namespace sarus::image
