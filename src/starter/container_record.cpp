#include "starter/container_record.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <memory>
#include <string_view>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "oci/json_node.hpp"
#include "oci/json_writer.hpp"

namespace sarus::starter {

namespace {

using Json = nlohmann::json;
using Node = oci::JsonNode<Json>;

constexpr std::size_t largestRecord = 64U << 20U;

std::string recordPath(const std::string& runtimeRoot, const std::string& containerName) {
    return cat(runtimeRoot, "/.", containerName, ".json");  // no container's name begins with a dot
}

std::string_view nameOfRecord(std::string_view fileName) {
    constexpr std::string_view suffix = ".json";
    const bool record = fileName.size() > suffix.size() + 1 && fileName.starts_with('.') && fileName.ends_with(suffix);
    return record ? fileName.substr(1, fileName.size() - suffix.size() - 1) : std::string_view();
}

/// Others than the owner of a record lock it only to see whether there is one, for less than this takes.
bool lockWithPatience(int fd) {
    constexpr int attempts = 20;
    constexpr timespec pause{.tv_sec = 0, .tv_nsec = 1'000'000};
    for (int attempt = 0; attempt < attempts; ++attempt) {
        if (::flock(fd, LOCK_EX | LOCK_NB) == 0) {
            return true;
        }
        ::nanosleep(&pause, nullptr);
    }
    return false;
}

bool hasName(int fd, const std::string& path) {
    struct stat byName {};
    struct stat byFd {};
    return ::lstat(path.c_str(), &byName) == 0 && ::fstat(fd, &byFd) == 0 && byName.st_ino == byFd.st_ino &&
           byName.st_dev == byFd.st_dev;
}

std::string serialize(const ContainerRecord& record) {
    oci::JsonWriter out;
    out.beginObject();
    out.member("image", record.image);
    out.member("command", record.command);
    out.member("environment", record.environment);
    out.member("workdir", record.workdir);
    if (record.apparmorProfile) {
        out.member("apparmorProfile", *record.apparmorProfile);
    }
    if (record.selinuxLabel) {
        out.member("selinuxLabel", *record.selinuxLabel);
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
    return record;
}

}  // namespace

RecordFile RecordFile::create(const std::string& runtimeRoot, const std::string& containerName, const ContainerRecord& record) {
    const auto path = recordPath(runtimeRoot, containerName);
    UniqueFd file;
    do {  // until the locked file is the one that has the name: its former owner removes it
        file = openFile(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
        if (!lockWithPatience(file.get())) {
            throw Error(cat("A container with the name '", printable(containerName), "' exists already"),
                        "Choose another --name");
        }
    } while (!hasName(file.get(), path));
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

void sweepRecords(const std::string& runtimeRoot) {
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(runtimeRoot.c_str()), &::closedir);
    while (const dirent* entry = entries ? ::readdir(entries.get()) : nullptr) {
        const auto container = nameOfRecord(static_cast<const char*>(entry->d_name));
        if (container.empty()) {
            continue;
        }
        const auto path = recordPath(runtimeRoot, std::string(container));
        const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && hasName(file.get(), path)) {
            ::unlink(path.c_str());
        }
    }
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
    return parse(readAll(file.get(), largestRecord, printable(path)), path);
}

}  // namespace sarus::starter
