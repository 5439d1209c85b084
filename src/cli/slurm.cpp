#include "cli/slurm.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "engine/pmix.hpp"

namespace sarus::cli {

namespace {

engine::Environment ownEnvironment() {
    std::vector<std::string> entries;
    for (char** variable = environ; *variable != nullptr; ++variable) {
        entries.emplace_back(*variable);
    }
    return engine::parseEnvironment(entries);
}

std::string nodeName(const engine::Environment& environment) {
    if (const auto found = environment.find("SLURMD_NODENAME"); found != environment.end()) {
        return found->second;
    }
    utsname host{};
    ::uname(&host);
    const std::string_view name(static_cast<const char*>(host.nodename));
    return std::string(name.substr(0, name.find('.')));
}

/// What the program prints, as far as it comes in time. A controller that is down must not keep a container from starting.
std::string outputInTime(const std::string& program) {
    constexpr int patienceMs = 5000;
    constexpr std::size_t largestOutput = 1U << 20U;
    std::array<int, 2> ends{};
    checkErrno(::pipe2(ends.data(), O_CLOEXEC), "Failed to create a pipe");
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    const UniqueFd errors(checkErrno(::open("/dev/null", O_WRONLY | O_CLOEXEC), "Failed to open /dev/null"));
    const auto child =
        start({.path = program, .args = {"scontrol", "show", "config"}, .stdoutFd = writer.get(), .stderrFd = errors.get()});
    writer.reset();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(patienceMs);
    std::string output;
    std::array<char, 4096> buffer{};
    while (output.size() < largestOutput) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd source{reader.get(), POLLIN, 0};
        if (left.count() <= 0 || ::poll(&source, 1, static_cast<int>(left.count())) <= 0) {
            logInfo("CLI", "scontrol does not answer: Slurm's directories are taken to be the default ones");
            return {};
        }
        const auto count = ::read(reader.get(), buffer.data(), buffer.size());
        if (count <= 0) {
            break;
        }
        output.append(buffer.data(), static_cast<std::size_t>(count));
    }
    return output;
}

engine::SlurmDirectories askController(const engine::Environment& environment) {
    const auto program = findProgram("scontrol");
    if (!program) {
        logInfo("CLI", "Slurm's directories are taken to be the default ones: there is no scontrol in PATH");
        return {};
    }
    return engine::parseSlurmConfiguration(outputInTime(*program), nodeName(environment));
}

std::vector<std::string> existing(std::vector<std::string> directories) {
    std::erase_if(directories, [](const std::string& directory) { return !isDirectory(directory); });
    return directories;
}

}  // namespace

std::vector<std::string> findSlurmPmixDirectories() {
    const auto environment = ownEnvironment();
    if (!engine::isSlurmPmixStep(environment)) {
        return {};
    }
    // A question to the controller for each of ten thousand ranks would be a burden to it.
    constexpr std::size_t serverAndClients = 2;
    auto found = existing(engine::slurmPmixDirectories(environment, {}));
    if (found.size() < serverAndClients) {
        found = existing(engine::slurmPmixDirectories(environment, askController(environment)));
    }
    return found;
}

}  // namespace sarus::cli
