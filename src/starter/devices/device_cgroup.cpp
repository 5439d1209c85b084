#include "starter/devices/device_cgroup.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "node/cgroups.hpp"
#include "oci/runtime/runtime_devices.hpp"
#include "starter/devices/device_program.hpp"

namespace sarus::starter {

namespace {

/// Rules for every container: create any node, use the standard devices.
constexpr auto usualDevices = [] {
    std::array<DevicePattern, 4 + oci::usualDeviceNumbers.size()> patterns{
        {{.type = 'c', .access = "m"},
         {.type = 'b', .access = "m"},
         {.type = 'c', .major = 5, .minor = 2, .access = "rwm"},
         {.type = 'c', .major = 136, .access = "rwm"}}};
    auto next = patterns.begin() + 4;
    for (const auto& [major, minor] : oci::usualDeviceNumbers) {
        *next++ = {.type = 'c', .major = major, .minor = minor, .access = "rwm"};
    }
    return patterns;
}();

bool writeRule(int leaf, const char* file, std::string_view rule) {
    const UniqueFd fd(::openat(leaf, file, O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
    return fd && ::write(fd.get(), rule.data(), rule.size()) == static_cast<ssize_t>(rule.size());
}

bool sameDirectory(int parent, const std::string& name, int fd) {
    struct stat byName {};
    struct stat byFd {};
    return ::fstatat(parent, name.c_str(), &byName, AT_SYMLINK_NOFOLLOW) == 0 && ::fstat(fd, &byFd) == 0 &&
           byName.st_ino == byFd.st_ino && byName.st_dev == byFd.st_dev;
}

std::string numberOrAll(const std::optional<unsigned>& number) {
    return number ? cat(*number) : "*";
}

std::string ruleText(const DevicePattern& pattern) {
    return cat(pattern.type, ' ', numberOrAll(pattern.major), ':', numberOrAll(pattern.minor), ' ',
               pattern.access);
}

/// Writes the leaf's rules to the files of the v1 controller.
void writeRules(int leaf, const std::vector<DevicePattern>& devices, const std::string& shown) {
    if (!writeRule(leaf, "devices.deny", "a")) {
        throwErrno(cat("Failed to restrict the device cgroup ", printable(shown)));
    }
    for (const auto& usual : usualDevices) {
        // Refused if the caller's own cgroup allows less; that limit stays in force.
        writeRule(leaf, "devices.allow", ruleText(usual));
    }
    for (const auto& device : devices) {
        const auto rule = ruleText(device);
        if (!writeRule(leaf, "devices.allow", rule)) {
            throw Error::fromErrno(
                cat("Failed to allow the device ", rule, " in the container's cgroup"), errno,
                "The job's own cgroup has to allow it: ask the workload manager for the device");
        }
    }
}

std::optional<unsigned> ruleNumber(const std::optional<std::int64_t>& number) {
    return number ? std::optional(static_cast<unsigned>(*number)) : std::nullopt;
}

/// The result refers to the texts of `rules`.
std::vector<DevicePattern> patternsOf(const std::vector<oci::RuntimeDeviceRule>& rules,
                                      const std::vector<oci::RuntimeDeviceRule>& more) {
    std::vector<DevicePattern> patterns;
    for (const auto* const list : {&rules, &more}) {
        for (const auto& rule : *list) {
            for (const char type : {'c', 'b'}) {
                if (rule.allow && !rule.access.empty() && (rule.type == type || rule.type == 'a')) {
                    patterns.push_back({.type = type,
                                        .major = ruleNumber(rule.major),
                                        .minor = ruleNumber(rule.minor),
                                        .access = rule.access});
                }
            }
        }
    }
    return patterns;
}

/// Whether leafNameOf() could have made this name. Names of other cgroups, such as a job's, may also begin
/// with the prefix.
bool isLeafName(std::string_view name) {
    if (!name.starts_with(leafPrefix)) {
        return false;
    }
    name.remove_prefix(leafPrefix.size());
    const auto digits = name.find_first_not_of("0123456789");
    return digits != 0 && digits != std::string_view::npos && name[digits] == '-';
}

/// Removes leaves with a free lock: their starter and janitor were killed.
void sweep(int parent) try {
    auto entries = Directory::of(parent, "the cgroup of devices");
    while (const char* name = entries.next()) {
        if (isLeafName(name)) {
            removeUnusedCgroup(parent, name, 1);
        }
    }
} catch (const Error& error) {
    logDebug("Runtime", error.what());  // a failed sweep must not stop this start
}

}  // namespace

void removeEmptyCgroup(int parent, const std::string& name, int attempts) noexcept {
    while (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0 && errno == EBUSY && --attempts > 0) {
        ::usleep(1000);
    }
}

void removeUnusedCgroup(int parent, const std::string& name, int attempts) noexcept {
    const UniqueFd leaf(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (leaf && tryLock(leaf.get(), LockMode::exclusive) == LockResult::held) {
        removeEmptyCgroup(parent, name, attempts);
    }
}

std::optional<OwnCgroup> OwnCgroup::open() {
    OwnCgroup cgroup;
    cgroup.unified = node::detectCgroupLayout() == node::CgroupLayout::unified;
    const std::string_view controller = cgroup.unified ? "" : "devices";
    const auto own = node::findCgroup(readFile("/proc/self/cgroup"), controller);
    const auto path = own ? node::findCgroupDirectory(readMountTable(), controller, *own) : std::nullopt;
    if (!path) {
        return std::nullopt;
    }
    cgroup.path = *path;
    cgroup.directory = node::openCgroup(*path);
    cgroup.error = cgroup.directory ? 0 : errno;
    return cgroup;
}

std::string leafNameOf(uid_t user, std::string_view containerName) {
    return cat(user, '-', containerName);
}

std::string deviceRulesText(const std::vector<oci::RuntimeDeviceRule>& rules,
                            const std::vector<oci::RuntimeDeviceRule>& more) {
    std::string text;
    for (const auto& usual : usualDevices) {
        text += cat('?', ruleText(usual), '\n');
    }
    for (const auto& device : patternsOf(rules, more)) {
        text += cat(ruleText(device), '\n');
    }
    return text;
}

DeviceCgroup DeviceCgroup::makeLeaf(OwnCgroup own, const std::string& leafName) {
    if (!own.directory) {
        throw Error::fromErrno(cat("Failed to open the cgroup ", printable(own.path)), own.error);
    }
    DeviceCgroup cgroup;
    cgroup.name = cat(leafPrefix, leafName);
    cgroup.shown = cat(own.path, '/', cgroup.name);
    sweep(own.directory.get());
    do {  // until the name refers to the locked directory: another start may have swept it meanwhile
        // Not readable: anybody who could open it could lock it and block us.
        if (::mkdirat(own.directory.get(), cgroup.name.c_str(), 0711) != 0) {
            throwErrno(cat("Failed to create the device cgroup ", printable(cgroup.shown)));
        }
        cgroup.leaf.reset(::openat(own.directory.get(), cgroup.name.c_str(),
                                   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (cgroup.leaf ? ::flock(cgroup.leaf.get(), LOCK_SH) != 0 : errno != ENOENT) {
            throwErrno(cat("Failed to lock ", printable(cgroup.shown)));
        }
    } while (!cgroup.leaf || !sameDirectory(own.directory.get(), cgroup.name, cgroup.leaf.get()));
    cgroup.parent = std::move(own.directory);  // we own the leaf now: the destructor removes it
    return cgroup;
}

DeviceCgroup DeviceCgroup::create(OwnCgroup own, const std::string& leafName,
                                  const std::vector<oci::RuntimeDeviceRule>& rules,
                                  const std::vector<oci::RuntimeDeviceRule>& more) {
    const bool unified = own.unified;
    auto cgroup = makeLeaf(std::move(own), leafName);
    auto devices = patternsOf(rules, more);
    if (unified) {
        devices.insert(devices.end(), usualDevices.begin(), usualDevices.end());
        attachDeviceProgram(cgroup.leaf.get(), devices);
    } else {
        writeRules(cgroup.leaf.get(), devices, cgroup.shown);
    }
    cgroup.procs = openFileAt(cgroup.leaf.get(), "cgroup.procs", O_WRONLY | O_NOFOLLOW);
    return cgroup;
}

DeviceCgroup DeviceCgroup::createForRunc(OwnCgroup own, const std::string& leafName) {
    return makeLeaf(std::move(own), leafName);
}

void DeviceCgroup::appendDescriptors(std::vector<int>& numbers) const {
    numbers.push_back(parent.get());
    numbers.push_back(leaf.get());
}

void DeviceCgroup::remove() noexcept {
    if (parent) {
        removeEmptyCgroup(parent.get(), name, 200);
        parent.reset();
    }
}

}  // namespace sarus::starter
