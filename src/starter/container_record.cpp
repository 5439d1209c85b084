#include "starter/container_record.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "oci/json_node.hpp"
#include "oci/json_writer.hpp"
#include "starter/cgroups.hpp"
#include "starter/file_lock.hpp"
#include "starter/process_tree.hpp"
#include "starter/running_container.hpp"

namespace sarus::starter {

namespace {

using Json = nlohmann::json;
using Node = oci::JsonNode<Json>;

constexpr std::size_t largestRecord = 64U << 20U;
/// As much of a record each of its lists and its other strings may take.
constexpr std::size_t largestEnvironment = 192U << 10U;
constexpr std::size_t largestCommand = 32U << 10U;
constexpr std::size_t largestString = 32U << 10U;

std::string recordPath(const std::string& runtimeRoot, const std::string& containerName) {
    return cat(runtimeRoot, "/.", containerName, ".json");  // no container's name begins with a dot
}

std::string_view nameOfRecord(std::string_view fileName) {
    constexpr std::string_view suffix = ".json";
    const bool record = fileName.size() > suffix.size() + 1 && fileName.starts_with('.') && fileName.ends_with(suffix);
    return record ? fileName.substr(1, fileName.size() - suffix.size() - 1) : std::string_view();
}

/// Others than the owner of a record lock it only to see whether there is one, and to remove what is left of a dead container;
/// that takes less than this.
constexpr int patienceMilliseconds = 200;

std::size_t sizeAsJson(std::string_view text) {
    return oci::JsonWriter().value(text).text().size() + 1;
}

/// The strings that fit, in their order.
std::vector<std::string> fitting(const std::vector<std::string>& strings, std::size_t space) {
    constexpr std::size_t mostOfCharacter = 6;  // "\u0001"
    std::size_t most = 0;
    for (const auto& text : strings) {
        most += mostOfCharacter * text.size() + std::string_view("\"\",").size();
    }
    if (most <= space) {
        return strings;  // as nearly always: nothing has to be written only to be measured
    }
    std::vector<std::string> kept;
    for (const auto& text : strings) {
        // A string takes its length at least: large ones are not written only to be measured.
        const auto size = text.size() < space ? sizeAsJson(text) : text.size();
        if (size <= space) {
            kept.push_back(text);
            space -= size;
        }
    }
    return kept;
}

std::string serialize(const ContainerRecord& record) {
    const auto command = fitting(record.command, largestCommand);
    const auto environment = fitting(record.environment, largestEnvironment);
    for (const auto* text : {&record.image, &record.workdir}) {
        if (sizeAsJson(*text) > largestString) {
            throw Error(cat("The path of the image or the working directory is too long (", text->size(), " bytes)"));
        }
    }
    oci::JsonWriter out;
    out.beginObject();
    out.member("image", record.image);
    out.member("command", command);
    out.member("environment", environment);
    out.member("incomplete", command.size() < record.command.size() || environment.size() < record.environment.size());
    out.member("workdir", record.workdir);
    if (record.apparmorProfile) {
        out.member("apparmorProfile", *record.apparmorProfile);
    }
    if (record.selinuxLabel) {
        out.member("selinuxLabel", *record.selinuxLabel);
    }
    out.member("idMapHelper", record.idMapHelper);
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
    const auto strings = [&](const char* key) {
        return root.member(key, member(key)).list("a list of strings", [](const Node& node) { return node.string(); });
    };
    const auto optionalString = [&](const char* key) -> std::optional<std::string> {
        const auto found = root.object().find(key);
        return found == document.end() ? std::nullopt : std::optional(root.member(key, *found).string());
    };
    ContainerRecord record;
    record.image = root.member("image", member("image")).string();
    record.command = strings("command");
    record.environment = strings("environment");
    record.workdir = root.member("workdir", member("workdir")).string();
    record.apparmorProfile = optionalString("apparmorProfile");
    record.selinuxLabel = optionalString("selinuxLabel");
    const auto flag = [&](const char* key) {
        const auto found = root.object().find(key);
        return found != document.end() && root.member(key, *found).boolean();
    };
    record.incomplete = flag("incomplete");
    record.idMapHelper = flag("idMapHelper");
    return record;
}

/// What the runtimes keep of a container: each has a file of its own for it.
std::optional<RuntimeState> readRuntimeState(const std::string& runtimeRoot, const std::string& containerName) {
    for (const auto runtime : {engine::OciRuntime::crun, engine::OciRuntime::runc}) {
        try {
            if (const auto path = runtimeStateFile(runtime, runtimeRoot, containerName); pathExists(path)) {
                return parseRuntimeState(readFile(path, largestRecord), runtime);
            }
        } catch (const Error&) {
            return std::nullopt;  // it was killed while it wrote
        }
    }
    return std::nullopt;
}

/// With the lock of its record: true if nothing is left of a container but what is read in `state`. That it was not killed with
/// its starter and the janitor is possible: it may ignore SIGHUP.
bool isDead(const std::optional<RuntimeState>& state) {
    if (!state) {
        return true;
    }
    const Process first(state->pid);
    return first.started() != state->started || !first.isRunning();
}

/// With the lock of its record, whose text is `record`.
void removeRemains(const std::string& runtimeRoot, const std::string& containerName, const std::optional<RuntimeState>& state,
                   std::string_view record) {
    auto cgroups = state ? state->cgroups : std::vector<std::string>();
    if (const auto end = record.find('\n'); end != std::string_view::npos) {
        cgroups.emplace_back(record.substr(end + 1));
    }
    for (const auto& cgroup : cgroups) {
        removeUnusedCgroup(cgroup);
    }
    if (const auto directory = cat(runtimeRoot, '/', containerName); pathExists(directory)) {
        removeTree(directory);
    }
}

/// The text of a record is one line of JSON and, in another one, the directory of the container's cgroup.
std::string_view jsonOf(std::string_view text) {
    return text.substr(0, text.find('\n'));
}

/// The names of which there is a record or a runtime's state.
std::set<std::string> knownNames(const std::string& runtimeRoot) {
    std::set<std::string> names;
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(runtimeRoot.c_str()), &::closedir);
    while (const dirent* entry = entries ? ::readdir(entries.get()) : nullptr) {
        const std::string_view name(static_cast<const char*>(entry->d_name));
        struct stat status {};
        if (const auto container = nameOfRecord(name); !container.empty()) {
            names.emplace(container);
        } else if (!name.starts_with('.') &&
                   ::fstatat(::dirfd(entries.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
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
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 ||
        !hasName(file.get(), path)) {
        return;
    }
    const auto state = readRuntimeState(runtimeRoot, containerName);
    const auto text = readAll(file.get(), largestRecord, path);
    if (isDead(state)) {
        removeRemains(runtimeRoot, containerName, state, text);
    }
    ::unlink(path.c_str());  // of no use without its lock, although the container may live
}

}  // namespace

RecordFile RecordFile::create(const std::string& runtimeRoot, const std::string& containerName, const ContainerRecord& record) {
    const auto path = recordPath(runtimeRoot, containerName);
    const auto inUse = [&] {
        return Error(cat("A container with the name '", printable(containerName), "' exists already"), "Choose another --name");
    };
    UniqueFd file;
    do {  // until the locked file is the one that has the name: its former owner removes it
        file = openFile(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
        if (!lockWithin(file.get(), patienceMilliseconds)) {
            throw inUse();
        }
    } while (!hasName(file.get(), path));
    if (pathExists(cat(runtimeRoot, '/', containerName))) {
        const auto state = readRuntimeState(runtimeRoot, containerName);
        if (!isDead(state)) {
            throw inUse();
        }
        removeRemains(runtimeRoot, containerName, state, readAll(file.get(), largestRecord, printable(path)));
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

void RecordFile::noteCgroup(const std::string& directory) {
    writeAll(fd.get(), cat('\n', directory), printable(path));
}

void sweepDeadContainers(const std::string& runtimeRoot) {
    for (const auto& name : knownNames(runtimeRoot)) {
        try {
            sweep(runtimeRoot, name);
        } catch (const Error& error) {
            logInfo("Runtime", cat("What is left of the container '", printable(name), "' stays for now: ", error.what()));
        }
    }
}

bool hasEnded(const std::string& runtimeRoot, const std::string& containerName) {
    return isDead(readRuntimeState(runtimeRoot, containerName));
}

std::optional<ContainerRecord> readRecord(const std::string& runtimeRoot, const std::string& containerName) {
    const auto path = recordPath(runtimeRoot, containerName);
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file) {
        return std::nullopt;
    }
    if (::flock(file.get(), LOCK_SH | LOCK_NB) == 0) {
        return std::nullopt;  // nobody holds it: its starter and the janitor were killed
    }
    return parse(std::string(jsonOf(readAll(file.get(), largestRecord, printable(path)))), path);
}

}  // namespace sarus::starter
