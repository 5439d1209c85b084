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

TEST(MountRequest, SquashfsFilesAreReadOnly) {
    for (const auto& mount :
         {parseMountRequest("type=squashfs,src=/s,dst=/d"),
          parseMountRequest("type=squashfs,src=/s,dst=/d,readonly"), parseVolume("/s:/d:sqsh", "-v", ""),
          parseVolume("/s:/d:sqsh+ro", "-v", ""), parseVolume("/s:/d:image-src=/", "-B", "")}) {
        EXPECT_TRUE(mount.isSquashfs && mount.readonly && mount.source == "/s" && mount.destination == "/d");
    }
    EXPECT_FALSE(parseVolume("/s:/d:ro", "-v", "").isSquashfs);
    EXPECT_EQ(errorOf("type=squashfs,src=/s,dst=/d,rw"),
              "Invalid mount request 'type=squashfs,src=/s,dst=/d,rw': 'rw' cannot be: a squashfs file is "
              "read-only");
}

TEST(MountRequest, TmpfsHasADestinationAndASize) {
    const auto size = [](const auto& text) {
        return parseMountRequest(cat("type=tmpfs,dst=/d", text)).tmpfsSize;
    };
    EXPECT_FALSE(parseMountRequest("type=bind,src=/type=tmpfs,dst=/d").tmpfsSize);
    EXPECT_EQ(parseMountRequest("target=/d,type=tmpfs").destination, "/d");
    EXPECT_EQ(size(""), 0U);
    EXPECT_EQ(size(",size=5"), 5U);
    EXPECT_EQ(size(",size=2k"), 2048U);
    EXPECT_EQ(size(",size=3M"), 3U << 20U);
    EXPECT_EQ(size(",size=1g"), 1U << 30U);
    for (const auto* wrong : {"", "0", "m", "-1", "1.5g", "1mm", "9223372036854775808", "8589934592g"}) {
        EXPECT_THROW(size(cat(",size=", wrong)), Error) << wrong;
        EXPECT_THROW(parseTmpfs(cat("/d:size=", wrong)), Error) << wrong;
    }
    for (const auto* wrong :
         {"type=tmpfs,dst=/d,mode=9", "type=tmpfs,dst=/d,mode=2777",
          "type=tmpfs,dst=/d,mode=", "type=tmpfs,dst=d", "type=tmpfs", "type=tmpfs,src=/s,dst=/d"}) {
        EXPECT_THROW(parseMountRequest(wrong), Error) << wrong;
    }
    EXPECT_EQ(parseTmpfs("/a=b,c\\:d:size=1k"),
              (MountRequest{.destination = "/a=b,c:d", .tmpfsSize = 1024, .text = "/a=b,c\\:d:size=1k"}));
    EXPECT_EQ(parseTmpfs("/d:rw,noexec,mode=1777").tmpfsMode, 01777U);
    for (const auto* wrong : {"", "d", "/d:mode=4755", "/d:size=1:x", "/d:ro", "/d:nr_inodes=1"}) {
        EXPECT_THROW(parseTmpfs(wrong), Error) << wrong;
    }
}

/// Directories as people and programs name them, and each byte but NUL.
std::vector<std::string> directories() {
    std::vector<std::string> names{
        "/plain", "/lr=0.1,batch=32", "/a:b",  "/q\"x", "/\"quoted\"", "/DOMAIN\\user", "/ends\\",
        "/a\\:b", "/a\\,b",           "/x,/y", "/,",    "/ blank ",    "/a\nb",         "/\"",
        "/\"\""};
    for (int byte = 1; byte < 256; ++byte) {
        names.push_back(cat("/d", static_cast<char>(byte), static_cast<char>(byte), "e"));
        names.push_back(cat("/", static_cast<char>(byte)));
    }
    return names;
}

TEST(MountRequest, EveryPathSurvivesItsText) {
    for (const auto& path : directories()) {
        for (MountRequest mount :
             {MountRequest{.source = path, .destination = "/m", .readonly = true},
              MountRequest{.source = "/m", .destination = path},
              MountRequest{.source = path, .destination = "/m", .readonly = true, .isSquashfs = true},
              MountRequest{.source = path, .destination = "/m", .mustBeDirectory = false},
              MountRequest{.destination = path, .tmpfsSize = 0, .tmpfsMode = 0700},
              MountRequest{.destination = path, .isUnmount = true},
              MountRequest{.destination = path, .tmpfsSize = 7}}) {
            mount.text = toText(mount);
            EXPECT_EQ(parseMountRequest(mount.text), mount) << mount.text;
        }
    }
    EXPECT_EQ(toText({.source = "/s ", .destination = "/d", .readonly = true}),
              "type=bind,source=/s ,destination=/d,readonly");
    EXPECT_EQ(toText({.source = "/a,b", .destination = "/q\"x"}),
              "type=bind,\"source=/a,b\",\"destination=/q\"\"x\"");
}

TEST(MountRequest, FieldsAreThoseOfCsv) {
    for (const auto* text : {"type=bind,\"source=/a,b\",destination=/m",
                             "\"src=/a,b\",\"dst=/m\",\"type=bind\"", "type=bind,dst=/m,\"src=/a,b\""}) {
        EXPECT_EQ(parseMountRequest(text).source, "/a,b") << text;
        EXPECT_EQ(parseMountRequest(text).destination, "/m") << text;
    }
    EXPECT_EQ(parseMountRequest("type=bind,source=/lr=0.1,destination=/q\"x").source, "/lr=0.1");
    EXPECT_EQ(parseMountRequest("type=bind,source=/s,destination=/q\"x").destination, "/q\"x");
    EXPECT_EQ(parseMountRequest("type=bind,source=/s,\"destination=/\"\"\"\"\"").destination, "/\"\"");
    EXPECT_EQ(errorOf("type=bind,\"src=/a,b"),
              "Error parsing 'type=bind,\"src=/a,b'. The closing quote is missing");
    EXPECT_EQ(errorOf("\"type=bind\"x,src=/a"),
              "Error parsing '\"type=bind\"x,src=/a'. Expected ',' after the closing quote");
    EXPECT_EQ(errorOf("type=bind,src=/a,b,dst=/m"),
              "Invalid mount request 'type=bind,src=/a,b,dst=/m': 'b' is not a valid bind mount option");
}

MountRequest volume(std::string_view text) {
    return parseVolume(text, "-v", "/cwd");
}

std::string volumeError(std::string_view text) {
    try {
        volume(text);
    } catch (const Error& error) {
        return cat(error.what(), "; ", error.hint());
    }
    return "no error";
}

TEST(Volume, SourceMayBeMemoryOrTheWishForNothing) {
    EXPECT_EQ(volume("tmpfs:/d:size=1k+mode=0700+nodev"),
              (MountRequest{.destination = "/d",
                            .tmpfsSize = 1024,
                            .tmpfsMode = 0700,
                            .text = "tmpfs:/d:size=1k+mode=0700+nodev"}));
    EXPECT_EQ(volume("tmpfs:/d").tmpfsSize, 0U);
    EXPECT_EQ(volume("umount:/d"),
              (MountRequest{.destination = "/d", .isUnmount = true, .text = "umount:/d"}));
    EXPECT_EQ(splitVolumes("/a:/b:ro,tmpfs:/c:size=1k,mode=0700,umount:/d,./e"),
              (std::vector<std::string>{"/a:/b:ro", "tmpfs:/c:size=1k,mode=0700", "umount:/d", "./e"}));
    for (const auto* wrong :
         {"tmpfs", "tmpfs:", "tmpfs:d", "umount", "umount:", "umount:d", "umount:/d:ro"}) {
        EXPECT_THROW(volume(wrong), Error) << wrong;
    }
}

TEST(Volume, HasASourceADestinationAndFlags) {
    EXPECT_EQ(volume("/a"), (MountRequest{.source = "/a", .destination = "/a", .text = "/a"}));
    EXPECT_EQ(volume("/a:/b").destination, "/b");
    EXPECT_TRUE(volume("/a:/b:nodev,ro").readonly);
    EXPECT_TRUE(volume("/a:/b:readonly+z").readonly);
    EXPECT_FALSE(volume("/a:/b:rw+private").readonly);
    EXPECT_EQ(volume("./in:/in").source, "/cwd/./in");
    EXPECT_EQ(volume("../in").destination, "/in");
    EXPECT_EQ(volume(".").destination, "/cwd");
    EXPECT_EQ(volume("/a:/b:").destination, "/b");
    EXPECT_FALSE(volume("/a:/b:x-create=auto+unbindable").mustBeDirectory);
    EXPECT_EQ(volume("/a:/b:ro+x-create=dir").mustBeDirectory, true);
    EXPECT_EQ(volume("/a:/b:x-create=file").mustBeDirectory, false);
    EXPECT_THROW(volume("/a:/b:x-create=link"), Error);
    EXPECT_EQ(volumeError("a:/b"), "-v: the source 'a' must begin with '/' or '.'; ");
    EXPECT_EQ(volumeError("/a:b"),
              "-v: Invalid mount request '/a:b': destination must be an absolute path; 'b' does not begin "
              "with '/'. Write \\: for a colon in a path");
    EXPECT_EQ(
        volumeError("/a:/b:/m"),
        "-v: the mount flag '/m' is not supported; The flags are ro, rw and sqsh; also "
        "x-create=dir|file|auto, and of tmpfs size=SIZE and mode=MODE. Write \\: for a colon in a path");
    EXPECT_EQ(volumeError("/a:b:/m:ro"),
              "-v: expected SOURCE:DESTINATION[:FLAGS], found '/a:b:/m:ro'; Write \\: for a colon in a path");
    for (const auto* wrong : {"", ":", ":/b", "/a:", "/a::ro"}) {
        EXPECT_NE(volumeError(wrong), "no error") << wrong;
    }
}

TEST(Volume, HasEveryPath) {
    for (const auto& path : directories()) {
        const auto mount = volume(cat(volumeWord(path), ':', volumeWord(path), ":ro"));
        EXPECT_EQ(mount.source, path);
        EXPECT_EQ(mount.destination, path);
        EXPECT_EQ(splitVolumes(cat("/a,", volumeWord(path), ",./b")),
                  (std::vector<std::string>{"/a", volumeWord(path), "./b"}));
    }
    EXPECT_EQ(volume("/home/DOMAIN\\user:/m").source, "/home/DOMAIN\\user")
        << "a backslash before any other character";
    EXPECT_EQ(volume("/lr=0.1,batch=32:/m").source, "/lr=0.1,batch=32");
}

TEST(Volume, NeedsAWorkingDirectoryOnlyForARelativeSource) {
    EXPECT_EQ(parseVolume("/a:/b", "-v", "").source, "/a");
    EXPECT_THROW(parseVolume("./a:/b", "-v", ""), Error);
}

TEST(Volume, CommasSeparateSources) {
    using List = std::vector<std::string>;
    EXPECT_EQ(splitVolumes("/a:/b:ro,nodev,./c:/d,..,/lr=0.1,batch=32"),
              (List{"/a:/b:ro,nodev", "./c:/d", "..", "/lr=0.1,batch=32"}));
    EXPECT_EQ(splitVolumes("/a,.hidden"), List{"/a,.hidden"});
    EXPECT_EQ(splitVolumes("/a\\,/b"), List{"/a\\,/b"});
    EXPECT_EQ(splitVolumes("/a,"), (List{"/a", ""}));
    EXPECT_EQ(splitVolumes(""), List{""});
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
    EXPECT_EQ(errorOf("type=volume,dst=/d"),
              "Invalid mount request 'type=volume,dst=/d': 'volume' is not a valid mount type");
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
    EXPECT_EQ(errorOf("type=bind,src=/a,dst=/d,ro=a=b"),
              "Error parsing 'type=bind,src=/a,dst=/d,ro=a=b'. The value of key 'ro' must not contain '='");
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
