#include "base/process_tree.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>
#include <utility>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus {

namespace {

/// "" for a file of a process that has ended.
std::string readProcFile(int directory, const std::string& name) {
    const UniqueFd file(::openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC));
    try {
        return file ? readAll(file.get(), 64U << 20U, name) : std::string();
    } catch (const Error&) {
        return {};
    }
}

/// The fields of /proc/<pid>/stat from the third one on (the second one, the name, may contain anything).
std::vector<std::string> statusFields(std::string_view stat) {
    const auto name = stat.rfind(')');
    return name == std::string_view::npos ? std::vector<std::string>() : splitWords(stat.substr(name + 1));
}

std::vector<std::string> statusFields(int process) {
    return statusFields(readProcFile(process, "stat"));
}

/// A field that is the id of a process; 0 for a process that is gone.
pid_t processField(int process, std::size_t field) {
    const auto fields = statusFields(process);
    const auto number = fields.size() > field ? parseNumber(fields[field]) : std::nullopt;
    return number && *number <= INT_MAX ? static_cast<pid_t>(*number) : 0;
}

/// 0 for a process that is gone.
std::uint64_t startTimeOf(int process) {
    constexpr std::size_t field = 22 - 3;
    const auto fields = statusFields(process);
    return fields.size() > field ? parseNumber(fields[field]).value_or(0) : 0;
}

UniqueFd openProcess(pid_t number) {
    return UniqueFd(::open(cat("/proc/", number).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

std::vector<pid_t> childNumbers(int process) {
    std::vector<pid_t> numbers;
    if (process < 0) {
        return numbers;  // it has ended
    }
    Directory tasks(process, "task", "the threads of a process", Missing::isEmpty);
    while (const char* thread = tasks.next()) {
        for (const auto& word : splitWords(readProcFile(tasks.fd(), cat(thread, "/children")))) {
            if (const auto number = parseNumber(word); number && *number <= INT_MAX) {
                numbers.push_back(static_cast<pid_t>(*number));
            }
        }
    }
    return numbers;
}

}  // namespace

std::string bootId() {
    return std::string(trim(readFile("/proc/sys/kernel/random/boot_id", 64)));
}

bool hasExecutedProgram(std::string_view stat) {
    constexpr std::uint64_t forkedWithoutExec = 0x40;  // PF_FORKNOEXEC of the kernel's linux/sched.h
    constexpr std::size_t field = 9 - 3;
    const auto fields = statusFields(stat);
    const auto flags = fields.size() > field ? parseNumber(fields[field]) : std::nullopt;
    return flags && (*flags & forkedWithoutExec) == 0;
}

Process::Process(pid_t number) : id(number), startTime(startTimeOf(openProcess(number).get())) {}

UniqueFd Process::open() const {
    auto directory = openProcess(id);
    return startTime != 0 && startTimeOf(directory.get()) == startTime ? std::move(directory) : UniqueFd();
}

char Process::state() const {
    const auto directory = open();
    const auto fields = statusFields(directory.get());
    return fields.empty() ? '\0' : fields[0][0];
}

bool Process::isRunning() const {
    const char letter = state();
    return letter != '\0' && letter != 'Z' && letter != 'X';
}

bool Process::hasStopped() const {
    const auto directory = open();
    if (!directory) {
        return true;
    }
    Directory tasks(directory.get(), "task", "the threads of a process", Missing::isEmpty);
    while (const char* thread = tasks.next()) {
        const auto fields = statusFields(readProcFile(tasks.fd(), cat(thread, "/stat")));
        if (!fields.empty() && std::string_view("TtDZX").find(fields[0][0]) == std::string_view::npos) {
            return false;
        }
    }
    return true;
}

pid_t Process::parent() const {
    constexpr std::size_t field = 4 - 3;
    return processField(open().get(), field);
}

pid_t Process::group() const {
    constexpr std::size_t field = 5 - 3;
    return processField(open().get(), field);
}

std::vector<Process> Process::children() const {
    std::vector<Process> found;
    const auto directory = open();
    for (const pid_t number : childNumbers(directory.get())) {
        found.emplace_back(number);
    }
    if (!found.empty()) {
        // A number that still belongs to a child also did when its start time was read.
        const auto numbers = childNumbers(directory.get());
        std::erase_if(found, [&](const Process& child) {
            return std::find(numbers.begin(), numbers.end(), child.id) == numbers.end();
        });
    }
    return found;
}

std::string Process::read(const std::string& name) const {
    const auto directory = open();
    return directory ? readProcFile(directory.get(), name) : std::string();
}

void Process::signal(int number) const {
    const auto directory = open();
    if (directory && ::syscall(SYS_pidfd_send_signal, directory.get(), number, nullptr, 0) != 0 &&
        errno == ENOSYS) {
        ::kill(id, number);  // before Linux 5.1
    }
}

std::vector<Process> descendantsOf(const Process& process,
                                   const std::function<bool(const Process&)>& spared) {
    std::vector<Process> found;
    const auto addChildren = [&](const Process& parent) {
        for (auto& child : parent.children()) {
            if (!spared || !spared(child)) {
                found.push_back(child);
            }
        }
    };
    addChildren(process);
    for (std::size_t i = 0; i < found.size(); ++i) {
        addChildren(Process(found[i]));  // a copy: the vector grows
    }
    return found;
}

void killDescendants(const Process& process, int attempts,
                     const std::function<bool(const Process&)>& spared) {
    for (int attempt = 0; attempt < attempts; ++attempt) {
        bool alive = false;
        for (const auto& descendant : descendantsOf(process, spared)) {
            if (descendant.isRunning()) {
                alive = true;
                descendant.signal(SIGKILL);
            }
        }
        if (!alive) {
            return;
        }
    }
}

}  // namespace sarus
