#include "engine/plan_report.hpp"

#include <algorithm>
#include <array>

#include "base/columns.hpp"
#include "base/text.hpp"
#include "engine/run_options.hpp"
#include "hook_contracts/enter_call.hpp"
#include "hook_contracts/shipped_hooks.hpp"
#include "oci/json/json_writer.hpp"

namespace sarus::engine {

namespace {

constexpr std::string_view engineOrigin = "container engine";

struct Mount {
    std::string source;
    std::string destination;
    bool readonly = false;
    std::string origin;
};

/// The origin of an option chosen by the user.
std::string originOfOption(const LaunchRequest& request, std::string_view option, std::string_view value) {
    const auto found = request.optionOrigins.find(optionKey(option, value));
    return found == request.optionOrigins.end() ? cat("command line (", option, ")") : found->second;
}

/// `planned`: a mount or a device.
std::string originOf(const LaunchRequest& request, const auto& planned, std::string_view siteKey,
                     std::string_view option) {
    switch (planned.origin) {
        case MountOrigin::site:
            return cat("site configuration (", siteKey, ")");
        case MountOrigin::workloadManager:
            return "host environment (PMIX_SERVER_TMPDIR)";
        case MountOrigin::cdi:
            return cat("CDI device ", planned.request);
        case MountOrigin::user:
            break;
    }
    return originOfOption(request, option, planned.request);
}

/// In the order in which they are performed: later mounts cover earlier ones.
std::vector<Mount> allMounts(const PlanReport& report) {
    std::vector<Mount> mounts{{report.request.imagePath, "/", false, "image"}};
    if (report.plan.initPath) {
        mounts.push_back({*report.plan.initPath, hook_contracts::initProgram, true,
                          "site configuration (initPath), command line (--init)"});
    }
    for (const auto& mount : report.plan.mounts) {
        mounts.push_back({mount.source, mount.destination, mount.readonly,
                          originOf(report.request, mount, "siteMounts", "--mount")});
    }
    for (const auto& mount : report.systemMounts) {
        const auto options = mount.options.value_or(std::vector<std::string>());
        const auto has = [&](std::string_view option) {
            return std::find(options.begin(), options.end(), option) != options.end();
        };
        if (!has("remount")) {
            mounts.push_back({mount.source, mount.destination, has("ro"), std::string(engineOrigin)});
        }
    }
    return mounts;
}

std::string originOfVariable(const PlanReport& report, const std::string& name) {
    const auto found = report.plan.environmentOrigins.find(name);
    return found == report.plan.environmentOrigins.end() ? std::string(engineOrigin) : found->second;
}

std::string originOfAnnotation(const PlanReport& report, const std::string& key, const std::string& value) {
    const auto& options = report.request.annotations;
    if (key == "com.hooks.logging.stdoutfd" || key == "com.hooks.logging.stderrfd") {
        return std::string(engineOrigin);
    }
    if (std::any_of(options.begin(), options.end(),
                    [&](const auto& option) { return parseAnnotation(option).first == key; })) {
        return originOfOption(report.request, "--annotation", key);
    }
    const auto& labels = report.request.metadata.labels;
    const auto label = labels.find(key);
    return label != labels.end() && label->second == value ? "image (label)" : std::string(engineOrigin);
}

std::string quoted(const std::string& word) {
    const bool plain = !word.empty() && word.find_first_of(" \t\n\"'\\$") == std::string::npos;
    return plain ? printable(word) : cat('\'', printable(word), '\'');
}

std::string numbers(const auto& list) {
    std::string text;
    for (const auto number : list) {
        text += cat(text.empty() ? "" : ",", number);
    }
    return text.empty() ? "none" : text;
}

std::string commandLine(const ContainerPlan& plan) {
    std::vector<std::string> words;
    std::transform(plan.args.begin(), plan.args.end(), std::back_inserter(words), quoted);
    return join(words, " ");
}

std::string describe(const Mount& mount) {
    return cat(mount.destination, " from ", mount.source, mount.readonly ? ", read-only" : "");
}

std::string describe(const PlannedDevice& device) {
    return cat(device.destination, " from ", device.source, ", access ", device.access);
}

std::string describe(const PlannedHook& hook) {
    return cat(hook.stage, ": ", hook.hook.path);
}

/// The lines of describePlan(), up to the size limit.
class Lines {
public:
    explicit Lines(bool theReasons) : reasons(theReasons) {}

    void add(std::string_view kind, const std::string& what, std::string_view why) {
        append(LogLevel::info, cat(kind, ' ', what));
        if (reasons) {
            append(LogLevel::debug, cat(kind, ' ', what, ": ", why));
        }
    }
    void append(LogLevel level, const std::string& text) {
        constexpr std::size_t longest = 4096;
        constexpr std::size_t room = 32U << 10U;
        auto shown = printable(text);
        if (shown.size() > longest) {
            shown.resize(longest);
            shown += "...";
        }
        constexpr std::size_t prefix = 128;  // of a line in the log
        size += shown.size() + prefix;
        if (size <= room) {
            lines.push_back({level, std::move(shown)});
        } else if (!cut) {
            cut = true;
            lines.push_back({LogLevel::info, "...; 'sarus run --dry-run' prints all of it"});
        }
    }

    std::vector<PlanLine> lines;

private:
    bool reasons;
    bool cut = false;
    std::size_t size = 0;
};

class ReportText {
public:
    void title(std::string_view text) { out += cat(text, '\n'); }
    void item(const std::string& text, std::string_view origin) {
        out += cat("  ", printable(text), "  [", printable(origin), "]\n");
    }
    void fact(std::string_view name, std::string_view value) {
        constexpr std::size_t width = 12;
        out += cat("  ", padded(std::string(name), width), value, '\n');
    }

    std::string out;
};

void writeContainer(ReportText& text, const PlanReport& report) {
    const auto& plan = report.plan;
    text.title(cat("Container ", printable(plan.name), " (nothing was started)"));
    text.fact("image", printable(report.request.imageReference));
    text.fact("command", commandLine(plan));
    text.fact("directory", printable(plan.workdir));
    text.fact("user",
              cat("uid ", plan.uid, ", gid ", plan.gid, ", groups ", numbers(plan.supplementaryGroups)));
    text.fact("umask", formatOctal(plan.umask));
    text.fact("cpus", numbers(plan.cpus));
    text.fact("processes", plan.privatePid ? "own process ids" : "those of the node");
    text.fact("network", plan.privateNetwork ? "none" : "that of the node");
    text.fact("ipc", plan.privateIpc ? "own shared memory" : "that of the node");
    text.fact("host name", plan.privateUts ? "own" : "that of the node");
    text.fact("terminal", plan.terminal ? "yes" : "no");
    text.fact("privileges", report.privileged ? "set-user-ID starter" : "none: user namespace");
    text.fact("runtime", printable(report.runtime));
}

void writeHook(oci::JsonWriter& out, const PlannedHook& hook) {
    out.beginObject();
    out.member("name", hook.name).member("file", hook.file).member("path", hook.hook.path);
    out.member("stage", hook.stage).member("reason", hook.reason);
    out.endObject();
}

void writeFacts(oci::JsonWriter& out, const PlanReport& report) {
    const auto& plan = report.plan;
    out.member("kind", "plan");
    out.member("name", plan.name);
    out.member("image", report.request.imageReference);
    out.member("args", plan.args);
    out.member("workingDir", plan.workdir);
    out.key("user").beginObject();
    out.member("uid", plan.uid).member("gid", plan.gid).member("additionalGids", plan.supplementaryGroups);
    out.endObject();
    out.member("umask", formatOctal(plan.umask));
    out.member("cpus", plan.cpus);
    const auto sharing = [](bool isPrivate) { return isPrivate ? "private" : "host"; };
    out.member("pid", sharing(plan.privatePid));
    out.member("network", plan.privateNetwork ? "none" : "host");
    out.member("ipc", sharing(plan.privateIpc)).member("uts", sharing(plan.privateUts));
    out.member("terminal", plan.terminal);
    out.member("privileged", report.privileged);
    out.member("runtime", report.runtime);
}

/// Whether a launcher of MPI has started this container.
bool isRankOfMpi(const ContainerPlan& plan) {
    constexpr std::array<std::string_view, 4> variables{"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
                                                        "PALS_RANKID"};
    return std::any_of(plan.environment.begin(), plan.environment.end(), [&](const auto& variable) {
        return std::find(variables.begin(), variables.end(), variable.first) != variables.end();
    });
}

/// The hook of this package says itself which MPI it mounts.
bool isMpiHook(const PlannedHook& hook) {
    const auto* const shipped = hook_contracts::findShippedHook(hook.hook.path);
    return shipped != nullptr && shipped->program == "mpi_hook";
}

}  // namespace

std::string formatPlan(const PlanReport& report) {
    ReportText text;
    const auto& plan = report.plan;
    writeContainer(text, report);
    text.title("Mounts, in their order");
    for (const auto& mount : allMounts(report)) {
        text.item(describe(mount), mount.origin);
    }
    text.title("Devices");
    for (const auto& device : plan.devices) {
        text.item(describe(device), originOf(report.request, device, "siteDevices", "--device"));
    }
    text.title("Variables");
    for (const auto& [name, value] : plan.environment) {
        text.item(cat(name, "=", value), originOfVariable(report, name));
    }
    text.title("Descriptors");
    for (const auto& descriptor : plan.descriptors) {
        text.item(cat(descriptor.to, " from ", descriptor.from), "host environment (PMI_FD)");
    }
    text.title("Annotations");
    for (const auto& [key, value] : plan.annotations) {
        text.item(cat(key, "=", value), originOfAnnotation(report, key, value));
    }
    text.title("Hooks");
    for (const auto& hook : plan.hooks) {
        text.item(describe(hook), cat(hook.file, ": ", hook.reason));
    }
    return std::move(text.out);
}

std::string formatPlanJson(const PlanReport& report) {
    oci::JsonWriter out;
    const auto& plan = report.plan;
    const auto list = [&](std::string_view name, const auto& items, auto write) {
        out.key(name).beginArray();
        for (const auto& item : items) {
            write(item);
        }
        out.endArray();
    };
    const auto variable = [&](const std::string& name, const std::string& value, const std::string& origin) {
        out.beginObject().member("name", name).member("value", value).member("origin", origin).endObject();
    };
    out.beginObject();
    writeFacts(out, report);
    list("mounts", allMounts(report), [&](const Mount& mount) {
        out.beginObject().member("source", mount.source).member("destination", mount.destination);
        out.member("readonly", mount.readonly).member("origin", mount.origin).endObject();
    });
    list("devices", plan.devices, [&](const PlannedDevice& device) {
        out.beginObject().member("source", device.source).member("destination", device.destination);
        out.member("access", device.access)
            .member("origin", originOf(report.request, device, "siteDevices", "--device"));
        out.endObject();
    });
    list("environment", plan.environment, [&](const auto& entry) {
        variable(entry.first, entry.second, originOfVariable(report, entry.first));
    });
    list("descriptors", plan.descriptors, [&](const PreservedDescriptor& descriptor) {
        out.beginObject().member("from", descriptor.from).member("to", descriptor.to);
        out.member("origin", "host environment (PMI_FD)").endObject();
    });
    list("annotations", plan.annotations, [&](const auto& entry) {
        variable(entry.first, entry.second, originOfAnnotation(report, entry.first, entry.second));
    });
    list("hooks", plan.hooks, [&](const PlannedHook& hook) { writeHook(out, hook); });
    out.member("warnings", plan.warnings);
    out.endObject();
    return cat(out.text(), '\n');
}

std::vector<PlanLine> describePlan(const PlanReport& report, bool withReasons) {
    const auto& plan = report.plan;
    Lines out(withReasons);
    out.append(LogLevel::info, cat("Container ", plan.name, " of image ", report.request.imageReference,
                                   ", command ", commandLine(plan), ", OCI runtime ", report.runtime,
                                   report.privileged ? "" : " in a user namespace"));
    for (const auto& mount : allMounts(report)) {
        out.add("Mount", describe(mount), mount.origin);
    }
    for (const auto& device : plan.devices) {
        out.add("Device", describe(device), originOf(report.request, device, "siteDevices", "--device"));
    }
    for (const auto& hook : plan.hooks) {
        out.add("Hook", describe(hook), cat(hook.file, ": ", hook.reason));
    }
    if (isRankOfMpi(plan) && std::none_of(plan.hooks.begin(), plan.hooks.end(), isMpiHook)) {
        out.append(LogLevel::info, "MPI in use: the image's own, no MPI hook runs");
    }
    for (const auto& hook : withReasons ? plan.idleHooks : std::vector<PlannedHook>()) {
        out.append(LogLevel::debug, cat("No hook ", describe(hook), ": ", hook.file, ": ", hook.reason));
    }
    return std::move(out.lines);
}

}  // namespace sarus::engine
