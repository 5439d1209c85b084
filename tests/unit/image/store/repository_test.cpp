#include "image/store/repository.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include <algorithm>
#include <ctime>

#include "base/error.hpp"
#include "base/subprocess.hpp"
#include "image/scratch.hpp"
#include "image/squashfs_text.hpp"
#include "image/store/import_session.hpp"
#include "image/store/listing.hpp"
#include "image/store/repository_scan.hpp"

namespace sarus::image::repository_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

const std::string hex64(64, 'd');
const std::string digest = "sha256:" + hex64;

class RepositoryTest : public testing::Test {
protected:
    Repository open() { return {scratch.path("user/.sarus"), RepositoryAccess::write, {2000, 1000}}; }

    static void publish(Repository& repository, const std::string& reference,
                        const std::string& content = "squashfs", const std::string& id = "abc") {
        const auto parsed = parseReference(reference).normalized();
        const auto suffix = randomLetters();
        writeDraft(repository, parsed, suffix, content);
        repository.publish({parsed, suffix, {{"sh"}, {}, "/", {}, {}}, {digest, id, digest, content.size()}});
    }

    static void writeDraft(Repository& repository, const ImageReference& reference, const std::string& suffix,
                           const std::string& content) {
        const auto fd = openFile(repository.draftOf(reference, suffix), O_WRONLY | O_CREAT, 0644);
        writeAll(fd.get(), content, "draft");
    }

    static std::vector<std::string> names(const std::vector<ImageRecord>& records) {
        std::vector<std::string> result;
        for (const auto& record : records) {
            result.push_back(record.reference.full());
        }
        return result;
    }

    /// The state of a killed import: its layout with a lock file which nobody holds.
    std::string killedImport() {
        auto suffix = randomLetters();
        scratch.write(cat("user/.sarus/cache/ociImages/image-", suffix, "/lock"), "");
        return suffix;
    }

    std::string image(const std::string& rest) const {
        return scratch.path("user/.sarus/images/docker.io/library/" + rest);
    }

    static std::vector<std::string> damagedCopies(const std::string& directory) {
        std::vector<std::string> found;
        const auto list = runAndCapture({.path = "/bin/ls", .args = {"ls", directory}}).out;
        for (const auto& name : split(list, '\n')) {
            if (name.starts_with("metadata.json.damaged-")) {
                found.push_back(cat(directory, '/', name));
            }
        }
        return found;
    }

    test::Scratch scratch;
};

TEST_F(RepositoryTest, isCreatedEmptyWhereThereIsNone) {
    auto repository = open();
    EXPECT_EQ(readFile(scratch.path("user/.sarus/metadata.json")), "{\n   \"images\": []\n}");
    EXPECT_TRUE(isDirectory(scratch.path("user/.sarus/images")));
    EXPECT_TRUE(isDirectory(scratch.path("user/.sarus/cache/blobs")));
    EXPECT_TRUE(isDirectory(scratch.path("user/.sarus/cache/ociImages")));
    EXPECT_THAT(repository.list(), IsEmpty());
}

TEST_F(RepositoryTest, publishedImageHasItsFilesAndItsEntry) {
    auto repository = open();
    publish(repository, "a:t", "content");
    EXPECT_EQ(readFile(image("a/t.squashfs")), "content");
    EXPECT_EQ(oci::parseImageMetadata(readFile(image("a/t.meta"))).cmd, std::vector<std::string>{"sh"});
    const auto record = repository.find(parseReference("a:t"));
    ASSERT_TRUE(record);
    EXPECT_EQ(record->registryDigest, digest);
    EXPECT_EQ(record->size, "7.00B");
    EXPECT_EQ(parseIndex(readFile(scratch.path("user/.sarus/metadata.json"))).images.size(), 1U);
}

TEST_F(RepositoryTest, nothingTemporaryStaysAfterPublishing) {
    auto repository = open();
    publish(repository, "a:t");
    EXPECT_THAT(scanImages(repository.paths()).temporaries, IsEmpty());
    const auto left = runAndCapture({.path = "/bin/ls", .args = {"ls", scratch.path("user/.sarus")}}).out;
    EXPECT_EQ(left, "cache\nimages\nmetadata.json\n");
}

TEST_F(RepositoryTest, readdedImagesMoveToTheEnd) {
    auto repository = open();
    publish(repository, "a:1");
    publish(repository, "b:1");
    publish(repository, "a:1", "new content");
    EXPECT_THAT(names(repository.list()), ElementsAre("docker.io/library/b:1", "docker.io/library/a:1"));
    EXPECT_EQ(readFile(image("a/1.squashfs")), "new content");
}

TEST_F(RepositoryTest, failedPublicationLeavesTheOldImage) {
    auto repository = open();
    publish(repository, "a:t", "old");
    const auto reference = parseReference("a:t");
    const auto suffix = randomLetters();
    writeDraft(repository, reference, suffix, "new");
    scratch.write(cat("user/.sarus/metadata.json-", suffix), "in the way");
    EXPECT_THROW(repository.publish({reference, suffix, {}, {digest, "new", digest, 3}}), Error);
    EXPECT_EQ(readFile(image("a/t.squashfs")), "old");
    EXPECT_EQ(repository.find(reference)->id, "abc");
    EXPECT_THAT(scanImages(repository.paths()).temporaries, IsEmpty());
}

TEST_F(RepositoryTest, removesTheFilesAndTheEntry) {
    auto repository = open();
    publish(repository, "a:t");
    publish(repository, "a@" + digest);
    EXPECT_TRUE(repository.remove(parseReference("a@" + digest)));
    EXPECT_FALSE(pathExists(image(cat("a/sha256-", hex64, ".squashfs"))));
    EXPECT_FALSE(pathExists(image(cat("a/sha256-", hex64, ".meta"))));
    EXPECT_THAT(names(repository.list()), ElementsAre("docker.io/library/a:t"));
    EXPECT_FALSE(repository.remove(parseReference("a@" + digest)));
}

TEST_F(RepositoryTest, entryWithoutItsSquashfsIsDroppedAndTheOtherFileRemoved) {
    auto repository = open();
    publish(repository, "a:t");
    publish(repository, "b:t");
    ::unlink(image("a/t.squashfs").c_str());
    EXPECT_FALSE(repository.find(parseReference("a:t")));
    EXPECT_THAT(names(repository.list()), ElementsAre("docker.io/library/b:t"));
    EXPECT_FALSE(pathExists(image("a/t.meta")));
    EXPECT_EQ(parseIndex(readFile(scratch.path("user/.sarus/metadata.json"))).images.size(), 1U);
}

TEST_F(RepositoryTest, entryWithoutItsMetadataIsDroppedAndTheOtherFileRemoved) {
    auto repository = open();
    publish(repository, "a:t");
    ::unlink(image("a/t.meta").c_str());
    EXPECT_THAT(repository.list(), IsEmpty());
    EXPECT_FALSE(pathExists(image("a/t.squashfs")));
}

TEST_F(RepositoryTest, filesOfAnImageThatIsJustBeingPulledBySarusAreLeftAlone) {
    auto repository = open();
    scratch.write("user/.sarus/images/docker.io/library/a/t.meta", "{}");  // it writes this one first
    EXPECT_THAT(repository.list(), IsEmpty());
    EXPECT_TRUE(pathExists(image("a/t.meta")));
}

TEST_F(RepositoryTest, nothingIsRemovedBecauseAPathStandsInTheIndex) {
    auto repository = open();
    const auto precious = scratch.write("precious", "data");
    scratch.write(
        "user/.sarus/metadata.json",
        cat(R"({"images":[{"uniqueKey":"docker.io/library/a/t","server":"docker.io","namespace":"library","image":"a","tag":"t",)",
            R"("imagePath":")", precious, R"(","metadataPath":")", scratch.path("missing"), R"("}]})"));
    EXPECT_THAT(repository.list(), IsEmpty());
    EXPECT_FALSE(repository.remove(parseReference("a:t")));
    EXPECT_EQ(readFile(precious), "data");
}

TEST_F(RepositoryTest, indexIsRebuiltFromTheImages) {
    auto repository = open();
    publish(repository, "a:t", "12345", "id-of-a");
    publish(repository, "quay.io/b@" + digest);
    ::unlink(repository.paths().index().c_str());
    const auto records = repository.list();
    EXPECT_THAT(names(records),
                testing::UnorderedElementsAre("docker.io/library/a:t", "quay.io/b@" + digest));
    const auto a = std::find_if(records.begin(), records.end(),
                                [](const auto& record) { return record.reference.image == "a"; });
    EXPECT_EQ(a->id, "id-of-a");
    EXPECT_EQ(a->registryDigest, digest);
    EXPECT_EQ(a->size, "5.00B");
    EXPECT_TRUE(repository.find(parseReference("a:t")));
}

TEST_F(RepositoryTest, damagedIndexIsKeptBesideForAWeekAndRebuilt) {
    auto repository = open();
    publish(repository, "a:t");
    for (const std::string text : {"", "{\"images\": [", "something else entirely"}) {
        scratch.write("user/.sarus/metadata.json", text);
        EXPECT_THAT(names(repository.list()), ElementsAre("docker.io/library/a:t")) << text;
        const auto copies = damagedCopies(scratch.path("user/.sarus"));
        ASSERT_EQ(copies.size(), 1U);
        EXPECT_EQ(readFile(copies[0]), text);
        removeAbandonedImports(repository.paths(), scratch.path());
        EXPECT_TRUE(pathExists(copies[0]));
        const utimbuf eightDaysAgo{std::time(nullptr) - 8 * 86400, std::time(nullptr) - 8 * 86400};
        ::utime(copies[0].c_str(), &eightDaysAgo);
        removeAbandonedImports(repository.paths(), scratch.path());
        EXPECT_FALSE(pathExists(copies[0]));
        EXPECT_FALSE(parseIndex(readFile(repository.paths().index())).damaged);
    }
}

TEST_F(RepositoryTest, publishingIntoARepositoryWithADamagedIndexKeepsTheOtherImages) {
    auto repository = open();
    publish(repository, "a:t");
    scratch.write("user/.sarus/metadata.json", "{");
    publish(repository, "b:t");
    EXPECT_THAT(names(repository.list()), ElementsAre("docker.io/library/a:t", "docker.io/library/b:t"));
}

TEST_F(RepositoryTest, repositoryOfSarusIsUsedAsItIs) {
    const auto root = scratch.path("user/.sarus");
    scratch.write("user/.sarus/images/docker.io/library/old/1.squashfs", "old image");
    scratch.write("user/.sarus/images/docker.io/library/old/1.meta",
                  R"({"Cmd":["sh"],"Entrypoint":[],"WorkingDir":"","Env":[]})");
    const auto text =
        serializeIndex({{parseReference("old:1"), "", "", "9.00B", "2020-01-01T00:00:00"}}, root + "/images");
    scratch.write("user/.sarus/metadata.json", text);
    auto repository = open();
    EXPECT_EQ(repository.list().at(0).created, "2020-01-01T00:00:00");
    EXPECT_EQ(readFile(root + "/metadata.json"), text);
}

TEST_F(RepositoryTest, draftsOfAKilledImportAreRemoved) {
    auto repository = open();
    publish(repository, "a:t", "old");
    const auto suffix = killedImport();
    writeDraft(repository, parseReference("a:t"), suffix, "new");
    scratch.write(cat("user/.sarus/images/docker.io/library/a/t.meta-", suffix), "{}");
    repository.recover();
    EXPECT_THAT(scanImages(repository.paths()).temporaries, IsEmpty());
    EXPECT_EQ(readFile(image("a/t.squashfs")), "old");
    EXPECT_TRUE(parseStoreInfo(readFile(image("a/t.meta"))));
}

TEST_F(RepositoryTest, importKilledAfterTheFirstRenameIsCompleted) {
    auto repository = open();
    publish(repository, "a:t", "old", "old-id");
    const auto suffix = killedImport();
    scratch.write("user/.sarus/images/docker.io/library/a/t.squashfs", "new content");
    scratch.write(cat("user/.sarus/images/docker.io/library/a/t.meta-", suffix),
                  serializeStoredMetadata({{"new"}, {}, "", {}, {}}, {digest, "new-id", digest, 11}));
    const auto records = repository.list();
    ASSERT_EQ(records.size(), 1U);
    EXPECT_EQ(records[0].id, "new-id");
    EXPECT_EQ(records[0].size, "11.00B");
    EXPECT_EQ(oci::parseImageMetadata(readFile(image("a/t.meta"))).cmd, std::vector<std::string>{"new"});
}

TEST_F(RepositoryTest, importKilledBeforeTheIndexIsCompleted) {
    auto repository = open();
    publish(repository, "a:t", "old", "old-id");
    killedImport();
    scratch.write("user/.sarus/images/docker.io/library/a/t.squashfs", "new content");
    scratch.write("user/.sarus/images/docker.io/library/a/t.meta",
                  serializeStoredMetadata({}, {digest, "new-id", digest, 11}));
    EXPECT_EQ(repository.list().at(0).id, "new-id");
}

TEST_F(RepositoryTest, draftsOfALivingImportAreLeftAlone) {
    auto repository = open();
    const ImportSession session(repository.paths(), scratch.path(), {});
    writeDraft(repository, parseReference("a:t"), session.suffix(), "new");
    repository.list();
    repository.recover();
    removeAbandonedImports(repository.paths(), scratch.path());
    EXPECT_EQ(scanImages(repository.paths()).temporaries.size(), 1U);
    EXPECT_TRUE(isDirectory(session.cachedLayout()));
    EXPECT_TRUE(isDirectory(session.workDirectory()));
}

TEST_F(RepositoryTest, draftsOfUnknownImportsAreRemovedOnlyAfterADay) {
    auto repository = open();
    const auto draft =
        scratch.write("user/.sarus/images/docker.io/library/a/t.squashfs-abcdefghijklmnop", "x");
    repository.list();
    EXPECT_TRUE(pathExists(draft));
    const utimbuf twoDaysAgo{std::time(nullptr) - 2 * 86400, std::time(nullptr) - 2 * 86400};
    ::utime(draft.c_str(), &twoDaysAgo);
    repository.list();
    EXPECT_FALSE(pathExists(draft));
}

TEST_F(RepositoryTest, lockTimeoutSaysSo) {
    auto repository = open();
    publish(repository, "a:t");
    Repository hurried(scratch.path("user/.sarus"), RepositoryAccess::write, {300, 100});
    const auto fd = openFile(repository.paths().index(), O_RDWR);
    ASSERT_EQ(::flock(fd.get(), LOCK_EX), 0);
    testing::internal::CaptureStderr();
    try {
        hurried.remove(parseReference("a:t"));
        ADD_FAILURE();
    } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()),
                  cat("Failed to acquire lock on file \"", repository.paths().index(),
                      "\" (expired timeout of 300 milliseconds)"));
    }
    const auto warnings = testing::internal::GetCapturedStderr();
    EXPECT_NE(
        warnings.find(cat("[WARN] Still attempting to acquire lock on file \"", repository.paths().index(),
                          "\" after 100 ms (will timeout after 300 milliseconds)...")),
        std::string::npos)
        << warnings;
    EXPECT_NE(warnings.find("after 200 ms"), std::string::npos);
}

TEST_F(RepositoryTest, lookUpsShareTheLockAndListingTakesNone) {
    auto repository = open();
    publish(repository, "a:t");
    Repository hurried(scratch.path("user/.sarus"), RepositoryAccess::write, {100, 1000});
    const auto fd = openFile(repository.paths().index(), O_RDWR);
    ASSERT_EQ(::flock(fd.get(), LOCK_SH), 0);
    EXPECT_TRUE(hurried.find(parseReference("a:t")));
    ASSERT_EQ(::flock(fd.get(), LOCK_EX), 0);
    EXPECT_THAT(names(hurried.list()), ElementsAre("docker.io/library/a:t"));
    EXPECT_TRUE(hurried.isSettled());
}

TEST_F(RepositoryTest, listingLeavesARepairToWhomeverHoldsTheLock) {
    auto repository = open();
    publish(repository, "a:t");
    publish(repository, "b:t");
    ::unlink(image("a/t.squashfs").c_str());
    {
        const auto fd = openFile(repository.paths().index(), O_RDWR);
        ASSERT_EQ(::flock(fd.get(), LOCK_EX), 0);
        EXPECT_THAT(names(repository.list()), ElementsAre("docker.io/library/b:t"));
        EXPECT_FALSE(repository.isSettled());
        EXPECT_TRUE(pathExists(image("a/t.meta")));
    }
    EXPECT_THAT(names(repository.list()), ElementsAre("docker.io/library/b:t"));
    EXPECT_FALSE(pathExists(image("a/t.meta")));
}

TEST_F(RepositoryTest, draftThatWasMadeForTheImageInPlaceCompletesItWhoeverMadeIt) {
    auto repository = open();
    publish(repository, "a:t", test::squashfs("1111", "data"), "old-id");
    scratch.write("user/.sarus/images/docker.io/library/a/t.squashfs", test::squashfs("2222", "data"));
    const auto draft = scratch.write("user/.sarus/images/docker.io/library/a/t.meta-abcdefghijklmnop",
                                     test::metadataFor("2222", "new-id"));
    EXPECT_EQ(repository.find(parseReference("a:t"))->id, "new-id");
    EXPECT_EQ(repository.list().at(0).id, "new-id");
    EXPECT_FALSE(pathExists(draft));
    EXPECT_EQ(parseStoreInfo(readFile(image("a/t.meta")))->id, "new-id");
}

TEST_F(RepositoryTest, draftThatWasMadeForAnotherFileIsNotTakenForTheImageInPlace) {
    auto repository = open();
    publish(repository, "a:t", test::squashfs("1111", "data"), "old-id");
    const auto suffix = killedImport();
    scratch.write(cat("user/.sarus/images/docker.io/library/a/t.meta-", suffix),
                  test::metadataFor("2222", "new-id"));
    EXPECT_EQ(repository.list().at(0).id, "old-id");
    EXPECT_EQ(parseStoreInfo(readFile(image("a/t.meta")))->id, "old-id");
    EXPECT_THAT(scanImages(repository.paths()).temporaries, IsEmpty());
}

TEST_F(RepositoryTest, metadataRecordTheIdentityOfTheirFile) {
    auto repository = open();
    publish(repository, "a:t", test::squashfs("1111", "data"));
    EXPECT_EQ(parseStoreInfo(readFile(image("a/t.meta")))->identity, test::identity("1111"));
}

TEST_F(RepositoryTest, directoryInPlaceOfAnImageBreaksNothingElse) {
    auto repository = open();
    publish(repository, "a:t");
    publish(repository, "b:t");
    ::unlink(image("a/t.squashfs").c_str());
    createDirectories(image("a/t.squashfs"));
    EXPECT_THAT(names(repository.list()), ElementsAre("docker.io/library/b:t"));
    EXPECT_THROW(publish(repository, "a:t"), Error);
    EXPECT_THROW(repository.remove(parseReference("a:t")), Error);
    EXPECT_TRUE(repository.remove(parseReference("b:t")));
    publish(repository, "c:t");
    EXPECT_THAT(names(repository.list()), ElementsAre("docker.io/library/c:t"));
}

TEST_F(RepositoryTest, fifoInPlaceOfAnImageOrTheIndexIsNotWaitedFor) {
    auto repository = open();
    publish(repository, "a:t");
    publish(repository, "b:t");
    ::unlink(image("a/t.squashfs").c_str());
    ASSERT_EQ(::mkfifo(image("a/t.squashfs").c_str(), 0600), 0);
    const auto report = verifyImages(repository.paths(), repository.list());
    EXPECT_FALSE(report.allIntact);
    EXPECT_THAT(report.text, testing::HasSubstr("is not a regular file"));
    ::unlink(repository.paths().index().c_str());
    ASSERT_EQ(::mkfifo(repository.paths().index().c_str(), 0600), 0);
    EXPECT_THROW(repository.list(), Error);
}

TEST_F(RepositoryTest, thatEveryUserCanChangeIsWarnedOf) {
    open();
    ::chmod(scratch.path("user/.sarus").c_str(), 0777);
    testing::internal::CaptureStderr();
    open();
    EXPECT_THAT(
        testing::internal::GetCapturedStderr(),
        testing::HasSubstr(cat("Every user can change the images in \"", scratch.path("user/.sarus"), '"')));
}

TEST_F(RepositoryTest, anImageNamedLikeAVersionOfAnotherIsNotMistaken) {
    EXPECT_EQ(referenceOfKey("docker.io/library/a/t")->full(), "docker.io/library/a:t");
    EXPECT_EQ(referenceOfKey("srv.io/a/t")->full(), "srv.io/a:t");
    EXPECT_EQ(referenceOfKey("docker.io/library/a/sha256-" + hex64)->full(), "docker.io/library/a@" + digest);
    EXPECT_EQ(referenceOfKey("docker.io/library/a/sha256-abc")->full(), "docker.io/library/a:sha256-abc");
    EXPECT_FALSE(referenceOfKey("a/b"));
    EXPECT_FALSE(referenceOfKey("docker.io/library/a/.hidden"));
    EXPECT_FALSE(referenceOfKey("docker.io/library/A B/t"));
}

TEST_F(RepositoryTest, thatCannotBeCreatedIsAnErrorOnlyForWriting) {
    const auto file = scratch.write("file", "");
    EXPECT_THROW(Repository(file + "/.sarus", RepositoryAccess::write, {}), Error);
    EXPECT_THAT(Repository(file + "/.sarus", RepositoryAccess::read, {}).list(), IsEmpty());
}

}  // namespace
}  // namespace sarus::image::repository_test
