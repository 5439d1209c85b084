#include "image/store/import_session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/subprocess.hpp"
#include "image/scratch.hpp"
#include "image/store/repository.hpp"

namespace sarus::image::import_session_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

/// Runs `body` in a process which then ends without any clean-up.
template <typename Body>
bool runAndWaitInChild(Body body) {
    const auto child = ::fork();
    if (child == 0) {
        body();
        ::_exit(0);
    }
    int status = 1;
    return ::waitpid(child, &status, 0) == child && status == 0;
}

TEST(ImportSession, rejectsATemporaryDirectoryThatIsNone) {
    const test::Scratch scratch;
    const Repository repository(scratch.path("r"), RepositoryAccess::write, {});
    try {
        const ImportSession session(repository.paths(), "/invalid-dir", {});
        ADD_FAILURE();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "Invalid temporary directory \"/invalid-dir\"");
    }
}

TEST(ImportSession, removesEverythingAtItsEnd) {
    const test::Scratch scratch;
    const Repository repository(scratch.path("r"), RepositoryAccess::write, {});
    createDirectories(scratch.path("tmp"));
    const auto blob = scratch.write("r/cache/blobs/sha256/abc", "data");
    {
        const ImportSession session(repository.paths(), scratch.path("tmp"), {});
        EXPECT_EQ(readFile(session.cachedLayout() + "/blobs/sha256/abc"), "data");
        struct stat status {};
        ::stat(session.workDirectory().c_str(), &status);
        EXPECT_EQ(status.st_mode & 0777U, 0700U);
    }
    EXPECT_EQ(
        runAndCapture({.path = "/bin/ls", .args = {"ls", scratch.path("tmp"), repository.paths().layouts()}})
            .out,
        cat(repository.paths().layouts(), ":\n\n", scratch.path("tmp"), ":\n"));
    EXPECT_TRUE(pathExists(blob));
}

TEST(ImportSession, closesItsLockBeforeRemovingIt) {
    const test::Scratch scratch;
    const Repository repository(scratch.path("r"), RepositoryAccess::write, {});
    const UniqueFd events(::inotify_init1(IN_CLOEXEC));
    {
        const ImportSession session(repository.paths(), scratch.path(), {});
        ASSERT_GE(::inotify_add_watch(events.get(), session.cachedLayout().c_str(), IN_CLOSE | IN_DELETE), 0);
    }
    std::string buffer(4096, '\0');
    buffer.resize(static_cast<std::size_t>(::read(events.get(), buffer.data(), buffer.size())));
    std::vector<std::uint32_t> masks;
    for (std::string_view left = buffer; !left.empty();) {
        struct inotify_event event {};
        std::memcpy(&event, left.data(), sizeof event);
        if (left.substr(sizeof event, event.len).starts_with(std::string_view("lock\0", 5))) {
            masks.push_back(event.mask);
        }
        left.remove_prefix(sizeof event + event.len);
    }
    EXPECT_THAT(masks, ElementsAre(IN_CLOSE_WRITE, IN_DELETE));
}

TEST(ImportSession, leftoversOfAKilledOneAreRemoved) {
    const test::Scratch scratch;
    const Repository repository(scratch.path("r"), RepositoryAccess::write, {});
    const std::string suffix = "abcdefghijklmnop";
    scratch.write(cat("r/cache/ociImages/image-", suffix, "/lock"), "");
    scratch.write(cat("r/cache/ociImages/image-", suffix, "/index.json"), "");
    scratch.write(cat("tmp/sarus-import-", suffix, "/spool"), "");
    scratch.write(cat("r/sarus-auth-", suffix, ".json"), "secret");
    scratch.write(cat("run/sarus/sarus-auth-", suffix, ".json"), "secret");
    scratch.write("tmp/somebody-elses", "");
    ::setenv("XDG_RUNTIME_DIR", scratch.path("run").c_str(), 1);
    EXPECT_THAT(deadImports(repository.paths()), ElementsAre(suffix));
    removeAbandonedImports(repository.paths(), scratch.path("tmp"));
    ::unsetenv("XDG_RUNTIME_DIR");
    EXPECT_THAT(deadImports(repository.paths()), IsEmpty());
    EXPECT_FALSE(pathExists(repository.paths().layout(suffix)));
    EXPECT_FALSE(pathExists(scratch.path(cat("tmp/sarus-import-", suffix))));
    EXPECT_FALSE(pathExists(scratch.path(cat("r/sarus-auth-", suffix, ".json"))));
    EXPECT_FALSE(pathExists(scratch.path(cat("run/sarus/sarus-auth-", suffix, ".json"))));
    EXPECT_TRUE(pathExists(scratch.path("tmp/somebody-elses")));
}

TEST(ImportSession, workOfAKilledOneIsRemovedWhereverItWas) {
    const test::Scratch scratch;
    const Repository repository(scratch.path("r"), RepositoryAccess::write, {});
    for (const std::string directory : {"named", "default", "named/precious"}) {
        createDirectories(scratch.path(directory));
    }
    const auto killed = runAndWaitInChild([&] {
        new ImportSession(repository.paths(), scratch.path("named"), {});  // as SIGKILL leaves it
    });
    ASSERT_TRUE(killed);
    const auto dead = deadImports(repository.paths());
    ASSERT_EQ(dead.size(), 1U);
    const auto work = scratch.path(cat("named/sarus-import-", dead[0]));
    EXPECT_TRUE(isDirectory(work));
    removeAbandonedImports(repository.paths(), scratch.path("default"));
    EXPECT_FALSE(pathExists(work));
    EXPECT_TRUE(pathExists(scratch.path("named/precious")));
}

TEST(ImportSession, whatWasKilledWithoutALockIsRemovedOnceNoImportRuns) {
    const test::Scratch scratch;
    const Repository repository(scratch.path("r"), RepositoryAccess::write, {});
    const auto& paths = repository.paths();
    createDirectories(scratch.path("tmp"));
    createDirectories(paths.layout("emptyemptyemptye"));
    scratch.write("r/cache/ociImages/image-draftdraftdraftd/lock-new", "");
    scratch.write("r/cache/ociImages/image-foreignforeignfo/index.json", "");  // of another program
    {
        const ImportSession running(paths, scratch.path("tmp"), {});
        EXPECT_THAT(deadImports(paths), IsEmpty());
    }
    EXPECT_THAT(deadImports(paths), UnorderedElementsAre("emptyemptyemptye", "draftdraftdraftd"));
    removeAbandonedImports(paths, scratch.path("tmp"));
    EXPECT_FALSE(pathExists(paths.layout("emptyemptyemptye")));
    EXPECT_FALSE(pathExists(paths.layout("draftdraftdraftd")));
    EXPECT_TRUE(pathExists(paths.layout("foreignforeignfo")));
}

TEST(ImportSession, thatOfAnotherNodeIsDeadOnlyAfterADay) {
    const test::Scratch scratch;
    const Repository repository(scratch.path("r"), RepositoryAccess::write, {});
    const auto& paths = repository.paths();
    const auto marker = paths.layout("anothernodesimpo");
    scratch.write("r/cache/ociImages/image-anothernodesimpo/lock", "00000000-of-another-boot");
    EXPECT_THAT(deadImports(paths), IsEmpty());
    const auto before = ::time(nullptr) - 90'000;  // seconds
    const utimbuf times{before, before};
    ASSERT_EQ(::utime(marker.c_str(), &times), 0);
    EXPECT_THAT(deadImports(paths), ElementsAre("anothernodesimpo"));
}

TEST(ImportSession, onlyDirectoriesOfItsOwnNameAreRemoved) {
    const test::Scratch scratch;
    const Repository repository(scratch.path("r"), RepositoryAccess::write, {});
    const std::string suffix = "abcdefghijklmnop";
    const auto precious = scratch.write("precious/file", "data");
    scratch.write(cat("r/cache/ociImages/image-", suffix, "/lock"), "");
    ASSERT_EQ(
        ::symlink(scratch.path("precious").c_str(), cat(repository.paths().layout(suffix), "/work").c_str()),
        0);
    removeAbandonedImports(repository.paths(), scratch.path());
    EXPECT_THAT(deadImports(repository.paths()), IsEmpty());
    EXPECT_TRUE(pathExists(precious));
}

TEST(AuthenticationDirectory, isBelowTheRuntimeDirectoryIfThatExists) {
    const test::Scratch scratch;
    const RepositoryPaths paths{"/repository"};
    ::setenv("XDG_RUNTIME_DIR", scratch.path().c_str(), 1);
    EXPECT_EQ(authenticationDirectory(paths), scratch.path("sarus"));
    ::setenv("XDG_RUNTIME_DIR", scratch.path("missing").c_str(), 1);
    EXPECT_EQ(authenticationDirectory(paths), "/repository");
    ::unsetenv("XDG_RUNTIME_DIR");
    EXPECT_EQ(authenticationDirectory(paths), "/repository");
}

}  // namespace
}  // namespace sarus::image::import_session_test
