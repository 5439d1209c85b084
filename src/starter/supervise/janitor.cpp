#include "starter/supervise/janitor.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/pipe.hpp"
#include "base/process_tree.hpp"
#include "base/within.hpp"
#include "starter/entry/entry.hpp"
#include "starter/runtime/runtime.hpp"
#include "starter/supervise/running_container.hpp"

namespace sarus::starter {

namespace {

constexpr int pollMilliseconds = 5;
constexpr int graceMilliseconds = 500;  // for a payload that ends on SIGHUP
constexpr int forceMilliseconds = 3000;

/// Nothing of the container may depend on the janitor's lifetime: no stream, lock or descriptor of the job.
void keepOnly(const std::vector<int>& kept) {
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
        ::dup2(null, fd);
    }
    for (const auto& entry : openDescriptors()) {
        if (entry > STDERR_FILENO && std::find(kept.begin(), kept.end(), entry) == kept.end()) {
            ::close(entry);
        }
    }
}

/// A user may raise the value of the starter, so that the kernel ends this process first when the job has no
/// memory left.
void resistOutOfMemory() {
    constexpr const char* file = "/proc/self/oom_score_adj";
    try {
        if (!readFile(file).starts_with('-')) {
            writeAll(openFile(file, O_WRONLY).get(), "0", file);
        }
    } catch (const Error&) {
        // The site's own lower limit stays.
    }
}

bool endsWithin(const Process& process, int milliseconds) {
    return within(milliseconds, [&] { return !process.isRunning(); });
}

/// The runtime of a container received SIGHUP when the starter died, and forwards it. The runtime of an exec
/// command did not: it would end before the processes started by the command, which could then no longer be
/// found.
void endContainer(const Process& runtime, bool graceful) {
    if (graceful && endsWithin(runtime, graceMilliseconds)) {
        return;
    }
    for (int waited = 0; waited < forceMilliseconds; waited += pollMilliseconds) {
        // Children forked during the kill stay below the stopped runtime, where they are found.
        runtime.signal(SIGSTOP);
        try {
            killDescendants(runtime, 50);
        } catch (const Error&) {
            // Not all of them could be found: the next round tries again.
        }
        runtime.signal(SIGCONT);  // repeatedly: it may be about to start the command
        if (endsWithin(runtime, pollMilliseconds)) {
            return;
        }
    }
    runtime.signal(SIGKILL);
}

/// With the user's rights, or in a privileged janitor true only for a process that a runtime has started for
/// the user: anybody's may have the number of a program that has ended. A runtime that was killed may have
/// left its program on the way to the user's identity.
bool mayEnd(const Process& program, const Credentials& credentials) {
    bool isUsers = !credentials.privileged();
    within(forceMilliseconds, [&] {
        isUsers = isUsers || isPayload(program.read("status"), credentials.uid());
        return isUsers || !program.isRunning();
    });
    return isUsers;
}

/// What the runtime leaves behind if it is killed, too, goes to a process that knows nothing of it. The
/// record of the container stays as long as its program does.
void endProgram(const Process& program, const Credentials& credentials) {
    if (!mayEnd(program, credentials)) {
        return;
    }
    program.signal(SIGSTOP);
    try {
        killDescendants(program, 50);
    } catch (const Error&) {
        // Not all of them could be found.
    }
    program.signal(SIGKILL);
    endsWithin(program, forceMilliseconds);
}

/// False at the end of the pipe. The starter holds the write end, as does its runtime until exec.
bool receive(int control, void* message, std::size_t size) {
    ssize_t count = 0;
    while ((count = ::read(control, message, size)) < 0 && errno == EINTR) {
    }
    return count == static_cast<ssize_t>(size);
}

[[noreturn]] void runJanitor(int control, Remains& remains, const PidFile* program,
                             const Credentials& credentials, AuditLog& audit) {
    const auto slash = remains.stateDirectory.rfind('/');
    const auto runtimeRoot = remains.stateDirectory.substr(0, slash);
    if (!runtimeRoot.empty()) {
        try {
            sweepDeadContainers(runtimeRoot);  // nobody waits for this here
        } catch (const Error&) {
            // The next container tries again.
        }
    }
    Process runtime(0);
    std::optional<int> status;
    if (receive(control, &runtime, sizeof runtime)) {
        int number = 0;
        if (receive(control, &number, sizeof number)) {
            status = number;
        } else {
            endContainer(runtime, !runtimeRoot.empty());
            // Not by the word of the starter, which has the user's rights by now, and may have been killed
            // before it knew the program.
            if (const auto left = program != nullptr ? program->program() : std::nullopt) {
                endProgram(*left, credentials);
            }
        }
    }
    audit.ended(status);
    try {
        if (remains.record) {
            remains.record->removeRemains(runtimeRoot, remains.stateDirectory.substr(slash + 1));
        }
    } catch (const Error&) {
        // No stream for a message; the next start with this name reports the obstacle.
    }
    remains.deviceCgroup.reset();
    remains.record.reset();
    if (credentials.privileged()) {
        removeEmptyRuntimeRoots();
    } else if (!runtimeRoot.empty()) {
        removeCrunsCache(runtimeRoot);
    }
    ::_exit(0);
}

}  // namespace

Janitor::Janitor(const Credentials& credentials, Remains& remains, const PidFile* program, AuditLog audit) {
    auto [reader, control] = makePipe();
    id = checkErrno(::fork(), "Failed to create the janitor process");
    if (id == 0) {
        ::setpgid(0, 0);
        ::prctl(PR_SET_NAME, "sarus-janitor", 0, 0, 0);
        std::vector<int> kept{reader.get()};
        if (program != nullptr) {
            program->appendDescriptors(kept);
        }
        if (remains.deviceCgroup) {
            remains.deviceCgroup->appendDescriptors(kept);
        }
        if (remains.record) {
            kept.push_back(remains.record->descriptor());
        }
        if (remains.storageLock) {
            kept.push_back(remains.storageLock.get());
        }
        keepOnly(kept);
        if (credentials.privileged()) {
            resistOutOfMemory();
        }
        // Cgroup directories are read-only for their owner, and the runtime may be hidden (proc(5),
        // "hidepid").
        limitCapabilities(credentials, {CAP_KILL, CAP_DAC_OVERRIDE, CAP_SYS_PTRACE});
        runJanitor(reader.get(), remains, program, credentials, audit);
    }
    writer = std::move(control);
    if (remains.deviceCgroup) {
        remains.deviceCgroup->release();
    }
    if (remains.record) {
        remains.record->release();
    }
}

Janitor::~Janitor() {
    wait();
}

void Janitor::finish(int status) {
    [[maybe_unused]] const auto written = ::write(writer.get(), &status, sizeof status);
    wait();
}

void Janitor::wait() {
    writer.reset();
    while (id > 0 && ::waitpid(id, nullptr, 0) < 0 && errno == EINTR) {
    }
    id = -1;
}

}  // namespace sarus::starter
