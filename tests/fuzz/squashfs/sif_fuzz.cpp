// Looks for the squashfs filesystem of a file that may be of the Singularity Image Format. What is found lies
// within the file, and the superblock there is read.

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "fuzz_files.hpp"
#include "squashfs/sif.hpp"
#include "squashfs/superblock.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string path = sarus::test::fuzz::scratchDirectory() + "/sif";
    sarus::test::fuzz::write(path, {reinterpret_cast<const char*>(data), size});
    const auto file = sarus::openFile(path, O_RDONLY);
    try {
        const auto part = sarus::squashfs::findSquashfs(file.get(), size, "FILE");
        if (part.offset > size || part.size > size - part.offset) {
            std::abort();
        }
        if (sarus::squashfs::readSquashfsSuperblock(file.get(), "FILE").size > part.size) {
            std::abort();
        }
    } catch (const sarus::Error&) {
        // refused
    }
    return 0;
}
