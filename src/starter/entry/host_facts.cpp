#include "starter/entry/host_facts.hpp"

#include <fcntl.h>
#include <sched.h>

#include <cerrno>
#include <limits>
#include <memory>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/passwd_file.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

constexpr std::size_t largestGroupFile = 64U << 20U;

std::optional<gid_t> terminalGroup(const std::string& prefix) {
    const std::string path = cat(prefix, "/etc/group");
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file) {
        return std::nullopt;  // the plan warns if a missing group matters
    }
    return findGroup(readAll(file.get(), largestGroupFile, printable(path)), "tty");
}

}  // namespace

std::optional<gid_t> findGroup(std::string_view groupFile, std::string_view name) {
    while (!groupFile.empty()) {
        const auto line = takeLine(groupFile);
        if (line.size() <= name.size() || !line.starts_with(name) || line[name.size()] != ':') {
            continue;
        }
        const auto fields = split(line, ':');
        const auto number = fields.size() >= 3 ? parseNumber(fields[2]) : std::nullopt;
        if (number && *number < std::numeric_limits<gid_t>::max()) {
            return static_cast<gid_t>(*number);
        }
    }
    return std::nullopt;
}

std::vector<int> cpuAffinity() {
    for (int count = 1024; count <= 1 << 20; count *= 4) {
        const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
            CPU_ALLOC(static_cast<std::size_t>(count)), [](cpu_set_t* allocated) { CPU_FREE(allocated); });
        const auto size = CPU_ALLOC_SIZE(static_cast<std::size_t>(count));
        if (!set) {
            break;
        }
        CPU_ZERO_S(size, set.get());
        if (::sched_getaffinity(0, size, set.get()) != 0) {
            if (errno == EINVAL) {
                continue;  // the kernel reports more CPUs than the set can hold
            }
            throwErrno("Failed to read the CPU affinity");
        }
        std::vector<int> cpus;
        for (int cpu = 0; cpu < count; ++cpu) {
            if (CPU_ISSET_S(static_cast<std::size_t>(cpu), size, set.get())) {
                cpus.push_back(cpu);
            }
        }
        return cpus;
    }
    throw Error("Failed to read the CPU affinity: too many CPUs");
}

engine::HostFacts gatherHostFacts(const Session& session) {
    const auto& credentials = session.credentials;
    engine::HostFacts facts;
    facts.uid = credentials.uid();
    facts.nodeUid = session.entry.nodeUid;
    facts.gid = credentials.gid();
    facts.supplementaryGroups = credentials.groups();
    facts.cpus = cpuAffinity();
    facts.privileged = credentials.privileged();
    facts.inheritedDescriptors = session.entry.descriptors;
    facts.umask = session.entry.umask;
    facts.ttyGroup = terminalGroup(session.config.prefixDir);
    facts.randomName = randomLetters();
    return facts;
}

}  // namespace sarus::starter
