#include "podman_hpc/config/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/boolean.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/installation_prefix.hpp"
#include "base/private_directory.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "podman_hpc/config/template_text.hpp"
#include "podman_hpc/config/yaml.hpp"

namespace sarus::podman_hpc {

const std::array<KeyInfo, keyCount> keyTable{{
    {"podman_bin", KeyType::text},
    {"mount_program", KeyType::text},
    {"modules_dir", KeyType::text},
    {"shared_run_exec_args", KeyType::list, "shared_run_args_template"},
    {"shared_run_command", KeyType::list},
    {"graph_root", KeyType::text, "graph_root_template"},
    {"run_root", KeyType::text, "run_root_template"},
    {"additional_stores", KeyType::list, "additional_stores_template"},
    {"hooks_dir", KeyType::text},
    {"localid_var", KeyType::text},
    {"tasks_per_node_var", KeyType::text},
    {"ntasks_pattern", KeyType::text},
    {"config_home", KeyType::text, "config_home_template"},
    {"mksquashfs_bin", KeyType::text},
    {"wait_timeout", KeyType::number},
    {"wait_poll_interval", KeyType::number},
    {"use_default_args", KeyType::boolean},
}};

namespace {

std::optional<double> parseSeconds(const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool whole = end != text.c_str() && *end == '\0';
    return whole && std::isfinite(value) && value >= 0 ? std::optional(value) : std::nullopt;
}

std::string onPath(const std::string& name) {
    return findProgram(name).value_or("");
}

/// The mount program of this installation, for squashed stores and all others; or that of podman-hpc 1.1, or
/// Podman's usual one.
std::string defaultMountProgram(const std::string& prefix) {
    auto own = cat(prefix, "/bin/fuse-overlayfs-wrap");
    if (pathExists(own)) {
        return own;
    }
    const auto wrapper = onPath("fuse-overlayfs-wrap");
    return wrapper.empty() ? onPath("fuse-overlayfs") : wrapper;
}

/// The caller's directory for everything that no setting places elsewhere.
std::string ownDirectory(const Surroundings& from) {
    return cat("/tmp/", chooseOwnDirectory("/tmp", cat(from.uid, "_hpc"), from.uid));
}

std::vector<std::string> builtIn(Key key, const Surroundings& from) {
    switch (key) {
        case Key::podmanBin:
        case Key::mountProgram:
            return {""};  // looked for only if nothing else gives it
        case Key::mksquashfsBin:
            return {"mksquashfs.static"};
        case Key::modulesDir:
            return {siteFile(from.prefix, "modules.d")};
        case Key::sharedRunExecArgs:
            return {"-e", "SLURM_*", "-e", "PALS_*", "-e", "PMI_*"};
        case Key::sharedRunCommand:
            return {"sleep", "infinity"};
        case Key::graphRoot:
            return {cat(ownDirectory(from), "/storage")};
        case Key::runRoot:
            return {ownDirectory(from)};
        case Key::additionalStores:
            return {};
        case Key::hooksDir:
            return {cat(from.prefix, "/share/containers/oci/hooks.d")};
        case Key::localidVar:
            return {"SLURM_LOCALID"};
        case Key::tasksPerNodeVar:
            return {"SLURM_STEP_TASKS_PER_NODE"};
        case Key::ntasksPattern:
            return {"[0-9]+"};
        case Key::configHome:
            return {cat(ownDirectory(from), "/config")};
        case Key::waitTimeout:
            return {"10"};
        case Key::waitPollInterval:
            return {"0.2"};
        case Key::useDefaultArgs:
            return {"True"};
    }
    throw Error("unknown key");
}

std::string booleanText(bool value) {
    return value ? "True" : "False";
}

/// The value of a key in the file.
std::vector<std::string> fromFile(const KeyInfo& info, const YamlReader& reader, const YamlValue& value) {
    switch (info.type) {
        case KeyType::text:
            return {reader.text(info.name, value)};
        case KeyType::boolean:
            return {booleanText(reader.boolean(info.name, value))};
        case KeyType::number:
            if (value.kind != YamlValue::Kind::scalar || !parseSeconds(value.text)) {
                throw reader.error(value,
                                   cat(info.name, " must be a number of seconds, found ", value.describe()));
            }
            return {value.text};
        case KeyType::list:
            if (value.kind == YamlValue::Kind::scalar) {
                const auto text = reader.text(info.name, value);
                return info.name == "additional_stores" ? split(text, ',') : splitWords(text);
            }
            return reader.list(info.name, value);
    }
    throw Error("unknown type");
}

/// The value of a variable.
std::vector<std::string> fromEnvironment(const KeyInfo& info, const std::string& name,
                                         const std::string& text) {
    switch (info.type) {
        case KeyType::text:
            return {text};
        case KeyType::list:
            return text.empty() ? std::vector<std::string>{} : split(text, ',');
        case KeyType::number:
            if (!parseSeconds(text)) {
                throw Error(cat(name, " must be a number of seconds, found '", printable(text), '\''));
            }
            return {text};
        case KeyType::boolean:
            if (const auto value = parseBoolean(trim(text))) {
                return {booleanText(*value)};
            }
            throw Error(cat(name, " must be true or false, found '", printable(text), '\''));
    }
    throw Error("unknown type");
}

std::string expand(const std::string& text, const Surroundings& from, const std::string& where) {
    try {
        return expandTemplate(text, from);
    } catch (Error& error) {
        throw error.setHint(cat(where, ": ", error.hint()));
    }
}

/// The value with all its text expanded.
YamlValue expandAll(YamlValue value, const Surroundings& from, const std::string& where) {
    value.text = expand(value.text, from, where);
    for (auto& item : value.items) {
        item = expandAll(std::move(item), from, where);
    }
    return value;
}

std::string variableName(std::string_view key) {
    std::string name = "PODMANHPC_";
    for (const char c : key) {
        name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
    return name;
}

void requireKnownKeys(const YamlValue& document, const YamlReader& reader) {
    std::vector<std::string> known;
    for (const auto& info : keyTable) {
        known.emplace_back(info.name);
        if (!info.templateKey.empty()) {
            known.emplace_back(info.templateKey);
        }
    }
    for (const auto& [key, value] : document.members) {
        if (std::find(known.begin(), known.end(), key) == known.end()) {
            const auto similar = closestMatch(key, known);
            throw Error(cat("Unrecongnized Option: ", printable(key)),  // the spelling of the reference
                        reader
                            .error(value, cat("the key '", printable(key), "' is unknown",
                                              similar ? cat("; did you mean '", *similar, "'?") : ""))
                            .what());
        }
    }
}

/// Adds the values of one key, in the order of their precedence.
void addValues(Settings& settings, Key key, const YamlValue& document, const YamlReader& reader,
               const Surroundings& from) {
    const auto& info = keyTable[static_cast<std::size_t>(key)];
    const auto add = [&](std::vector<std::string> words, Origin origin) {
        settings.set(key, {std::move(words), std::move(origin)});
    };
    const auto addFile = [&](std::string_view name, bool isTemplate) {
        if (const auto* value = document.find(name)) {
            const auto where = cat(printable(reader.file), ':', value->line, ": ", name);
            const auto written = isTemplate ? expandAll(*value, from, where) : *value;
            add(fromFile(info, reader, written),
                {Origin::Kind::file, std::string(name), reader.file, value->line});
        }
    };
    const auto addVariable = [&](std::string_view name, bool isTemplate) {
        const auto variable = variableName(name);
        if (const auto value = from.variable(variable)) {
            const auto text = isTemplate ? expand(*value, from, variable) : *value;
            add(fromEnvironment(info, variable, text), {Origin::Kind::environment, variable});
        }
    };
    add(builtIn(key, from), {});
    if (!info.templateKey.empty()) {
        addFile(info.templateKey, true);
        addVariable(info.templateKey, true);
    }
    addFile(info.name, false);
    addVariable(info.name, false);
}

/// Programs that nothing names are searched for; names without a slash are completed.
void findPrograms(Settings& settings, const std::string& prefix) {
    for (const auto key : {Key::podmanBin, Key::mountProgram}) {
        auto value = settings.setting(key).back();
        auto& program = value.words.front();
        if (program.empty()) {
            program = key == Key::podmanBin ? onPath("podman") : defaultMountProgram(prefix);
        } else if (program.find('/') == std::string::npos) {
            const auto found = onPath(program);
            program = found.empty() ? program : found;
        }
        settings.replace(key, std::move(value));
    }
}

}  // namespace

double Settings::number(Key key) const {
    return parseSeconds(text(key)).value_or(0);
}

bool Settings::flag(Key key) const {
    return text(key) == "True";
}

Surroundings ownSurroundings() {
    return {.variable = hostVariable, .uid = ::geteuid(), .prefix = installationPrefix()};
}

Settings loadSettings(const Surroundings& from) {
    Settings settings;
    settings.uid = from.uid;
    const auto named = from.variable("PODMANHPC_CONFIG_FILE");
    settings.configFile = named ? *named : siteFile(from.prefix, "podman_hpc.yaml");
    const YamlReader reader(settings.configFile);
    YamlValue document;
    if (pathExists(settings.configFile)) {
        document = parseYaml(readFile(settings.configFile, 1U << 20U), settings.configFile);
        reader.requireMap(document);
        requireKnownKeys(document, reader);
    }
    for (std::size_t key = 0; key < keyCount; ++key) {
        addValues(settings, static_cast<Key>(key), document, reader, from);
    }
    findPrograms(settings, from.prefix);
    return settings;
}

std::string describe(const Origin& origin) {
    switch (origin.kind) {
        case Origin::Kind::builtIn:
            return "default";
        case Origin::Kind::file:
            return cat("file: ", origin.name);
        case Origin::Kind::environment:
            return cat("env: ", origin.name);
        case Origin::Kind::commandLine:
            return cat("option: ", origin.name);
    }
    return {};
}

SettingValue squashPlace(const Surroundings& from, const std::optional<std::string>& option) {
    if (option) {
        return {{*option}, {Origin::Kind::commandLine, "--squash-dir"}};
    }
    if (auto named = from.variable("SQUASH_DIR"); named && !named->empty()) {
        return {{*named}, {Origin::Kind::environment, "SQUASH_DIR"}};
    }
    if (const auto scratch = from.variable("SCRATCH"); scratch && !scratch->empty()) {
        return {{cat(*scratch, "/storage")}, {Origin::Kind::environment, "SCRATCH"}};
    }
    // /tmp/storage would be one directory for all users
    return {{cat(ownDirectory(from), "/squash")}, {}};
}

std::string squashDirectory(const Surroundings& from, const std::optional<std::string>& option) {
    return squashPlace(from, option).words.front();
}

}  // namespace sarus::podman_hpc
