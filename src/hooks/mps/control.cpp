#include "hooks/mps/control.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <thread>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/pipe.hpp"
#include "base/text.hpp"
#include "base/time_left.hpp"
#include "base/turn.hpp"

namespace sarus::hooks::mps {

namespace {

constexpr std::size_t largestAnswer = 64U << 10U;
constexpr std::chrono::milliseconds pollInterval{20};

[[noreturn]] void throwTimeout(std::string_view what) {
    throw Error(cat(what, " has not answered in time"),
                "Look into the logs of CUDA MPS; MPS_TIMEOUT in the hook's JSON file sets how many seconds "
                "the hook waits");
}

std::string firstLine(const std::string& text) {
    return printable(text.substr(0, text.find('\n')));
}

/// A listed process that can be seen to be another user's is no server of ours.
bool belongsTo(pid_t process, uid_t uid) {
    struct stat status {};
    return ::stat(cat("/proc/", process).c_str(), &status) != 0 || status.st_uid == uid;
}

bool hasServer(const Control& control, uid_t localUid) {
    const auto servers = control.servers();
    return servers && std::any_of(servers->begin(), servers->end(),
                                  [&](pid_t process) { return belongsTo(process, localUid); });
}

}  // namespace

Control::Control(std::string thePath, std::vector<std::string> theEnvironment, Clock::time_point theDeadline)
    : path(std::move(thePath)), environment(std::move(theEnvironment)), deadline(theDeadline) {}

Control::Answer Control::ask(const std::string& command) const {
    const auto input = makeMemoryFile(controlProgram, cat(command, '\n'));
    auto output = makePipe();
    auto child = start({.path = path,
                        .args = {controlProgram},
                        .environment = environment,
                        .stdinFd = input.get(),
                        .stdoutFd = output.writer.get(),
                        .stderrFd = output.writer.get()});
    output.writer.reset();
    Answer answer;
    const auto take = [&](std::string_view piece) {
        answer.text.append(piece.substr(0, largestAnswer - answer.text.size()));
    };
    if (!readToEnd({{output.reader.get(), take}}, std::chrono::milliseconds(millisecondsUntil(deadline)))) {
        throwTimeout(cat(controlProgram, " (", command, ')'));
    }
    answer.status = child.wait();
    return answer;
}

std::optional<std::vector<pid_t>> Control::servers() const {
    const auto answer = ask("get_server_list");
    if (!answer.status.ok()) {
        return std::nullopt;
    }
    std::vector<pid_t> servers;
    for (const auto& word : splitWords(answer.text)) {
        if (const auto number = parseNumber(word); number && *number > 0 && *number <= INT_MAX) {
            servers.push_back(static_cast<pid_t>(*number));
        }
    }
    return servers;
}

bool Control::startServer(uid_t uid) const {
    return ask(cat("start_server -uid ", uid)).status.ok();
}

std::string Control::startDaemon() const {
    // Not a pipe: the daemon would keep it open, and whoever reads it would wait for the daemon's end.
    const auto messages = makeMemoryFile(controlProgram);
    const auto nowhere = openFile("/dev/null", O_WRONLY);
    auto child = start({.path = path,
                        .args = {controlProgram, "-d"},
                        .environment = environment,
                        .stdoutFd = nowhere.get(),
                        .stderrFd = messages.get()});
    const auto status = child.waitUntil(deadline);
    if (!status) {
        throwTimeout(cat(controlProgram, " -d"));
    }
    if (status->ok()) {
        return {};
    }
    checkErrno(::lseek(messages.get(), 0, SEEK_SET), "Failed to rewind a memory file");
    const auto text = readAll(messages.get(), largestAnswer, controlProgram);
    return text.empty() ? cat("exit status ", status->shellStatus()) : firstLine(text);
}

void ensureServer(const Control& control, uid_t uid, uid_t localUid, Control::Clock::time_point deadline,
                  const HookLogger& log) {
    if (hasServer(control, localUid)) {
        return;
    }
    const Turn turn(cat("sarus-mps-", uid), deadline);
    if (!turn) {
        log.info("Starting CUDA MPS without waiting for a turn: another process has its address");
    }
    if (hasServer(control, localUid)) {
        return;
    }
    constexpr int rounds = 2;
    std::string complaint;
    for (int round = 0; round < rounds; ++round) {
        if (!control.servers()) {
            complaint = control.startDaemon();
        }
        if (!control.startServer(uid)) {
            continue;  // the daemon may just have died behind its socket
        }
        while (!hasServer(control, localUid)) {
            if (Control::Clock::now() + pollInterval >= deadline) {
                throwTimeout(cat("The CUDA MPS server of uid ", uid));
            }
            std::this_thread::sleep_for(pollInterval);
        }
        return;
    }
    throw Error(
        cat("CUDA MPS does not start a server for uid ", uid, complaint.empty() ? "" : cat(": ", complaint)),
        "Look into control.log in the log directory of CUDA MPS");
}

}  // namespace sarus::hooks::mps
