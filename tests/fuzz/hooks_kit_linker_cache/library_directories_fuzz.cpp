#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "fuzz_files.hpp"
#include "hooks/kit/linker_cache/library_directories.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;

/// A small root filesystem with directories, links to directories, links out of it, and a link to itself.
struct Root {
    std::string path = cat(test::fuzz::scratchDirectory(), "/root");
    UniqueFd fd;

    Root() {
        for (const auto* directory : {"/etc/ld.so.conf.d", "/lib64", "/usr/lib/x86_64-linux-gnu",
                                      "/usr/local/lib", "/opt/a/lib", "/opt/b/lib"}) {
            createDirectories(cat(path, directory));
        }
        link("usr/lib", "/lib");
        link("a", "/opt/link");
        link("loop", "/opt/loop");
        link("/../../../../../..", "/opt/upwards");
        link(test::fuzz::scratchDirectory(), "/opt/outside");
        test::fuzz::write(cat(path, "/lib64/ld-linux-x86-64.so.2"), "");
        test::fuzz::write(cat(path, "/usr/lib/ld-musl-x86_64.so.1"), "");
        fd = openFile(path, O_PATH | O_DIRECTORY);
    }
    void link(const std::string& target, std::string_view name) const {
        checkErrno(::symlink(target.c_str(), cat(path, name).c_str()), "Failed to make a link");
    }
};

std::string pathOf(int fd) {
    std::array<char, PATH_MAX> target{};
    const auto size = ::readlink(cat("/proc/self/fd/", fd).c_str(), target.data(), target.size());
    return {target.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

}  // namespace

/// The input's pieces between NUL characters become the configuration of both dynamic linkers. Directories
/// are found inside the root alone, each once; what is added to musl's is found, and is not added again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Root root;
    constexpr std::array files{"/etc/ld.so.conf", "/etc/ld-musl-x86_64.path", "/etc/ld.so.conf.d/a.conf",
                               "/etc/ld.so.conf.d/b.conf", "/opt/a/c.conf"};
    std::string_view rest(reinterpret_cast<const char*>(data), size);
    for (const auto* file : files) {
        const auto piece = rest.substr(0, rest.find('\0'));
        test::fuzz::write(cat(root.path, file), piece);
        rest.remove_prefix(std::min(piece.size() + 1, rest.size()));
    }
    const int fd = root.fd.get();
    try {
        const auto linkers = findDynamicLinkers(fd);
        require(linkers.size() == 2);
        std::set<std::pair<dev_t, ino_t>> seen;
        std::vector<std::string> examined;
        for (const auto& directory : librarySearchDirectories(fd, linkers, &examined)) {
            require(directory.path.starts_with('/') &&
                    seen.emplace(directory.device, directory.inode).second);
            const auto real = pathOf(directory.fd.get());
            require(real == root.path || real.starts_with(cat(root.path, '/')));
            require(std::find(examined.begin(), examined.end(), directory.path) != examined.end());
        }
        require(std::ranges::all_of(configuredLibraryDirectories(fd),
                                    [](const auto& path) { return path.starts_with('/'); }));
    } catch (const Error&) {  // too much of it
    }
    constexpr std::size_t most = 990;  // more than 1,000 are not read
    const std::vector<std::string> added{"/opt/hook", "/opt/a/lib"};
    if (muslLibraryDirectories(fd, "x86_64").size() < most) {
        addMuslLibraryDirectories(fd, "x86_64", added);
        const auto all = muslLibraryDirectories(fd, "x86_64");
        require(std::ranges::all_of(
            added, [&](const auto& path) { return std::ranges::find(all, path) != all.end(); }));
        addMuslLibraryDirectories(fd, "x86_64", added);
        require(muslLibraryDirectories(fd, "x86_64") == all);
    }
    return 0;
}
