#include "oci/runtime/mount_request.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::oci::mount_request_test {
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
    for (const auto* text :
         {"type=bind,source=/s,destination=/d", "dst=/d,src=/s,type=bind", "target=/d,type=bind,source=/s"}) {
        const auto mount = parseMountRequest(text);
        EXPECT_EQ(mount.source, "/s") << text;
        EXPECT_EQ(mount.destination, "/d") << text;
        EXPECT_FALSE(mount.readonly) << text;
    }
}

TEST(MountRequest, FlagsMayHaveATruthValue) {
    EXPECT_TRUE(parseMountRequest("type=bind,src=/s,dst=/d,readonly").readonly);
    EXPECT_TRUE(parseMountRequest("readonly=,type=bind,src=/s,dst=/d").readonly);
    for (const auto* yes : {"readonly=true", "readonly=1", "ro=TRUE", "rw=false"}) {
        EXPECT_TRUE(parseMountRequest(cat("type=bind,src=/s,dst=/d,", yes)).readonly) << yes;
    }
    for (const auto* no : {"readonly=false", "readonly=0", "ro=False", "rw=true", "readonly=false,rw"}) {
        EXPECT_FALSE(parseMountRequest(cat("type=bind,src=/s,dst=/d,", no)).readonly) << no;
    }
    EXPECT_EQ(errorOf("type=bind,src=/s,dst=/d,readonly=bogus"),
              "Invalid mount request 'type=bind,src=/s,dst=/d,readonly=bogus': 'bogus' is not a value of "
              "'readonly'");
}

TEST(MountRequest, RoIsReadonlyAndRwIsTheDefault) {
    EXPECT_TRUE(parseMountRequest("type=bind,src=/s,dst=/d,ro").readonly);
    EXPECT_FALSE(parseMountRequest("type=bind,src=/s,dst=/d,rw").readonly);
    EXPECT_EQ(
        errorOf("type=bind,src=/s,dst=/d,ro,rw"),
        "Invalid mount request 'type=bind,src=/s,dst=/d,ro,rw': 'rw' and 'readonly' cannot be used together");
}

TEST(MountRequest, TmpfsHasADestinationAndASize) {
    EXPECT_TRUE(isTmpfsRequest("dst=/d,type=tmpfs"));
    EXPECT_FALSE(isTmpfsRequest("type=bind,src=/type=tmpfs,dst=/d"));
    EXPECT_EQ(parseTmpfsRequest("type=tmpfs,target=/d").destination, "/d");
    EXPECT_EQ(parseTmpfsRequest("type=tmpfs,dst=/d").size, 0U);
    EXPECT_EQ(parseTmpfsRequest("type=tmpfs,dst=/d,size=5").size, 5U);
    EXPECT_EQ(parseTmpfsRequest("type=tmpfs,dst=/d,size=2k").size, 2048U);
    EXPECT_EQ(parseTmpfsRequest("type=tmpfs,dst=/d,size=3M").size, 3U << 20U);
    EXPECT_EQ(parseTmpfsRequest("type=tmpfs,dst=/d,size=1g").size, 1U << 30U);
    for (const auto* size : {"", "0", "m", "-1", "1.5g", "1mm", "9223372036854775808", "8589934592g"}) {
        EXPECT_THROW(parseTmpfsRequest(cat("type=tmpfs,dst=/d,size=", size)), Error) << size;
    }
    EXPECT_THROW(parseTmpfsRequest("type=tmpfs,dst=/d,mode=777"), Error);
    EXPECT_THROW(parseTmpfsRequest("type=tmpfs,dst=d"), Error);
    EXPECT_THROW(parseTmpfsRequest("type=tmpfs"), Error);
}

TEST(MountRequest, TextOfARequestIsReadAsWritten) {
    const auto text = toText({.source = "/s ", .destination = "/d", .readonly = true});
    EXPECT_EQ(text, "type=bind,source=/s ,destination=/d,readonly");
    EXPECT_EQ(toText(parseMountRequest(text)), text);
    EXPECT_EQ(toText(parseMountRequest("dst=/d,src=/s,type=bind")), "type=bind,source=/s,destination=/d");
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
    EXPECT_EQ(errorOf("type=tmpfs,dst=/d"),
              "Invalid mount request 'type=tmpfs,dst=/d': 'tmpfs' is not a valid mount type");
    EXPECT_EQ(errorOf("type,src=/s,dst=/d"),
              "Invalid mount request 'type,src=/s,dst=/d': '' is not a valid mount type");
}

TEST(MountRequest, UnknownOptionsAreNamed) {
    EXPECT_EQ(errorOf("type=bind,source=/s,destination=/d,bind-propagation=slave"),
              "Invalid mount request 'type=bind,source=/s,destination=/d,bind-propagation=slave': "
              "'bind-propagation' is not a valid "
              "bind mount option");
}

TEST(MountRequest, SourceAndDestinationAreNeeded) {
    EXPECT_EQ(errorOf("type=bind,dst=/d"), "Invalid mount request 'type=bind,dst=/d': no source specified");
    EXPECT_EQ(errorOf("type=bind,src=/s"),
              "Invalid mount request 'type=bind,src=/s': no destination specified");
    EXPECT_EQ(errorOf("type=bind,src=,dst=/d"),
              "Invalid mount request 'type=bind,src=,dst=/d': the value of 'src' is empty");
    EXPECT_EQ(errorOf("type=bind,src=/s,dst"),
              "Invalid mount request 'type=bind,src=/s,dst': the value of 'dst' is empty");
}

TEST(MountRequest, AliasesExcludeEachOther) {
    EXPECT_EQ(errorOf("type=bind,src=/s,source=/s,dst=/d"),
              "Invalid mount request 'type=bind,src=/s,source=/s,dst=/d': 'source' and 'src' cannot be used "
              "together");
    EXPECT_EQ(errorOf("type=bind,src=/s,dst=/d,target=/d"),
              "Invalid mount request 'type=bind,src=/s,dst=/d,target=/d': 'dst' and 'target' cannot be used "
              "together");
}

TEST(MountRequest, PathsMustBeAbsolute) {
    EXPECT_EQ(errorOf("type=bind,src=s,dst=/d"),
              "Invalid mount request 'type=bind,src=s,dst=/d': source must be an absolute path");
    EXPECT_EQ(errorOf("type=bind,src=/s,dst=./d"),
              "Invalid mount request 'type=bind,src=/s,dst=./d': destination must be an absolute path");
}

TEST(MountRequest, GrammarErrorsSayWhatCouldNotBeParsed) {
    EXPECT_EQ(errorOf("type=bind,src=/a=b,dst=/d"),
              "Error parsing 'type=bind,src=/a=b,dst=/d'. The value of key 'src' must not contain '='");
    EXPECT_EQ(errorOf("type=bind,src=/s,dst=/d,"),
              "Error parsing 'type=bind,src=/s,dst=/d,'. Expected a non-empty key");
    EXPECT_EQ(errorOf(",type=bind"), "Error parsing ',type=bind'. Expected a non-empty key");
    EXPECT_EQ(errorOf("=x"), "Error parsing '=x'. Expected a non-empty key");
    EXPECT_EQ(errorOf("type=bind,src=/s,src=/s,dst=/d"),
              "Error parsing 'type=bind,src=/s,src=/s,dst=/d'. Found duplicate key 'src'");
    EXPECT_EQ(errorOf(""), "Invalid mount request: no values provided");
    EXPECT_EQ(errorOf(std::string_view("type=bind,src=/s\0,dst=/d", 24)),
              "Error parsing 'type=bind,src=/s\\x00,dst=/d'. It holds a NUL character");
}

}  // namespace
}  // namespace sarus::oci::mount_request_test
