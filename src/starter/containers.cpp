#include "starter/containers.hpp"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "engine/run_options.hpp"
#include "oci/json_depth.hpp"
#include "oci/json_writer.hpp"
#include "starter/container_record.hpp"
#include "starter/entry.hpp"
#include "starter/runtime.hpp"
#include "starter/user_repository.hpp"

namespace sarus::starter {

namespace {

using Json = nlohmann::json;

constexpr int standardOutput = 1;
constexpr const char* runtimePath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

std::string text(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? printable(found->get_ref<const std::string&>()) : std::string();
}

std::vector<std::string> environmentOf(const std::string& sessionDirectory) {
    return {cat("XDG_RUNTIME_DIR=", sessionDirectory)};
}

Output callRuntime(const RuntimeProgram& program, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), program.kind == engine::OciRuntime::crun ? "crun" : "runc");
    return runAndCapture(
        {.path = program.path, .args = std::move(arguments), .environment = std::vector<std::string>{runtimePath}});
}

void writeMembers(oci::JsonWriter& out, const ContainerEntry& container) {
    out.member("name", container.id);
    out.member("pid", container.pid);
    out.member("status", container.status);
    out.member("bundle", container.bundle);
    out.member("created", container.created);
    out.member("owner", container.owner);
}

/// `record` is empty for a container whose starter has been killed.
std::string formatDetails(const ContainerEntry& container, const std::optional<ContainerRecord>& record) {
    auto text = cat("Container:      ", container.id, "\nProcess:        ", container.pid, "\nStatus:         ", container.status,
                    "\nCreated:        ", container.created, "\nOwner:          ", container.owner, "\n");
    if (record) {
        text += cat("Image:          ", printable(record->image), "\nCommand:        ", printable(join(record->command, " ")),
                    "\nDirectory:      ", printable(record->workdir), "\n");
        for (const auto& variable : record->environment) {
            text += cat("Environment:    ", printable(variable), "\n");
        }
        if (record->incomplete) {
            text += "Incomplete:     variables or arguments which are too large to be remembered are missing\n";
        }
    }
    return text;
}

std::string formatDetailsJson(const ContainerEntry& container, const std::optional<ContainerRecord>& record) {
    oci::JsonWriter out;
    out.beginObject();
    out.member("kind", "container");
    writeMembers(out, container);
    if (record) {
        out.member("image", record->image).member("args", record->command);
        out.member("workingDir", record->workdir).member("env", record->environment);
        if (record->incomplete) {
            out.member("incomplete", true);
        }
    }
    out.endObject();
    return cat(out.text(), '\n');
}

[[noreturn]] void fail(const std::string& doing, const Output& output) {
    const auto said = printable(trim(output.err));
    throw Error(cat(doing, said.empty() ? "" : ": ", said));
}

/// What runc would say: crun counts microseconds, and calls everybody root who made a container in a user namespace.
void describeLikeRunc(std::vector<ContainerEntry>& containers, const engine::SiteConfig& config, const Credentials& credentials) {
    std::optional<std::string> owner;
    if (!credentials.privileged() && !containers.empty()) {
        const auto passwd = cat(config.prefixDir, "/etc/passwd");
        owner = findUserName(pathExists(passwd) ? readFile(passwd) : "", credentials.uid());
        owner = owner.value_or(cat('#', credentials.uid()));
    }
    for (auto& container : containers) {
        container.created = withNanoseconds(std::move(container.created));
        container.owner = owner.value_or(container.owner);
    }
}

std::vector<ContainerEntry> callerContainers(const engine::SiteConfig& config, const Credentials& credentials,
                                             const std::string& sessionDirectory) {
    const auto program = findRuntime(config.runcPath);
    std::vector<ContainerEntry> all;
    for (const auto& root : findRuntimeRoots(credentials, config, environmentOf(sessionDirectory))) {
        sweepDeadContainers(root);
        const auto output = callRuntime(program, {"--root", root, "list", "--format", "json"});
        if (!output.status.ok()) {
            fail("Failed to list the containers", output);
        }
        auto containers = parseContainerList(output.out);
        if (program.kind == engine::OciRuntime::crun) {
            describeLikeRunc(containers, config, credentials);
        }
        std::move(containers.begin(), containers.end(), std::back_inserter(all));
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    return all;
}

Error noSuchContainer(const std::string& name) {
    return Error(cat("There is no container with the name '", printable(name), "'"), "See 'sarus ps'");
}

/// The one of the caller's runtime roots which has the container.
std::string rootOf(const engine::SiteConfig& config, const Credentials& credentials, const std::string& sessionDirectory,
                   const std::string& name) {
    engine::checkContainerName(name);
    auto root = findRuntimeRootOf(name, credentials, config, environmentOf(sessionDirectory));
    if (root) {
        sweepDeadContainers(*root);
    }
    if (!root || !pathExists(cat(*root, '/', name))) {
        throw noSuchContainer(name);
    }
    return std::move(*root);
}

}  // namespace

std::vector<ContainerEntry> parseContainerList(std::string_view json) {
    const auto trimmed = trim(json);
    oci::checkJsonDepth(trimmed, "the OCI runtime's list of containers");
    const auto document = Json::parse(trimmed, nullptr, false);
    std::vector<ContainerEntry> containers;
    if (document.is_null()) {  // how runc says that there is none
        return containers;
    }
    if (!document.is_array()) {
        throw Error("The OCI runtime printed something else than a list of containers");
    }
    for (const auto& entry : document) {
        if (!entry.is_object()) {
            throw Error("The OCI runtime printed a list of something else than containers");
        }
        const auto pid = entry.find("pid");
        containers.push_back({.id = text(entry, "id"),
                              .pid = pid != entry.end() && pid->is_number_integer() ? pid->get<std::int64_t>() : 0,
                              .status = text(entry, "status"),
                              .bundle = text(entry, "bundle"),
                              .created = text(entry, "created"),
                              .owner = text(entry, "owner")});
    }
    return containers;
}

std::string withNanoseconds(std::string time) {
    constexpr std::size_t digits = 9;
    const auto point = time.find('.');
    const auto end = time.find_first_not_of("0123456789", point == std::string::npos ? time.size() : point + 1);
    if (end != std::string::npos && end - point - 1 < digits) {
        time.insert(end, digits - (end - point - 1), '0');
    }
    return time;
}

std::string formatContainerTable(const std::vector<ContainerEntry>& containers) {
    constexpr std::size_t smallestCell = 12;
    constexpr std::size_t padding = 3;
    std::vector<std::vector<std::string>> rows{{"ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"}};
    for (const auto& container : containers) {
        rows.push_back(
            {container.id, cat(container.pid), container.status, container.bundle, container.created, container.owner});
    }
    std::vector<std::size_t> widths(rows.front().size(), smallestCell);
    for (const auto& row : rows) {
        for (std::size_t column = 0; column < row.size(); ++column) {
            widths[column] = std::max(widths[column], row[column].size() + padding);
        }
    }
    std::string table;
    for (auto& row : rows) {
        for (std::size_t column = 0; column + 1 < row.size(); ++column) {
            row[column].resize(widths[column], ' ');
        }
        table += cat(join(row, ""), '\n');
    }
    return table;
}

std::string formatContainerJson(const std::vector<ContainerEntry>& containers) {
    oci::JsonWriter out;
    out.beginArray();
    for (const auto& container : containers) {
        out.beginObject();
        writeMembers(out, container);
        out.endObject();
    }
    out.endArray();
    return cat(out.text(), '\n');
}

int parseSignal(std::string_view signal) {
    if (const auto number = parseNumber(signal); number && *number >= 1 && *number < static_cast<std::uint64_t>(NSIG)) {
        return static_cast<int>(*number);
    }
    std::string name(signal);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    if (name.starts_with("SIG")) {
        name.erase(0, 3);
    }
    for (int number = 1; number < NSIG; ++number) {
        const char* known = ::sigabbrev_np(number);
        if (known != nullptr && name == known) {
            return number;
        }
    }
    throw Error(cat("Unknown signal '", printable(signal), "'"), "Name it like SIGTERM, TERM or 15");
}

void listContainers(const engine::SiteConfig& config, const Credentials& credentials, const std::string& sessionDirectory,
                    OutputForm form) {
    const auto containers = callerContainers(config, credentials, sessionDirectory);
    writeAll(standardOutput, form == OutputForm::json ? formatContainerJson(containers) : formatContainerTable(containers),
             "standard output");
}

void inspectContainer(const engine::SiteConfig& config, const Credentials& credentials, const std::string& sessionDirectory,
                      OutputForm form, const std::string& name) {
    const auto containers = callerContainers(config, credentials, sessionDirectory);
    const auto found = std::find_if(containers.begin(), containers.end(), [&](const auto& entry) { return entry.id == name; });
    if (found == containers.end()) {
        throw noSuchContainer(name);
    }
    const auto record = readRecord(rootOf(config, credentials, sessionDirectory, name), name);
    const auto text = form == OutputForm::json ? formatDetailsJson(*found, record) : formatDetails(*found, record);
    dropToMonitor(credentials);  // the text may be longer than a pipe: see printPlan() in launch.cpp
    unblockSignals();
    writeAll(standardOutput, text, "standard output");
}

void killContainer(const engine::SiteConfig& config, const Credentials& credentials, const std::string& sessionDirectory,
                   std::string_view signal, const std::string& name) {
    const int number = parseSignal(signal);
    const auto root = rootOf(config, credentials, sessionDirectory, name);
    const auto output = callRuntime(findRuntime(config.runcPath), {"--root", root, "kill", name, cat(number)});
    if (!output.status.ok() && hasEnded(root, name)) {
        throw Error(cat("The container '", printable(name), "' has ended"), "See 'sarus ps'");
    }
    if (!output.status.ok()) {
        fail(cat("Failed to send a signal to the container '", printable(name), "'"), output);
    }
}

}  // namespace sarus::starter
