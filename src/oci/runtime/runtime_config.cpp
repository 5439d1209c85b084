#include "oci/runtime/runtime_config.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/json/json_writer.hpp"
#include "oci/runtime/runtime_members.hpp"

namespace sarus::oci {

namespace {

void writeUser(JsonWriter& out, const RuntimeUser& user) {
    out.key("user").beginObject();
    out.member("uid", user.uid).member("gid", user.gid);
    if (user.umask) {
        out.member("umask", *user.umask);
    }
    if (!user.additionalGids.empty()) {
        out.member("additionalGids", user.additionalGids);
    }
    out.endObject();
}

void writeEnvironment(JsonWriter& out, const std::vector<std::pair<std::string, std::string>>& env) {
    out.key("env").beginArray();
    for (const auto& [name, text] : env) {
        out.value(cat(name, "=", text));
    }
    out.endArray();
}

void writeCapabilities(JsonWriter& out, const RuntimeCapabilities& capabilities) {
    out.key("capabilities").beginObject();
    out.member("bounding", capabilities.bounding);
    out.member("effective", capabilities.effective);
    out.member("inheritable", capabilities.inheritable);
    out.member("permitted", capabilities.permitted);
    out.member("ambient", capabilities.ambient);
    out.endObject();
}

void writeRlimits(JsonWriter& out, const std::vector<RuntimeRlimit>& rlimits) {
    if (rlimits.empty()) {
        return;
    }
    out.key("rlimits").beginArray();
    for (const auto& limit : rlimits) {
        out.beginObject()
            .member("type", limit.type)
            .member("hard", limit.hard)
            .member("soft", limit.soft)
            .endObject();
    }
    out.endArray();
}

void writeProcess(JsonWriter& out, const RuntimeProcess& process) {
    out.beginObject();
    out.member("terminal", process.terminal);
    if (process.consoleSize) {
        out.key("consoleSize")
            .beginObject()
            .member("height", process.consoleSize->height)
            .member("width", process.consoleSize->width)
            .endObject();
    }
    writeUser(out, process.user);
    out.member("args", process.args);
    writeEnvironment(out, process.env);
    out.member("cwd", process.cwd);
    writeCapabilities(out, process.capabilities);
    writeRlimits(out, process.rlimits);
    out.member("noNewPrivileges", process.noNewPrivileges);
    if (process.apparmorProfile) {
        out.member("apparmorProfile", *process.apparmorProfile);
    }
    if (process.selinuxLabel) {
        out.member("selinuxLabel", *process.selinuxLabel);
    }
    out.endObject();
}

template <typename Object>
void writeList(JsonWriter& out, std::string_view key, const std::vector<Object>& objects) {
    out.key(key).beginArray();
    for (const auto& object : objects) {
        out.beginObject();
        forEachMember(object, [&](std::string_view name, const auto& content) { out.member(name, content); });
        out.endObject();
    }
    out.endArray();
}

void writeResources(JsonWriter& out, const RuntimeResources& resources) {
    out.key("resources").beginObject();
    if (resources.cpus) {
        out.key("cpu").beginObject().member("cpus", *resources.cpus).endObject();
    }
    if (!resources.devices.empty()) {
        writeList(out, "devices", resources.devices);
    }
    out.endObject();
}

void writeNamespaces(JsonWriter& out, const std::vector<RuntimeNamespace>& namespaces) {
    out.key("namespaces").beginArray();
    for (const auto& entry : namespaces) {
        out.beginObject().member("type", entry.type);
        if (entry.path) {
            out.member("path", *entry.path);
        }
        out.endObject();
    }
    out.endArray();
}

void writeMappings(JsonWriter& out, std::string_view key, const std::vector<RuntimeIdMapping>& mappings) {
    if (mappings.empty()) {
        return;
    }
    out.key(key).beginArray();
    for (const auto& map : mappings) {
        out.beginObject();
        out.member("containerID", map.containerId).member("hostID", map.hostId).member("size", map.size);
        out.endObject();
    }
    out.endArray();
}

void writeSeccomp(JsonWriter& out, const std::string& profile) {
    const auto text = trim(profile);
    if (!text.starts_with('{') || !nlohmann::json::accept(text)) {
        throw Error("Invalid seccomp profile: not a JSON object");
    }
    out.key("seccomp").raw(text);
}

void writeLinux(JsonWriter& out, const RuntimeLinux& section) {
    out.key("linux").beginObject();
    writeNamespaces(out, section.namespaces);
    writeMappings(out, "uidMappings", section.uidMappings);
    writeMappings(out, "gidMappings", section.gidMappings);
    if (section.resources) {
        writeResources(out, *section.resources);
    }
    if (section.cgroupsPath) {
        out.member("cgroupsPath", *section.cgroupsPath);
    }
    if (section.rootfsPropagation) {
        out.member("rootfsPropagation", *section.rootfsPropagation);
    }
    out.member("maskedPaths", section.maskedPaths);
    out.member("readonlyPaths", section.readonlyPaths);
    if (section.mountLabel) {
        out.member("mountLabel", *section.mountLabel);
    }
    if (section.seccomp) {
        writeSeccomp(out, *section.seccomp);
    }
    out.endObject();
}

void writeHooks(JsonWriter& out, const std::vector<std::pair<std::string, std::vector<RuntimeHook>>>& hooks) {
    out.key("hooks").beginObject();
    for (const auto& [stage, entries] : hooks) {
        writeList(out, stage, entries);
    }
    out.endObject();
}

}  // namespace

std::string serializeRuntimeProcess(const RuntimeProcess& process) {
    JsonWriter out;
    writeProcess(out, process);
    return out.text();
}

std::string serializeRuntimeConfig(const RuntimeConfig& config) {
    JsonWriter out;
    out.beginObject();
    out.member("ociVersion", config.ociVersion);
    writeProcess(out.key("process"), config.process);
    out.key("root")
        .beginObject()
        .member("path", config.root.path)
        .member("readonly", config.root.readonly)
        .endObject();
    writeList(out, "mounts", config.mounts);
    writeLinux(out, config.linux_);
    writeHooks(out, config.hooks);
    out.key("annotations").beginObject();
    for (const auto& [name, text] : config.annotations) {
        out.member(name, text);
    }
    out.endObject().endObject();
    return out.text();
}

std::string formatCpuList(const std::vector<int>& cpus) {
    std::string list;
    for (std::size_t first = 0; first < cpus.size();) {
        std::size_t last = first;
        while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) {
            ++last;
        }
        list += list.empty() ? "" : ",";
        list += last == first ? cat(cpus[first]) : cat(cpus[first], "-", cpus[last]);
        first = last + 1;
    }
    return list;
}

}  // namespace sarus::oci
