#include "hooks/ssh/user_keys.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/passwd_file.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "container_root/root_files.hpp"

namespace sarus::hooks::ssh {

namespace {

constexpr const char* hostKeyName = "dropbear_ecdsa_host_key";
constexpr const char* clientKeyName = "id_dropbear";
constexpr const char* authorizedKeysName = "authorized_keys";
constexpr std::size_t maxKeyFile = 64U << 10U;

/// Whoever owns a key can log in with it.
std::optional<std::string> tryRead(const std::string& path, uid_t owner) {
    const UniqueFd place(::open(path.c_str(), O_PATH | O_CLOEXEC));
    if (!place && (errno == ENOENT || errno == ENOTDIR)) {
        return std::nullopt;
    }
    checkErrno(place.get(), cat("Failed to open ", printable(path)));
    struct stat status {};
    const auto file = container_root::tryOpenFound(place.get(), status);
    checkErrno(file.get(), cat("Failed to read ", printable(path)));
    if (status.st_uid != owner && status.st_uid != 0) {
        throw Error(cat("The SSH key ", printable(path), " belongs to another user"));
    }
    return readAll(file.get(), maxKeyFile, printable(path));
}

Output runDropbearKey(const std::string& dropbearDirectory, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "dropbearkey");
    auto output = runAndCapture({.path = cat(dropbearDirectory, "/bin/dropbearkey"),
                                 .args = std::move(arguments),
                                 .environment = std::vector<std::string>{}});
    if (!output.status.ok()) {
        throw Error(cat("dropbearkey failed: ", printable(trim(output.err))));
    }
    return output;
}

/// The line of the key in what `dropbearkey -y` prints.
std::string publicKeyIn(const std::string& output) {
    for (const auto& line : split(output, '\n')) {
        if (line.starts_with("ecdsa-sha2-")) {
            return line + '\n';
        }
    }
    throw Error("dropbearkey printed no public key");
}

/// A directory beside the keys, which goes with this object unless it was renamed.
class Draft {
public:
    explicit Draft(const std::string& keys) : directory(cat(keys, ".new-", randomLetters())) {
        checkErrno(::mkdir(directory.c_str(), 0700), cat("Failed to create ", printable(directory)));
    }
    Draft(const Draft&) = delete;
    Draft& operator=(const Draft&) = delete;
    ~Draft() {
        try {
            removeTree(directory);
        } catch (const Error&) {
            // What is left there is in nobody's way.
        }
    }
    const std::string& path() const noexcept { return directory; }

private:
    std::string directory;
};

void publish(const std::string& draft, const std::string& directory) {
    if (::rename(draft.c_str(), directory.c_str()) == 0) {
        return;
    }
    for (const auto* const name : {hostKeyName, clientKeyName, authorizedKeysName}) {
        const auto target = cat(directory, '/', name);
        checkErrno(::rename(cat(draft, '/', name).c_str(), target.c_str()),
                   cat("Failed to replace ", printable(target)));
    }
}

}  // namespace

void requireDropbear(const std::string& dropbearDirectory) {
    for (const auto* const name : {"dropbearmulti", "dropbearkey", "dropbear", "dbclient"}) {
        const auto path = cat(dropbearDirectory, "/bin/", name);
        if (::access(path.c_str(), X_OK) != 0) {
            throw Error::fromErrno(
                cat("The SSH software is not installed: ", printable(path)), errno,
                cat("Build it with packaging/dropbear/build ", printable(dropbearDirectory),
                    ", or set DROPBEAR_DIR to its directory"));
        }
    }
}

std::string keysDirectory(const Settings& settings, uid_t uid) {
    const auto entry = findPasswdEntry(readFile(settings.passwdFile, largestPasswdFile), uid);
    if (!entry || entry->name.find('/') != std::string::npos || entry->name.starts_with('.')) {
        throw Error(cat("The user ", uid, " is not in ", printable(settings.passwdFile)),
                    "Ask your administrator to run libexec/update-passwd-cache");
    }
    return cat(settings.baseDirectory, '/', entry->name, "/.oci-hooks/ssh/keys");
}

std::optional<UserKeys> loadKeys(const std::string& directory, uid_t owner) {
    auto hostKey = tryRead(cat(directory, '/', hostKeyName), owner);
    auto clientKey = tryRead(cat(directory, '/', clientKeyName), owner);
    auto authorizedKeys = tryRead(cat(directory, '/', authorizedKeysName), owner);
    if (!hostKey || !clientKey || !authorizedKeys) {
        return std::nullopt;
    }
    return UserKeys{std::move(*hostKey), std::move(*clientKey), std::move(*authorizedKeys)};
}

bool generateKeys(const std::string& directory, const std::string& dropbearDirectory, bool overwrite) {
    constexpr int patience = 30'000;  // milliseconds
    requireDropbear(dropbearDirectory);
    createDirectories(directoryOf(directory), 0700);
    const auto lockPath = cat(directory, ".lock");
    const auto lock = openFile(lockPath, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (lockWithin(lock.get(), patience) == LockResult::busy) {
        throw Error(cat("Another process is making SSH keys: ", printable(lockPath), " is locked"));
    }
    if (!overwrite && loadKeys(directory, ::getuid())) {
        return false;
    }
    const Draft draft(directory);
    for (const auto* const name : {hostKeyName, clientKeyName}) {
        runDropbearKey(dropbearDirectory, {"-t", "ecdsa", "-f", cat(draft.path(), '/', name)});
    }
    const auto printed =
        runDropbearKey(dropbearDirectory, {"-y", "-f", cat(draft.path(), '/', clientKeyName)});
    replaceFile(cat(draft.path(), '/', authorizedKeysName), publicKeyIn(printed.out), 0600);
    publish(draft.path(), directory);
    return true;
}

}  // namespace sarus::hooks::ssh
