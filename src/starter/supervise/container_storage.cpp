#include "starter/supervise/container_storage.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <tuple>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/log.hpp"
#include "base/path_in_root.hpp"
#include "base/private_directory.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "hook_contracts/enter_call.hpp"
#include "oci/json/json_node.hpp"
#include "oci/json/json_writer.hpp"
#include "starter/entry/installation.hpp"
#include "starter/namespaces/user_namespace.hpp"
#include "starter/supervise/layer_place.hpp"
#include "starter/supervise/upper_layer.hpp"

namespace sarus::starter {

namespace {

constexpr std::size_t largestDescription = 64U << 10U;

std::string lockOf(const std::string& directory) {
    return cat(directory, "/lock");
}

std::string descriptionOf(const std::string& directory) {
    return cat(directory, "/container.json");
}

std::string placeOf(const std::string& directory) {
    return cat(directory, "/layers");
}

std::string describe(const KeptContainer& container) {
    oci::JsonWriter out;
    out.beginObject();
    out.member("name", container.name);
    out.member("image", hook_contracts::percentEncoded(container.image));
    out.member("content", container.content);
    out.member("job", container.job.id);
    out.member("jobDirectory", container.job.directory);
    out.member("jobEnd", container.job.end);
    out.member("created", container.created);
    out.member("remapRoot", container.remapRoot);
    out.endObject();
    return out.text();
}

KeptContainer parseDescription(const std::string& text, const std::string& path) {
    const auto document = oci::parseJson<nlohmann::ordered_json>(text, path);
    const oci::JsonNode<nlohmann::ordered_json> root(document, "", path);
    const auto member = [&](const char* key) {
        const auto found = root.object().find(key);
        if (found == document.end()) {
            root.reject(cat("the key ", key, " is missing"));
        }
        return root.member(key, *found);
    };
    const auto isTrue = [&](const char* key) {
        const auto found = root.object().find(key);
        return found != document.end() && root.member(key, *found).boolean();
    };
    const auto number = [&](const char* key) {
        return static_cast<std::int64_t>(member(key).number(std::uint64_t{1} << 62U, "a number"));
    };
    return {.name = member("name").string(),
            .image = hook_contracts::percentDecoded(member("image").string()),
            .content = member("content").string(),
            .job = {.id = member("job").string(),
                    .directory = member("jobDirectory").string(),
                    .end = number("jobEnd")},
            .created = number("created"),
            .remapRoot = isTrue("remapRoot")};
}

/// nullopt if there is no such file. Throws Error.
std::optional<std::string> readIfThere(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file) {
        if (errno == ENOENT) {
            return std::nullopt;
        }
        throwErrno(cat("Failed to open ", printable(path)));
    }
    return readAll(file.get(), largestDescription, printable(path));
}

/// nullopt for a directory without a description: unfinished, or half removed. Throws Error.
std::optional<KeptContainer> readDescription(const std::string& directory) {
    const auto path = descriptionOf(directory);
    const auto text = readIfThere(path);
    return text ? std::optional(parseDescription(*text, printable(path))) : std::nullopt;
}

/// nullopt for layers that are beside the description. Throws Error.
std::optional<LayerPlace> readPlace(const std::string& directory) {
    const auto path = placeOf(directory);
    const auto text = readIfThere(path);
    return text ? std::optional(parseLayerPlace(*text, path)) : std::nullopt;
}

/// Those that the user has chosen may be gone: then an Error with ENOENT.
UniqueFd openLayersOf(const std::string& directory, const Credentials& credentials) {
    const auto place = readPlace(directory);
    return place ? openLayerPlace(credentials, *place)
                 : openFile(directory, O_PATH | O_DIRECTORY | O_NOFOLLOW);
}

void warnOfNoLocks(const std::string& directory) {
    logWarn("Runtime", cat("The filesystem of ", printable(directory),
                           " has no file locks: do not use the container twice at the same time"));
}

/// Locked, or empty on a filesystem without locks. nullopt if somebody else has locked it.
std::optional<UniqueFd> takeLock(UniqueFd file, const std::string& directory, int milliseconds) {
    switch (lockWithin(file.get(), std::max(1, milliseconds))) {
        case LockResult::held:
            return file;
        case LockResult::busy:
            return std::nullopt;
        case LockResult::unsupported:
            break;
    }
    warnOfNoLocks(directory);
    return UniqueFd();
}

}  // namespace

std::optional<ContainerStorage> ContainerStorage::find(const Credentials& credentials,
                                                       const engine::SiteConfig& config, Look look) {
    const auto& settings = config.containerStorage;
    const auto& parent = settings.directory ? *settings.directory : config.tempDir;
    // A user's containers of both kinds are apart.
    const auto name =
        cat("sarus-containers-", credentials.uid(), credentials.privileged() ? "" : "-rootless");
    const uid_t owner = credentials.privileged() ? 0 : credentials.ownerUid();
    if (look == Look::quick && !pathExists(cat(parent, '/', name))) {
        return std::nullopt;
    }
    try {
        if (credentials.privileged()) {
            checkRootsAlone(parent);
        }
        auto path = look == Look::create ? makeOwnDirectory(parent, name, owner).path
                                         : cat(parent, '/', chooseOwnDirectory(parent, name, owner));
        struct stat status {};
        if (::lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != owner) {
            return std::nullopt;
        }
        return ContainerStorage(std::move(path), credentials, config);
    } catch (Error& error) {
        if (look != Look::create) {
            logInfo("Runtime", error.what());  // a node without the directory has no containers
            return std::nullopt;
        }
        error.addContext("Failed to keep the container on this node");
        if (error.hint().empty()) {
            error.setHint(
                "The administrator chooses the directory: \"containerStorage\": {\"directory\": ...} in "
                "sarus.json");
        }
        throw;
    }
}

std::string ContainerStorage::key(const std::string& name, const node::SlurmJobMark& job) const {
    return settings.perJob && !job.id.empty() ? cat(name, '@', job.id) : name;
}

std::optional<ContainerStorage::Opened> ContainerStorage::open(const KeptContainer& wanted,
                                                               bool mayCreate) const {
    constexpr int attempts = 100;
    for (int attempt = 1;; ++attempt) {
        try {
            return tryOpen(wanted, mayCreate);
        } catch (const Error& error) {
            if (error.errnum() != ENOENT || attempt == attempts) {
                throw;  // otherwise somebody has removed it meanwhile
            }
        }
    }
}

std::optional<ContainerStorage::Opened> ContainerStorage::tryOpen(const KeptContainer& wanted,
                                                                  bool mayCreate) const {
    const auto name = key(wanted.name, wanted.job);
    Opened opened{.directory = cat(path, '/', name)};
    const auto& directory = opened.directory;
    if (!mayCreate && !pathExists(descriptionOf(directory))) {
        return std::nullopt;
    }
    const auto place = openFile(path, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    verifyPrivate(place.get(), path, owner(), 077);
    const auto folder = makePrivateDirectory(place.get(), name, directory, 0700, owner());
    const auto lockWhile = [&](int milliseconds) {
        return takeLock(openFileAt(folder.get(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600), directory,
                        milliseconds);
    };
    auto lock = lockWhile(whileOthersList);
    if (!lock && !pathExists(descriptionOf(directory))) {
        lock = lockWhile(whileOthersRemove);
    }
    if (!lock) {
        throw Error(cat("The container '", printable(wanted.name), "' is in use"),
                    cat("'sarus exec ", wanted.name, "' runs a command in it, 'sarus ps' lists what runs"));
    }
    if (*lock && !hasName(lock->get(), lockOf(directory))) {
        throw Error::fromErrno(cat("Failed to open ", printable(directory)), ENOENT);
    }
    opened.lock = std::move(*lock);
    if (const auto found = readDescription(directory)) {
        checkContent(*found, wanted);
        opened.layers = openLayers({.container = *found, .directory = directory});
        checkSize(wanted.name, opened.layers.get());
        if (const auto chosen = readPlace(directory)) {
            opened.directory = chosen->path();
        }
        opened.remapRoot = found->remapRoot;
        return opened;
    }
    opened.isNew = true;
    opened.remapRoot = wanted.remapRoot;
    removeLayers(directory);
    makeLayers(opened, folder.get(), wanted);
    auto made = wanted;
    if (!settings.perJob && !name.starts_with(cat(wanted.job.id, '.'))) {  // one of a step goes with its job
        made.job = {};
    }
    replaceFile(descriptionOf(cat(path, '/', name)), describe(made), 0600);
    return opened;
}

/// The place is noted before it is made, so that nothing is left there that nobody knows.
void ContainerStorage::makeLayers(Opened& opened, int folder, const KeptContainer& wanted) const {
    if (wanted.directory.empty()) {
        opened.layers = openFileAt(folder, ".", O_PATH | O_DIRECTORY);
    } else {
        auto place = chooseLayerPlace(credentials, wanted.directory, wanted.name);
        const auto note = placeOf(opened.directory);
        replaceFile(note, describeLayerPlace(place), 0600);
        opened.layers = makeLayerPlace(credentials, place);
        replaceFile(note, describeLayerPlace(place), 0600);
        opened.directory = place.path();
    }
    const int layers = opened.layers.get();
    for (const auto* const part : {"upper", "work"}) {
        checkErrno(::mkdirat(layers, part, part == std::string_view("upper") ? 0755 : 0700),
                   cat("Failed to create ", printable(opened.directory), '/', part));
    }
    checkErrno(
        ::fchownat(layers, "upper", credentials.ownerUid(), credentials.ownerGid(), AT_SYMLINK_NOFOLLOW),
        "Failed to give the upper layer to the user");
}

UniqueFd ContainerStorage::openLayers(const Entry& entry) const {
    try {
        return openLayersOf(entry.directory, credentials);
    } catch (Error& error) {
        const auto place = readPlace(entry.directory);
        if (!place || error.errnum() != ENOENT) {
            throw;
        }
        const auto name = printable(entry.container.name);
        throw Error(
            cat("The files of the container '", name, "' are not in ", printable(place->path()), " any more"),
            cat("'sarus rm ", name, "' removes the container"));
    }
}

Error ContainerStorage::madeWithoutRoot(const std::string& name) {
    return Error(cat("The container '", printable(name),
                     "' was made without --remap-root, and cannot be entered with it"),
                 cat("'sarus rm ", printable(name), "' removes it; or choose another --name"));
}

void ContainerStorage::checkContent(const KeptContainer& found, const KeptContainer& wanted) const {
    if (wanted.remapRoot && !found.remapRoot) {
        throw madeWithoutRoot(wanted.name);
    }
    if (found.content != wanted.content) {
        throw Error(cat("The container '", printable(wanted.name), "' was made from another image than this ",
                        printable(wanted.image), ": from ", printable(found.image),
                        found.image == wanted.image ? " as it was then" : ""),
                    cat("'sarus rm ", wanted.name, "' removes it; or choose another --name"));
    }
}

void ContainerStorage::checkSize(const std::string& name, int layers) const {
    if (settings.maxSize && bytesOfLayer(layers, "upper", *settings.maxSize) > *settings.maxSize) {
        throw Error(cat("The container '", printable(name), "' has outgrown the limit of ",
                        formatSize(*settings.maxSize), " of this site"),
                    cat("'sarus rm ", name, "' removes it"));
    }
}

std::vector<ContainerStorage::Entry> ContainerStorage::list() const {
    std::vector<Entry> all;
    Directory entries(path, Missing::isEmpty);
    while (const char* name = entries.next()) {
        const auto directory = cat(path, '/', name);
        try {
            if (auto container = readDescription(directory)) {
                const UniqueFd lock(
                    ::open(lockOf(directory).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
                all.push_back({std::move(*container), directory,
                               lock && tryLock(lock.get(), LockMode::shared) == LockResult::busy});
            }
        } catch (const Error& error) {
            logWarn("Runtime", cat("A container is not listed: ", error.what()));
        }
    }
    std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) {
        return std::tie(a.container.name, a.directory) < std::tie(b.container.name, b.directory);
    });
    return all;
}

std::optional<ContainerStorage::Entry> ContainerStorage::find(const std::string& name,
                                                              const node::SlurmJobMark& job) const {
    const auto own = cat(path, '/', key(name, job));
    auto all = list();
    std::erase_if(all, [&](const Entry& entry) { return entry.container.name != name; });
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const Entry& entry) { return entry.directory == own; });
    if (found == all.end() && all.size() > 1) {
        throw Error(cat("Several jobs have a container with the name '", printable(name), "'"),
                    "Run the command in the job");
    }
    if (found != all.end()) {
        return std::move(*found);
    }
    if (all.empty()) {
        return isDirectory(own) ? std::optional(Entry{.container = {.name = name}, .directory = own})
                                : std::nullopt;
    }
    return std::move(all.front());
}

/// Files of the user's subordinate ids can be removed only in a user namespace that has them.
void ContainerStorage::removeFiles(const std::string& directory) const {
    try {
        removeTree(directory);
        return;
    } catch (const Error& error) {
        const bool isForbidden = error.errnum() == EACCES || error.errnum() == EPERM;
        if (!isForbidden || credentials.privileged() || credentials.isInUserNamespace()) {
            throw;
        }
    }
    const auto ids = subordinateIdsOf(*config, credentials);
    Child child(checkErrno(::fork(), "Failed to create a process that removes a container"));
    if (child.pid() == 0) {
        try {
            auto inside = credentials;
            enterNewUserNamespace(inside, ids);
            removeTree(directory);
            ::_exit(0);
        } catch (const Error& error) {
            printError(error);
            ::_exit(1);
        }
    }
    if (!child.wait().ok()) {
        throw Error(cat("Failed to remove ", printable(directory)));
    }
}

/// Also if the user has removed them.
void ContainerStorage::removeLayers(const std::string& directory) const {
    const auto place = readPlace(directory);
    try {
        if (!place || place->inode != 0) {
            const auto layers = openLayersOf(directory, credentials);
            for (const auto* const part : {"/upper", "/work"}) {
                removeFiles(cat(descriptorPath(layers.get()), part));
            }
        }
        if (place) {
            removeLayerPlace(credentials, *place);
        }
    } catch (const Error& error) {
        if (!place || error.errnum() != ENOENT) {
            throw;
        }
        logWarn("Runtime",
                cat("The files of a container are not in ", printable(place->path()), " any more"));
    }
    removeTree(placeOf(directory));
}

std::optional<UniqueFd> ContainerStorage::lockToRead(const Entry& entry) {
    const auto path = lockOf(entry.directory);
    auto lock = openFile(path, O_RDONLY | O_NOFOLLOW);
    switch (tryLock(lock.get(), LockMode::shared)) {
        case LockResult::busy:
            return std::nullopt;
        case LockResult::unsupported:
            warnOfNoLocks(entry.directory);
            return UniqueFd();
        case LockResult::held:
            break;
    }
    if (!hasName(lock.get(), path)) {  // it was removed meanwhile
        throw Error::fromErrno(cat("Failed to open ", printable(entry.directory)), ENOENT);
    }
    return lock;
}

bool ContainerStorage::removeDirectory(const std::string& directory, int milliseconds) const {
    const auto lockPath = lockOf(directory);
    UniqueFd file(::open(lockPath.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file && errno == ENOENT) {
        return true;  // somebody else was faster
    }
    if (!file) {
        throwErrno(cat("Failed to open ", printable(lockPath)));
    }
    auto lock = takeLock(std::move(file), directory, milliseconds);
    if (lock ? *lock && !hasName(lock->get(), lockPath) : !pathExists(descriptionOf(directory))) {
        return true;  // somebody else removes it
    }
    const bool mayBeRunning = !lock || (!*lock && milliseconds == 0);
    if (mayBeRunning) {
        return false;
    }
    removeTree(descriptionOf(directory));  // from now on it is unfinished
    removeLayers(directory);
    try {
        removeTree(directory);
    } catch (const Error& error) {
        if (error.errnum() != ENOTEMPTY) {  // otherwise somebody makes it anew
            throw;
        }
    }
    return true;
}

bool ContainerStorage::remove(const Entry& entry, int milliseconds) const {
    return removeDirectory(entry.directory, milliseconds);
}

std::vector<std::string> ContainerStorage::removeOfEndedJobs(const node::SlurmJobMark& own) const {
    std::vector<std::string> removed;
    const auto now = std::time(nullptr);
    Directory entries(path, Missing::isEmpty);
    while (const char* name = entries.next()) {
        const auto directory = cat(path, '/', name);
        try {
            const auto container = readDescription(directory);
            const bool isEnded = container && isOver(container->job, now) &&
                                 (container->job.id != own.id || !container->job.directory.empty());
            const bool isSettled = container && !isEnded;
            if (!isSettled && removeDirectory(directory, 0) && container) {
                removed.push_back(container->name);
            }
        } catch (const Error& error) {
            logInfo("Runtime", cat("What is left of a container stays for now: ", error.what()));
        }
    }
    return removed;
}

}  // namespace sarus::starter
