#pragma once

#include <sys/types.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "podman_hpc/config/site_file.hpp"

namespace sarus::podman_hpc {

/// The keys of the configuration, in the order in which `infohpc` prints them.
enum class Key {
    podmanBin,
    mountProgram,
    modulesDir,
    sharedRunExecArgs,
    sharedRunCommand,
    graphRoot,
    runRoot,
    additionalStores,
    hooksDir,
    localidVar,
    tasksPerNodeVar,
    ntasksPattern,
    configHome,
    mksquashfsBin,
    waitTimeout,
    waitPollInterval,
    useDefaultArgs,
};
constexpr std::size_t keyCount = 17;

enum class KeyType { text, list, number, boolean };

struct KeyInfo {
    std::string_view name;
    KeyType type;
    std::string_view templateKey{};  ///< "" if it has no template
};

/// Indexed by Key.
extern const std::array<KeyInfo, keyCount> keyTable;

/// Where a value comes from.
struct Origin {
    enum class Kind { builtIn, file, environment, commandLine };
    Kind kind = Kind::builtIn;
    std::string name{};  ///< key in the file, variable, or option
    std::string file{};
    int line = 0;
};

/// "default", "file: KEY", "env: VARIABLE" or "option: NAME".
std::string describe(const Origin& origin);

/// One value of a setting. Everything but a list has one element.
struct SettingValue {
    std::vector<std::string> words;
    Origin origin;
};

/// Values by growing precedence: built-in, template of the file, template of the environment, file,
/// environment, command line. The last one counts.
using Setting = std::vector<SettingValue>;

class Settings {
public:
    const Setting& setting(Key key) const { return all[static_cast<std::size_t>(key)]; }
    const std::vector<std::string>& list(Key key) const { return setting(key).back().words; }
    const std::string& text(Key key) const { return list(key).front(); }
    double number(Key key) const;
    bool flag(Key key) const;

    void set(Key key, SettingValue value) { all[static_cast<std::size_t>(key)].push_back(std::move(value)); }

    void replace(Key key, SettingValue value) {
        all[static_cast<std::size_t>(key)].back() = std::move(value);
    }

    std::string configFile;  ///< which may not exist
    uid_t uid = 0;

private:
    std::array<Setting, keyCount> all;
};

/// What the configuration depends on besides its file.
struct Surroundings {
    std::function<std::optional<std::string>(const std::string& name)> variable;
    uid_t uid = 0;
    std::string prefix{};  ///< of the installation
};

/// This process's environment, user and installation.
Surroundings ownSurroundings();

/// Reads the configuration. Throws Error.
Settings loadSettings(const Surroundings& from);

/// The squash store: --squash-dir (`option`), SQUASH_DIR, $SCRATCH/storage, /tmp/<uid>_hpc/squash.
std::string squashDirectory(const Surroundings& from, const std::optional<std::string>& option);
/// The same with its origin.
SettingValue squashPlace(const Surroundings& from, const std::optional<std::string>& option);

}  // namespace sarus::podman_hpc
