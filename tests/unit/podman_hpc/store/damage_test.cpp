#include "podman_hpc/store/damage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "podman_hpc/store/migration_stores.hpp"

namespace sarus::podman_hpc::damage_test {
namespace {

namespace fs = std::filesystem;
using test::base;
using test::idOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A squash store with the images a and c.
class DamagedStore : public test::MigrationStores {
protected:
    DamagedStore() {
        add('a');
        add('c');
        made = 0;
        const auto copy = fs::copy_options::recursive | fs::copy_options::copy_symlinks;
        fs::copy(store.root, directory / "sound", copy);
    }
    void restore() {
        fs::remove_all(store.root);
        fs::copy(directory / "sound", store.root,
                 fs::copy_options::recursive | fs::copy_options::copy_symlinks);
        warnings.clear();
    }
    std::string problemOf(char letter) const {
        const auto lists = readLists(store);
        const auto* image = findImageById(lists.images, idOf(letter));
        return image == nullptr ? "not recorded" : whatIsBroken(store, lists, *image);
    }
    /// Nothing is wrong, as far as a user would notice.
    bool isSound() const {
        return readLists(store).areSound() && problemOf('a').empty() && problemOf('c').empty();
    }
    void expectMended(const std::string& what) {
        add('a');
        add('c');
        EXPECT_TRUE(isSound()) << what << ": " << problemOf('a') << ", " << problemOf('c');
        EXPECT_EQ(add('a'), MigrationResult::unchanged) << what;
        EXPECT_EQ(add('c'), MigrationResult::unchanged) << what;
    }
    std::vector<std::string> files() const {
        std::vector<std::string> all;
        for (const auto& entry : fs::recursive_directory_iterator(directory / "sound")) {
            if (!entry.is_directory() || entry.is_symlink()) {
                all.push_back(entry.path().lexically_relative(directory / "sound"));
            }
        }
        std::sort(all.begin(), all.end());
        return all;
    }
    /// The directory for Podman.
    std::string readable(const StoreUse& use) {
        warnings.clear();
        return readableStore(store, use, directory / "run",
                             [&](const std::string& warning) { warnings.push_back(warning); });
    }
};

TEST_F(DamagedStore, AnyFileCutOffAnywhereIsMended) {
    for (const auto& file : files()) {
        const auto path = cat(store.root, '/', file);
        const bool isList = file.ends_with(".json");
        if (fs::is_symlink(path)) {
            continue;
        }
        const auto size = fs::file_size(path);
        for (std::size_t end = 0; end < size; end += std::max<std::size_t>(1, size / 5)) {
            restore();
            ::truncate(path.c_str(), static_cast<off_t>(end));
            const auto what = cat(file, " with ", end, " bytes");
            EXPECT_TRUE(problemOf('a').empty() || problemOf('c').empty() || isList) << what;
            EXPECT_EQ(readLists(store).areSound(), !isList) << what;
            expectMended(what);
        }
    }
}

TEST_F(DamagedStore, AnyMissingFileIsMended) {
    for (const auto& file : files()) {
        restore();
        fs::remove_all(cat(store.root, '/', file));
        EXPECT_TRUE(problemOf('a').empty() || problemOf('c').empty() || file.ends_with(".json")) << file;
        expectMended(file);
    }
    for (const auto& gone : {store.documents(idOf('a')), store.layer(idOf('1')), store.layer(base)}) {
        restore();
        fs::remove_all(gone);
        EXPECT_EQ(problemOf('a').empty(), gone == store.layer(base)) << gone;
        EXPECT_EQ(problemOf('c'), "");
        expectMended(gone);
    }
}

TEST_F(DamagedStore, AnImageIsNotMadeAgainForItsRecordsAlone) {
    for (const auto& gone : {store.documents(idOf('a')), store.link(std::string(26, 'X'))}) {
        restore();
        fs::remove_all(gone);
        EXPECT_EQ(add('a'), MigrationResult::mended) << gone;
        EXPECT_TRUE(isSound()) << gone;
    }
    EXPECT_EQ(made, 0);
    ::truncate(squash('X').c_str(), 95);
    EXPECT_THAT(problemOf('a'), HasSubstr("is missing or not complete"));
    EXPECT_EQ(add('a'), MigrationResult::migrated);
    EXPECT_EQ(made, 1);
}

TEST_F(DamagedStore, ARecordOfAnotherLayerIsReplaced) {
    replaceFile(store.imageList(), cat("[", image('a', 'f', "x:1"), ",", image('c', '2', "y:1"), "]"), 0644);
    EXPECT_THAT(problemOf('a'), HasSubstr("lacks its layers"));
    expectMended("layer");
}

TEST_F(DamagedStore, TheOldListIsKept) {
    const auto text = readFile(store.imageList()).substr(0, 100);
    replaceFile(store.imageList(), text, 0644);
    const auto warn = [&](const std::string& warning) { warnings.push_back(warning); };
    mendLists(store, warn);
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_THAT(warnings[0], HasSubstr(cat(store.imageList(), " was cut off behind 0 records")));
    const auto kept = cat(store.imageList(), ".damaged-");
    const auto begin = warnings[0].find(kept);
    ASSERT_NE(begin, std::string::npos) << warnings[0];
    EXPECT_EQ(readFile(warnings[0].substr(begin)), text);
    EXPECT_EQ(readFile(store.imageList()), "[]");
    mendLists(store, warn);
    EXPECT_EQ(warnings.size(), 1U);
}

TEST_F(DamagedStore, LostLayersComeFromTheImage) {
    // Manifest and configuration name one layer, whose id is its digest.
    const auto config = cat(R"({"rootfs":{"diff_ids":["sha256:)", idOf('1'), R"("]}})");
    const auto digest = cat("sha256:", std::string(64, '9'));
    const auto manifest =
        cat(R"({"schemaVersion":2,"config":{"mediaType":"c","digest":")", digest,
            R"(","size":1},"layers":[{"mediaType":"l","digest":")", digest, R"(","size":5}]})");
    replaceFile(store.documents(idOf('a')) + "/manifest", manifest, 0644);
    // base64 of the digest
    replaceFile(store.documents(idOf('a')) +
                    "/="
                    "c2hhMjU2Ojk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5"
                    "OTk5OTk=",
                config, 0644);
    replaceFile(store.layerList(), "[]", 0644);
    const auto lists = readLists(store);
    ASSERT_EQ(lists.layers.size(), 1U);
    EXPECT_EQ(lists.layers[0].id, idOf('1'));
    EXPECT_EQ(lists.layers[0].size, 5U);
    EXPECT_THAT(lists.layerProblems, ElementsAre(HasSubstr(cat("lacks layers of the image ", idOf('a')))));
}

TEST_F(DamagedStore, PodmanReadsASoundStoreItself) {
    EXPECT_EQ(readable({.listsAll = true}), store.root);
    EXPECT_THAT(warnings, IsEmpty());
    EXPECT_FALSE(pathExists(directory / "run"));
}

TEST_F(DamagedStore, PodmanReadsWhatIsSound) {
    replaceFile(store.imageList(), cat("[7,", image('c', '2', "y:1"), "]"), 0644);
    const StorePaths view{readable({.image = "y:1"})};
    EXPECT_NE(view.root, store.root);
    EXPECT_THAT(warnings, ElementsAre(HasSubstr("images.json: [0]: expected an object, found 7")));
    const auto lists = readLists(view);
    EXPECT_TRUE(lists.areSound());
    ASSERT_EQ(lists.images.size(), 1U);
    EXPECT_EQ(whatIsBroken(view, lists, lists.images[0]), "");
    EXPECT_EQ(readable({}), view.root);  // again
    EXPECT_EQ(readFile(store.imageList()).substr(0, 3), "[7,");
}

TEST_F(DamagedStore, OneBrokenImageIsHiddenFromLists) {
    fs::remove_all(store.documents(idOf('a')));
    EXPECT_EQ(readable({.image = "y:1"}), store.root);  // Podman does not look at the other one
    EXPECT_THAT(warnings, IsEmpty());
    EXPECT_EQ(readable({.image = "x:1"}), store.root);
    EXPECT_THAT(warnings, ElementsAre(HasSubstr("The image x:1 of the squash store cannot be used")));
    const StorePaths view{readable({.listsAll = true})};
    EXPECT_THAT(warnings, ElementsAre(HasSubstr("'podman-hpc migrate x:1'")));
    EXPECT_EQ(readLists(view).images.size(), 1U);
}

TEST_F(DamagedStore, ANameOfTwoImagesIsMended) {
    replaceFile(store.imageList(), cat("[", image('c', '2', "x:1"), ",", image('a', '1', "x:1"), "]"), 0644);
    EXPECT_NE(readable({}), store.root);
    EXPECT_EQ(add('a'), MigrationResult::renamed);
    EXPECT_THAT(names(), ElementsAre("x:1"));
    EXPECT_EQ(readable({}), store.root);
}

}  // namespace
}  // namespace sarus::podman_hpc::damage_test
