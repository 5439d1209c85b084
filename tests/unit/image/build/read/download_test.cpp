// Layers that another process is still downloading.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "base/pipe.hpp"
#include "image/build/layer_fixture.hpp"
#include "image/types/growing_blob.hpp"

namespace sarus::image::build::download_test {
namespace {

using testing::HasSubstr;

std::string noise(std::size_t size) {
    std::string data(size, '\0');
    std::uint32_t state = 1;
    for (auto& byte : data) {
        state = state * 1664525 + 1013904223;
        byte = static_cast<char>(state >> 24U);
    }
    return data;
}

/// A layer that grows in a layout.
class GrowingLayer {
public:
    explicit GrowingLayer(std::string layerContent)
        : content(std::move(layerContent)),
          packed(test::gzip(content)),
          digest(test::sha256(packed)),
          growing(cat(layout.path(), '/', growingBlobName(digest.substr(7)))),
          file(openFile(growing, O_WRONLY | O_CREAT, 0644)),
          pipe(makePipe()) {}

    void grow(std::size_t from, std::size_t to) {
        writeAll(file.get(), std::string_view(packed).substr(from, to - from), growing);
    }
    /// As when the file is complete and verified.
    void complete() { std::rename(growing.c_str(), layout.blobPath(digest).c_str()); }
    void end() { pipe.writer.reset(); }
    std::size_t size() const { return packed.size(); }

    Layer layer() {
        const auto download = std::make_shared<Download>(std::move(pipe.reader));
        return {openSourceDirectory(openFile(layout.path(), O_RDONLY | O_DIRECTORY), download),
                test::LayoutWriter::blobName(digest), Digest(digest), packed.size(),
                Digest(test::sha256(content))};
    }

    std::string content;

private:
    test::LayoutWriter layout;
    std::string packed;
    std::string digest;
    std::string growing;
    UniqueFd file;
    Pipe pipe;
};

std::string read(LayerStream& stream) {
    std::string out;
    for (auto bytes = stream.peek(); !bytes.empty(); bytes = stream.peek()) {
        out.append(bytes.begin(), bytes.end());
        stream.consume(bytes.size());
    }
    stream.verify();
    return out;
}

std::string problemOf(GrowingLayer& growing) {
    ReadCounters counters;
    const auto layer = growing.layer();
    try {
        LayerStream stream(layer, counters, 1U << 30U);
        read(stream);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(Download, ALayerIsReadWhileItGrows) {
    GrowingLayer growing(noise(3'000'000));
    ReadCounters counters;
    const auto layer = growing.layer();
    LayerStream stream(layer, counters, 1U << 30U);
    constexpr std::size_t half = 2'000'000;
    growing.grow(0, half);
    while (counters.blobBytes < half) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    growing.grow(half, growing.size());
    growing.complete();
    growing.end();
    EXPECT_EQ(read(stream), growing.content);
}

TEST(Download, ALayerThatIsCompleteNeedsNoDownload) {
    GrowingLayer growing(noise(1'000'000));
    growing.grow(0, growing.size());
    growing.complete();
    growing.end();
    EXPECT_EQ(problemOf(growing), "no error");
}

TEST(Download, ALayerThatIsShorterWhenTheDownloadEndsIsAnError) {
    for (const std::size_t missing : {1U, 1000U, 500'000U}) {
        GrowingLayer growing(noise(1'000'000));
        growing.grow(0, growing.size() - missing);
        growing.end();
        EXPECT_THAT(problemOf(growing), HasSubstr("the download ended too early")) << missing;
    }
}

TEST(Download, OtherBytesAreAnError) {
    GrowingLayer growing(noise(1'000'000));
    growing.grow(0, growing.size() - 1000);
    growing.grow(0, 1000);
    EXPECT_NE(problemOf(growing), "no error");
}

TEST(Download, NobodyWaitsForALayerThatIsNotReadAnyMore) {
    GrowingLayer growing(noise(1'000'000));
    ReadCounters counters;
    const auto layer = growing.layer();
    std::optional<LayerStream> stream(std::in_place, layer, counters, 1U << 30U);
    stream.reset();  // returns, although the download never ends
}

TEST(Download, AFileThatOnlyLooksLikeAGrowingOneIsNotRead) {
    test::LayoutWriter layout;
    const auto digest = layout.addBlob("right");
    test::LayoutWriter::write(cat(layout.path(), '/', growingBlobName(digest.substr(7))), "wrong");
    EXPECT_EQ(readSmallFile(*layout.files(), test::LayoutWriter::blobName(digest), 100), "right");
}

}  // namespace
}  // namespace sarus::image::build::download_test
