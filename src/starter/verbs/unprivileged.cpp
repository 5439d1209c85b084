#include "starter/verbs/unprivileged.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <variant>

#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "starter/runtime/runtime.hpp"
#include "starter/supervise/container_storage.hpp"

namespace sarus::starter {

namespace {

/// What sanitizeEntry() has changed, so that it finds the caller's again.
void restoreEntry(const Entry& entry) {
    restoreLimits(entry);
    ::umask(entry.umask);
    for (const int fd : entry.descriptors) {
        passOn(fd);
    }
}

}  // namespace

bool mayRunUnprivileged(const Session& session) {
    return session.credentials.privileged() && session.credentials.asUser([&] {
        return pathExists(cat(session.config.tempDir, "/sarus-", session.credentials.uid()));
    });
}

bool runsUnprivileged(const Session& session, const std::vector<std::string>& callerEnvironment,
                      const std::string& name) {
    return mayRunUnprivileged(session) && session.credentials.asUser([&] {
        return findRuntimeRootOf(name, session.credentials.withoutPrivileges(), session.config,
                                 callerEnvironment)
            .has_value();
    });
}

bool mayHaveKeptUnprivileged(const Session& session) {
    return session.credentials.privileged() && session.credentials.asUser([&] {
        return ContainerStorage::find(session.credentials.withoutPrivileges(), session.config,
                                      ContainerStorage::Look::quick)
            .has_value();
    });
}

bool wasKeptUnprivileged(const Session& session, const std::string& name, const node::SlurmJobMark& job) {
    return session.credentials.privileged() && session.credentials.asUser([&] {
        const auto kept = ContainerStorage::find(session.credentials.withoutPrivileges(), session.config,
                                                 ContainerStorage::Look::quick);
        return kept && kept->find(name, job).has_value();
    });
}

void continueWithoutPrivileges(const Session& session, const engine::StarterRequest& request) {
    const auto channel = makeMemoryFile("sarus-request", engine::serializeRequest(request));
    passOn(channel.get());
    if (const auto* launch = std::get_if<engine::LaunchRequest>(&request)) {  // the channel has taken it out
        passOn(launch->imageFd);
    }
    auto program = session.entry.executable;
    std::string option = withoutPrivileges;
    auto number = cat(channel.get());
    std::array<char*, 4> argv{program.data(), option.data(), number.data(), nullptr};
    char* environment = nullptr;
    removeEmptyRuntimeRoots();
    restoreEntry(session.entry);
    becomeCaller(session.credentials);
    ::execve(program.c_str(), argv.data(), &environment);
    throwErrno(cat("Failed to execute ", printable(program)));
}

}  // namespace sarus::starter
