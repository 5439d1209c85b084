#include "hooks/mount/provider_path.hpp"

#include <gtest/gtest.h>

#include "hooks/kit/elf.hpp"
#include "hooks/kit/root_fixture.hpp"

namespace sarus::hooks::mount::provider_path_test {
namespace {

using test::Root;

#ifdef __x86_64__
constexpr std::uint16_t ownMachine = machine::x86_64;
constexpr const char* linker = "lib64/ld-linux-x86-64.so.2";
#else
constexpr std::uint16_t ownMachine = machine::aarch64;
constexpr const char* linker = "lib/ld-linux-aarch64.so.1";
#endif

TEST(ProviderPath, FirstDirectoryOfTheVariableCounts) {
    EXPECT_EQ(firstProviderDirectory("/opt/providers"), "/opt/providers");
    EXPECT_EQ(firstProviderDirectory("/opt/a:/opt/b"), "/opt/a");
    EXPECT_EQ(firstProviderDirectory("+/opt/libx-fi.so:relative:/opt/b"), "/opt/b");
    EXPECT_EQ(firstProviderDirectory("@/opt/libx-fi.so"), std::nullopt);
    EXPECT_EQ(firstProviderDirectory(""), std::nullopt);
}

TEST(ProviderPath, LibfabricIsRecognisedByItsNameAndVersion) {
    EXPECT_TRUE(isLibfabric("libfabric.so.1"));
    EXPECT_TRUE(isLibfabric("libfabric.so.1.20.0"));
    for (const auto* name :
         {"libfabric.so", "libfabric.so.", "libfabric.so.1x", "libfabric-extra.so.1", "xlibfabric.so.1"}) {
        EXPECT_FALSE(isLibfabric(name)) << name;
    }
}

TEST(ProviderPath, IsBesideTheLibraryOfTheContainer) {
    const Root root;
    root.library(linker, "ld.so", ownMachine);
    root.library("usr/lib64/libfabric.so.1.20.0", "libfabric.so.1", ownMachine);
    EXPECT_EQ(findProviderDirectory(root.fd(), ""), "/usr/lib64/libfabric");
}

TEST(ProviderPath, LibraryThatProgramsWouldLoadCounts) {
    const Root root;
    root.library(linker, "ld.so", ownMachine);
    root.library("usr/lib64/libfabric.so.1", "libfabric.so.1", ownMachine);
    root.library("opt/fabric/lib/libfabric.so.1", "libfabric.so.1", ownMachine);
    EXPECT_EQ(findProviderDirectory(root.fd(), "/opt/fabric/lib"), "/opt/fabric/lib/libfabric");
}

TEST(ProviderPath, LibraryOfAnotherMachineOrNoneIsNoPlace) {
    const Root root;
    EXPECT_EQ(findProviderDirectory(root.fd(), ""), std::nullopt);
    root.library("usr/lib/libfabric.so.1", "libfabric.so.1", machine::s390);
    root.write("usr/lib/libfabric.so.2", "no library");
    EXPECT_EQ(findProviderDirectory(root.fd(), ""), std::nullopt);
}

}  // namespace
}  // namespace sarus::hooks::mount::provider_path_test
