#include "starter/rootfs/overlay.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "base/temporary_directory.hpp"
#include "starter/system_calls.hpp"

namespace sarus::starter::overlay_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* layers = "lowerdir=l,upperdir=u,workdir=w";

void mountIn(const std::string& base, Mode mode, const std::optional<std::string>& label = std::nullopt) {
    mountOverlay({.base = base, .lower = "l", .upper = "u", .work = "w", .target = "root"}, "/none", label,
                 Credentials::acquire(mode));
}

TEST(OverlayCalls, NeitherRedirectsNorMetadataCopiesOfAnImageAreFollowed) {
    const test::TemporaryDirectory directory;
    test::SystemCalls calls(directory.path());
    mountIn(directory.path(), Mode::privileged);
    mountIn(directory.path(), Mode::privileged, "system_u:object_r:x_t:s0");
    EXPECT_THAT(calls.made(),
                ElementsAre(std::string("mount overlay on root (nosuid,nodev;") + layers +
                                ",redirect_dir=nofollow,metacopy=off)",
                            std::string("mount overlay on root (nosuid,nodev;") + layers +
                                ",context=\"system_u:object_r:x_t:s0\",redirect_dir=nofollow,metacopy=off)"));
}

TEST(OverlayCalls, WithoutPrivilegesTheAttributesAreTheUsers) {
    const test::TemporaryDirectory directory;
    test::SystemCalls calls(directory.path());
    mountIn(directory.path(), Mode::rootless);
    EXPECT_THAT(calls.made(), ElementsAre("setxattr u user.sarus.probe",
                                          std::string("mount overlay on root (nosuid,nodev;") + layers +
                                              ",userxattr,redirect_dir=nofollow,metacopy=off)"));
}

TEST(OverlayCalls, KernelsThatDoNotKnowThoseOptionsHaveNothingToFollow) {
    const test::TemporaryDirectory directory;
    test::SystemCalls calls(directory.path());
    calls.refuseAt(0, EINVAL);
    mountIn(directory.path(), Mode::privileged);
    EXPECT_EQ(calls.made().back(), std::string("mount overlay on root (nosuid,nodev;") + layers + ")");
}

TEST(OverlayCalls, ARefusedCallIsAnErrorAndLeavesNothing) {
    std::unique_ptr<test::TemporaryDirectory> directory;
    test::failEachCall(
        [&] {
            directory = std::make_unique<test::TemporaryDirectory>();
            return directory->path();
        },
        [&] { mountIn(directory->path(), Mode::privileged); },
        [](const std::string&, const Error* error, const test::SystemCalls& calls) {
            ASSERT_NE(error, nullptr);
            EXPECT_STREQ(error->what(),
                         "Failed to mount the overlay of the root filesystem: Input/output error");
            EXPECT_THAT(calls.mounted(), IsEmpty());
        });
}

}  // namespace
}  // namespace sarus::starter::overlay_test
