#include "starter/supervise/container_record.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <string_view>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/log.hpp"
#include "base/process_tree.hpp"
#include "base/text.hpp"
#include "base/within.hpp"
#include "hook_contracts/enter_call.hpp"
#include "oci/json/json_node.hpp"
#include "oci/json/json_writer.hpp"
#include "starter/devices/device_cgroup.hpp"
#include "starter/supervise/running_container.hpp"

namespace sarus::starter {

namespace {

using Json = nlohmann::ordered_json;
using Node = oci::JsonNode<Json>;

constexpr std::size_t largestRecord = 64U << 20U;
/// Size limit for each list and for all other strings of a record.
constexpr std::size_t largestEnvironment = 192U << 10U;
constexpr std::size_t largestCommand = 32U << 10U;
constexpr std::size_t largestNames = 32U << 10U;
constexpr std::size_t largestString = 32U << 10U;
constexpr std::size_t largestSettings = 32U << 10U;

std::string recordPath(const std::string& runtimeRoot, const std::string& containerName) {
    return cat(runtimeRoot, "/.", containerName, ".json");  // no container's name begins with a dot
}

std::string_view nameOfRecord(std::string_view fileName) {
    constexpr std::string_view suffix = ".json";
    const bool record =
        fileName.size() > suffix.size() + 1 && fileName.starts_with('.') && fileName.ends_with(suffix);
    return record ? fileName.substr(1, fileName.size() - suffix.size() - 1) : std::string_view();
}

std::size_t sizeAsJson(std::string_view text) {
    return oci::JsonWriter().value(text).text().size() + 1;
}

/// The strings that fit into `space`, in their order.
std::vector<std::string> fitting(const std::vector<std::string>& strings, std::size_t space) {
    constexpr std::size_t mostOfCharacter = 6;  // "\u0001"
    std::size_t most = 0;
    for (const auto& text : strings) {
        most += mostOfCharacter * text.size() + std::string_view("\"\",").size();
    }
    if (most <= space) {
        return strings;  // almost always: do not serialise them only to measure their size
    }
    std::vector<std::string> kept;
    for (const auto& text : strings) {
        // A string takes at least its length: do not serialise large ones only to measure their size.
        const auto size = text.size() < space ? sizeAsJson(text) : text.size();
        if (size <= space) {
            kept.push_back(text);
            space -= size;
        }
    }
    return kept;
}

/// JSON holds no other bytes than UTF-8.
std::vector<std::string> percentEncoded(const std::vector<std::string>& strings) {
    std::vector<std::string> encoded;
    for (const auto& text : strings) {
        encoded.push_back(hook_contracts::percentEncoded(text));
    }
    return encoded;
}

std::vector<std::string> percentDecoded(std::vector<std::string> strings) {
    for (auto& text : strings) {
        text = hook_contracts::percentDecoded(text);
    }
    return strings;
}

/// Names and values, one after the other.
std::optional<std::vector<std::string>> settingsToWrite(const ContainerRecord& record) {
    std::vector<std::string> all;
    for (const auto& [name, value] : record.settings.value_or(engine::ContainerSettings())) {
        all.push_back(hook_contracts::percentEncoded(name));
        all.push_back(hook_contracts::percentEncoded(value));
    }
    const bool fits = record.settings && fitting(all, largestSettings).size() == all.size();
    return fits ? std::optional(std::move(all)) : std::nullopt;
}

std::string serialize(const ContainerRecord& record) {
    const auto command = fitting(percentEncoded(record.command), largestCommand);
    const auto environment = fitting(percentEncoded(record.environment), largestEnvironment);
    const auto image = hook_contracts::percentEncoded(record.image);
    const auto workdir = hook_contracts::percentEncoded(record.workdir);
    const auto ownVariables = fitting(record.ownVariables, largestNames);
    for (const auto* text : {&image, &workdir}) {
        if (sizeAsJson(*text) > largestString) {
            throw Error(
                cat("The path of the image or the working directory is too long (", text->size(), " bytes)"));
        }
    }
    oci::JsonWriter out;
    out.beginObject();
    out.member("image", image);
    out.member("command", command);
    out.member("environment", environment);
    out.member("ownVariables", ownVariables);
    out.member("incomplete", command.size() < record.command.size() ||
                                 environment.size() < record.environment.size() ||
                                 ownVariables.size() < record.ownVariables.size());
    out.member("workdir", workdir);
    if (record.apparmorProfile) {
        out.member("apparmorProfile", *record.apparmorProfile);
    }
    if (record.selinuxLabel) {
        out.member("selinuxLabel", *record.selinuxLabel);
    }
    out.member("createsUser", record.createsUser);
    out.member("remapRoot", record.remapRoot);
    out.member("imageContent", record.imageContent);
    if (const auto settings = settingsToWrite(record)) {
        out.member("settings", *settings);
    }
    out.endObject();
    return out.text();
}

ContainerRecord parse(const std::string& text, const std::string& path) {
    const auto document = oci::parseJson<Json>(text, path);
    const Node root(document, "", path);
    const auto member = [&](const char* key) -> const Json& {
        const auto found = root.object().find(key);
        if (found == document.end()) {
            root.reject(cat("the key ", key, " is missing"));
        }
        return *found;
    };
    const auto strings = [&](const char* key) { return root.member(key, member(key)).strings(); };
    const auto optionalString = [&](const char* key) -> std::optional<std::string> {
        const auto found = root.object().find(key);
        return found == document.end() ? std::nullopt : std::optional(root.member(key, *found).string());
    };
    ContainerRecord record;
    record.image = hook_contracts::percentDecoded(root.member("image", member("image")).string());
    record.command = percentDecoded(strings("command"));
    record.environment = percentDecoded(strings("environment"));
    if (root.object().find("ownVariables") != document.end()) {
        record.ownVariables = strings("ownVariables");
    }
    record.workdir = hook_contracts::percentDecoded(root.member("workdir", member("workdir")).string());
    record.apparmorProfile = optionalString("apparmorProfile");
    record.selinuxLabel = optionalString("selinuxLabel");
    const auto flag = [&](const char* key) {
        const auto found = root.object().find(key);
        return found != document.end() && root.member(key, *found).boolean();
    };
    record.incomplete = flag("incomplete");
    record.createsUser = flag("createsUser");
    record.remapRoot = flag("remapRoot");
    record.imageContent = optionalString("imageContent").value_or("");
    if (root.object().find("settings") != document.end()) {
        const auto words = percentDecoded(strings("settings"));
        record.settings.emplace();
        for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
            (*record.settings)[words[i]] = words[i + 1];
        }
    }
    return record;
}

/// The runtimes' own state of a container: each keeps a file for it.
std::optional<RuntimeState> readRuntimeState(const std::string& runtimeRoot,
                                             const std::string& containerName) {
    for (const auto runtime : {engine::OciRuntime::crun, engine::OciRuntime::runc}) {
        try {
            if (const auto path = runtimeStateFile(runtime, runtimeRoot, containerName); pathExists(path)) {
                return parseRuntimeState(readFile(path, largestRecord), runtime);
            }
        } catch (const Error&) {
            return std::nullopt;  // the runtime was killed while writing it
        }
    }
    return std::nullopt;
}

/// Requires the lock of the record. True if nothing is left of a container but `state`. The container may
/// have survived the kill of its starter and janitor: it may ignore SIGHUP.
bool isDead(const std::optional<RuntimeState>& state) {
    if (!state) {
        return true;
    }
    const Process first(state->pid);
    return first.started() != state->started || !first.isRunning();
}

/// Whether a starter or janitor looks after the container.
bool isHeld(const std::string& runtimeRoot, const std::string& containerName) {
    const UniqueFd record(
        ::open(recordPath(runtimeRoot, containerName).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    return record && tryLock(record.get(), LockMode::shared) != LockResult::held;
}

/// The longest time that a program which was killed needs to end, in milliseconds.
constexpr int longestEnd = 1'000;

/// Gets the lock of a record, unless its container runs: a janitor that ends one, or whoever cleans up after
/// one, needs less than the longest time. So does the start of another container.
LockResult lockUnlessRunning(int record, const std::string& runtimeRoot, const std::string& containerName) {
    constexpr int longest = 5'000;
    constexpr int interval = 50;
    auto lock = lockWithin(record, interval);
    for (int waited = interval; lock == LockResult::busy && waited < longest &&
                                (waited < longestEnd || hasEnded(runtimeRoot, containerName));
         waited += interval) {
        lock = lockWithin(record, interval);
    }
    return lock;
}

/// Requires the lock of the record, whose text is `record`.
void removeEverythingOf(const std::string& runtimeRoot, const std::string& containerName,
                        const std::optional<RuntimeState>& state, std::string_view record) {
    auto cgroups = state ? state->cgroups : std::vector<std::string>();
    const auto noted = split(record, '\n');
    cgroups.insert(cgroups.end(), noted.begin() + 1, noted.end());
    for (const auto& cgroup : cgroups) {
        removeUnusedCgroup(AT_FDCWD, cgroup, 50);
    }
    if (const auto directory = cat(runtimeRoot, '/', containerName); pathExists(directory)) {
        removeTree(directory);
    }
}

/// The text of a record is one line of JSON, followed by the directories of the container's cgroups, one per
/// line.
std::string_view jsonOf(std::string_view text) {
    return text.substr(0, text.find('\n'));
}

/// The names with a record or a runtime's state.
std::set<std::string> knownNames(const std::string& runtimeRoot) {
    std::set<std::string> names;
    Directory entries(runtimeRoot, Missing::isEmpty);
    while (const char* entry = entries.next()) {
        const std::string_view name = entry;
        struct stat status {};
        if (const auto container = nameOfRecord(name); !container.empty()) {
            names.emplace(container);
        } else if (!name.starts_with('.') &&
                   ::fstatat(entries.fd(), entry, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                   S_ISDIR(status.st_mode)) {
            names.emplace(name);
        }
    }
    return names;
}

void sweep(const std::string& runtimeRoot, const std::string& containerName) {
    const auto path = recordPath(runtimeRoot, containerName);
    const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
        tryLock(file.get(), LockMode::exclusive) != LockResult::held || !hasName(file.get(), path)) {
        return;
    }
    const auto state = readRuntimeState(runtimeRoot, containerName);
    const auto text = readAll(file.get(), largestRecord, path);
    if (isDead(state)) {
        removeEverythingOf(runtimeRoot, containerName, state, text);
    }
    ::unlink(path.c_str());  // useless without its lock, although the container may live
}

}  // namespace

RecordFile RecordFile::create(const std::string& runtimeRoot, const std::string& containerName,
                              const ContainerRecord& record) {
    const auto path = recordPath(runtimeRoot, containerName);
    const auto inUse = [&] {
        return Error(cat("A container with the name '", printable(containerName), "' exists already"),
                     "Choose another --name");
    };
    UniqueFd file;
    do {  // until the name refers to the locked file: its former owner removes it
        file = openFile(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
        const auto lock = lockUnlessRunning(file.get(), runtimeRoot, containerName);
        if (lock == LockResult::busy) {
            throw inUse();
        }
        if (lock == LockResult::unsupported) {
            logWarn("Runtime", cat("The filesystem of \"", printable(path),
                                   "\" has no file locks: what a killed container leaves there stays until "
                                   "its name is used again"));
        }
    } while (!hasName(file.get(), path));
    if (pathExists(cat(runtimeRoot, '/', containerName))) {
        const auto state = readRuntimeState(runtimeRoot, containerName);
        if (!within(longestEnd, [&] { return isDead(state); })) {
            throw inUse();
        }
        removeEverythingOf(runtimeRoot, containerName, state,
                           readAll(file.get(), largestRecord, printable(path)));
        checkErrno(::lseek(file.get(), 0, SEEK_SET), cat("Failed to write ", printable(path)));
    }
    RecordFile owned(std::move(file), path);
    checkErrno(::ftruncate(owned.fd.get(), 0), cat("Failed to empty ", printable(path)));
    writeAll(owned.fd.get(), serialize(record), printable(path));
    return owned;
}

void RecordFile::remove() noexcept {
    if (!path.empty()) {
        ::unlink(path.c_str());
        path.clear();
    }
}

void RecordFile::removeRemains(const std::string& runtimeRoot, const std::string& containerName) const {
    checkErrno(::lseek(fd.get(), 0, SEEK_SET), cat("Failed to read ", printable(path)));
    removeEverythingOf(runtimeRoot, containerName, readRuntimeState(runtimeRoot, containerName),
                       readAll(fd.get(), largestRecord, path));
}

void RecordFile::noteCgroup(const std::string& directory) {
    writeAll(fd.get(), cat('\n', directory), printable(path));
}

void sweepDeadContainers(const std::string& runtimeRoot) {
    for (const auto& name : knownNames(runtimeRoot)) {
        try {
            sweep(runtimeRoot, name);
        } catch (const Error& error) {
            logInfo("Runtime", cat("What is left of the container '", printable(name),
                                   "' stays for now: ", error.what()));
        }
    }
}

std::size_t countContainers(const std::string& runtimeRoot) {
    const auto names = knownNames(runtimeRoot);
    return static_cast<std::size_t>(std::count_if(names.begin(), names.end(), [&](const std::string& name) {
        return isHeld(runtimeRoot, name) || !isDead(readRuntimeState(runtimeRoot, name));
    }));
}

bool hasEnded(const std::string& runtimeRoot, const std::string& containerName) {
    return isDead(readRuntimeState(runtimeRoot, containerName));
}

std::vector<KnownContainer> knownContainers(const std::string& runtimeRoot) {
    using Status = KnownContainer::Status;
    std::vector<KnownContainer> found;
    for (const auto& name : knownNames(runtimeRoot)) {
        auto state = readRuntimeState(runtimeRoot, name);
        if (!state && !isHeld(runtimeRoot, name)) {
            continue;
        }
        // Both runtimes keep a container from running by this file, until it is started.
        const auto waits = cat(runtimeRoot, '/', name, "/exec.fifo");
        const auto status = !state              ? Status::creating
                            : isDead(state)     ? Status::stopped
                            : pathExists(waits) ? Status::created
                                                : Status::running;
        found.push_back({.name = name, .state = std::move(state), .status = status});
    }
    return found;
}

void awaitRuntimeState(const std::string& runtimeRoot, const std::string& containerName) {
    within(longestStart, [&] {
        return readRuntimeState(runtimeRoot, containerName) || !isHeld(runtimeRoot, containerName);
    });
}

std::optional<ContainerRecord> readRecord(const std::string& runtimeRoot, const std::string& containerName) {
    const auto path = recordPath(runtimeRoot, containerName);
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file) {
        return std::nullopt;
    }
    if (tryLock(file.get(), LockMode::shared) == LockResult::held) {
        return std::nullopt;  // the lock is free: its starter and janitor were killed
    }
    const auto text = readAll(file.get(), largestRecord, printable(path));
    // Empty until its owner has written it, and while a sweep looks at a name that was free.
    return text.empty() ? std::nullopt : std::optional(parse(std::string(jsonOf(text)), path));
}

}  // namespace sarus::starter
