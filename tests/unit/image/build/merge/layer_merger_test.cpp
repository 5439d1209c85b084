// What is read of layers, what is passed over, and what is fetched afterwards. The trees that result:
// merge_test.cpp.

#include "image/build/merge/layer_merger.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "image/build/layer_fixture.hpp"
#include "image/build/read/tar_reader.hpp"
#include "image/build/write/squashfs_writer.hpp"

namespace sarus::image::build::layer_merger_test {
namespace {

using test::TarWriter;
using testing::ElementsAre;
using testing::HasSubstr;

class Memory final : public ByteSource {
public:
    explicit Memory(std::string content) : bytes(std::move(content)) {}
    std::span<const unsigned char> peek() override {
        return {reinterpret_cast<const unsigned char*>(bytes.data()) + position, bytes.size() - position};
    }
    void consume(std::size_t count) noexcept override { position += count; }

private:
    std::string bytes;
    std::size_t position = 0;
};

class LayerMergerTest : public testing::Test {
protected:
    LayerMergerTest()
        : descriptor(openFile(directory / "out", O_RDWR | O_CREAT, 0600)),
          writer(descriptor.get(), "out", {}, 1, hashes) {}

    /// From the lowest layer up.
    std::map<std::uint32_t, std::vector<Inode*>> read(const std::vector<TarWriter>& layers,
                                                      std::uint64_t entries = 1000,
                                                      std::uint64_t content = 1'000'000) {
        merger = std::make_unique<LayerMerger>(writer.contents(), inodes,
                                               static_cast<std::uint32_t>(layers.size()), entries, content);
        for (auto layer = layers.size(); layer-- > 0;) {
            Memory bytes(layers[layer].finish());
            TarReader archive(bytes);
            merger->readLayer(static_cast<std::uint32_t>(layer), archive);
        }
        return merger->merge();
    }

    std::string problemOf(const std::vector<TarWriter>& layers, std::uint64_t entries = 1000,
                          std::uint64_t content = 1'000'000) {
        try {
            read(layers, entries, content);
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }

    /// Names of the files whose content was written while the layers were read.
    std::vector<std::string> written() {
        std::vector<std::string> names;
        merger->tree().forEach([&](std::string_view name, Node& node) {
            if (node.inode->content) {
                names.emplace_back(name);
            }
        });
        return names;
    }

    sarus::test::TemporaryDirectory directory;
    UniqueFd descriptor;
    HashPool hashes;
    Inodes inodes;
    SquashfsWriter writer;
    std::unique_ptr<LayerMerger> merger;
};

TEST_F(LayerMergerTest, HiddenContentIsPassedOver) {
    const auto missing =
        read({TarWriter().file("kept", "1").file("replaced", "2").file("removed", "3").file("d/below", "4"),
              TarWriter().file("replaced", "5").file(".wh.removed", "").file("d/.wh..wh..opq", "")});
    EXPECT_TRUE(missing.empty());
    EXPECT_THAT(written(), ElementsAre("kept", "replaced"));
    EXPECT_EQ(std::count_if(inodes.begin(), inodes.end(),
                            [](const auto& inode) { return inode.content != nullptr; }),
              2);
}

TEST_F(LayerMergerTest, ContentThatAHardLinkShowsIsFetched) {
    // The forecast says that "first" is hidden; what "second" shows is its content nevertheless.
    const std::vector layers{
        TarWriter().file("other", "x").file("first", "content").hardLink("second", "first"),
        TarWriter().file("first", "new")};
    const auto missing = read(layers);
    ASSERT_EQ(missing.size(), 1U);
    const auto& [layer, list] = *missing.begin();
    EXPECT_EQ(layer, 0U);
    ASSERT_EQ(list.size(), 1U);
    EXPECT_EQ(list[0]->member, 1U);
    Memory again(layers[0].finish());
    TarReader archive(again);
    merger->readMissing(list, archive);
    EXPECT_THAT(written(), ElementsAre("first", "other", "second"));
    Memory shorter(TarWriter().file("other", "x").finish());
    TarReader changed(shorter);
    EXPECT_THROW(merger->readMissing(list, changed), Error);
}

TEST_F(LayerMergerTest, LimitsAreThoseOfAllLayersTogether) {
    const std::vector layers{TarWriter().file("a", "1234").file("b", "12"), TarWriter().file("c", "1234")};
    EXPECT_EQ(problemOf(layers, 3, 10), "no error");
    EXPECT_THAT(problemOf(layers, 2, 10), HasSubstr("more than 2 entries"));
    EXPECT_THAT(problemOf(layers, 3, 9), HasSubstr("unpack to more than"));
}

TEST_F(LayerMergerTest, EqualAttributesAreKeptOnce) {
    const auto member = [](const char* name, const char* value) {
        return TarWriter::Member{
            .name = name, .pax = {{"SCHILY.xattr.user.key", value}, {"SCHILY.xattr.trusted.key", "x"}}};
    };
    read({TarWriter().add(member("a", "1")).add(member("b", "2")).add(member("c", "1")).file("d", "")});
    ASSERT_EQ(merger->xattrSets().size(), 3U);
    EXPECT_TRUE(merger->xattrSets()[0].empty());
    EXPECT_THAT(merger->xattrSets()[1], ElementsAre(std::pair<std::string, std::string>("user.key", "1")));
    EXPECT_EQ(inodes[1].xattrs, inodes[3].xattrs);
    EXPECT_EQ(inodes[4].xattrs, 0U);
}

}  // namespace
}  // namespace sarus::image::build::layer_merger_test
