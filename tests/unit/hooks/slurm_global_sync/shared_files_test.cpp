#include "hooks/slurm_global_sync/shared_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/failing_listing.hpp"
#include "base/temporary_directory.hpp"

namespace sarus::hooks::slurm_global_sync::shared_files_test {
namespace {

// No task may count as absent because the file server has answered with an error.
TEST(DiskFilesTest, ADirectoryThatCannotBeReadIsAnError) {
    const test::TemporaryDirectory home;
    DiskFiles files(home.path(), "sync");
    files.makeFile("task", "");
    for (const int after : {0, 1}) {
        const test::FailingListing failing(ESTALE, after);
        EXPECT_THROW(files.list("."), Error) << after;
    }
    EXPECT_THAT(files.list("."), testing::ElementsAre("task"));
    EXPECT_THAT(files.list("missing"), testing::IsEmpty());
}

}  // namespace
}  // namespace sarus::hooks::slurm_global_sync::shared_files_test
