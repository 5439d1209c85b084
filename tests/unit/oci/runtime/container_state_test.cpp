#include "oci/runtime/container_state.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::oci::container_state_test {
namespace {

TEST(ContainerState, readsTheStateOfRunc) {
    const auto state = parseContainerState(
        R"({"ociVersion":"1.0.2-dev","id":"c1","status":"creating","pid":4711,"bundle":"/run/b","annotations":{"a.b":"c"}})");
    EXPECT_EQ(state.id, "c1");
    EXPECT_EQ(state.ociVersion, "1.0.2-dev");
    EXPECT_EQ(state.status, ContainerStatus::creating);
    EXPECT_EQ(state.pid, 4711);
    EXPECT_EQ(state.bundle, "/run/b");
    EXPECT_EQ(state.root, "");
    EXPECT_EQ(state.annotations.at("a.b"), "c");
}

TEST(ContainerState, readsTheStateOfCrunWithItsRootAndPidZero) {
    const auto state = parseContainerState(
        R"({"ociVersion":"1.0","id":"c2","pid":0,"root":"/var/lib/c/merged","bundle":"/","status":"created","annotations":null})");
    EXPECT_EQ(state.pid, 0);
    EXPECT_EQ(state.root, "/var/lib/c/merged");
    EXPECT_EQ(state.bundle, "/");
    EXPECT_EQ(state.status, ContainerStatus::created);
    EXPECT_TRUE(state.annotations.empty());
}

TEST(ContainerState, readsThePoststopStateOfPodmanWithoutPid) {
    const auto state = parseContainerState(
        R"({"ociVersion":"1.0.2","id":"c3","status":"stopped","bundle":"/b","unknown":{"x":[1,2]}})");
    EXPECT_EQ(state.pid, 0);
    EXPECT_EQ(state.status, ContainerStatus::stopped);
}

TEST(ContainerState, tellsWhetherTheContainerHasStarted) {
    const auto stageOf = [](const char* text) {
        return stageAfterStart(parseContainerState(text)).value_or("before");
    };
    EXPECT_EQ(stageOf(R"({"status":"creating"})"), "before") << "runc";
    EXPECT_EQ(stageOf(R"({"status":"created","root":"rootfs"})"), "before") << "crun";
    EXPECT_EQ(stageOf(R"({"status":"created","pid":9})"), "poststart") << "runc";
    EXPECT_EQ(stageOf(R"({"status":"running","root":"rootfs"})"), "poststart") << "crun";
    EXPECT_EQ(stageOf(R"({"status":"stopped"})"), "poststop");
    EXPECT_EQ(stageOf("{}"), "before");
}

TEST(ContainerState, isNoConfiguration) {
    try {
        parseContainerState(R"({"root":{"path":"rootfs"}})");
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_NE(error.hint().find("precreate"), std::string::npos);
    }
}

TEST(ContainerState, acceptsTheOldKeyBundlePath) {
    EXPECT_EQ(parseContainerState(R"({"bundlePath":"/old"})").bundle, "/old");
    EXPECT_EQ(parseContainerState(R"({"bundlePath":"/old","bundle":"/new"})").bundle, "/new");
}

TEST(ContainerState, acceptsAnEmptyObjectAndAnUnknownStatus) {
    EXPECT_EQ(parseContainerState("{}").status, ContainerStatus::unknown);
    EXPECT_EQ(parseContainerState(R"({"status":"dreaming"})").status, ContainerStatus::unknown);
}

TEST(ContainerState, leavesOutAnnotationsThatAreNotStrings) {
    const auto state = parseContainerState(R"({"annotations":{"a":1,"b":"x"}})");
    EXPECT_EQ(state.annotations.size(), 1U);
    EXPECT_EQ(state.annotations.at("b"), "x");
}

TEST(ContainerState, takesARelativeRootForNone) {
    EXPECT_EQ(parseContainerState(R"({"bundle":"/b","root":"rootfs"})").root, "");
}

class BadContainerState : public ::testing::TestWithParam<const char*> {};

TEST_P(BadContainerState, isRefused) {
    EXPECT_THROW(parseContainerState(GetParam()), Error) << GetParam();
}

INSTANTIATE_TEST_SUITE_P(All, BadContainerState,
                         ::testing::Values("", "[]", "null", "{", R"({"id":1})", R"({"pid":"1"})",
                                           R"({"pid":-1})", R"({"pid":2147483648})",
                                           R"({"pid":18446744073709551615})", R"({"pid":1.5})",
                                           R"({"bundle":"relative"})", R"({"root":1})",
                                           R"({"annotations":[]})", R"({"id":"a\u0000b"})",
                                           R"({"status":{}})", "{} trailing", "{\"id\":\"\xff\"}"));

TEST(ContainerState, refusesDeepNestingInsteadOfOverflowingTheStack) {
    EXPECT_THROW(parseContainerState(R"({"x":)" + std::string(2000000, '[')), Error);
}

}  // namespace
}  // namespace sarus::oci::container_state_test
