#include "starter/verbs/container_list.hpp"

#include <time.h>

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/columns.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/json/json_depth.hpp"
#include "oci/json/json_writer.hpp"

namespace sarus::starter {

namespace {

using Json = nlohmann::json;

std::string text(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? printable(found->get_ref<const std::string&>())
                                                       : std::string();
}

std::vector<std::string> words(const Json& object, const char* key) {
    std::vector<std::string> all;
    if (const auto found = object.find(key); found != object.end() && found->is_array()) {
        for (const auto& word : *found) {
            all.push_back(word.is_string() ? word.get<std::string>() : std::string());
        }
    }
    return all;
}

void writeMembers(oci::JsonWriter& out, const ListedContainer& container) {
    out.member("name", container.id);
    out.member("pid", container.pid);
    out.member("status", container.status);
    out.member("bundle", container.bundle);
    out.member("created", container.created);
    out.member("owner", container.owner);
}

/// What a list has beyond runc's.
void writeRecordMembers(oci::JsonWriter& out, const ListedContainer& container) {
    out.member("image", container.image).member("args", container.command);
    out.member("job", container.job).member("step", container.step).member("task", container.task);
}

}  // namespace

std::vector<ListedContainer> parseContainerList(std::string_view json) {
    const auto trimmed = trim(json);
    oci::checkJsonDepth(trimmed, "the list of containers");
    const auto document = Json::parse(trimmed, nullptr, false);
    std::vector<ListedContainer> containers;
    if (!document.is_array()) {
        throw Error("The list of containers is none");
    }
    for (const auto& entry : document) {
        if (!entry.is_object()) {
            throw Error("The list of containers has something else than containers");
        }
        const auto pid = entry.find("pid");
        containers.push_back(
            {.id = text(entry, "name"),
             .pid = pid != entry.end() && pid->is_number_integer() ? pid->get<std::int64_t>() : 0,
             .status = text(entry, "status"),
             .bundle = text(entry, "bundle"),
             .created = text(entry, "created"),
             .owner = text(entry, "owner"),
             .image = text(entry, "image"),
             .command = words(entry, "args"),
             .job = text(entry, "job"),
             .step = text(entry, "step"),
             .task = text(entry, "task")});
    }
    return containers;
}

std::string withoutLastZeros(std::string time) {
    const auto point = std::min(time.find('.'), time.size());
    const auto end = std::min(time.find_first_not_of("0123456789", point + 1), time.size());
    if (end > point + 1) {
        const auto last = time.find_last_not_of('0', end - 1);
        const auto kept = last == point ? point : last + 1;
        time.erase(kept, end - kept);
    }
    return time;
}

std::string formatContainerTable(const std::vector<ListedContainer>& containers) {
    constexpr std::size_t narrowest = 9;
    constexpr std::size_t gap = 3;
    std::vector<std::vector<std::string>> rows{{"ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"}};
    for (const auto& container : containers) {
        rows.push_back({container.id, cat(container.pid), container.status, container.bundle,
                        container.created, container.owner});
    }
    return formatColumns(std::move(rows), gap, narrowest);
}

std::string formatContainerJson(const std::vector<ListedContainer>& containers) {
    oci::JsonWriter out;
    out.beginArray();
    for (const auto& container : containers) {
        out.beginObject();
        writeMembers(out, container);
        writeRecordMembers(out, container);
        out.endObject();
    }
    out.endArray();
    return cat(out.text(), '\n');
}

std::string formatBriefTable(const std::vector<ListedContainer>& containers, std::time_t now, bool withOwner,
                             std::size_t width) {
    constexpr std::size_t longestCommand = 24;
    std::vector<std::vector<std::string>> rows{{"NAME", "IMAGE", "COMMAND", "AGE", "JOB"}};
    const bool withStatus = std::any_of(containers.begin(), containers.end(), [](const auto& container) {
        return container.status == stopped || container.status == creating;
    });
    if (withStatus) {
        rows.front().emplace_back("STATUS");
    }
    if (withOwner) {
        rows.front().emplace_back("USER");
    }
    for (const auto& container : containers) {
        auto command = printable(join(container.command, " "));
        if (command.size() > longestCommand) {
            command = cat(command.substr(0, longestCommand - 3), "...");
        }
        struct tm parts {};
        const bool known = ::strptime(container.created.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) != nullptr;
        rows.push_back({container.id, printable(container.image), command,
                        known ? formatAge(now - ::timegm(&parts)) : "", printable(container.job)});
        if (withStatus) {
            rows.back().push_back(container.status);
        }
        if (withOwner) {
            rows.back().push_back(container.owner);
        }
    }
    constexpr std::size_t gap = 2;
    return formatColumns(std::move(rows), gap, 0, width);
}

std::string formatDetails(const ListedContainer& container, const std::optional<ContainerRecord>& record) {
    auto text = cat("Container:      ", container.id, "\nProcess:        ", container.pid,
                    "\nStatus:         ", container.status, "\nCreated:        ", container.created,
                    "\nOwner:          ", container.owner, "\n");
    if (container.status == stopped) {
        text += cat("Image:          ", printable(container.image), "\n");
    }
    if (record) {
        text += cat("Image:          ", printable(record->image),
                    "\nCommand:        ", printable(join(record->command, " ")),
                    "\nDirectory:      ", printable(record->workdir), "\n");
        for (const auto& variable : record->environment) {
            text += cat("Environment:    ", printable(variable), "\n");
        }
        if (record->incomplete) {
            text +=
                "Incomplete:     variables or arguments that are too large to be remembered are missing\n";
        }
    }
    return text;
}

std::string formatDetailsJson(const ListedContainer& container,
                              const std::optional<ContainerRecord>& record) {
    oci::JsonWriter out;
    out.beginObject();
    out.member("kind", "container");
    writeMembers(out, container);
    if (container.status == stopped) {
        out.member("image", container.image);
    }
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

}  // namespace sarus::starter
