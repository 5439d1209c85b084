#include "hooks/mpi/suggest.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.hpp"
#include "base/failing_listing.hpp"
#include "base/temporary_directory.hpp"

namespace sarus::hooks::mpi::suggest_test {
namespace {

// The libraries of Fortran would be missing from a hook file that looks complete.
TEST(SuggestTest, ADirectoryThatCannotBeReadIsAnError) {
    const test::TemporaryDirectory directory;
    const auto library = directory.path() + "/libmpi.so.12";
    std::filesystem::copy_file("/proc/self/exe", library);
    EXPECT_NO_THROW(suggest(library, directory.path()));
    for (const int after : {0, 2}) {
        const test::FailingListing failing(EIO, after);
        EXPECT_THROW(suggest(library, directory.path()), Error) << after;
    }
}

}  // namespace
}  // namespace sarus::hooks::mpi::suggest_test
