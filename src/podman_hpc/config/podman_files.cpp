#include "podman_hpc/config/podman_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/directory.hpp"
#include "base/draft.hpp"
#include "base/file_io.hpp"
#include "base/hex.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc {

namespace {

/// A basic string of TOML.
std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
        }
        out += c;
    }
    return out + '"';
}

std::string userConfiguration(const Surroundings& from) {
    if (const auto named = from.variable("XDG_CONFIG_HOME"); named && !named->empty()) {
        return *named;
    }
    return cat(from.variable("HOME").value_or(""), "/.config");
}

}  // namespace

void provideLink(const std::string& link, const std::string& target) {
    if (!pathExists(target)) {
        return;
    }
    std::string current(4096, '\0');
    const auto length = ::readlink(link.c_str(), current.data(), current.size());
    if (length >= 0) {
        current.resize(static_cast<std::size_t>(length));
        if (current == target) {
            return;
        }
        ::unlink(link.c_str());
    }
    if (::symlink(target.c_str(), link.c_str()) != 0 && errno != EEXIST) {
        throwErrno(cat("Failed to create ", printable(link)));
    }
}

void writeIfAbsent(const std::string& path, const std::string& text, mode_t mode) {
    if (pathExists(path)) {
        return;
    }
    Draft draft(path, mode);
    writeAll(draft.fd(), text, printable(path));
    draft.create(Flush::no);  // it would be made again
}

std::string storageConfiguration(const Settings& settings, const std::string& squashDir) {
    auto stores = quoted(squashDir);
    for (const auto& store : settings.list(Key::additionalStores)) {
        stores += cat(", ", quoted(store));
    }
    return cat("[storage]\ndriver = \"overlay\"\ngraphroot = ", quoted(settings.text(Key::graphRoot)),
               "\nrunroot = ", quoted(settings.text(Key::runRoot)),
               "\n\n[storage.options]\nignore_chown_errors = \"true\"\nmount_program = ",
               quoted(settings.text(Key::mountProgram)), "\nadditionalimagestores = [", stores,
               "]\n\n[storage.options.overlay]\nmountopt = \"nodev\"\n");
}

std::string containersConfiguration() {
    return "[engine]\ncgroup_manager = \"cgroupfs\"\n\n[containers]\nseccomp_profile = \"unconfined\"\n";
}

void provideConfigHome(const Settings& settings, const std::string& squashDir, const Surroundings& from) {
    const auto& home = settings.text(Key::configHome);
    requireOwnDirectory(home, from.uid);
    const auto directory = cat(home, "/containers");
    createDirectories(directory, 0700);
    writeIfAbsent(cat(directory, "/storage.conf"), storageConfiguration(settings, squashDir), 0644);
    writeIfAbsent(cat(directory, "/containers.conf"), containersConfiguration(), 0644);
    const auto own = cat(userConfiguration(from), "/containers");
    if (own == directory || !isDirectory(own)) {
        return;
    }
    for (const auto* name :
         {"registries.conf", "registries.conf.d", "registries.d", "policy.json", "certs.d", "auth.json"}) {
        provideLink(cat(directory, '/', name), cat(own, '/', name));
    }
}

void requireOwnDirectory(const std::string& path, uid_t uid, mode_t mode) {
    const auto* const hint = "Choose another directory in podman_hpc.yaml or by variables PODMANHPC_...";
    bool parentIsPublic = false;
    for (auto end = path.find('/', 1);; end = path.find('/', end + 1)) {
        const auto part = path.substr(0, end);
        struct stat status {};
        // Looks before it makes anything below: a link of another user could lead anywhere.
        if (::lstat(part.c_str(), &status) != 0) {
            try {
                createDirectories(part, mode);
            } catch (Error& error) {
                throw error.setHint(hint);
            }
            checkErrno(::lstat(part.c_str(), &status), cat("Failed to examine ", printable(part)));
        }
        if (parentIsPublic && status.st_uid != uid && status.st_uid != 0) {
            throw Error(cat("User ", status.st_uid, " owns ", printable(part)), hint);
        }
        if (!isDirectory(part)) {
            throw Error(cat(printable(part), " is not a directory"), hint);
        }
        parentIsPublic = S_ISDIR(status.st_mode) && (status.st_mode & S_IWOTH) != 0;
        if (end == std::string::npos) {
            return;
        }
    }
}

bool hasLostList(const std::string& list) {
    if (pathExists(list)) {
        return false;
    }
    constexpr std::size_t idLength = 64;
    Directory entries(directoryOf(list), Missing::isEmpty);
    while (const char* name = entries.next()) {
        const auto id = std::string_view(name).substr(0, idLength);
        if (id.size() == idLength && isHex(id)) {
            return true;
        }
    }
    return false;
}

void provideSquashStore(const std::string& squashDir, uid_t uid) {
    try {
        requireOwnDirectory(squashDir, uid, 0777);
        for (const auto* name : {"/overlay-images", "/overlay-layers", "/overlay/l"}) {
            createDirectories(squashDir + name);
        }
        for (const auto* name : {"/overlay-images/images", "/overlay-layers/layers"}) {
            if (const auto list = cat(squashDir, name, ".json"); !hasLostList(list)) {
                writeIfAbsent(list, "[]", 0644);
            }
            // The mark of a writer. Without one, Podman takes the list as changed: it reads it a hundred
            // times for a single start.
            const auto mark = cat(randomLetters(), randomLetters(), randomLetters(), randomLetters());
            writeIfAbsent(cat(squashDir, name, ".lock"), mark, 0644);
        }
    } catch (Error& error) {
        throw error.addContext(cat("Failed to create the squash store ", printable(squashDir)))
            .setHint("Choose another one with --squash-dir or SQUASH_DIR");
    }
}

std::vector<VariableChange> podmanEnvironment(const Settings& settings, const Surroundings& from,
                                              bool login) {
    std::vector<VariableChange> changes{{"XDG_CONFIG_HOME", settings.text(Key::configHome)},
                                        {"XDG_RUNTIME_DIR", std::nullopt}};
    if (const auto runtime = from.variable("XDG_RUNTIME_DIR");
        runtime && !runtime->empty() && !from.variable("REGISTRY_AUTH_FILE")) {
        // where `podman login` has put the credentials
        const auto credentials = cat(*runtime, "/containers/auth.json");
        if (pathExists(credentials) || (login && isDirectory(*runtime))) {
            changes.push_back({"REGISTRY_AUTH_FILE", credentials});
        }
    }
    if (settings.flag(Key::useDefaultArgs) && !from.variable("STORAGE_DRIVER")) {
        changes.push_back({"STORAGE_DRIVER", "overlay"});  // Podman's own default may be vfs
    }
    return changes;
}

}  // namespace sarus::podman_hpc
