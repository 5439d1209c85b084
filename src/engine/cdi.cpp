#include "engine/cdi.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "engine/mount_rules.hpp"

namespace sarus::engine {

namespace {

using Match = std::pair<const CdiFiles::File*, const oci::CdiDevice*>;

/// The devices of that name with the highest priority. More than one is a conflict.
std::vector<Match> findDevice(const CdiFiles& found, const oci::CdiName& name) {
    std::vector<Match> matches;
    for (const auto& file : found.files) {
        const auto& devices = file.spec.devices;
        const auto device = std::find_if(devices.begin(), devices.end(),
                                         [&](const auto& d) { return d.name == name.device; });
        if (file.spec.kind != name.kind || device == devices.end()) {
            continue;
        }
        if (!matches.empty() && matches.front().first->priority < file.priority) {
            matches.clear();
        }
        if (matches.empty() || matches.front().first->priority == file.priority) {
            matches.emplace_back(&file, &*device);
        }
    }
    return matches;
}

[[noreturn]] void failUnknown(const CdiFiles& found, const oci::CdiName& name) {
    constexpr std::size_t maxShown = 20;
    std::set<std::string> devices;
    std::set<std::string> kinds;
    for (const auto& file : found.files) {
        kinds.insert(file.spec.kind);
        for (const auto& device : file.spec.devices) {
            if (file.spec.kind == name.kind) {
                devices.insert(device.name);
            }
        }
    }
    const auto list = [&](const std::set<std::string>& words) {
        std::vector<std::string> shown(words.begin(), words.end());
        const bool cut = shown.size() > maxShown;
        shown.resize(std::min(shown.size(), maxShown));
        return cat(join(shown, ", "), cut ? ", ..." : "");
    };
    std::string hint;
    if (!devices.empty()) {
        hint = cat("The devices of ", name.kind, " are: ", list(devices));
    } else if (found.directories.empty()) {
        hint = "CDI devices are switched off at this site (`cdiSpecDirs` in sarus.json)";
    } else {
        hint = cat("No CDI file in ", join(found.directories, ", "), " describes ", name.kind,
                   kinds.empty() ? "" : cat("; the kinds are: ", list(kinds)));
    }
    const auto device = cat("'", name.kind, "=", name.device, "'");
    if (!found.problems.empty()) {
        throw Error(cat("The CDI device ", device, " is not found, and ",
                        found.problems.size() == 1 ? "a file" : "files",
                        " of CDI devices cannot be used: ", join(found.problems, "; ")),
                    std::move(hint));
    }
    throw Error(cat("Unknown CDI device ", device), std::move(hint));
}

[[noreturn]] void refuse(const CdiEdits& from, std::string_view what) {
    throw Error(cat("The CDI device '", from.device, "' (", printable(from.file), ") ", what));
}

void checkDestination(const CdiEdits& from, const std::string& path) {
    if (const auto why = whyNotMountable({}, path)) {
        refuse(from, cat("cannot be provided: ", *why));
    }
}

std::string requestOf(const CdiEdits& from) {
    return cat(from.device, " (", from.file, ")");
}

void applyEnvironment(const CdiEdits& from, ContainerPlan& plan) {
    auto& environment = plan.environment;
    const bool dryRun = !plan.environmentOrigins.empty();
    for (const auto& variable : from.edits.env) {
        const auto place = std::lower_bound(environment.begin(), environment.end(), variable,
                                            [](const auto& a, const auto& b) { return a.first < b.first; });
        if (place != environment.end() && place->first == variable.first) {
            place->second = variable.second;
        } else {
            environment.insert(place, variable);
        }
        if (dryRun) {
            plan.environmentOrigins[variable.first] = cat("CDI device ", requestOf(from));
        }
    }
}

void applyDeviceNodes(const CdiEdits& from, ContainerPlan& plan) {
    for (const auto& node : from.edits.deviceNodes) {
        checkDestination(from, node.path);
        const auto destination = normalizePath(node.path);
        std::erase_if(plan.devices,
                      [&](const auto& device) { return normalizePath(device.destination) == destination; });
        plan.devices.push_back({.source = node.hostPath.empty() ? node.path : node.hostPath,
                                .destination = node.path,
                                .access = oci::deviceAccess(node),
                                .origin = MountOrigin::cdi,
                                .request = requestOf(from),
                                .node = node});
    }
}

/// Options that match the default behaviour or have no effect here: every bind mount of the starter is
/// recursive, private and nosuid.
bool isHarmlessOption(std::string_view option) {
    constexpr std::array<std::string_view, 26> known{
        "bind",       "rbind",       "private",       "rprivate", "slave",    "rslave",     "shared",
        "rshared",    "unbindable",  "runbindable",   "rw",       "nosuid",   "suid",       "dev",
        "exec",       "defaults",    "atime",         "noatime",  "diratime", "nodiratime", "relatime",
        "norelatime", "strictatime", "nostrictatime", "sync",     "async"};
    return std::find(known.begin(), known.end(), option) != known.end();
}

void applyMounts(const CdiEdits& from, ContainerPlan& plan) {
    for (const auto& mount : from.edits.mounts) {
        const auto type = mount.type.value_or("");
        if (!type.empty() && type != "bind" && type != "none") {
            refuse(from, cat("asks for a mount of type '", printable(type), "' on ",
                             printable(mount.destination), ": only bind mounts are supported"));
        }
        checkDestination(from, mount.destination);
        PlannedMount planned{.source = mount.source,
                             .destination = mount.destination,
                             .readonly = false,
                             .origin = MountOrigin::cdi,
                             .request = requestOf(from)};
        for (const auto& option : mount.options.value_or(std::vector<std::string>())) {
            if (option == "ro" || option == "rro") {
                planned.readonly = true;
            } else if (option == "nodev") {
                planned.nodev = true;
            } else if (option == "noexec") {
                planned.noexec = true;
            } else if (!isHarmlessOption(option)) {
                refuse(from,
                       cat("asks for the mount option '", printable(option), "', which is not supported"));
            }
        }
        plan.mounts.push_back(std::move(planned));
    }
}

void applyHooks(const CdiEdits& from, ContainerPlan& plan) {
    for (const auto& edit : from.edits.hooks) {
        plan.hooks.push_back({.name = from.device,
                              .stage = edit.stage,
                              .hook = edit.hook,
                              .file = from.file,
                              .reason = cat("CDI device ", from.device)});
    }
}

/// Never grants group 0: the specification forbids it, and it owns too much.
void applyGroups(const CdiEdits& from, const HostFacts& facts, ContainerPlan& plan) {
    for (const auto gid : from.edits.additionalGids) {
        auto& groups = plan.supplementaryGroups;
        if (gid == 0 || gid == plan.gid || std::find(groups.begin(), groups.end(), gid) != groups.end()) {
            continue;
        }
        if (facts.privileged) {
            groups.push_back(gid);
        } else {
            plan.warnings.push_back(cat("The CDI device '", from.device, "' wants the group ", gid,
                                        ", but you are not a member: not possible without privileges"));
        }
    }
}

std::size_t countComponents(const std::string& path) {
    const auto normalized = normalizePath(path);
    return normalized == "/"
               ? 0
               : static_cast<std::size_t>(std::count(normalized.begin(), normalized.end(), '/'));
}

}  // namespace

bool isCdiRequest(std::string_view request) {
    return oci::parseCdiName(request).has_value();
}

std::vector<std::string> cdiRequests(const std::vector<std::string>& devices) {
    std::vector<std::string> names;
    for (const auto& device : devices) {
        if (isCdiRequest(device) && std::find(names.begin(), names.end(), device) == names.end()) {
            names.push_back(device);
        }
    }
    return names;
}

std::vector<CdiEdits> resolveCdiDevices(const CdiFiles& found, const std::vector<std::string>& names) {
    std::vector<CdiEdits> result;
    std::set<const CdiFiles::File*> used;
    for (const auto& text : names) {
        const auto name = oci::parseCdiName(text);
        if (!name) {
            throw Error(cat("Invalid name of a CDI device: '", printable(text), "'"));
        }
        const auto matches = findDevice(found, *name);
        if (matches.empty()) {
            failUnknown(found, *name);
        }
        if (matches.size() > 1) {
            throw Error(
                cat("The CDI device '", text, "' is described twice: by ",
                    printable(matches[0].first->spec.file), " and ", printable(matches[1].first->spec.file)),
                "Remove it from one of the files, or move one to a directory of other priority");
        }
        const auto& [file, device] = matches.front();
        if (used.insert(file).second && !file->spec.edits.empty()) {
            result.push_back({.device = text, .file = file->spec.file, .edits = file->spec.edits});
        }
        result.push_back({.device = text, .file = file->spec.file, .edits = device->edits});
    }
    return result;
}

void applyCdiEdits(const std::vector<CdiEdits>& edits, const HostFacts& facts, ContainerPlan& plan) {
    if (edits.empty()) {
        return;
    }
    for (const auto& from : edits) {
        if (from.edits.intelRdt) {
            refuse(from,
                   "asks for intelRdt, which is not supported: caches and memory bandwidth are the workload "
                   "manager's");
        }
        if (!from.edits.netDevices.empty()) {
            refuse(
                from,
                "asks for network devices, which is not supported: containers share the network of the host");
        }
        applyEnvironment(from, plan);
        applyDeviceNodes(from, plan);
        applyMounts(from, plan);
        applyHooks(from, plan);
        applyGroups(from, facts, plan);
    }
    std::stable_sort(plan.mounts.begin(), plan.mounts.end(), [](const auto& a, const auto& b) {
        return countComponents(a.destination) < countComponents(b.destination);
    });
    plan.hookOutput = plan.hooks.empty() ? std::string() : facts.hookOutput;
}

}  // namespace sarus::engine
