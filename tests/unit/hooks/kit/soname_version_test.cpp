#include "hooks/kit/soname_version.hpp"

#include <gmock/gmock.h>

#include <vector>

#include "hooks/kit/root_fixture.hpp"

namespace sarus::hooks::soname_version_test {
namespace {

using ::testing::ElementsAre;

using Version = std::vector<std::uint32_t>;

TEST(LibraryName, isTakenApartAtTheLastSo) {
    EXPECT_EQ(parseLibraryName("/usr/lib/libmpi.so.12.1.8"), (LibraryName{"libmpi.so", {12, 1, 8}}));
    EXPECT_EQ(parseLibraryName("libmpi.so"), (LibraryName{"libmpi.so", {}}));
    EXPECT_EQ(parseLibraryName("libx-1.2.so.3"), (LibraryName{"libx-1.2.so", {3}}));
    EXPECT_EQ(parseLibraryName("lib.so.so.1"), (LibraryName{"lib.so.so", {1}}));
    EXPECT_EQ(parseLibraryName("libsocket.so.4"), (LibraryName{"libsocket.so", {4}}));
    EXPECT_EQ(parseLibraryName("lib name;$(x)\n.so.1"), (LibraryName{"lib name;$(x)\n.so", {1}}));
    EXPECT_EQ(parseLibraryName("libmpi_cray.so.12")->text(), "libmpi_cray.so.12");
}

TEST(LibraryName, isNotThereInOtherFileNames) {
    for (const char* name :
         {"", "/", "libmpi.a", ".so", ".so.1", "libmpi.so.", "libmpi.so.1.", "libmpi.so.1a", "libmpi.so.-1",
          "libmpi.so.1..2", "libmpi.so.4294967296", "libmpi.sox", "libmpi.so.12/"}) {
        EXPECT_EQ(parseLibraryName(name), std::nullopt) << name;
    }
}

TEST(LibraryName, givesTheLinkNamesInOrder) {
    EXPECT_THAT(parseLibraryName("libmpi.so.12.1")->linkNames(),
                ElementsAre("libmpi.so", "libmpi.so.12", "libmpi.so.12.1"));
}

TEST(LibraryName, takesTheLongestVersionAlongTheLinks) {
    const test::Root root;
    root.library("usr/lib/libmpi.so.12.1.8", "libmpi.so.12");
    root.link("usr/lib/libmpi.so.12", "libmpi.so.12.1.8");
    root.link("usr/lib/libmpi.so", "/usr/lib/libmpi.so.12");
    root.link("lib", "usr/lib");
    EXPECT_EQ(resolveLibraryName(root.fd(), "/usr/lib/libmpi.so")->version, (Version{12, 1, 8}));
    EXPECT_EQ(resolveLibraryName(root.fd(), "/lib/libmpi.so.12")->version, (Version{12, 1, 8}));
    EXPECT_EQ(resolveLibraryName(root.fd(), "/usr/lib/libmpi.so.12.1.8")->version, (Version{12, 1, 8}));
}

TEST(LibraryName, believesALinkMoreThanATargetThatContradicts) {
    const test::Root root;
    root.library("usr/lib/libmpich.so.12.1.8", "libmpich.so.12");
    root.link("usr/lib/libmpi.so.12", "libmpich.so.12.1.8");
    root.link("usr/lib/libx.so.1", "libx.so.2.5");
    root.library("usr/lib/libx.so.2.5", "libx.so.2");
    EXPECT_EQ(resolveLibraryName(root.fd(), "/usr/lib/libmpi.so.12"), (LibraryName{"libmpi.so", {12}}));
    EXPECT_EQ(resolveLibraryName(root.fd(), "/usr/lib/libx.so.1"), (LibraryName{"libx.so", {1}}));
}

TEST(LibraryName, survivesDanglingLinksLoopsAndLinksOutOfTheRoot) {
    const test::Root root;
    root.link("usr/lib/liba.so", "liba.so.1.2");
    root.link("usr/lib/libloop.so.1", "libloop.so.1");
    root.link("usr/lib/libout.so", "../../../../../../../../usr/lib/libout.so.7");
    EXPECT_EQ(resolveLibraryName(root.fd(), "/usr/lib/liba.so")->version, (Version{1, 2}));
    EXPECT_EQ(resolveLibraryName(root.fd(), "/usr/lib/libloop.so.1")->version, (Version{1}));
    EXPECT_EQ(resolveLibraryName(root.fd(), "/usr/lib/libout.so")->version, (Version{7}));
    EXPECT_EQ(resolveLibraryName(root.fd(), "/missing/libb.so.3")->version, (Version{3}));
    EXPECT_EQ(resolveLibraryName(root.fd(), "/usr/lib/README"), std::nullopt);
}

TEST(Abi, ofTheSameMajorNumberIsCompatibleUnderMajorAndFullWithAWarningForAnOlderHost) {
    const auto name = [](const char* text) { return *parseLibraryName(text); };
    for (const auto policy : {AbiPolicy::major, AbiPolicy::full}) {
        EXPECT_EQ(compareAbi(name("libmpi.so.12.5"), name("libmpi.so.12.4"), policy), AbiMatch::compatible);
        EXPECT_EQ(compareAbi(name("libmpi.so.12.4"), name("libmpi.so.12.4.9"), policy), AbiMatch::compatible);
        EXPECT_EQ(compareAbi(name("libmpi.so.12.3"), name("libmpi.so.12.4"), policy),
                  AbiMatch::hostMinorOlder);
        EXPECT_EQ(compareAbi(name("libmpi.so.12"), name("libmpi.so.12.1"), policy), AbiMatch::hostMinorOlder);
        EXPECT_EQ(compareAbi(name("libmpi.so.13"), name("libmpi.so.12"), policy), AbiMatch::incompatible);
        EXPECT_EQ(compareAbi(name("libmpich.so.12"), name("libmpi.so.12"), policy), AbiMatch::incompatible);
        EXPECT_EQ(compareAbi(name("libmpi.so"), name("libmpi.so"), policy), AbiMatch::incompatible)
            << "no major number";
    }
}

TEST(Abi, strictWantsEqualMinorNumbers) {
    const auto match = [](const char* host, const char* container) {
        return compareAbi(*parseLibraryName(host), *parseLibraryName(container), AbiPolicy::strict);
    };
    EXPECT_EQ(match("libmpi.so.12.5.1", "libmpi.so.12.5.0"), AbiMatch::compatible);
    EXPECT_EQ(match("libmpi.so.12.5", "libmpi.so.12"), AbiMatch::incompatible);
    EXPECT_EQ(match("libmpi.so.12.5", "libmpi.so.12.4"), AbiMatch::incompatible);
}

TEST(Abi, countsMissingNumbersAsZeroUnderEveryPolicyAndOnEitherSide) {
    const std::vector<const char*> names{"libmpi.so.12", "libmpi.so.12.0", "libmpi.so.12.0.0"};
    for (const auto policy : {AbiPolicy::major, AbiPolicy::full, AbiPolicy::strict}) {
        for (const auto* host : names) {
            for (const auto* container : names) {
                EXPECT_EQ(compareAbi(*parseLibraryName(host), *parseLibraryName(container), policy),
                          AbiMatch::compatible)
                    << host << " for " << container;
            }
        }
    }
}

}  // namespace
}  // namespace sarus::hooks::soname_version_test
