// Equal contents are recognised by keys that nobody can foresee.

#include "image/build/write/content_key.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sarus::image::build::content_key_test {
namespace {

ContentKey keyOf(const ContentKeys::Secret& secret, const std::string& content,
                 const char* algorithm = "POLY1305") {
    return ContentKeys(secret, algorithm)
        .of({reinterpret_cast<const unsigned char*>(content.data()), content.size()});
}

TEST(ContentKeys, EqualContentsHaveEqualKeysAndOthersDoNot) {
    const auto secret = ContentKeys::newSecret();
    const std::string content(100'000, 'x');
    auto other = content;
    other[77'777] = 'y';
    EXPECT_EQ(keyOf(secret, content), keyOf(secret, content));
    EXPECT_NE(keyOf(secret, content), keyOf(secret, other));
    EXPECT_NE(keyOf(secret, content), keyOf(secret, content + '\0'));
    EXPECT_NE(keyOf(secret, ""), keyOf(secret, std::string(1, '\0')));
}

TEST(ContentKeys, OneObjectComputesManyKeys) {
    const auto secret = ContentKeys::newSecret();
    ContentKeys keys(secret);
    const std::string text = "abc";
    const std::span<const unsigned char> bytes(reinterpret_cast<const unsigned char*>(text.data()),
                                               text.size());
    const auto first = keys.of(bytes);
    EXPECT_NE(keys.of(bytes.first(2)), first);
    EXPECT_EQ(keys.of(bytes), first);
}

TEST(ContentKeys, DifferFromRunToRun) {
    EXPECT_NE(keyOf(ContentKeys::newSecret(), "content"), keyOf(ContentKeys::newSecret(), "content"));
}

TEST(ContentKeys, WorkWithoutThePreferredAlgorithm) {
    const auto secret = ContentKeys::newSecret();
    EXPECT_EQ(keyOf(secret, "content", "not there"), keyOf(secret, "content", "not there"));
    EXPECT_NE(keyOf(secret, "content", "not there"), keyOf(secret, "Content", "not there"));
    EXPECT_NE(keyOf(secret, "content", "not there"), keyOf(secret, "content"));
}

}  // namespace
}  // namespace sarus::image::build::content_key_test
