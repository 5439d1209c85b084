#include "podman_hpc/shared_run/container_process.hpp"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "oci/runtime/rlimits.hpp"

namespace sarus::podman_hpc {

namespace {

using Json = nlohmann::json;

/// Indexed by number (linux/capability.h).
constexpr std::array<std::string_view, 41> capabilityNames{"CHOWN",
                                                           "DAC_OVERRIDE",
                                                           "DAC_READ_SEARCH",
                                                           "FOWNER",
                                                           "FSETID",
                                                           "KILL",
                                                           "SETGID",
                                                           "SETUID",
                                                           "SETPCAP",
                                                           "LINUX_IMMUTABLE",
                                                           "NET_BIND_SERVICE",
                                                           "NET_BROADCAST",
                                                           "NET_ADMIN",
                                                           "NET_RAW",
                                                           "IPC_LOCK",
                                                           "IPC_OWNER",
                                                           "SYS_MODULE",
                                                           "SYS_RAWIO",
                                                           "SYS_CHROOT",
                                                           "SYS_PTRACE",
                                                           "SYS_PACCT",
                                                           "SYS_ADMIN",
                                                           "SYS_BOOT",
                                                           "SYS_NICE",
                                                           "SYS_RESOURCE",
                                                           "SYS_TIME",
                                                           "SYS_TTY_CONFIG",
                                                           "MKNOD",
                                                           "LEASE",
                                                           "AUDIT_WRITE",
                                                           "AUDIT_CONTROL",
                                                           "SETFCAP",
                                                           "MAC_OVERRIDE",
                                                           "MAC_ADMIN",
                                                           "SYSLOG",
                                                           "WAKE_ALARM",
                                                           "BLOCK_SUSPEND",
                                                           "AUDIT_READ",
                                                           "PERFMON",
                                                           "BPF",
                                                           "CHECKPOINT_RESTORE"};

std::uint64_t capabilityBits(const Json& process, const char* set) {
    std::uint64_t bits = 0;
    const auto sets = process.value("capabilities", Json::object());
    for (const std::string name : sets.value(set, Json::array())) {
        const auto* found = std::find(capabilityNames.begin(), capabilityNames.end(),
                                      std::string_view(name).substr(name.starts_with("CAP_") ? 4 : 0));
        if (found != capabilityNames.end()) {
            bits |= std::uint64_t{1} << static_cast<unsigned>(found - capabilityNames.begin());
        }
    }
    return bits;
}

/// As Podman does for a command of the container's own user.
Capabilities capabilitiesOf(const Json& process, bool isRoot) {
    Capabilities result;
    result.bounding = capabilityBits(process, "bounding");
    if (isRoot) {
        result.effective = result.permitted = result.bounding;
    } else {
        result.effective = result.permitted = result.inheritable = result.ambient =
            capabilityBits(process, "effective");
    }
    return result;
}

/// Podman adds HOSTNAME and HOME for the container's own process, at the end; a command of `podman exec`
/// gets no HOSTNAME, and HOME of its own user.
void dropGenerated(ContainerProcess& process) {
    auto& environment = process.environment;
    if (environment.empty() || !environment.back().starts_with("HOSTNAME=")) {
        return;
    }
    environment.pop_back();
    if (!environment.empty() && environment.back().starts_with("HOME=")) {
        process.ownHome = environment.back().substr(5);
        environment.pop_back();
    }
}

bool needsRuntime(const Json& config, const Json& process) {
    const auto isSet = [&](const char* name) { return !process.value(name, "").empty(); };
    return config.value("linux", Json::object()).contains("seccomp") || isSet("apparmorProfile") ||
           isSet("selinuxLabel");
}

ContainerProcess parse(const Json& config, const Json& process) {
    ContainerProcess result;
    const auto user = process.value("user", Json::object());
    result.uid = user.value("uid", 0U);
    result.gid = user.value("gid", 0U);
    result.groups = user.value("additionalGids", std::vector<gid_t>{});
    result.umask = user.value("umask", 0022U);
    const auto annotations = config.value("annotations", Json::object());
    result.keepsGroups = annotations.value("run.oci.keep_original_groups", "") == "1";
    result.directory = process.value("cwd", "/");
    result.noNewPrivileges = process.value("noNewPrivileges", false);
    for (const std::string variable : process.value("env", Json::array())) {
        const auto equals = variable.find('=');
        if (equals != std::string::npos) {
            setVariable(result.environment, variable.substr(0, equals), variable.substr(equals + 1));
        }
    }
    dropGenerated(result);
    for (const auto& limit : process.value("rlimits", Json::array())) {
        if (const auto resource = oci::findRlimit(limit.value("type", ""))) {
            result.limits.push_back(
                {*resource, {limit.value("soft", rlim_t{0}), limit.value("hard", rlim_t{0})}});
        }
    }
    result.capabilities = capabilitiesOf(process, result.uid == 0);
    return result;
}

std::string_view nameOf(std::string_view variable) {
    return variable.substr(0, variable.find('='));
}

/// One setting in Podman's form.
void addVariable(std::vector<std::string>& environment, const std::string& setting,
                 const std::vector<std::string>& host) {
    const auto equals = setting.find('=');
    const auto typed = std::string_view(setting).substr(0, equals);
    if (typed.empty()) {
        throw Error(cat("invalid variable: '", printable(setting), '\'')).setExitStatus(125);
    }
    const auto start = typed.find_first_not_of(" \t\n\v\f\r");
    const auto name = std::string(start == std::string_view::npos ? "" : typed.substr(start));
    if (equals != std::string::npos) {
        setVariable(environment, name, setting.substr(equals + 1));
        return;
    }
    const bool isPattern = name.ends_with('*');
    for (const std::string_view variable : host) {
        const auto candidate = nameOf(variable);
        const bool matches = isPattern
                                 ? candidate.starts_with(std::string_view(name).substr(0, name.size() - 1))
                                 : candidate == name;
        if (matches && candidate.size() < variable.size()) {
            setVariable(environment, std::string(candidate),
                        std::string(variable.substr(candidate.size() + 1)));
        }
    }
}

struct Entry {
    std::vector<std::string> fields;
    std::optional<std::uint64_t> number(std::size_t i) const { return parseNumber(fields[i]); }
};

/// The lines of passwd(5) or group(5) with at least this many fields.
std::vector<Entry> entriesOf(std::string_view text, std::size_t fields) {
    std::vector<Entry> entries;
    for (const auto& line : split(text, '\n')) {
        Entry entry{split(line, ':')};
        if (entry.fields.size() >= fields && !entry.fields[0].empty()) {
            entries.push_back(std::move(entry));
        }
    }
    return entries;
}

unsigned idOf(std::uint64_t number, const std::string& name) {
    if (number >= UINT32_MAX) {
        throw Error(cat("The number of ", printable(name), " is too large")).setExitStatus(125);
    }
    return static_cast<unsigned>(number);
}

}  // namespace

std::optional<ContainerProcess> parseContainerProcess(const std::string& config) {
    try {
        const auto document = Json::parse(config);
        const auto& process = document.at("process");
        return needsRuntime(document, process) ? std::nullopt : std::optional(parse(document, process));
    } catch (const Json::exception&) {
        return std::nullopt;
    }
}

void setVariable(std::vector<std::string>& environment, const std::string& name, const std::string& value) {
    const auto found = std::find_if(environment.begin(), environment.end(),
                                    [&](const std::string& variable) { return nameOf(variable) == name; });
    if (found != environment.end()) {
        *found = cat(name, '=', value);
    } else {
        environment.push_back(cat(name, '=', value));
    }
}

void addVariables(std::vector<std::string>& environment, const ExecOptions& options,
                  const std::vector<std::string>& host) {
    for (const auto& file : options.variableFiles) {
        for (const auto& line : split(readFile(file), '\n')) {
            const auto start = line.find_first_not_of(" \t\v\f\r");
            if (start != std::string::npos && line[start] != '#') {
                addVariable(environment, line.substr(start), host);
            }
        }
    }
    for (const auto& setting : options.variables) {
        addVariable(environment, setting, host);
    }
}

ContainerUser lookUpUser(const std::string& name, std::string_view passwd, std::string_view group) {
    const auto colon = name.find(':');
    const auto wanted = name.substr(0, colon);
    const auto number = parseNumber(wanted);
    ContainerUser user{.uid = number ? idOf(*number, wanted) : 0, .gid = 0};
    std::string found;
    for (const auto& entry : entriesOf(passwd, 6)) {
        if ((entry.fields[0] == wanted || (number && entry.number(2) == number)) && entry.number(2) &&
            entry.number(3)) {
            found = entry.fields[0];
            user.uid = idOf(*entry.number(2), wanted);
            user.gid = idOf(*entry.number(3), wanted);
            user.home = entry.fields[5];
            break;
        }
    }
    if (found.empty() && !number && !wanted.empty()) {
        throw Error(cat("unable to find user ", printable(wanted), ": no matching entries in passwd file"))
            .setExitStatus(255);
    }
    const auto groups = entriesOf(group, 4);
    if (colon == std::string::npos) {
        for (const auto& entry : groups) {
            const auto members = split(entry.fields[3], ',');
            if (!found.empty() && entry.number(2) &&
                std::find(members.begin(), members.end(), found) != members.end()) {
                user.groups.push_back(idOf(*entry.number(2), entry.fields[0]));
            }
        }
        return user;
    }
    const auto wantedGroup = name.substr(colon + 1);
    const auto groupNumber = parseNumber(wantedGroup);
    const auto matching = std::find_if(groups.begin(), groups.end(), [&](const Entry& entry) {
        return entry.fields[0] == wantedGroup && entry.number(2);
    });
    if (matching == groups.end() && !groupNumber) {
        throw Error(
            cat("unable to find group ", printable(wantedGroup), ": no matching entries in group file"))
            .setExitStatus(255);
    }
    user.gid = idOf(matching != groups.end() ? *matching->number(2) : *groupNumber, wantedGroup);
    return user;
}

}  // namespace sarus::podman_hpc
