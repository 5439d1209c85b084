#include "image/types/reference.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::image::reference_test {
namespace {

const std::string hex64(64, 'a');
const std::string digest = "sha256:" + hex64;

std::string messageFor(const std::string& text) {
    try {
        parseReference(text);
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

TEST(ImageReference, withoutSlashIsFromTheLibraryOfDockerHub) {
    EXPECT_EQ(parseReference("alpine"), (ImageReference{"docker.io", "library", "alpine", "latest", ""}));
    EXPECT_EQ(parseReference("alpine:3.15.2"),
              (ImageReference{"docker.io", "library", "alpine", "3.15.2", ""}));
    EXPECT_EQ(parseReference("localhost:5000"),
              (ImageReference{"docker.io", "library", "localhost", "5000", ""}));
}

TEST(ImageReference, firstComponentIsAServerIfItLooksLikeOne) {
    EXPECT_EQ(parseReference("nvcr.io/nvidia/k8s/cuda-sample:nbody"),
              (ImageReference{"nvcr.io", "nvidia/k8s", "cuda-sample", "nbody", ""}));
    EXPECT_EQ(parseReference("localhost/a/b").server, "localhost");
    EXPECT_EQ(parseReference("load/library/my_debian"),
              (ImageReference{"load", "library", "my_debian", "latest", ""}));
    EXPECT_EQ(parseReference("host:5000/a/b").server, "host:5000");
    EXPECT_EQ(parseReference("Host/a/b").server, "Host");
    EXPECT_EQ(parseReference("[::1]:5000/a/b").server, "[::1]:5000");
    EXPECT_EQ(parseReference("ethcscs/mpich:ub1804"),
              (ImageReference{"docker.io", "ethcscs", "mpich", "ub1804", ""}));
}

TEST(ImageReference, namespaceMayBeNestedOrEmpty) {
    EXPECT_EQ(parseReference("a/b/c/d").imageNamespace, "a/b/c");
    const auto direct = parseReference("quay.io/image:t");
    EXPECT_EQ(direct, (ImageReference{"quay.io", "", "image", "t", ""}));
    EXPECT_EQ(direct.full(), "quay.io/image:t");
    EXPECT_EQ(direct.uniqueKey(), "quay.io/image/t");
}

TEST(ImageReference, tagDefaultsToLatestOnlyWithoutDigest) {
    EXPECT_EQ(parseReference("a").tag, "latest");
    EXPECT_EQ(parseReference("a@" + digest), (ImageReference{"docker.io", "library", "a", "", digest}));
    EXPECT_EQ(parseReference("a:t@" + digest), (ImageReference{"docker.io", "library", "a", "t", digest}));
}

TEST(ImageReference, normalisingDropsTheTagOfAnImageByDigest) {
    EXPECT_EQ(parseReference("a:t@" + digest).normalized().full(), "docker.io/library/a@" + digest);
    EXPECT_EQ(parseReference("a:t").normalized().full(), "docker.io/library/a:t");
}

TEST(ImageReference, uniqueKeyIsTheTagOrTheDigestWithADash) {
    EXPECT_EQ(parseReference("a:t").uniqueKey(), "docker.io/library/a/t");
    EXPECT_EQ(parseReference("a:t@" + digest).uniqueKey(), "docker.io/library/a/t");
    EXPECT_EQ(parseReference("a@" + digest).uniqueKey(), "docker.io/library/a/sha256-" + hex64);
}

TEST(ImageReference, fullFormOfTagAndDigest) {
    EXPECT_EQ(parseReference("x.org/n/a:t@" + digest).full(), "x.org/n/a:t@" + digest);
}

TEST(ImageReference, acceptsTheGrammar) {
    for (const std::string text : {"a.b", "a_b", "a__b", "a-b", "a---b", "a.b/c_d/e__f", "x-y.z/a", "0",
                                   "a:_t", "a:A.b-c_9", "h:1/a:2", "xn--n3h.com/a"}) {
        EXPECT_NO_THROW(parseReference(text)) << text;
    }
    EXPECT_NO_THROW(parseReference("a:" + std::string(128, 't')));
    EXPECT_NO_THROW(parseReference("a@other:" + std::string(32, 'F')));
    EXPECT_NO_THROW(parseReference("a@sha256+b64.x:" + hex64));
}

TEST(ImageReference, rejectsWhatTheGrammarDoesNotHave) {
    for (const std::string text :
         {"",        "/",     "///",     "/a",     "a/",     "a//b",      "A",          "a/B",
          "a:",      "a:b:c", "a:.t",    "a:-t",   "a b",    "a\n",       "a/b c",      "-a",
          "a-",      "a___b", "a._b",    ".a",     "a.",     "a@",        "a@sha256",   "a@sha256:",
          "a@:aaaa", "h:x/a", "h:/a",    "-h.x/a", "h-.x/a", "[::1/a",    "[x]/a",      "a@b@c",
          "é",       "~/a",   "a:$(id)", "a;ls",   "[]:1/a", "a:t/b:u:v", "http://h/a", "a@sha256:abc",
          "a:t@"}) {
        EXPECT_EQ(messageFor(text).find("Invalid image reference '"), 0U) << text;
    }
    EXPECT_EQ(messageFor("///"), "Invalid image reference '///'");
    EXPECT_NE(messageFor("a:" + std::string(129, 't')), "accepted");
    EXPECT_NE(messageFor("a@other:" + std::string(31, 'a')), "accepted");
    EXPECT_NE(messageFor("a@sha256:" + std::string(32, 'a')), "accepted");
    EXPECT_NE(messageFor("a@sha256:" + std::string(65, 'a')), "accepted");
    EXPECT_NE(messageFor("a@sha512:" + std::string(64, 'a')), "accepted");
    EXPECT_NE(messageFor("a@sha256:" + std::string(63, 'a') + "g"), "accepted");
    EXPECT_NE(messageFor(std::string("a\0b", 3)), "accepted");
}

TEST(ImageReference, twoDotsAreRejectedWithASecondLine) {
    for (const std::string text : {"..", "../a", "a/../b", "a:t..u", "a..b/c"}) {
        try {
            parseReference(text);
            ADD_FAILURE() << text;
        } catch (const Error& error) {
            EXPECT_EQ(error.what(), "Invalid image reference '" + text + "'");
            EXPECT_FALSE(error.hint().empty());
        }
    }
}

TEST(LoadReference, serverIsAlwaysLoad) {
    EXPECT_EQ(parseLoadReference("my_debian"),
              (ImageReference{"load", "library", "my_debian", "latest", ""}));
    EXPECT_EQ(parseLoadReference("quay.io/a/b:t"), (ImageReference{"load", "a", "b", "t", ""}));
    EXPECT_EQ(parseLoadReference("load/library/x").full(), "load/library/x:latest");
}

TEST(LoadReference, cannotHaveADigest) {
    try {
        parseLoadReference("a@" + digest);
        FAIL();
    } catch (const Error& error) {
        EXPECT_STREQ(
            error.what(),
            "Destination image reference must not contain a digest when loading the image from a file");
        EXPECT_EQ(error.hint(), "See 'sarus help load'");
    }
}

}  // namespace
}  // namespace sarus::image::reference_test
