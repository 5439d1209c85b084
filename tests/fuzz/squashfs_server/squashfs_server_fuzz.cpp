// Walks an image as the FUSE server's requests do: every directory, attribute, link and the contents of
// files. Memory stays within the caches and no input ends the process.

#include <fcntl.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "fuzz_files.hpp"
#include "squashfs/server/chores.hpp"
#include "squashfs/server/directory.hpp"
#include "squashfs/server/file_reader.hpp"
#include "squashfs/server/image.hpp"

namespace {

using namespace sarus::squashfs;

template <typename Function>
void tolerate(const Function& function) {
    try {
        function();
    } catch (const sarus::Error&) {
        // the answer is EIO
    }
}

void walk(Image& image) {
    constexpr std::size_t maxInodes = 200;
    constexpr int maxEntries = 500;
    constexpr int maxReads = 20;
    Chores chores;  // nobody works on them
    FileReader files(image, chores, 8);
    std::deque<std::uint64_t> next{image.superblock().root_inode_ref};
    std::set<std::uint64_t> seen;
    while (!next.empty() && seen.size() < maxInodes) {
        const auto reference = next.front();
        next.pop_front();
        if (!seen.insert(reference).second) {
            continue;
        }
        tolerate([&] {
            const auto inode = image.inode(reference);
            tolerate([&] { image.xattrs(inode, true); });
            tolerate([&] { image.xattrs(inode, false); });
            tolerate([&] { image.symlinkTarget(inode); });
            tolerate([&] {
                DirectoryCursor cursor(image, inode);
                for (int i = 0; i < maxEntries; ++i) {
                    const auto entry = cursor.next();
                    if (!entry) {
                        break;
                    }
                    next.push_back(entry->reference);
                    tolerate([&] { findInDirectory(image, inode, entry->name); });
                }
            });
            for (int i = 0; i < maxReads; ++i) {
                const auto offset =
                    i == maxReads - 1 ? inode.size - 1 : static_cast<std::uint64_t>(i) * 70000;
                tolerate([&] { files.read(reference, offset, 131072); });
            }
        });
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string path = sarus::test::fuzz::scratchDirectory() + "/image";
    sarus::test::fuzz::write(path, {reinterpret_cast<const char*>(data), size});
    tolerate([&] {
        Image image(sarus::openFile(path, O_RDONLY), "image", {.blocks = 1U << 20U, .metadata = 1U << 18U});
        walk(image);
    });
    return 0;
}
