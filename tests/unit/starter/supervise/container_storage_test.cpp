#include "starter/supervise/container_storage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <future>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/path_in_root.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"

namespace sarus::starter::container_storage_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/// Of a rootless starter, so the files are this user's.
class ContainerStorageTest : public testing::Test {
protected:
    ContainerStorageTest() { config.tempDir = directory.path(); }

    ContainerStorage storage() const {
        return ContainerStorage::find(credentials, config, ContainerStorage::Look::create).value();
    }

    static KeptContainer container(const std::string& name, const std::string& job = "") {
        return {.name = name, .image = "a:\xFF", .content = "c1", .job = {.id = job}, .created = 7};
    }

    std::vector<std::string> names() const {
        std::vector<std::string> found;
        for (const auto& entry : storage().list()) {
            found.push_back(cat(entry.container.name, entry.isRunning ? " runs" : ""));
        }
        return found;
    }

    static std::string errorOf(const std::function<void()>& action) {
        try {
            action();
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }

    test::TemporaryDirectory directory;
    Credentials credentials = Credentials::acquire(Mode::rootless);
    engine::SiteConfig config;
};

TEST_F(ContainerStorageTest, nothingIsMadeForWhoOnlyLooks) {
    EXPECT_FALSE(ContainerStorage::find(credentials, config, ContainerStorage::Look::full));
    const auto made = storage();
    EXPECT_FALSE(made.open(container("a"), false));
    EXPECT_THAT(names(), IsEmpty());
    config.containerStorage.directory = "/nonexistent";
    EXPECT_FALSE(ContainerStorage::find(credentials, config, ContainerStorage::Look::full));
    EXPECT_THROW(storage(), Error);
}

TEST_F(ContainerStorageTest, aContainerIsMadeOnceAndOpenedAgain) {
    auto first = storage().open(container("a"), true);
    ASSERT_TRUE(first && first->isNew);
    EXPECT_TRUE(isDirectory(cat(first->directory, "/upper")) && isDirectory(cat(first->directory, "/work")));
    EXPECT_THAT(names(), ElementsAre("a runs"));
    EXPECT_THAT(errorOf([&] { storage().open(container("a"), true); }), HasSubstr("'a' is in use"));
    replaceFile(cat(first->directory, "/upper/file"), "text", 0644);
    first.reset();
    EXPECT_THAT(names(), ElementsAre("a"));
    const auto again = storage().open(container("a"), false);
    ASSERT_TRUE(again && !again->isNew);
    EXPECT_EQ(readFile(cat(again->directory, "/upper/file")), "text");
    const auto listed = storage().list().at(0).container;
    EXPECT_EQ(listed.image, "a:\xFF");
    EXPECT_EQ(listed.created, 7);
}

TEST_F(ContainerStorageTest, anotherContentIsRefused) {
    storage().open(container("a"), true);
    auto other = container("a");
    other.content = "c2";
    EXPECT_THAT(errorOf([&] { storage().open(other, true); }), HasSubstr("was made from another image"));
}

TEST_F(ContainerStorageTest, aTreeThatIsTooLargeOrTooDeepIsRefused) {
    config.containerStorage.maxSize = 64 << 10;
    const auto made = storage().open(container("a"), true)->directory;
    EXPECT_TRUE(storage().open(container("a"), true));
    createDirectories(cat(made, "/upper/b"));
    replaceFile(cat(made, "/upper/b/file"), std::string(128 << 10, 'x'), 0644);
    EXPECT_THAT(errorOf([&] { storage().open(container("a"), true); }), HasSubstr("has outgrown the limit"));
    removeTree(cat(made, "/upper/b"));
    config.containerStorage.maxSize = 1 << 30;
    std::string deep = cat(made, "/upper");
    for (int level = 0; level < 300; ++level) {
        deep += "/d";
    }
    createDirectories(deep);
    EXPECT_THAT(errorOf([&] { storage().open(container("a"), true); }), HasSubstr("levels of directories"));
}

TEST_F(ContainerStorageTest, jobsHaveTheirOwn) {
    for (const auto* job : {"", "1", "2"}) {
        EXPECT_TRUE(storage().open(container("a", job), true)->isNew) << job;
    }
    EXPECT_THAT(names(), ElementsAre("a", "a", "a"));
    EXPECT_EQ(storage().find("a", {.id = "1"})->container.job.id, "1");
    EXPECT_EQ(storage().find("a", {})->container.job.id, "");
    EXPECT_TRUE(storage().remove(*storage().find("a", {}), 1));
    EXPECT_THROW(storage().find("a", {.id = "3"}), Error);
    EXPECT_TRUE(storage().remove(*storage().find("a", {.id = "2"}), 1));
    EXPECT_EQ(storage().find("a", {.id = "3"})->container.job.id, "1");
    config.containerStorage.perJob = false;
    storage().open(container("g", "1"), true);
    EXPECT_EQ(storage().find("g", {.id = "2"})->container.job.id, "");
}

TEST_F(ContainerStorageTest, whatRunsIsNotRemoved) {
    const auto running = storage().open(container("a"), true);
    EXPECT_FALSE(storage().remove(storage().list().at(0), 1));
    EXPECT_TRUE(pathExists(cat(running->directory, "/container.json")));
}

TEST_F(ContainerStorageTest, twoMayRemoveTheSameAtOnce) {
    for (int round = 0; round < 20; ++round) {
        const auto made = storage().open(container("a"), true)->directory;
        for (int i = 0; i < 50; ++i) {
            createDirectories(cat(made, "/upper/", i, "/deep"));
        }
        const auto entry = storage().list().at(0);
        auto other = std::async(std::launch::async, [&] { return storage().remove(entry, 1); });
        EXPECT_TRUE(storage().remove(entry, 1));
        EXPECT_TRUE(other.get());
        EXPECT_THAT(names(), ElementsAre());
    }
}

TEST_F(ContainerStorageTest, thoseOfEndedJobsGoWithWhatWasLeftUnfinished) {
    const auto cgroup = directory.path() + "/extern";
    createDirectories(cgroup);
    auto living = container("living", "1");
    living.job.directory = cgroup;
    auto over = container("over", "2");
    over.job.directory = "/nonexistent";
    auto late = container("late", "3");
    late.job.end = 1000;
    auto open = container("open", "4");
    for (const auto& one : {living, over, late, open, container("without")}) {
        storage().open(one, true);
    }
    const auto unfinished = storage().open(container("unfinished"), true)->directory;
    ASSERT_EQ(::unlink(cat(unfinished, "/container.json").c_str()), 0);
    EXPECT_THAT(storage().removeOfEndedJobs({.id = "3"}), ElementsAre("over"));
    EXPECT_FALSE(pathExists(unfinished));
    EXPECT_THAT(storage().removeOfEndedJobs({.id = "2"}), ElementsAre("late"));
    EXPECT_THAT(names(), ElementsAre("living", "open", "without"));
    removeTree(cgroup);
    EXPECT_THAT(storage().removeOfEndedJobs({.id = "1"}), ElementsAre("living"));
}

TEST_F(ContainerStorageTest, aDamagedDescriptionHidesNoOther) {
    const auto damaged = storage().open(container("a"), true)->directory;
    storage().open(container("b"), true);
    replaceFile(cat(damaged, "/container.json"), "{", 0600);
    EXPECT_THAT(names(), ElementsAre("b"));
    EXPECT_THAT(storage().removeOfEndedJobs({}), IsEmpty());
    EXPECT_TRUE(pathExists(damaged));
    EXPECT_FALSE(storage().find("c", {}));
    EXPECT_TRUE(storage().remove(storage().find("a", {}).value(), 1));
    EXPECT_FALSE(pathExists(damaged));
}

/// A directory that the user has chosen for the layers.
class ChosenPlaceTest : public ContainerStorageTest {
protected:
    ChosenPlaceTest() { ::mkdir(place.c_str(), 0755); }

    KeptContainer chosen(const std::string& name) const {
        auto made = container(name);
        made.directory = place;
        return made;
    }

    std::vector<std::string> entries() const {
        std::vector<std::string> found;
        Directory all(place, Missing::isError);
        while (const char* name = all.next()) {
            found.emplace_back(name);
        }
        return found;
    }

    std::string place = directory.path() + "/place";
};

TEST_F(ChosenPlaceTest, itHoldsTheLayersUntilTheContainerIsRemoved) {
    const auto made = storage().open(chosen("a"), true);
    EXPECT_THAT(entries(), ElementsAre(StartsWith("sarus-a-")));
    EXPECT_EQ(made->directory, cat(place, '/', entries().at(0)));
    replaceFile(cat(made->directory, "/upper/file"), "text", 0644);
    EXPECT_FALSE(storage().remove(storage().list().at(0), 1));
}

TEST_F(ChosenPlaceTest, itIsFoundWithoutBeingNamed) {
    replaceFile(cat(storage().open(chosen("a"), true)->directory, "/upper/file"), "text", 0644);
    const auto again = storage().open(container("a"), false);
    ASSERT_TRUE(again && !again->isNew);
    EXPECT_EQ(readFile(cat(descriptorPath(again->layers.get()), "/upper/file")), "text");
}

TEST_F(ChosenPlaceTest, itIsEmptyAfterwards) {
    storage().open(chosen("a"), true);
    EXPECT_TRUE(storage().remove(storage().list().at(0), 1));
    EXPECT_THAT(entries(), IsEmpty());
    EXPECT_THAT(names(), IsEmpty());
}

TEST_F(ChosenPlaceTest, whatAKillLeavesThereGoesWithTheContainer) {
    for (const bool isNoted : {true, false}) {
        const auto made = storage().open(chosen("a"), true)->directory;
        const auto own = storage().find("a", {})->directory;
        ASSERT_EQ(::unlink(cat(own, "/container.json").c_str()), 0);
        if (!isNoted) {
            removeTree(cat(made, "/upper"));
            removeTree(cat(made, "/work"));
            replaceFile(cat(own, "/layers"), cat("0\n", made.substr(made.rfind('/') + 1), '\n', place), 0600);
        }
        EXPECT_THAT(storage().removeOfEndedJobs({}), IsEmpty());
        EXPECT_THAT(entries(), IsEmpty()) << isNoted;
        EXPECT_FALSE(pathExists(own));
    }
}

TEST_F(ChosenPlaceTest, anotherDirectoryInItsPlaceIsNotUsed) {
    const auto made = storage().open(chosen("a"), true)->directory;
    ASSERT_EQ(::rename(made.c_str(), cat(place, "/aside").c_str()), 0);
    EXPECT_THAT(errorOf([&] { storage().open(container("a"), false); }), HasSubstr("any more"));
    createDirectories(cat(made, "/upper"), 0700);
    EXPECT_THAT(errorOf([&] { storage().open(container("a"), false); }), HasSubstr("any more"));
    EXPECT_TRUE(storage().remove(storage().list().at(0), 1));
    EXPECT_TRUE(pathExists(cat(made, "/upper")) && pathExists(cat(place, "/aside/upper")));
}

TEST_F(ChosenPlaceTest, onlyADirectoryOfTheUsersAloneIsUsed) {
    ASSERT_EQ(::chmod(place.c_str(), 0777), 0);
    EXPECT_THAT(errorOf([&] { storage().open(chosen("a"), true); }), HasSubstr("others can write to it"));
    ASSERT_EQ(::chmod(place.c_str(), 0755), 0);
    ASSERT_EQ(::symlink("/proc/self/fd/0", cat(place, "/link").c_str()), 0);
    place += "/link";
    EXPECT_THAT(errorOf([&] { storage().open(chosen("a"), true); }), HasSubstr("Failed to open"));
    EXPECT_THAT(names(), IsEmpty());
}

}  // namespace
}  // namespace sarus::starter::container_storage_test
