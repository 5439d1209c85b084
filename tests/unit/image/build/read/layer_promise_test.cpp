#include "image/build/read/layer_promise.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "image/build/layer_fixture.hpp"

namespace sarus::image::build::layer_promise_test {
namespace {

class LayerPromises : public testing::Test {
protected:
    LayerPromise promiseOf(const std::string& lines) const {
        const auto path = scratch / "tar-split.gz";
        replaceFile(path, test::gzip(lines), 0644);
        return LayerPromise(path);
    }
    static std::string member(const std::string& name, std::uint64_t size) {
        return cat(R"({"type":1,"name":")", name, R"(","size":)", size,
                   R"(,"payload":"AAAAAAAAAAA=","position":1})", '\n',
                   R"({"type":2,"payload":"AAAA","position":2})", '\n');
    }
    static TarEntry entry(const std::string& path, std::uint64_t size = 0,
                          TarEntry::Type type = TarEntry::Type::regular) {
        TarEntry entry;
        entry.type = type;
        entry.path = path;
        entry.size = size;
        return entry;
    }

    sarus::test::TemporaryDirectory scratch;
};

TEST_F(LayerPromises, AreKeptByADirectoryWithAllMembers) {
    auto promise =
        promiseOf(cat(member("./", 0), member("./etc/", 0), member("etc/passwd", 7), member("link", 0)));
    promise.keep(entry(".", 0, TarEntry::Type::directory));
    promise.keep(entry("etc", 0, TarEntry::Type::directory));
    promise.keep(entry("etc/more", 3));
    promise.keep(entry("link", 7));  // the first name here, a link in the archive
    EXPECT_EQ(promise.broken(), "etc/passwd");
    promise.keep(entry("etc/passwd", 0, TarEntry::Type::hardLink));
    EXPECT_EQ(promise.broken(), std::nullopt);
}

TEST_F(LayerPromises, DoNotIncludeDevices) {
    EXPECT_EQ(promiseOf(member("./dev/null", 0)).broken(), std::nullopt);
}

TEST_F(LayerPromises, AreBrokenByAFileOfAnotherSize) {
    auto promise = promiseOf(member("file", 7));
    promise.keep(entry("file", 6));
    EXPECT_EQ(promise.broken(), "file");
}

TEST_F(LayerPromises, WithStrangeNumbersAreThoseOfEmptyMembers) {
    auto promise = promiseOf("{\"type\":1,\"name\":\"x\",\"size\":\"many\"}\n{\"type\":[],\"name\":\"y\"}\n");
    promise.keep(entry("x", 3));
    EXPECT_EQ(promise.broken(), std::nullopt);
}

TEST_F(LayerPromises, OfADamagedFileAreAnError) {
    EXPECT_THROW(promiseOf("nonsense\n"), Error);
    EXPECT_THROW(promiseOf(R"({"type":1,"name":"x"})"), Error);
    replaceFile(scratch / "plain", "not compressed", 0644);
    EXPECT_THROW(LayerPromise(scratch / "plain"), Error);
    EXPECT_THROW(LayerPromise(scratch / "missing"), Error);
}

}  // namespace
}  // namespace sarus::image::build::layer_promise_test
