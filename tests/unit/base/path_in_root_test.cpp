#include "base/path_in_root.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/isolated_process.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"

namespace sarus::test::path_in_root_test {
namespace {

/// Every case runs with the kernel's openat2 and with the two ways in which it can be missing.
class PathInRoot : public ::testing::TestWithParam<std::optional<int>> {
protected:
    void SetUp() override {
        createDirectories(directory / "root/etc");
        createDirectories(directory / "root/a/b");
        replaceFile(directory / "root/etc/passwd", "inside", 0644);
        replaceFile(directory / "secret", "outside", 0644);
        createDirectories(directory / "outside");
    }

    void link(const std::string& target, const std::string& name) {
        ASSERT_EQ(::symlink(target.c_str(), (directory / cat("root/", name)).c_str()), 0);
    }

    /// Runs the body with the wanted implementation and the root's descriptor.
    void run(const std::function<void(int root)>& body) {
        inChild([&] {
            const auto root = openFile(directory / "root", O_PATH | O_DIRECTORY);
            if (GetParam()) {
                failSystemCalls({SYS_openat2}, *GetParam());
            }
            body(root.get());
        });
    }

    std::string inside(const std::string& path) const { return directory / cat("root", path); }

    static int errorOf(const std::function<void()>& action) {
        try {
            action();
        } catch (const Error& error) {
            return error.errnum();
        }
        return 0;
    }

    TemporaryDirectory directory;
};

TEST_P(PathInRoot, PlainPathsNameWhatIsInside) {
    run([&](int root) {
        EXPECT_EQ(pathOfDescriptor(openInRoot(root, "/etc/passwd").get()), inside("/etc/passwd"));
        EXPECT_EQ(pathOfDescriptor(openInRoot(root, "etc//./passwd").get()), inside("/etc/passwd"));
        EXPECT_EQ(pathOfDescriptor(openInRoot(root, "/").get()), inside(""));
        EXPECT_EQ(pathOfDescriptor(openInRoot(root, "").get()), inside(""));
    });
}

TEST_P(PathInRoot, DotDotStopsAtTheRoot) {
    run([&](int root) {
        EXPECT_EQ(pathOfDescriptor(openInRoot(root, "/../../../etc/passwd").get()), inside("/etc/passwd"));
        EXPECT_EQ(pathOfDescriptor(openInRoot(root, "a/b/../../../..").get()), inside(""));
        EXPECT_EQ(errorOf([&] { openInRoot(root, "../secret"); }), ENOENT);
    });
}

TEST_P(PathInRoot, AbsoluteLinksStartAgainAtTheRoot) {
    link("/etc", "abs");
    link(directory / "secret", "hostile");
    link("/a/b", "etc/deep");
    run([&](int root) {
        EXPECT_EQ(pathOfDescriptor(openInRoot(root, "/abs/passwd").get()), inside("/etc/passwd"));
        EXPECT_EQ(pathOfDescriptor(openInRoot(root, "/abs/deep/..").get()), inside("/a"));
        EXPECT_EQ(errorOf([&] { openInRoot(root, "/hostile"); }), ENOENT);
    });
}

TEST_P(PathInRoot, RelativeLinksDoNotClimbOut) {
    link("../../../../secret", "a/climb");
    link("../../../../etc/passwd", "a/clamped");
    run([&](int root) {
        EXPECT_EQ(errorOf([&] { openInRoot(root, "/a/climb"); }), ENOENT);
        EXPECT_EQ(pathOfDescriptor(openInRoot(root, "/a/clamped").get()), inside("/etc/passwd"));
    });
}

TEST_P(PathInRoot, LoopsEndAfterFortyLinks) {
    link("loop2", "loop1");
    link("loop1", "loop2");
    link("etc", "l0");
    for (int i = 1; i <= 40; ++i) {
        link(cat('l', i - 1), cat('l', i));
    }
    run([&](int root) {
        EXPECT_EQ(errorOf([&] { openInRoot(root, "/loop1"); }), ELOOP);
        // The kernel counts links twice when it has to begin anew because of concurrent changes.
        EXPECT_EQ(pathOfDescriptor(openInRoot(root, "/l15").get()), inside("/etc"));
        EXPECT_EQ(errorOf([&] { openInRoot(root, "/l40"); }), ELOOP);
    });
}

TEST_P(PathInRoot, TheLastLinkCanBeKept) {
    link("/etc/passwd", "last");
    run([&](int root) {
        EXPECT_EQ(pathOfDescriptor(openInRoot(root, "/last", LastLink::keep).get()), inside("/last"));
        EXPECT_EQ(pathOfDescriptor(openInRoot(root, "/last").get()), inside("/etc/passwd"));
    });
}

TEST_P(PathInRoot, AFileIsNoDirectory) {
    run([&](int root) {
        EXPECT_EQ(errorOf([&] { openInRoot(root, "/etc/passwd/x"); }), ENOTDIR);
        EXPECT_EQ(errorOf([&] { openInRoot(root, "/etc/passwd/.."); }), ENOTDIR);
        EXPECT_EQ(errorOf([&] { openInRoot(root, "/etc/passwd/"); }), ENOTDIR);
    });
}

TEST_P(PathInRoot, MagicLinksOfProcNeverLeadOutside) {
    run([&](int) {
        const auto proc = openFile("/proc", O_PATH | O_DIRECTORY);
        const auto outside = openFile("/", O_PATH | O_DIRECTORY);
        const auto found = tryOpenInRoot(proc.get(), cat("self/fd/", outside.get()));
        EXPECT_TRUE(!found || pathOfDescriptor(found.get()).starts_with("/proc"))
            << pathOfDescriptor(found.get());
    });
}

TEST_P(PathInRoot, CreatesMissingDirectoriesAndFiles) {
    run([&](int root) {
        EXPECT_EQ(pathOfDescriptor(createInRoot(root, "/x/y/z", EntryKind::directory).get()),
                  inside("/x/y/z"));
        EXPECT_EQ(pathOfDescriptor(createInRoot(root, "/x/y/file", EntryKind::file).get()),
                  inside("/x/y/file"));
        struct stat status {};
        ASSERT_EQ(::stat(inside("/x/y/file").c_str(), &status), 0);
        EXPECT_TRUE(S_ISREG(status.st_mode));
        EXPECT_EQ(status.st_size, 0);
    });
}

TEST_P(PathInRoot, CreatesWhereADanglingLinkPointsInside) {
    link(directory / "outside/made", "dangling");
    run([&](int root) {
        const auto made = createInRoot(root, "/dangling/x", EntryKind::directory);
        EXPECT_EQ(pathOfDescriptor(made.get()), inside(cat(directory / "outside/made", "/x")));
        EXPECT_FALSE(pathExists(directory / "outside/made"));
    });
}

TEST_P(PathInRoot, WhatExistsIsLeftAsItIs) {
    run([&](int root) {
        createInRoot(root, "/etc/passwd", EntryKind::file);
        EXPECT_EQ(readFile(inside("/etc/passwd")), "inside");
    });
}

TEST_P(PathInRoot, TheKindMustMatch) {
    run([&](int root) {
        EXPECT_EQ(errorOf([&] { createInRoot(root, "/etc/passwd", EntryKind::directory); }), ENOTDIR);
        EXPECT_EQ(errorOf([&] { createInRoot(root, "/etc", EntryKind::file); }), EISDIR);
        EXPECT_EQ(errorOf([&] { createInRoot(root, "/etc/passwd/x", EntryKind::directory); }), ENOTDIR);
    });
}

TEST_P(PathInRoot, CreationAsksForPermissionInEveryDirectoryItSearches) {
    run([&](int root) {
        std::vector<std::string> parents;
        Creation creation;
        creation.permit = [&](int parent, const std::string& name) {
            parents.push_back(cat(pathOfDescriptor(parent), ": ", name));
        };
        createInRoot(root, "/a/new/newer", EntryKind::directory, creation);
        EXPECT_EQ(parents,
                  (std::vector<std::string>{inside(": a"), inside("/a: new"), inside("/a/new: newer")}));
        creation.permit = [](int, const std::string&) { throw Error("no"); };
        EXPECT_THROW(createInRoot(root, "/a/other", EntryKind::directory, creation), Error);
        EXPECT_FALSE(pathExists(inside("/a/other")));
        // Whoever is refused does not learn what is there.
        EXPECT_THROW(createInRoot(root, "/a/b", EntryKind::directory, creation), Error);
    });
}

TEST_P(PathInRoot, ADirectoryThatIsSwappedForALinkNeverLeadsOutside) {
    // One process swaps root/swap between a directory and a link to the outside, the other one creates below
    // it.
    run([&](int root) {
        const pid_t swapper = ::fork();
        if (swapper == 0) {
            const auto name = inside("/swap");
            for (;;) {
                ::mkdir(name.c_str(), 0755);
                ::rmdir((name + "/x").c_str());
                ::rmdir(name.c_str());
                if (::symlink((directory / "outside").c_str(), name.c_str()) == 0) {
                    ::unlink(name.c_str());
                }
            }
        }
        for (int i = 0; i < 2000; ++i) {
            try {
                const auto made = createInRoot(root, "/swap/x", EntryKind::directory);
                EXPECT_TRUE(pathOfDescriptor(made.get()).starts_with(inside("/")));
            } catch (const Error&) {
                // it may fail, but not lead outside
            }
        }
        ::kill(swapper, SIGKILL);
        ::waitpid(swapper, nullptr, 0);
        EXPECT_FALSE(pathExists(directory / "outside/x"));
    });
}

INSTANTIATE_TEST_SUITE_P(Ways, PathInRoot,
                         ::testing::Values(std::nullopt, std::optional(ENOSYS), std::optional(EPERM)),
                         [](const auto& way) {
                             return !way.param             ? "openat2"
                                    : *way.param == ENOSYS ? "walkAfterENOSYS"
                                                           : "walkAfterEPERM";
                         });

}  // namespace
}  // namespace sarus::test::path_in_root_test
