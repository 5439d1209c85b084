#include "base/said_once.hpp"

#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/abstract_address.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace sarus {

namespace {

struct Task {
    std::string step;
    std::string rank;
};

std::optional<Task>& ownTask() {
    static std::optional<Task> task;
    return task;
}

/// The keyring of this process's user. In a user namespace that it enters later, the kernel would take
/// another one for this name.
long& keyring() {
    static long serial = KEY_SPEC_USER_KEYRING;
    return serial;
}

/// Keeps the present keyring. The link makes the process its possessor, which may change its keys.
void keepKeyring() {
    const auto own = ::syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1);
    if (own > 0 && ::syscall(SYS_keyctl, KEYCTL_LINK, own, KEY_SPEC_PROCESS_KEYRING) == 0) {
        keyring() = own;
    }
}

/// Only one task at a time looks and tells. An abstract socket ends with its process, and needs no file. If
/// somebody keeps its name, tasks go on after half a second, and may repeat each other. No Turn: starters and
/// hooks with privileges speak for the task, too, and are not "of this user" there.
class TurnToSpeak {
public:
    explicit TurnToSpeak(std::string_view step) {
        constexpr int tries = 500;
        constexpr std::chrono::milliseconds pause{1};
        const AbstractAddress address(cat("sarus-said-", ::getuid(), '-', step));
        for (int i = 0;
             i < tries && ::bind(socket.get(), address.get(), address.size()) != 0 && errno == EADDRINUSE;
             ++i) {
            std::this_thread::sleep_for(pause);
        }
    }

private:
    UniqueFd socket{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

bool isKnown(const std::string& description) {
    return ::syscall(SYS_keyctl, KEYCTL_SEARCH, keyring(), "user", description.c_str(), 0) >= 0;
}

void remember(const std::string& description) {
    constexpr unsigned seconds = 60;
    const auto key = ::syscall(SYS_add_key, "user", description.c_str(), "1", std::size_t{1}, keyring());
    if (key >= 0 && ::syscall(SYS_keyctl, KEYCTL_SET_TIMEOUT, key, seconds) != 0) {
        ::syscall(SYS_keyctl, KEYCTL_UNLINK, key, keyring());  // it would stay, and users may have few
    }
}

}  // namespace

void speakForTask(const std::function<std::optional<std::string>(const std::string&)>& variable) {
    const auto job = variable("SLURM_JOB_ID");
    const auto step = variable("SLURM_STEP_ID");
    const auto rank = variable("SLURM_PROCID");
    const auto tasks = parseNumber(variable("SLURM_STEP_NUM_TASKS").value_or(""));
    const auto isNumber = [](const auto& text) { return text && parseNumber(*text); };
    ownTask().reset();
    if (isNumber(job) && isNumber(step) && isNumber(rank) && tasks.value_or(1) > 1) {
        ownTask() = Task{cat(*job, '.', *step), *rank};
        keepKeyring();
    }
}

bool saidByAnotherTask(std::string_view message) {
    if (!ownTask()) {
        return false;
    }
    const auto& [step, rank] = *ownTask();
    const auto said = cat("sarus:", step, ':', std::hash<std::string_view>()(message));
    const auto saidByThis = cat(said, ':', rank);
    const TurnToSpeak turn(step);
    if (isKnown(said)) {
        return !isKnown(saidByThis);
    }
    remember(said);
    remember(saidByThis);
    return false;
}

}  // namespace sarus
