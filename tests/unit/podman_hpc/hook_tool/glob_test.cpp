#include "podman_hpc/hook_tool/glob.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/failing_listing.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc::glob_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Glob : public testing::Test {
protected:
    void SetUp() override {
        for (const auto* name : {"a1", "a2", ".a3", "b[1]", "d/x", "e/x", "e/y"}) {
            const auto path = at(name);
            createDirectories(path.substr(0, path.rfind('/')));
            replaceFile(path, "", 0644);
        }
        ASSERT_EQ(::symlink("nowhere", at("dangling").c_str()), 0);
    }

    std::string at(const std::string& name) const { return cat(directory.path(), '/', name); }

    std::vector<std::string> found(const std::string& pattern) const {
        auto paths = expandGlob(at(pattern));
        for (auto& path : paths) {
            path.erase(0, directory.path().size() + 1);
        }
        return paths;
    }

    test::TemporaryDirectory directory;
};

TEST_F(Glob, FindsNamesInOrder) {
    EXPECT_THAT(found("a*"), ElementsAre("a1", "a2"));
    EXPECT_THAT(found("?2"), ElementsAre("a2"));
    EXPECT_THAT(found("a[!1]"), ElementsAre("a2"));
    EXPECT_THAT(found("*/x"), ElementsAre("d/x", "e/x"));
    EXPECT_THAT(found("e/*"), ElementsAre("e/x", "e/y"));
}

TEST_F(Glob, LeadingDotsAreHidden) {
    EXPECT_THAT(found("*a3"), IsEmpty());
    EXPECT_THAT(found(".a*"), ElementsAre(".a3"));
}

TEST_F(Glob, APathWithoutPatternIsItself) {
    EXPECT_THAT(found("a1"), ElementsAre("a1"));
    EXPECT_THAT(found("none"), IsEmpty());
    EXPECT_THAT(found("none/*"), IsEmpty());
    EXPECT_THAT(found("a1/*"), IsEmpty());
    EXPECT_THAT(found("dangling"), ElementsAre("dangling"));
    EXPECT_THAT(found("dang*"), ElementsAre("dangling"));
}

TEST_F(Glob, PatternsAreRecognised) {
    EXPECT_TRUE(isPattern("a*") && isPattern("a?") && isPattern("[a]"));
    EXPECT_FALSE(isPattern("/a/b.so"));
}

TEST_F(Glob, DirectoryThatCannotBeReadIsAnError) {
    for (const int after : {0, 3}) {
        const test::FailingListing failing(EIO, after);
        EXPECT_THROW(expandGlob(at("*")), Error);
    }
    EXPECT_THAT(found("a1/*"), IsEmpty());  // a file
    EXPECT_THAT(found("missing/*"), IsEmpty());
}

}  // namespace
}  // namespace sarus::podman_hpc::glob_test
