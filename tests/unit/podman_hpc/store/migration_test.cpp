#include "podman_hpc/store/migration.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/error.hpp"
#include "base/failing_listing.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "podman_hpc/store/migration_stores.hpp"
#include "podman_hpc/store/record_lock.hpp"
#include "podman_hpc/store/work_directory.hpp"

namespace sarus::podman_hpc::migration_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using test::base;
using test::idOf;
using test::MigrationStores;
using test::squashfs;

TEST_F(MigrationStores, AnImageIsMadeOnce) {
    EXPECT_EQ(add('a'), MigrationResult::migrated);
    EXPECT_EQ(add('a'), MigrationResult::unchanged);
    EXPECT_EQ(made, 1);
    EXPECT_EQ(readFile(squash('X')), squashfs());
    EXPECT_EQ(readLists(store).layers.size(), 2U);
    EXPECT_EQ(readFile(cat(store.layer(base), "/link")), std::string(26, 'B'));
}

TEST_F(MigrationStores, AFailureLeavesNothingVisible) {
    const auto lists = readLists(local);
    const auto fail = [](const SquashOrder& order) {
        writeAll(order.output, "hsqs", "output");
        throw Error("no");
    };
    EXPECT_THROW(migrate(local, lists, lists.images[0], store, fail, {}), Error);
    EXPECT_THAT(readLists(store).images, IsEmpty());
    EXPECT_THAT(readLists(store).layers, IsEmpty());
    EXPECT_FALSE(pathExists(squash('X')));
    EXPECT_EQ(add('a'), MigrationResult::migrated);
}

TEST_F(MigrationStores, FilesThatCannotBeListedAreAFailure) {
    for (const int after : {0, 1}) {
        const sarus::test::FailingListing failing(EIO, after);
        EXPECT_THROW(add('a'), Error);
    }
    EXPECT_THAT(readLists(store).images, IsEmpty());
    EXPECT_EQ(add('a'), MigrationResult::migrated);
    EXPECT_EQ(readFile(cat(store.images(), '/', idOf('a'), "/manifest")), "{}");
}

TEST_F(MigrationStores, WhatAKilledMigrationLeftIsNotTakenForNothing) {
    const auto left = cat(store.root, "/tmp/migrate-left");
    createDirectories(left);
    {
        const sarus::test::FailingListing failing(EIO, 0);
        EXPECT_THROW(WorkDirectory(cat(store.root, "/tmp")), Error);
    }
    const WorkDirectory next(cat(store.root, "/tmp"));
    EXPECT_FALSE(pathExists(left));
}

TEST_F(MigrationStores, ANameBelongsToOneImage) {
    add('a');
    replaceFile(local.imageList(), cat("[", image('c', '2', "x:1"), "]"), 0644);
    add('c');
    EXPECT_THAT(names(), ElementsAre("x:1"));
    EXPECT_EQ(readLists(store).images.size(), 2U);
}

TEST_F(MigrationStores, AStoreOfTheReferenceIsContinued) {
    // It has the image under another link, and recorded it without any lock.
    const std::string link(26, 'Q');
    createDirectories(cat(store.layer(idOf('1')), "/diff"));
    replaceFile(cat(store.layer(idOf('1')), "/link"), link, 0644);
    ASSERT_EQ(::symlink(cat("../", idOf('1'), "/diff").c_str(), store.link(link).c_str()), 0);
    replaceFile(store.squash(link), squashfs(), 0644);
    replaceFile(store.layerList(), cat("[", layer(base, ""), ",", layer(idOf('1'), base), "]"), 0644);
    EXPECT_EQ(add('a'), MigrationResult::migrated);
    EXPECT_EQ(made, 1);  // what is not recorded may be a part
    EXPECT_EQ(readFile(cat(store.layer(idOf('1')), "/link")), link);
    EXPECT_EQ(add('a'), MigrationResult::unchanged);
    ::truncate(store.squash(link).c_str(), 0);
    EXPECT_EQ(add('a'), MigrationResult::migrated);  // an empty file is no image
    EXPECT_EQ(made, 2);
}

TEST_F(MigrationStores, ASharedTopLayerIsKept) {
    replaceFile(local.imageList(), cat("[", image('a', '1', "x:1"), ",", image('c', '1', "y:1"), "]"), 0644);
    add('a');
    add('c');
    EXPECT_EQ(made, 1);
    removeSquashed(store, "x:1", {});
    EXPECT_TRUE(pathExists(squash('X')));
    EXPECT_THAT(names(), ElementsAre("y:1"));
    EXPECT_THAT(removeSquashed(store, idOf('c'), {}),
                ElementsAre("Untagged: y:1", cat("Deleted: ", idOf('c'))));
    EXPECT_FALSE(pathExists(squash('X')));
    EXPECT_FALSE(pathExists(store.layer(base)));
    EXPECT_THROW(removeSquashed(store, "y:1", {}), Error);
}

TEST_F(MigrationStores, LinksOfAnotherUserAreNotFollowed) {
    ASSERT_EQ(::symlink((directory / "victim").c_str(),
                        cat(store.root, "/overlay/l/.", std::string(26, 'X'), ".squash.unfinished").c_str()),
              0);
    EXPECT_THROW(add('a'), Error);
    EXPECT_FALSE(pathExists(directory / "victim"));
    ::unlink((store.root + "/migrate.lock").c_str());
    ASSERT_EQ(::symlink((directory / "victim").c_str(), cat(store.root, "/migrate.lock").c_str()), 0);
    EXPECT_THROW(add('c'), Error);
    EXPECT_FALSE(pathExists(directory / "victim"));
}

TEST_F(MigrationStores, AWriterWithoutOurLockIsNotOverwritten) {
    add('a');
    const ChangeLock lock(store, {});
    int rounds = 0;
    changeLists(lock, FirstList::layers, [&](StoreLists& lists) {
        if (++rounds == 1) {
            replaceFile(store.layerList(), cat("[", layer(idOf('e'), ""), "]"), 0644);
        }
        lists.images.clear();
    });
    EXPECT_EQ(rounds, 2);
    EXPECT_NE(findLayer(readLists(store).layers, idOf('e')), nullptr);
}

TEST_F(MigrationStores, PodmansLocksExcludeOnlyTheRenames) {
    const auto path = store.images() + "/images.lock";
    const auto file = openFile(path, O_RDWR);
    const auto mark = readFile(path);
    struct flock lock {};
    lock.l_type = F_RDLCK;
    lock.l_whence = SEEK_SET;
    ASSERT_EQ(::fcntl(file.get(), F_OFD_SETLK, &lock), 0);  // a reader, such as `podman run`
    std::thread writer([&] { add('a'); });
    const auto prepared = store.imageList() + ".new";
    while (!pathExists(prepared)) {
        ::usleep(1000);
    }
    EXPECT_THAT(names(), IsEmpty());
    EXPECT_EQ(readFile(path), mark);
    lock.l_type = F_UNLCK;
    ASSERT_EQ(::fcntl(file.get(), F_OFD_SETLK, &lock), 0);
    writer.join();
    EXPECT_THAT(names(), ElementsAre("x:1"));
    EXPECT_EQ(readFile(path).size(), 64U);
    EXPECT_NE(readFile(path), mark);
}

}  // namespace
}  // namespace sarus::podman_hpc::migration_test
