// What a pull does with the answers of skopeo and of the builder, for both of which scripts stand here.

#include "image/import/import.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "image/scratch.hpp"
#include "image/store/file_digest.hpp"

namespace sarus::image::import_test {
namespace {

using testing::HasSubstr;

std::string digestOf(char letter) {
    return "sha256:" + std::string(64, letter);
}

std::string descriptor(char letter, const std::string& more = {}) {
    return cat(R"({"digest":")", digestOf(letter), R"(","size":4)", more, "}");
}

const std::string manifest = cat(R"({"mediaType":"application/vnd.oci.image.manifest.v1+json","config":)",
                                 descriptor('c'), R"(,"layers":[]})");

class ImportTest : public testing::Test {
protected:
    ImportTest() {
        createDirectories(scratch.path("temp"));
        settings.skopeo.path = program(
            "skopeo", cat("case \"$*\" in *inspect*) cat ", scratch.path("answer"), ";; *copy*) echo >>",
                          scratch.path("copies"), "; exec ", scratch.path("download"), " \"$@\";; esac"));
        settings.skopeo.policy = PolicyChoice{"/site/policy.json", true};
        settings.builder.path = program(
            "builder",
            cat("printf data >\"$3\"; echo '", R"({"configDigest":")", digestOf('c'),
                R"(","config":"{\"config\":{\"Cmd\":[\"sh\"]}}","squashfsDigest":"fsverity-)", digestOf('5'),
                R"(","squashfsSize":4,"entries":3,"owner":"1000:100","builder":"2.0.0","compressor":"zstd 1.5.4"})",
                "'"));
        settings.tempDir = scratch.path("temp");
        settings.quiet = true;
        settings.builder.quiet = true;
        registryAnswers(manifest);
        downloadIs(R"(echo '{"manifests":[]}' >$layout/index.json)");
    }

    std::string program(const std::string& name, const std::string& body) {
        auto path = scratch.write(name, cat("#!/bin/sh\n", body, '\n'));
        ::chmod(path.c_str(), 0755);
        return path;
    }
    void registryAnswers(const std::string& text) { scratch.write("answer", text); }
    /// `body` finds the directory of the layout in $layout.
    void downloadIs(const std::string& body) {
        program("download", cat("for last; do :; done\nlayout=${last#oci:}\nlayout=${layout%:*}\n",
                                "mkdir -p $layout/blobs/sha256\n", body));
    }

    void pull() { pullImage(repository, settings, {parseReference("quay.io/group/image:1"), {}}); }
    std::string problemOfPull() {
        try {
            pull();
        } catch (const Error& error) {
            return cat(error.what(), '\n', error.hint());
        }
        return "no error";
    }
    std::optional<ImageRecord> stored() {
        return repository.find(parseReference("quay.io/group/image:1").normalized());
    }
    std::size_t copies() {
        const auto file = scratch.path("copies");
        return pathExists(file) ? readFile(file).size() : 0;
    }

    test::Scratch scratch;
    ImportSettings settings;
    Repository repository{scratch.path("user/.sarus"), RepositoryAccess::write, {2000, 1000}};
};

TEST_F(ImportTest, aPullStoresTheImageWithTheDigestOfTheRegistry) {
    pull();
    const auto image = stored();
    ASSERT_TRUE(image);
    EXPECT_EQ(image->registryDigest, "sha256:" + sha256Hex(manifest));
    EXPECT_EQ(readFile(repository.paths().squashfs(image->reference)), "data");
    EXPECT_EQ(copies(), 1U);
}

TEST_F(ImportTest, whatIsUpToDateIsNotDownloaded) {
    pull();
    pull();
    EXPECT_EQ(copies(), 1U);
    registryAnswers(manifest + " ");
    pull();
    EXPECT_EQ(copies(), 2U);
    EXPECT_EQ(stored()->registryDigest, "sha256:" + sha256Hex(manifest + " "));
}

TEST_F(ImportTest, aFailedDownloadLeavesTheOldImage) {
    pull();
    registryAnswers(manifest + " ");
    downloadIs("echo 'manifest unknown' >&2; exit 1");
    EXPECT_THAT(problemOfPull(), HasSubstr("Failed to pull image 'quay.io/group/image:1'"));
    EXPECT_EQ(stored()->registryDigest, "sha256:" + sha256Hex(manifest));
}

TEST_F(ImportTest, damagedFilesOfTheCacheAreDownloadedAgain) {
    // The builder fails until the cache is as its names say.
    const auto blob = scratch.path("user/.sarus/cache/blobs/sha256/") + sha256Hex("good");
    settings.builder.path =
        program("strict", cat("grep -q good ", blob, " || { echo damaged >&2; exit 1; }\nexec ",
                              settings.builder.path, " \"$@\""));
    const auto text =
        cat(R"({"config":{"digest":"sha256:)", sha256Hex("good"), R"(","size":4},"layers":[]})");
    scratch.write("manifest", text);
    scratch.write("index", cat(R"({"manifests":[{"digest":"sha256:)", sha256Hex(text), R"(","size":1}]})"));
    downloadIs(cat("cp ", scratch.path("manifest"), " $layout/blobs/sha256/", sha256Hex(text), "; cp ",
                   scratch.path("index"), " $layout/index.json; test -e ", blob, " && exit; if test -e ",
                   scratch.path("once"), "; then printf good; else touch ", scratch.path("once"),
                   "; printf evil; fi >", blob));
    testing::internal::CaptureStderr();
    EXPECT_EQ(problemOfPull(), "no error");
    testing::internal::GetCapturedStderr();
    EXPECT_EQ(copies(), 2U);
}

TEST_F(ImportTest, anIndexWithoutThisPlatformSaysWhatThereIs) {
    registryAnswers(cat(R"({"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[)",
                        descriptor('a', R"(,"platform":{"os":"plan9","architecture":"mips"})"), "]}"));
    EXPECT_THAT(problemOfPull(), HasSubstr("only for: plan9/mips"));
    EXPECT_EQ(copies(), 0U);
}

TEST_F(ImportTest, aFailedConversionLeavesNothing) {
    settings.builder.path = program("failing", "echo 'Layer 2 is corrupt' >&2; exit 1");
    EXPECT_THAT(problemOfPull(), HasSubstr("Layer 2 is corrupt"));
    EXPECT_FALSE(stored());
    EXPECT_FALSE(pathExists(repository.paths().images() + "/quay.io"));
}

/// The repository may have the content already, under other names.
class EqualImportTest : public ImportTest {
protected:
    EqualImportTest() {
        settings.skopeo.policy = PolicyChoice{scratch.path("policy"), true};
        policyIs(R"({"default":[{"type":"insecureAcceptAnything"}]})");
        builderMakes("data");
    }

    void policyIs(const std::string& text) { scratch.write("policy", text); }
    void builderMakes(const std::string& content, const std::string& owner = "1000:100") {
        const auto file = openFile(scratch.write("content", content), O_RDONLY);
        const auto conversion =
            cat(R"("owner":")", owner, R"(","builder":"2.0.0","compressor":"zstd 1.5.4")");
        const auto config =
            cat(R"("configDigest":")", digestOf('c'), R"(","config":"{\"config\":{\"Cmd\":[\"sh\"]}}")");
        settings.builder.path = program(
            "builder",
            cat("case $1 in describe) echo '{", R"("format":"oci","name":"",)", config, R"(,"layersId":")",
                std::string(64, 'e'), "\"}';;\ndescribe-conversion) echo '{", conversion, "}';;\n*) echo >>",
                scratch.path("conversions"), "; cat ", scratch.path("content"), " >\"$3\"; echo '{", config,
                R"(,"squashfsDigest":")", fsverityDigestOfFile(file.get(), "file"), R"(","squashfsSize":)",
                content.size(), R"(,"entries":3,)", conversion, "}';;\nesac"));
    }
    void pullAs(const std::string& name) { pullImage(repository, settings, {parseReference(name), {}}); }
    std::size_t conversions() { return readFile(scratch.path("conversions")).size(); }
    struct stat fileOf(const std::string& name) {
        struct stat status {};
        checkErrno(::stat(repository.paths().squashfs(parseReference(name).normalized()).c_str(), &status),
                   "stat");
        return status;
    }
    void damage(const std::string& name) {
        const auto path = repository.paths().squashfs(parseReference(name).normalized());
        writeAll(openFile(path, O_WRONLY).get(), "DATA", path);
    }
};

TEST_F(EqualImportTest, anotherNameNeedsNeitherDownloadNorConversion) {
    pullAs("quay.io/group/image:1");
    pullAs("quay.io/group/image:2");
    pullAs("example.org/other:1");
    EXPECT_EQ(copies(), 1U);
    EXPECT_EQ(conversions(), 1U);
    EXPECT_EQ(fileOf("example.org/other:1").st_nlink, 3U);
    const auto image = repository.find(parseReference("example.org/other:1"));
    ASSERT_TRUE(image);
    EXPECT_EQ(image->registryDigest, "sha256:" + sha256Hex(manifest));
    EXPECT_EQ(image->id, std::string(64, 'c'));
}

TEST_F(EqualImportTest, anotherManifestOfTheSameConfigurationNeedsNoDownload) {
    pullAs("quay.io/group/image:1");
    registryAnswers(manifest + " ");
    pullAs("quay.io/group/image:1");
    EXPECT_EQ(copies(), 1U);
    EXPECT_EQ(stored()->registryDigest, "sha256:" + sha256Hex(manifest + " "));
    EXPECT_EQ(fileOf("quay.io/group/image:1").st_nlink, 1U);
}

TEST_F(EqualImportTest, equalLayersAreNotConvertedAgain) {
    pullAs("quay.io/group/image:1");
    registryAnswers(cat(R"({"mediaType":"application/vnd.oci.image.manifest.v1+json","config":)",
                        descriptor('d'), R"(,"layers":[]})"));
    pullAs("quay.io/group/image:2");
    EXPECT_EQ(copies(), 2U);
    EXPECT_EQ(conversions(), 1U);
    EXPECT_EQ(fileOf("quay.io/group/image:2").st_nlink, 2U);
}

TEST_F(EqualImportTest, whereThePolicyWantsSignaturesSkopeoChecksThem) {
    pullAs("quay.io/group/image:1");
    policyIs(R"({"default":[{"type":"insecureAcceptAnything"}],
                 "transports":{"docker":{"example.org":[{"type":"reject"}]}}})");
    downloadIs("echo 'Source image rejected' >&2; exit 1");
    EXPECT_THROW(pullAs("example.org/other:1"), Error);
    EXPECT_FALSE(repository.find(parseReference("example.org/other:1")));
}

TEST_F(EqualImportTest, aPlatformOfTheUserIsCheckedInTheDownload) {
    pullAs("quay.io/group/image:1");
    settings.builder.platform = "linux/arm64";
    pullAs("quay.io/group/image:2");
    EXPECT_EQ(copies(), 2U);
    EXPECT_EQ(conversions(), 1U);
}

TEST_F(EqualImportTest, aDigestOfTheUserIsLookedUpInTheRegistry) {
    pullAs("quay.io/group/image:1");
    const auto byDigest = cat("quay.io/group/image@sha256:", sha256Hex(manifest));
    pullAs(byDigest);
    EXPECT_EQ(copies(), 1U);
    EXPECT_EQ(fileOf(byDigest).st_nlink, 2U);
    registryAnswers(manifest + " ");  // a lie, which skopeo finds
    downloadIs("echo 'Digest did not match' >&2; exit 1");
    EXPECT_THROW(pullAs(cat("example.org/other@sha256:", sha256Hex(manifest))), Error);
}

TEST_F(EqualImportTest, aDamagedFileIsNotUsedAgain) {
    pullAs("quay.io/group/image:1");
    damage("quay.io/group/image:1");
    testing::internal::CaptureStderr();
    pullAs("quay.io/group/image:2");
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("The stored image quay.io/group/image:1 is damaged"));
    EXPECT_EQ(conversions(), 2U);
    EXPECT_EQ(readFile(repository.paths().squashfs(parseReference("quay.io/group/image:2"))), "data");
}

TEST_F(EqualImportTest, anotherOwnerIsAnotherFile) {
    pullAs("quay.io/group/image:1");
    builderMakes("othr", "1001:100");
    pullAs("quay.io/group/image:2");
    EXPECT_EQ(conversions(), 2U);
    EXPECT_EQ(fileOf("quay.io/group/image:2").st_nlink, 1U);
}

}  // namespace
}  // namespace sarus::image::import_test
