#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/failing_listing.hpp"
#include "image/broadcast/local_copy.hpp"
#include "image/scratch.hpp"
#include "image/store/import_session.hpp"
#include "image/store/prune.hpp"
#include "image/store/repository.hpp"
#include "image/store/repository_scan.hpp"
#include "image/store/usage.hpp"

namespace sarus::image::listing_failures_test {
namespace {

// A directory that cannot be read is not empty: an image in it would count as lost, a download as removed.
TEST(Listings, FailWhereADirectoryCannotBeRead) {
    const test::Scratch scratch;
    Repository repository(scratch.path("r"), RepositoryAccess::write, {});
    const auto& paths = repository.paths();
    scratch.write("r/cache/blobs/sha256/aaaa", "x");
    scratch.write("r/cache/ociImages/image-abcdefghijklmnop/lock", "");
    const auto unpacked = cat("tmp/sarus-", ::geteuid(), "/unpacked/");
    scratch.write(unpacked + "image/file", "x");
    scratch.write(unpacked + "image.lock", "");
    createDirectories(paths.images());
    const std::vector<std::pair<const char*, std::function<void()>>> users{
        {"scanImages", [&] { scanImages(paths); }},
        {"list", [&] { repository.list(); }},
        {"blobUsage", [&] { blobUsage(paths); }},
        {"deadImports", [&] { deadImports(paths); }},
        {"unpackedUsage", [&] { unpackedUsage(scratch.path("tmp")); }},
        {"pruneUnpackedImages", [&] { pruneUnpackedImages(scratch.path("tmp"), true); }},
        {"pruneCache", [&] { pruneCache(repository, scratch.path("tmp"), false); }},
    };
    for (const auto& [name, use] : users) {
        for (const int after : {0, 2}) {
            const test::FailingListing failing(EIO, after);
            EXPECT_THROW(use(), Error) << name << " after " << after;
        }
        EXPECT_NO_THROW(use()) << name;
    }
}

}  // namespace
}  // namespace sarus::image::listing_failures_test
