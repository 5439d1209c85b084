#include <exception>
#include <string>
#include <vector>

#include "base/begin_process.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "podman_hpc/mount_program/overlay.hpp"

namespace {

using namespace sarus;
using namespace sarus::podman_hpc;

[[noreturn]] void becomeFuseOverlayfs(const std::vector<std::string>& words) {
    const auto program = fuseOverlayfs();
    std::vector<std::string> argv{program};
    argv.insert(argv.end(), words.begin(), words.end());
    replaceProcess(program, argv);
}

int runProgram(const std::vector<std::string>& words) {
    auto request = parseOverlayRequest(words);
    if (!request) {
        becomeFuseOverlayfs(words);
    }
    if (!request->upper.empty()) {
        openToAll(request->upper);
    }
    const auto layer = findSquashLayer(*request);
    const bool isNew = forbidDevices(*request);
    if (!layer) {
        becomeFuseOverlayfs({words[0], isNew ? cat(words[1], ",nodev") : words[1], words[2]});
    }
    mountWithSquash(std::move(*request), *layer);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    beginProcess(BlockedSignals::keep);
    try {
        return runProgram({argv + (argc > 0 ? 1 : 0), argv + argc});
    } catch (const Error& error) {
        printError(error);
    } catch (const std::exception& error) {
        printError(Error(error.what()));
    }
    return 1;
}
