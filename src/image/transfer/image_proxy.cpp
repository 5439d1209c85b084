#include "image/transfer/image_proxy.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/received_message.hpp"
#include "base/text.hpp"
#include "base/time_left.hpp"

namespace sarus::image {

namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t largestAnswer = 32U << 10U;  // by the protocol
constexpr std::uint64_t largestDocument = 8U << 20U;
/// The proxy writes 32 KiB at a time. To read each of them at once would double the time that both processes
/// spend in the kernel. The kernel may refuse a pipe of this size.
constexpr int pipeSize = 1 << 20;
constexpr std::chrono::milliseconds pauseToFill{1};

/// The proxy keeps the pipe of a blob that failed open, until it is asked to finish it. Then it answers
/// nothing else until the blob is complete. So a blob is only finished when its bytes are there, or after
/// this silence.
constexpr std::chrono::seconds suspiciousSilence{1};

/// Versions without GetFullConfig, and those that may mean other things, are not used.
bool isKnownVersion(std::string_view version) {
    constexpr std::string_view series = "0.2.";
    const auto patch =
        version.starts_with(series) ? parseNumber(version.substr(series.size())) : std::nullopt;
    return patch && *patch >= 3;
}

template <typename Value>
Value memberOr(const Json& object, const char* name, Value otherwise) {
    const auto found = object.find(name);
    if (found == object.end()) {
        return otherwise;
    }
    if constexpr (std::is_same_v<Value, std::string>) {
        return found->is_string() ? found->get<std::string>() : otherwise;
    } else {
        return found->is_number_unsigned() ? found->get<Value>() : otherwise;
    }
}

}  // namespace

ImageProxy::ImageProxy(UniqueFd proxySocket, Tick whileWaiting)
    : socket(std::move(proxySocket)),
      tick(std::move(whileWaiting)),
      nextTick(Clock::now() + tick.interval),
      buffer(pipeSize) {}

void ImageProxy::refuse(const std::string& why) {
    reason = printable(why);
    throw Error(cat("skopeo's proxy failed: ", reason));
}

void ImageProxy::open(const std::string& name) {
    if (const auto version = call("Initialize", "[]").text; !isKnownVersion(version)) {
        refuse(cat("its protocol has the version '", version, "'"));
    }
    image = call("OpenImage", Json::array({name}).dump()).number;
}

ImageProxy::Manifest ImageProxy::manifest() {
    auto answer = call("GetManifest", cat('[', image, ']'));
    auto digest = answer.text;
    return {whole(std::move(answer), largestDocument), std::move(digest)};
}

std::string ImageProxy::config() {
    return whole(call("GetFullConfig", cat('[', image, ']')), largestDocument);
}

std::string ImageProxy::blob(const std::string& digest, std::uint64_t size) {
    if (size > largestDocument) {
        refuse("a document is too large");
    }
    std::string text;
    finish(begin(digest, size, [&](std::string_view piece) { text += piece; }));
    return text;
}

ImageProxy::StreamPosition ImageProxy::begin(const std::string& digest, std::uint64_t size, Take take) {
    return addStream(call("GetBlob", cat('[', image, ",\"", digest, "\",", size, ']')), digest, size,
                     std::move(take));
}

std::string ImageProxy::whole(Answer answer, std::uint64_t limit) {
    std::string text;
    finish(addStream(std::move(answer), "", limit, [&](std::string_view piece) { text += piece; }));
    return text;
}

ImageProxy::StreamPosition ImageProxy::addStream(Answer answer, const std::string& digest, std::uint64_t size,
                                                 Take take) {
    if (!answer.pipe) {
        refuse("it sent no pipe");
    }
    ::fcntl(answer.pipe.get(), F_SETPIPE_SZ, pipeSize);
    return streams.insert(
        streams.end(), {digest, answer.pipeId, std::move(answer.pipe), size, std::move(take), Clock::now()});
}

ImageProxy::StreamPosition ImageProxy::next() {
    while (true) {
        const auto found = std::find_if(streams.begin(), streams.end(), [](const Stream& stream) {
            return stream.missing == 0 || !stream.pipe ||
                   Clock::now() - stream.lastArrival >= suspiciousSilence;
        });
        if (found != streams.end()) {
            return found;
        }
        wait();
    }
}

void ImageProxy::finish(StreamPosition stream) {
    call("FinishPipe", cat('[', stream->id, ']'));
    while (stream->pipe) {  // the proxy has closed its end
        wait();
    }
    streams.erase(stream);
}

ImageProxy::Answer ImageProxy::call(std::string_view method, const std::string& arguments) {
    const auto request = cat(R"({"method":")", method, R"(","args":)", arguments, '}');
    if (::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
        refuse(cat("it does not listen (", std::strerror(errno), ')'));
    }
    hasAnswer = false;
    while (!hasAnswer) {
        wait();
    }
    return receive();
}

ImageProxy::Answer ImageProxy::receive() {
    std::string text(largestAnswer, '\0');
    auto received = receiveMessage(socket.get(), text);
    Answer answer;
    answer.pipe = received.takeDescriptor();
    if (received.size <= 0) {
        refuse("it ended");
    }
    text.resize(static_cast<std::size_t>(received.size));
    const auto json = Json::parse(text, nullptr, false);
    if (!json.is_object() || (received.flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
        refuse("its answer is malformed");
    }
    if (json.value("success", Json()) != true) {
        const auto error = memberOr(json, "error", std::string());
        refuse(error.empty() ? "it gave no reason" : error);
    }
    answer.number = memberOr(json, "value", std::uint64_t{0});
    answer.text = memberOr(json, "value", std::string());
    answer.pipeId = memberOr(json, "pipeid", std::uint32_t{0});
    return answer;
}

void ImageProxy::wait() {
    if (const auto now = Clock::now(); now >= nextTick) {
        tick.call();
        nextTick = now + tick.interval;
    }
    std::vector<pollfd> polled{{.fd = socket.get(), .events = POLLIN, .revents = 0}};
    for (const auto& stream : streams) {
        polled.push_back({.fd = stream.pipe.get(), .events = POLLIN, .revents = 0});
    }
    if (::poll(polled.data(), polled.size(), millisecondsUntil(nextTick)) < 0) {
        if (errno != EINTR) {
            throwErrno("Failed to wait for skopeo's proxy");
        }
        return;
    }
    hasAnswer = polled.front().revents != 0;
    if (!hasAnswer) {
        std::this_thread::sleep_for(pauseToFill);
    }
    auto ready = polled.begin() + 1;
    for (auto& stream : streams) {
        if ((ready++)->revents != 0) {
            pump(stream);
        }
    }
}

/// Passes on a piece of what can be read.
void ImageProxy::pump(Stream& stream) {
    const auto count = ::read(stream.pipe.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) {
        return;
    }
    checkErrno(count, "Failed to read from skopeo's proxy");
    if (count == 0) {
        stream.pipe.reset();
        return;
    }
    const auto size = static_cast<std::size_t>(count);
    if (size > stream.missing) {
        refuse("it sent more than was expected");
    }
    stream.missing -= size;
    stream.lastArrival = Clock::now();
    stream.take({buffer.data(), size});
}

}  // namespace sarus::image
