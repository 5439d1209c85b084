#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/failing_listing.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "starter/entry/entry.hpp"
#include "starter/namespaces/holder_file.hpp"
#include "starter/supervise/container_record.hpp"

namespace sarus::starter::listing_failures_test {
namespace {

// What cannot be listed is not absent: a container would not count, a descriptor would stay open in it.
TEST(StarterListings, FailWhereADirectoryCannotBeRead) {
    const test::TemporaryDirectory directory;
    createDirectories(directory.path() + "/container");
    const std::vector<std::pair<const char*, std::function<void()>>> users{
        {"openDescriptors", [] { openDescriptors(); }},
        {"countContainers", [&] { countContainers(directory.path()); }},
        {"sweepDeadContainers", [&] { sweepDeadContainers(directory.path()); }},
        {"sweepHolderFiles", [&] { sweepHolderFiles(directory.path()); }},
    };
    for (const auto& [name, use] : users) {
        for (const int after : {0, 2}) {
            const test::FailingListing failing(EIO, after);
            EXPECT_THROW(use(), Error) << name << " after " << after;
        }
    }
    EXPECT_TRUE(std::filesystem::exists(directory.path() + "/container"));
}

TEST(StarterListings, FilesOfHoldersStayWhereNotAllCanBeSeen) {
    const test::TemporaryDirectory directory;
    for (int number = 0; number < 70; ++number) {
        replaceFile(directory.path() + "/" + std::to_string(number), "", 0600);
    }
    {
        const test::FailingListing failing(EIO, 69);
        sweepUnheldFiles(directory.path());
    }
    EXPECT_TRUE(std::filesystem::exists(directory.path() + "/0"));
    sweepUnheldFiles(directory.path());
    EXPECT_FALSE(std::filesystem::exists(directory.path() + "/0"));
}

}  // namespace
}  // namespace sarus::starter::listing_failures_test
