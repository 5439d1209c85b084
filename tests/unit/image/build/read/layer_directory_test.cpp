#include "image/build/read/layer_directory.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <exception>
#include <functional>

#include "base/error.hpp"
#include "base/failing_listing.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"

namespace sarus::image::build::layer_directory_test {
namespace {

using testing::ElementsAre;

class LayerDirectoryFiles : public testing::Test {
protected:
    void write(const std::string& name, const std::string& text = "") const {
        replaceFile(layer / name, text, 0644);
    }
    void mark(const std::string& name, const std::string& attribute, const std::string& value) const {
        const auto path = layer / name;
        if (::setxattr(path.c_str(), attribute.c_str(), value.data(), value.size(), 0) != 0) {
            GTEST_SKIP() << "no attribute " << attribute << " here";
        }
    }
    std::vector<TarEntry> members() {
        LayerDirectory source(layer.path(), bytes);
        std::vector<TarEntry> all;
        for (TarEntry entry; source.next(entry);) {
            all.push_back(entry);
        }
        return all;
    }
    std::vector<std::string> names() {
        std::vector<std::string> all;
        for (const auto& entry : members()) {
            all.push_back(entry.path);
        }
        return all;
    }
    TarEntry member(const std::string& name) {
        for (const auto& entry : members()) {
            if (entry.path == name) {
                return entry;
            }
        }
        ADD_FAILURE() << name;
        return {};
    }

    sarus::test::TemporaryDirectory layer;
    std::atomic<std::uint64_t> bytes{0};
};

TEST_F(LayerDirectoryFiles, MembersAreThoseOfAnArchive) {
    createDirectories(layer / "b/c");
    write("b/c/file", "content");
    ::chmod((layer / "b/c/file").c_str(), 04750);
    ASSERT_EQ(::link((layer / "b/c/file").c_str(), (layer / "z").c_str()), 0);
    ASSERT_EQ(::symlink("/etc/passwd", (layer / "a").c_str()), 0);
    ASSERT_EQ(::mkfifo((layer / "pipe").c_str(), 0600), 0);
    EXPECT_THAT(names(), ElementsAre(".", "a", "b", "b/c", "b/c/file", "pipe", "z"));
    const auto file = member("b/c/file");
    EXPECT_EQ(file.mode, 04750);
    EXPECT_EQ(file.size, 7U);
    EXPECT_EQ(file.uid, ::geteuid());
    EXPECT_EQ(member("z").type, TarEntry::Type::hardLink);
    EXPECT_EQ(member("z").linkTarget, "b/c/file");
    EXPECT_EQ(member("a").linkTarget, "/etc/passwd");
    EXPECT_EQ(member("pipe").type, TarEntry::Type::fifo);
}

TEST_F(LayerDirectoryFiles, ContentIsRead) {
    const std::string content(3'000'000, 'x');
    write("large", content);
    LayerDirectory source(layer.path(), bytes);
    TarEntry entry;
    ASSERT_TRUE(source.next(entry) && source.next(entry));
    std::string read;
    source.readContent([&](std::span<const unsigned char> part) { read.append(part.begin(), part.end()); });
    EXPECT_EQ(read, content);
    EXPECT_EQ(bytes, content.size());
    EXPECT_FALSE(source.next(entry));
}

TEST_F(LayerDirectoryFiles, DevicesZeroZeroAreWhiteouts) {
    createDirectories(layer / "d");
    if (::mknod((layer / "d/gone").c_str(), S_IFCHR, makedev(0, 0)) != 0) {
        GTEST_SKIP() << "the kernel makes no whiteouts here";
    }
    EXPECT_THAT(names(), ElementsAre(".", "d", "d/.wh.gone"));
}

TEST_F(LayerDirectoryFiles, FilesWithTheReservedNamesAreWhiteouts) {
    write(".wh.gone");
    write(".wh..wh..opq");
    EXPECT_THAT(names(), ElementsAre(".", ".wh..wh..opq", ".wh.gone"));
}

TEST_F(LayerDirectoryFiles, AttributesOfBothOverlaysAreWhiteouts) {
    for (const std::string overlay : {"user.overlay.", "user.fuseoverlayfs."}) {
        createDirectories(layer / "d");
        write("d/gone");
        mark("d/gone", overlay + "whiteout", "");
        mark("d", overlay + "opaque", "y");
        if (IsSkipped()) {
            return;
        }
        EXPECT_THAT(names(), ElementsAre(".", "d", "d/.wh..wh..opq", "d/.wh.gone")) << overlay;
        removeTree(layer / "d");
    }
}

TEST_F(LayerDirectoryFiles, OverrideStatReplacesOwnerModeAndType) {
    write("plain", "12");
    mark("plain", "user.containers.override_stat", "1000:1001:0104755");
    write("device");
    mark("device", "user.fuseoverlayfs.override_stat", "0:5:0620:char-136-7");
    if (IsSkipped()) {
        return;
    }
    const auto plain = member("plain");
    EXPECT_THAT((std::vector<unsigned>{plain.uid, plain.gid, plain.mode, unsigned(plain.xattrs.size())}),
                ElementsAre(1000, 1001, 04755, 0));
    EXPECT_EQ(plain.size, 2U);
    const auto device = member("device");
    EXPECT_EQ(device.type, TarEntry::Type::charDevice);
    EXPECT_THAT((std::vector<unsigned>{device.gid, device.deviceMajor, device.deviceMinor}),
                ElementsAre(5, 136, 7));
    mark("device", "user.containers.override_stat", "nonsense");
    EXPECT_THROW(names(), Error);
}

TEST_F(LayerDirectoryFiles, UsersAttributesStayAndTheOverlaysDoNot) {
    write("file");
    mark("file", "user.color", "blue");
    mark("file", "user.overlay.origin", "x");
    if (IsSkipped()) {
        return;
    }
    EXPECT_THAT(member("file").xattrs, ElementsAre(testing::Pair("user.color", "blue")));
}

TEST_F(LayerDirectoryFiles, AFileThatIsElsewhereIsAnErrorOfItsOwn) {
    for (const std::string attribute : {"user.overlay.metacopy", "user.overlay.redirect"}) {
        write("file");
        mark("file", attribute, "/other");
        if (IsSkipped()) {
            return;
        }
        try {
            names();
            ADD_FAILURE() << attribute;
        } catch (const Error& error) {
            EXPECT_EQ(error.exitStatus(), unreadableLayerStatus);
        }
    }
}

TEST_F(LayerDirectoryFiles, SocketsAreLeftOut) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const UniqueFd owner(socket);
    struct sockaddr_un address {};
    address.sun_family = AF_UNIX;
    const auto path = layer / "s";
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(socket, reinterpret_cast<struct sockaddr*>(&address), sizeof address), 0);
    EXPECT_THAT(names(), ElementsAre("."));
}

TEST_F(LayerDirectoryFiles, NoDirectoryIsEmptyBecauseItCannotBeRead) {
    createDirectories(layer / "a/b/c");
    write("a/b/c/file", "content");
    for (const int entriesRead :
         {0, 1, 3, 5, 7, 9, 11}) {  // "." and ".." are two in each of four directories
        const test::FailingListing failing(EIO, entriesRead);
        EXPECT_THAT([&] { members(); }, testing::ThrowsMessage<Error>(testing::HasSubstr(layer.path())))
            << entriesRead;
    }
    EXPECT_EQ(names().size(), 5U);
}

TEST_F(LayerDirectoryFiles, DirectoryThatCannotBeOpenedIsAnErrorWithItsPath) {
    createDirectories(layer / "closed");
    write("closed/file", "content");
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const auto expectError = [&](const std::string& reason, const std::function<void()>& work) {
        EXPECT_THAT(work, testing::ThrowsMessage<Error>(
                              testing::AllOf(testing::HasSubstr(layer.path()), testing::HasSubstr(reason))));
    };
    const auto lowest = openFile("/dev/null", O_RDONLY).get();
    for (int more = 1; more < 4; ++more) {
        const rlimit few{.rlim_cur = static_cast<rlim_t>(lowest + more), .rlim_max = before.rlim_max};
        std::exception_ptr thrown;
        ::setrlimit(RLIMIT_NOFILE, &few);
        try {
            members();
        } catch (...) {
            thrown = std::current_exception();
        }
        ::setrlimit(RLIMIT_NOFILE, &before);  // also the sanitizers need descriptors
        expectError("Too many open files", [&] { std::rethrow_exception(thrown); });
    }
    for (const mode_t mode : {0000U, 0200U, 0600U}) {
        if (::geteuid() != 0) {  // root may open every directory
            ::chmod((layer / "closed").c_str(), mode);
            expectError("/closed/", [&] { members(); });
            expectError("Permission denied", [&] { members(); });
        }
    }
    ::chmod((layer / "closed").c_str(), 0700);
}

TEST_F(LayerDirectoryFiles, TreeMayBeDeeperThanThereAreDescriptors) {
    constexpr int depth = 300;
    int directory = ::open(layer.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int level = 0; level < depth; ++level) {
        ASSERT_EQ(::mkdirat(directory, "d", 0755), 0);
        ASSERT_EQ(::mkdirat(directory, "z", 0755), 0);  // read after the way back
        const int below = ::openat(directory, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ::close(directory);
        directory = below;
    }
    ::close(directory);
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit few{.rlim_cur = 100, .rlim_max = before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    const auto found = names();
    const rlimit many{.rlim_cur = before.rlim_max, .rlim_max = before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &many);
    removeTree(layer / "d");
    ::setrlimit(RLIMIT_NOFILE, &before);
    ASSERT_EQ(found.size(), 1U + 2 * depth);
    EXPECT_EQ(found[depth].size(), 2U * depth - 1);
    EXPECT_EQ(found.back(), "z");
}

}  // namespace
}  // namespace sarus::image::build::layer_directory_test
