#include "podman_hpc/hook_tool/rule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.hpp"

namespace sarus::podman_hpc::rule_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::map<std::string, std::string> variables{{"HOME", "/home/u"}, {"A_1", "/a"}, {"EMPTY", ""}};

Rule parse(const std::string& text) {
    return parseRule(text, "/etc/podman_hpc/modules.d",
                     [](const std::string& name) -> std::optional<std::string> {
                         const auto found = variables.find(name);
                         return found == variables.end() ? std::nullopt : std::optional(found->second);
                     });
}

std::string parsed(const std::string& text) {
    try {
        const auto rule = parse(text);
        return rule.source + " -> " + rule.target;
    } catch (const Error& error) {
        return error.what();
    }
}

std::vector<Placement> placed(const std::string& text, const std::vector<std::string>& sources) {
    return placementsOf(parse(text), sources);
}

TEST(HookRule, SourcesAreRelativeToTheModules) {
    EXPECT_EQ(parsed("/a/./b//c/../d:/x"), "/a/b/d -> /x");
    EXPECT_EQ(parsed("../01-gpu.conf:/etc/ld.so.conf.d/02-gpu.conf"),
              "/etc/podman_hpc/01-gpu.conf -> /etc/ld.so.conf.d/02-gpu.conf");
    EXPECT_EQ(parsed("../../../../../x:/x"), "/x -> /x");
    EXPECT_EQ(parsed("/a:/b:ro"), "/a -> /b");
}

TEST(HookRule, VariablesAreExpandedOnBothSides) {
    EXPECT_EQ(parsed("$A_1/x:${HOME}y"), "/a/x -> /home/uy");
    EXPECT_EQ(parsed("~:~/z"), "/home/u -> /home/u/z");
    EXPECT_EQ(parsed("/a~:/$"), "/a~ -> /$");
    EXPECT_EQ(parsed("/${A_1:/x"), "/${A_1 -> /x");
    EXPECT_EQ(parsed("$NO:/x"), "the variable NO is not set");
    EXPECT_EQ(parsed("$EMPTY:/x"), "the variable EMPTY is not set");
    EXPECT_EQ(parsed("/x:$NO"), "the variable NO is not set");
}

TEST(HookRule, WithoutTargetTheSourceIsTheTarget) {
    EXPECT_EQ(parsed("/dev/fuse"), "/dev/fuse -> ");
    EXPECT_THAT(placed("/d/*", {"/d/a", "/d/b"}),
                ElementsAre(Placement{"/d/a", "/d/a"}, Placement{"/d/b", "/d/b"}));
}

TEST(HookRule, UnusableRules) {
    EXPECT_EQ(parsed(""), "the source is missing");
    EXPECT_EQ(parsed(":/x"), "the source is missing");
    EXPECT_EQ(parsed("a"), "a rule without a target needs an absolute source");
    EXPECT_EQ(parsed("/a:b"), "the target is not an absolute path");
    EXPECT_EQ(parsed("/a:"), "the target is not an absolute path");
    EXPECT_THROW(placed("/*/*:/b/*", {"/a/b"}), Error);
    EXPECT_THROW(placed("/a:/b/*", {"/a"}), Error);
}

TEST(HookRule, OneSourceGoesToTheTargetOrBelowIt) {
    EXPECT_THAT(placed("/a/b:/x", {"/a/b"}), ElementsAre(Placement{"/a/b", "/x"}));
    EXPECT_THAT(placed("/a/b:/x/", {"/a/b"}), ElementsAre(Placement{"/a/b", "/x/b"}));
    EXPECT_THAT(placed("/a/*:/x", {"/a/b"}), ElementsAre(Placement{"/a/b", "/x"}));
    EXPECT_THAT(placed("/a/*:/x", {}), IsEmpty());
}

TEST(HookRule, SeveralSourcesKeepTheirPathsBelowTheirCommonDirectory) {
    EXPECT_THAT(placed("/d/n*:/x", {"/d/n0", "/d/n1"}),
                ElementsAre(Placement{"/d/n0", "/x/n0"}, Placement{"/d/n1", "/x/n1"}));
    EXPECT_THAT(placed("/d/*/f:/x/", {"/d/a/f", "/d/b/f"}),
                ElementsAre(Placement{"/d/a/f", "/x/a/f"}, Placement{"/d/b/f", "/x/b/f"}));
    EXPECT_THAT(placed("/*:/", {"/a", "/b"}), ElementsAre(Placement{"/a", "/a"}, Placement{"/b", "/b"}));
    EXPECT_THAT(placed("/d?/f:/x", {"/d1/f", "/d2/f"}),
                ElementsAre(Placement{"/d1/f", "/x/d1/f"}, Placement{"/d2/f", "/x/d2/f"}));
}

TEST(HookRule, AStarInTheTargetIsWhatTheSourcesStarMatched) {
    EXPECT_THAT(placed("/x/lib*:/y/star-*", {"/x/liba.so", "/x/lib"}),
                ElementsAre(Placement{"/x/liba.so", "/y/star-a.so"}, Placement{"/x/lib", "/y/star-"}));
    EXPECT_THAT(placed("/x/*/f:/y/*/", {"/x/1/f"}), ElementsAre(Placement{"/x/1/f", "/y/1/f"}));
}

}  // namespace
}  // namespace sarus::podman_hpc::rule_test
