#include "oci/mount_request.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::oci {
namespace {

std::string errorOf(std::string_view request) {
    try {
        parseMountRequest(request);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(MountRequest, OrderAndAliasesOfKeysDoNotMatter) {
    for (const auto* text : {"type=bind,source=/s,destination=/d", "dst=/d,src=/s,type=bind", "target=/d,type=bind,source=/s"}) {
        const auto mount = parseMountRequest(text);
        EXPECT_EQ(mount.source, "/s") << text;
        EXPECT_EQ(mount.destination, "/d") << text;
        EXPECT_FALSE(mount.readonly) << text;
    }
}

TEST(MountRequest, ReadonlyIsItsPresenceWhateverTheValue) {
    EXPECT_TRUE(parseMountRequest("type=bind,src=/s,dst=/d,readonly").readonly);
    EXPECT_TRUE(parseMountRequest("readonly=,type=bind,src=/s,dst=/d").readonly);
    EXPECT_TRUE(parseMountRequest("type=bind,src=/s,dst=/d,readonly=false").readonly);
}

TEST(MountRequest, ValuesAreNotTrimmed) {
    EXPECT_EQ(parseMountRequest("type=bind,src=/s ,dst=/ d").source, "/s ");
    EXPECT_EQ(parseMountRequest("type=bind,src=/s ,dst=/ d").destination, "/ d");
    EXPECT_EQ(errorOf("type=bind, src=/s,dst=/d"),
              "Invalid mount request 'type=bind, src=/s,dst=/d': ' src' is not a valid bind mount option");
}

TEST(MountRequest, TypeMustBeBind) {
    EXPECT_EQ(errorOf("xyz"), "Invalid mount request 'xyz': 'type' must be specified");
    EXPECT_EQ(errorOf("src=/s,dst=/d"), "Invalid mount request 'src=/s,dst=/d': 'type' must be specified");
    EXPECT_EQ(errorOf("type=tmpfs,dst=/d"), "Invalid mount request 'type=tmpfs,dst=/d': 'tmpfs' is not a valid mount type");
    EXPECT_EQ(errorOf("type,src=/s,dst=/d"), "Invalid mount request 'type,src=/s,dst=/d': '' is not a valid mount type");
}

TEST(MountRequest, UnknownOptionsAreNamed) {
    EXPECT_EQ(
        errorOf("type=bind,source=/s,destination=/d,bind-propagation=slave"),
        "Invalid mount request 'type=bind,source=/s,destination=/d,bind-propagation=slave': 'bind-propagation' is not a valid "
        "bind mount option");
}

TEST(MountRequest, SourceAndDestinationAreNeeded) {
    EXPECT_EQ(errorOf("type=bind,dst=/d"), "Invalid mount request 'type=bind,dst=/d': no source specified");
    EXPECT_EQ(errorOf("type=bind,src=/s"), "Invalid mount request 'type=bind,src=/s': no destination specified");
    EXPECT_EQ(errorOf("type=bind,src=,dst=/d"), "Invalid mount request 'type=bind,src=,dst=/d': the value of 'src' is empty");
    EXPECT_EQ(errorOf("type=bind,src=/s,dst"), "Invalid mount request 'type=bind,src=/s,dst': the value of 'dst' is empty");
}

TEST(MountRequest, AliasesExcludeEachOther) {
    EXPECT_EQ(errorOf("type=bind,src=/s,source=/s,dst=/d"),
              "Invalid mount request 'type=bind,src=/s,source=/s,dst=/d': 'source' and 'src' cannot be used together");
    EXPECT_EQ(errorOf("type=bind,src=/s,dst=/d,target=/d"),
              "Invalid mount request 'type=bind,src=/s,dst=/d,target=/d': 'dst' and 'target' cannot be used together");
}

TEST(MountRequest, PathsMustBeAbsolute) {
    EXPECT_EQ(errorOf("type=bind,src=s,dst=/d"),
              "Invalid mount request 'type=bind,src=s,dst=/d': source 's' must be an absolute path");
    EXPECT_EQ(errorOf("type=bind,src=/s,dst=./d"),
              "Invalid mount request 'type=bind,src=/s,dst=./d': destination './d' must be an absolute path");
}

TEST(MountRequest, GrammarErrorsSayWhatCouldNotBeParsed) {
    EXPECT_EQ(errorOf("type=bind,src=/a=b,dst=/d"),
              "Error parsing 'type=bind,src=/a=b,dst=/d'. The value of key 'src' must not contain '='");
    EXPECT_EQ(errorOf("type=bind,src=/s,dst=/d,"), "Error parsing 'type=bind,src=/s,dst=/d,'. Expected a non-empty key");
    EXPECT_EQ(errorOf(",type=bind"), "Error parsing ',type=bind'. Expected a non-empty key");
    EXPECT_EQ(errorOf("=x"), "Error parsing '=x'. Expected a non-empty key");
    EXPECT_EQ(errorOf("type=bind,src=/s,src=/s,dst=/d"),
              "Error parsing 'type=bind,src=/s,src=/s,dst=/d'. Found duplicate key 'src'");
    EXPECT_EQ(errorOf(""), "Invalid mount request: no values provided");
    EXPECT_EQ(errorOf(std::string_view("type=bind,src=/s\0,dst=/d", 24)),
              "Error parsing 'type=bind,src=/s\\x00,dst=/d'. It holds a NUL character");
}

}  // namespace
}  // namespace sarus::oci
