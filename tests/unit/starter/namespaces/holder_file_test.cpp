#include "starter/namespaces/holder_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <limits>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/process_tree.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"

namespace sarus::starter::holder_file_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Holders = std::vector<Holder>;

const Holder first{.pid = 12, .started = 3456, .first = 7, .second = 0};
const Holder second{.pid = 13, .started = 3457, .first = 8, .second = 9};

HolderFile openIn(const test::TemporaryDirectory& directory) {
    return HolderFile::open(directory.path(), "x", ::getuid());
}

TEST(HolderFiles, AreReadAsTheyWereWritten) {
    const Holder largest{INT_MAX, std::numeric_limits<std::uint64_t>::max(), INT_MAX, INT_MAX};
    EXPECT_EQ(parseHolders(formatHolders({first, second, largest})), (Holders{first, second, largest}));
    EXPECT_EQ(parseHolders(""), Holders{});
}

TEST(HolderFiles, WhatIsLeftOfALongerFileAreHoldersAsWell) {
    const auto longer = formatHolders({first, first, second});
    const auto shorter = formatHolders({second});
    EXPECT_EQ(parseHolders(shorter + longer.substr(shorter.size())), (Holders{second, first, second}));
}

TEST(HolderFiles, ADamagedRecordNamesNobody) {
    const auto good = formatHolders({first});
    auto changed = [&](std::size_t at, char to) {
        auto text = good;
        text[at] = to;
        return good + text;
    };
    const auto line = [](std::string text) {
        text.resize(63, ' ');
        return text + "\n";
    };
    for (const auto& text :
         {good.substr(1), good + good.substr(0, 20), good + "\n", changed(0, '-'), changed(0, 'x'),
          changed(1, '\0'), changed(63, ' '), line("1 2 3"), line("1 2 3 4 5"), line("0 2 3 4"),
          line("1 0 3 4"), line("2147483648 2 3 4"), line("1 2 2147483648 4"),
          line("1 18446744073709551616 3 4"), line(""), std::string(64, '\0')}) {
        EXPECT_EQ(parseHolders(text), std::nullopt) << printable(text);
    }
}

TEST(HolderFiles, AFileIsPrivateAndKeepsWhatWasWrittenLast) {
    const test::TemporaryDirectory directory;
    openIn(directory).write({first, second});
    EXPECT_THAT(openIn(directory).read(), ElementsAre(first, second));
    openIn(directory).write({second});
    EXPECT_THAT(openIn(directory).read(), ElementsAre(second));
    struct stat status {};
    ASSERT_EQ(::stat((directory / "x").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
    EXPECT_EQ(status.st_size, 64);
}

TEST(HolderFiles, ADamagedOrHugeFileIsEmpty) {
    const test::TemporaryDirectory directory;
    for (const auto& text :
         {std::string("12"), std::string(1U << 20U, 'x'), formatHolders(Holders(1025, first))}) {
        replaceFile(directory / "x", text, 0600);
        EXPECT_THAT(openIn(directory).read(), IsEmpty());
    }
    replaceFile(directory / "x", formatHolders(Holders(1024, first)), 0600);
    EXPECT_EQ(openIn(directory).read().size(), 1024U);
}

TEST(HolderFiles, OnlyAPrivateFileOfTheOwnerIsUsed) {
    const test::TemporaryDirectory directory;
    replaceFile(directory / "target", "", 0600);
    ASSERT_EQ(::symlink((directory / "target").c_str(), (directory / "x").c_str()), 0);
    EXPECT_THROW(openIn(directory), Error);
    ::unlink((directory / "x").c_str());
    ASSERT_EQ(::mkfifo((directory / "x").c_str(), 0600), 0);
    EXPECT_THROW(openIn(directory), Error);
    ::unlink((directory / "x").c_str());
    replaceFile(directory / "x", "", 0640);
    EXPECT_THROW(openIn(directory), Error);
    ::chmod((directory / "x").c_str(), 0600);
    EXPECT_NO_THROW(openIn(directory));
    EXPECT_THROW(HolderFile::open(directory.path(), "x", ::getuid() + 1), Error);
}

TEST(HolderFiles, ALockedFileIsWaitedForOnlyForAShortTime) {
    const test::TemporaryDirectory directory;
    const auto held = openIn(directory);
    EXPECT_THROW(openIn(directory), Error);
}

TEST(HolderFiles, OldFilesAreSweptUnlessTheyAreInUse) {
    const test::TemporaryDirectory directory;
    const timespec old[2] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}};
    for (const auto* name : {"x", "old", "new"}) {
        replaceFile(directory / name, "", 0600);
    }
    const auto used = openIn(directory);
    for (const auto* name : {"x", "old"}) {
        ASSERT_EQ(::utimensat(AT_FDCWD, (directory / name).c_str(), old, 0), 0);
    }
    sweepHolderFiles(directory.path());
    EXPECT_TRUE(pathExists(directory / "x"));
    EXPECT_TRUE(pathExists(directory / "new"));
    EXPECT_FALSE(pathExists(directory / "old"));
    sweepHolderFiles(directory / "missing");
}

TEST(HolderFiles, AreLockedAgainOnlyIfNobodyElseHasTheLock) {
    const test::TemporaryDirectory directory;
    const auto file = openIn(directory);
    EXPECT_TRUE(file.lockAgain());
    file.unlock();
    {
        const auto other = openIn(directory);
        EXPECT_FALSE(file.lockAgain(std::chrono::milliseconds(1)));
    }
    EXPECT_TRUE(file.lockAgain());
}

TEST(HolderFiles, ForReadingAreNeitherWrittenNorLocked) {
    const test::TemporaryDirectory directory;
    auto file = openIn(directory);
    file.write({first});
    file.giveUpWriting();
    EXPECT_THROW(file.write({second}), Error);
    EXPECT_THAT(openIn(directory).read(), ElementsAre(first));
    EXPECT_THAT(file.read(), ElementsAre(first));
}

TEST(HolderFiles, AreRemovedUnderTheirOwnNameAlone) {
    const test::TemporaryDirectory directory;
    const auto file = openIn(directory);
    replaceFile(directory / "other", "", 0600);
    ASSERT_EQ(::rename((directory / "other").c_str(), (directory / "x").c_str()), 0);
    file.remove();
    EXPECT_TRUE(pathExists(directory / "x"));
    openIn(directory).remove();
    EXPECT_FALSE(pathExists(directory / "x"));
}

TEST(HolderFiles, WithoutLivingHoldersAreRemovedOnceThereAreMany) {
    const test::TemporaryDirectory directory;
    const Process self(::getpid());
    const auto living =
        formatHolders({{.pid = self.pid(), .started = self.started(), .first = 1, .second = 1}});
    replaceFile(directory / "living", living, 0600);
    const auto addEnded = [&](int count) {
        for (int number = 0; number < count; ++number) {
            replaceFile(directory / cat("ended", number), formatHolders({first}), 0600);
        }
    };
    addEnded(10);
    sweepUnheldFiles(directory.path());
    EXPECT_TRUE(pathExists(directory / "ended0"));
    addEnded(70);
    const auto locked = openIn(directory);
    sweepUnheldFiles(directory.path());
    EXPECT_TRUE(pathExists(directory / "living") && pathExists(directory / "x"));
    EXPECT_FALSE(pathExists(directory / "ended0") || pathExists(directory / "ended69"));
}

}  // namespace
}  // namespace sarus::starter::holder_file_test
