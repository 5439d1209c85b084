#include <charconv>

#include "base/log.hpp"
#include "base/text.hpp"
#include "oci/json/json_writer.hpp"
#include "podman_hpc/cli/commands.hpp"
#include "podman_hpc/modules/module.hpp"

namespace sarus::podman_hpc {

namespace {

struct Report {
    const Settings& settings;
    std::string squashDir;
    std::vector<std::string> moduleFiles;
};

/// A number of JSON.
std::string numberText(double number) {
    char digits[32];
    return {digits, std::to_chars(digits, digits + sizeof digits, number).ptr};
}

std::string placeOf(const Origin& origin) {
    return origin.kind == Origin::Kind::file ? cat(", ", origin.file, ':', origin.line) : "";
}

void addList(std::string& out, const std::vector<std::string>& items) {
    out += "(list)\n";
    for (const auto& item : items) {
        out += cat(" - ", item, '\n');
    }
}

std::string asText(const Report& report, bool provenance) {
    auto out = cat("Podman-HPC Version: ", SARUS_VERSION, '\n');
    for (std::size_t i = 0; i < keyCount; ++i) {
        const auto& info = keyTable[i];
        const auto& values = report.settings.setting(static_cast<Key>(i));
        const auto& value = values.back();
        const bool isList = info.type == KeyType::list;
        out += cat(info.name, isList ? "  (" : " (", describe(value.origin),
                   provenance ? placeOf(value.origin) : "", "): ");
        if (isList) {
            addList(out, value.words);
        } else {
            out += value.words.front() + '\n';
        }
        for (auto replaced = values.rbegin() + 1; provenance && replaced != values.rend(); ++replaced) {
            if (replaced->words == std::vector<std::string>{""}) {
                continue;  // a program that was not searched for
            }
            out += cat("    replaces (", describe(replaced->origin), placeOf(replaced->origin),
                       "): ", join(replaced->words, " "), '\n');
        }
    }
    out += "active_modules : ";
    addList(out, report.moduleFiles);
    if (provenance) {
        out += cat("configuration file: ", report.settings.configFile, "\nsquash store: ", report.squashDir,
                   '\n');
    }
    return out;
}

std::string asJson(const Report& report) {
    oci::JsonWriter json;
    json.beginObject().member("version", SARUS_VERSION);
    json.member("config_file", report.settings.configFile).member("squash_dir", report.squashDir);
    json.key("settings").beginObject();
    for (std::size_t i = 0; i < keyCount; ++i) {
        const auto& info = keyTable[i];
        const auto key = static_cast<Key>(i);
        const auto& value = report.settings.setting(key).back();
        json.key(info.name).beginObject().key("value");
        switch (info.type) {
            case KeyType::list:
                json.value(value.words);
                break;
            case KeyType::text:
                json.value(value.words.front());
                break;
            case KeyType::boolean:
                json.value(report.settings.flag(key));
                break;
            case KeyType::number:
                json.raw(numberText(report.settings.number(key)));
                break;
        }
        json.member("source", describe(value.origin));
        if (value.origin.kind == Origin::Kind::file) {
            json.member("file", value.origin.file).member("line", value.origin.line);
        }
        json.endObject();
    }
    json.endObject().member("modules", report.moduleFiles).endObject();
    return json.text() + '\n';
}

}  // namespace

int infohpc(const Call& call, const Surroundings& from) {
    bool provenance = false;
    bool json = false;
    for (const auto& word : call.words) {
        if (word == "--provenance") {
            provenance = true;
        } else if (word == "--json") {
            json = true;
        } else {
            throw usageError(word.starts_with('-')
                                 ? cat("No such option: ", printable(word))
                                 : cat("Got unexpected extra argument (", printable(word), ")"),
                             "infohpc [options]");
        }
    }
    const auto settings = settingsOf(call, from);
    Report report{settings, squashDirectory(from, call.squashDir), {}};
    for (const auto& module : loadModules(settings.text(Key::modulesDir), printWarning)) {
        report.moduleFiles.push_back(module.file);
    }
    printLine(trim(json ? asJson(report) : asText(report, provenance)));
    return 0;
}

}  // namespace sarus::podman_hpc
