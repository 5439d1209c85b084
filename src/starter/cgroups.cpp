#include "starter/cgroups.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/mounts.hpp"
#include "base/text.hpp"
#include "oci/runtime_devices.hpp"
#include "starter/device_program.hpp"

namespace sarus::starter {

namespace {

constexpr const char* unifiedTree = "/sys/fs/cgroup/unified";
constexpr std::string_view leafPrefix = "sarus-";

/// What every container may do: create any node, and use the usual ones.
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

bool isFilesystem(const char* path, long magic) {
    struct statfs filesystem {};
    return ::statfs(path, &filesystem) == 0 && filesystem.f_type == magic;
}

bool lists(std::string_view commaSeparated, std::string_view word) {
    const auto words = split(commaSeparated, ',');
    return std::find(words.begin(), words.end(), word) != words.end();
}

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
    return cat(pattern.type, ' ', numberOrAll(pattern.major), ':', numberOrAll(pattern.minor), ' ', pattern.access);
}

/// The leaf's rules, in the files of the v1 controller.
void writeRules(int leaf, const std::vector<DevicePattern>& devices, const std::string& shown) {
    if (!writeRule(leaf, "devices.deny", "a")) {
        throwErrno(cat("Failed to restrict the device cgroup ", printable(shown)));
    }
    for (const auto& usual : usualDevices) {
        writeRule(leaf, "devices.allow", ruleText(usual));  // refused where the caller's own cgroup has less, which then holds
    }
    for (const auto& device : devices) {
        const auto rule = ruleText(device);
        if (!writeRule(leaf, "devices.allow", rule)) {
            throw Error::fromErrno(cat("Failed to allow the device ", rule, " in the container's cgroup"), errno,
                                   "The job's own cgroup has to allow it: ask the workload manager for the device");
        }
    }
}

std::optional<unsigned> ruleNumber(const std::optional<std::int64_t>& number) {
    return number ? std::optional(static_cast<unsigned>(*number)) : std::nullopt;
}

/// The patterns refer to the rules' texts.
void addPatterns(const std::vector<oci::BundleDeviceRule>& rules, std::vector<DevicePattern>& patterns) {
    for (const auto& rule : rules) {
        for (const char type : {'c', 'b'}) {
            if (rule.allow && !rule.access.empty() && (rule.type == type || rule.type == 'a')) {
                patterns.push_back(
                    {.type = type, .major = ruleNumber(rule.major), .minor = ruleNumber(rule.minor), .access = rule.access});
            }
        }
    }
}

std::vector<DevicePattern> patternsOf(const std::vector<DeviceRule>& rules, const std::vector<oci::BundleDeviceRule>& more) {
    std::vector<DevicePattern> patterns;
    for (const auto& rule : rules) {
        patterns.push_back({.type = rule.type, .major = rule.major, .minor = rule.minor, .access = rule.access});
    }
    addPatterns(more, patterns);
    return patterns;
}

/// Whether this is a mount of the v1 hierarchy of `controller` ("": of the v2 one).
bool isHierarchy(const MountEntry& mount, std::string_view controller) {
    return controller.empty() ? mount.type == "cgroup2" : mount.type == "cgroup" && lists(mount.superOptions, controller);
}

/// Empty, with errno, if it is not there or no cgroup: the mount table alone is no proof.
UniqueFd openCgroupDirectory(const std::string& path) {
    UniqueFd directory(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct statfs filesystem {};
    if (directory && (::fstatfs(directory.get(), &filesystem) != 0 ||
                      (filesystem.f_type != CGROUP_SUPER_MAGIC && filesystem.f_type != CGROUP2_SUPER_MAGIC))) {
        errno = ENOENT;
        directory.reset();
    }
    return directory;
}

void removeUnused(int parent, const char* name) noexcept {
    const UniqueFd leaf(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (leaf && ::flock(leaf.get(), LOCK_EX | LOCK_NB) == 0) {
        ::unlinkat(parent, name, AT_REMOVEDIR);  // EBUSY: a process of the dead container is left
    }
}

/// Whether this is a name as leafNameOf() makes it. Other cgroups, such as a job's, may be called after this program, too.
bool isLeafName(std::string_view name) {
    if (!name.starts_with(leafPrefix)) {
        return false;
    }
    name.remove_prefix(leafPrefix.size());
    const auto digits = name.find_first_not_of("0123456789");
    return digits != 0 && digits != std::string_view::npos && name[digits] == '-';
}

/// Removes leaves that nobody holds the lock of: their starter and its janitor were killed.
void sweep(int parent) {
    const UniqueFd list(::openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(::fcntl(list.get(), F_DUPFD_CLOEXEC, 0)), &::closedir);
    if (!entries) {
        return;  // sweeping is a service to the next start, not a condition of this one
    }
    while (const dirent* entry = ::readdir(entries.get())) {
        if (isLeafName(static_cast<const char*>(entry->d_name))) {
            removeUnused(parent, entry->d_name);
        }
    }
}

}  // namespace

CgroupLayout detectCgroupLayout() {
    if (isFilesystem("/sys/fs/cgroup", CGROUP2_SUPER_MAGIC)) {
        return CgroupLayout::unified;
    }
    if (!isFilesystem("/sys/fs/cgroup", TMPFS_MAGIC)) {
        return CgroupLayout::none;
    }
    return isFilesystem(unifiedTree, CGROUP2_SUPER_MAGIC) ? CgroupLayout::hybrid : CgroupLayout::legacy;
}

void hideUnifiedHierarchy() {
    constexpr unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;
    if (::mount("tmpfs", unifiedTree, "tmpfs", flags, "size=4k,nr_inodes=2,mode=555") != 0) {
        throw Error::fromErrno(cat("Failed to hide ", unifiedTree, " from crun, which may not start beside it"), errno,
                               "Set `runcPath` in sarus.json to runc");
    }
}

std::string explainRefusedLayout(std::string_view runtimeLog, const std::string& runtimePath) {
    if (runtimeLog.find("cgroups in hybrid mode not supported") == std::string_view::npos) {
        return {};
    }
    return cat(
        "The OCI runtime ", printable(runtimePath), " does not run on a node with both versions of cgroups where it sees ",
        unifiedTree,
        "\nSet `runcPath` in sarus.json to runc, or to crun under a name with \"crun\" in it, from which that tree is hidden");
}

std::optional<std::string> findOwnCgroup(std::string_view procSelfCgroup, std::string_view controller) {
    for (const auto& line : split(procSelfCgroup, '\n')) {
        const auto first = line.find(':');
        const auto second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) {
            continue;
        }
        const auto controllers = std::string_view(line).substr(first + 1, second - first - 1);
        const bool unified = controllers.empty() && line.starts_with("0:");
        if (controller.empty() ? unified : lists(controllers, controller)) {
            return line.substr(second + 1);
        }
    }
    return std::nullopt;
}

std::optional<std::string> findCgroupDirectory(const std::vector<MountEntry>& mounts, std::string_view controller,
                                               std::string_view path) {
    std::optional<std::string> found;  // the last one, which may cover others
    for (const auto& mount : mounts) {
        if (!isHierarchy(mount, controller)) {
            continue;
        }
        if (mount.root == "/") {
            found = path == "/" ? mount.mountPoint : cat(mount.mountPoint, path);
        } else if (path == mount.root || path.starts_with(cat(mount.root, '/'))) {
            found = cat(mount.mountPoint, path.substr(mount.root.size()));
        }
    }
    return found;
}

std::vector<UniqueFd> openCgroupsToJoin(std::string_view otherProcCgroup, bool mustJoinAll) {
    const auto own = readFile("/proc/self/cgroup");
    const auto mounts = readMountTable();
    std::vector<UniqueFd> cgroups;
    for (const auto& line : split(otherProcCgroup, '\n')) {
        const auto fields = split(line, ':');
        if (fields.size() < 3) {
            continue;
        }
        const auto controller = split(fields[1], ',').front();
        const auto path = line.substr(fields[0].size() + fields[1].size() + 2);
        if (findOwnCgroup(own, controller) == path) {
            continue;
        }
        const auto name = findCgroupDirectory(mounts, controller, path);
        const auto directory = name ? openCgroupDirectory(*name) : UniqueFd();
        UniqueFd processes(directory ? ::openat(directory.get(), "cgroup.procs", O_WRONLY | O_NOFOLLOW | O_CLOEXEC) : -1);
        const bool isMounted =
            std::any_of(mounts.begin(), mounts.end(), [&](const MountEntry& mount) { return isHierarchy(mount, controller); });
        if (processes) {
            cgroups.push_back(std::move(processes));
        } else if (mustJoinAll && isMounted) {
            throw Error::fromErrno(cat("Failed to join the container's cgroup ", printable(path)), name ? errno : ENOENT);
        } else if (name) {
            logInfo("Runtime", cat("The command does not count against the container's cgroup ", printable(*name), ": ",
                                   std::strerror(errno)));
        }
    }
    return cgroups;
}

void removeUnusedCgroup(const std::string& directory) noexcept {
    removeUnused(AT_FDCWD, directory.c_str());
}

std::optional<OwnCgroup> OwnCgroup::open() {
    OwnCgroup cgroup;
    cgroup.unified = detectCgroupLayout() == CgroupLayout::unified;
    const std::string_view controller = cgroup.unified ? "" : "devices";
    const auto own = findOwnCgroup(readFile("/proc/self/cgroup"), controller);
    const auto path = own ? findCgroupDirectory(readMountTable(), controller, *own) : std::nullopt;
    if (!path) {
        return std::nullopt;
    }
    cgroup.path = *path;
    cgroup.directory = openCgroupDirectory(*path);
    cgroup.error = cgroup.directory ? 0 : errno;
    return cgroup;
}

std::string leafNameOf(uid_t user, std::string_view containerName) {
    return cat(user, '-', containerName);
}

std::string runcCgroupsPath(std::string_view leafName) {
    const auto own = findOwnCgroup(readFile("/proc/self/cgroup"), "").value_or("/");
    return cat(own == "/" ? "" : own, '/', leafPrefix, leafName);
}

std::string deviceRulesText(const std::vector<DeviceRule>& rules, const std::vector<oci::BundleDeviceRule>& more) {
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
    do {  // until the locked directory is the one that has the name: another start may have swept it in between
        // Not readable: whoever could open it could lock it, and keep us waiting.
        if (::mkdirat(own.directory.get(), cgroup.name.c_str(), 0711) != 0) {
            throwErrno(cat("Failed to create the device cgroup ", printable(cgroup.shown)));
        }
        cgroup.leaf = openFileAt(own.directory.get(), cgroup.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        checkErrno(::flock(cgroup.leaf.get(), LOCK_SH), cat("Failed to lock ", printable(cgroup.shown)));
    } while (!sameDirectory(own.directory.get(), cgroup.name, cgroup.leaf.get()));
    cgroup.parent = std::move(own.directory);  // from here on the destructor removes the leaf: it is ours
    return cgroup;
}

DeviceCgroup DeviceCgroup::create(OwnCgroup own, const std::string& leafName, const std::vector<DeviceRule>& rules,
                                  const std::vector<oci::BundleDeviceRule>& more) {
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
        // Processes that were killed a moment ago may still be on their way out of the cgroup.
        for (int attempt = 0; ::unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR) != 0 && errno == EBUSY && attempt < 200;
             ++attempt) {
            ::usleep(1000);
        }
        parent.reset();
    }
}

}  // namespace sarus::starter
