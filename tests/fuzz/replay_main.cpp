// Gives a fuzzer every file of a folder once: what a fuzzer found stays a test with every compiler.

#include <dirent.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "base/file_io.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 1;
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(argv[1]), closedir);
    if (folder == nullptr) {
        std::perror(argv[1]);
        return 1;
    }
    int inputs = 0;
    while (const dirent* entry = readdir(folder.get())) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        const std::string input = sarus::readFile(std::string(argv[1]) + "/" + entry->d_name);
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
        ++inputs;
    }
    std::printf("%d inputs survived\n", inputs);
    return inputs > 0 ? 0 : 1;
}
