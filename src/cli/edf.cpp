#include "cli/edf.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "engine/cdi.hpp"
#include "engine/run_options.hpp"
#include "oci/runtime/device_request.hpp"
#include "oci/runtime/mount_request.hpp"

namespace sarus::cli {

namespace {

constexpr std::size_t deepestInheritance = 10;
constexpr std::size_t mostFiles = 100;

bool isPath(std::string_view reference) {
    return reference.starts_with('.') || reference.starts_with('/') || reference.ends_with(".toml");
}

std::string findEdf(const std::string& reference, const std::vector<std::string>& searchPath,
                    std::string_view where) {
    const auto prefix = where.empty() ? std::string() : cat(where, ": ");
    if (reference.empty()) {
        throw Error(cat(prefix, "the name of an environment definition is empty"));
    }
    if (isPath(reference)) {
        // What a shell substitutes for <(PROGRAM) cannot end in .toml.
        if (!reference.ends_with(".toml") && !reference.starts_with("/dev/fd/")) {
            throw Error(cat(prefix, "the environment definition file '", printable(reference),
                            "' does not end in .toml"));
        }
        return reference;
    }
    for (const auto& directory : searchPath) {
        auto path = cat(directory, '/', reference, ".toml");
        if (::access(path.c_str(), R_OK) == 0) {
            return path;
        }
    }
    throw Error(cat(prefix, "the environment definition '", printable(reference), "' was not found"),
                searchPath.empty() ? "Set EDF_PATH, or name a file NAME.toml"
                                   : cat("There is no ", printable(reference), ".toml in ",
                                         printable(join(searchPath, ", "))));
}

template <typename Value>
void override(std::optional<Value>& older, std::optional<Value>&& newer) {
    if (newer) {
        older = std::move(newer);
    }
}

void append(std::vector<EdfText>& older, std::vector<EdfText>&& newer) {
    for (auto& text : newer) {
        if (std::none_of(older.begin(), older.end(),
                         [&](const auto& known) { return known.text == text.text; })) {
            older.push_back(std::move(text));
        }
    }
}

void merge(EdfFile& older, EdfFile&& newer) {
    override(older.image, std::move(newer.image));
    override(older.workdir, std::move(newer.workdir));
    override(older.entrypoint, std::move(newer.entrypoint));
    override(older.writable, std::move(newer.writable));
    append(older.mounts, std::move(newer.mounts));
    append(older.devices, std::move(newer.devices));
    for (auto& [name, value] : newer.env) {
        older.env[name] = std::move(value);
    }
    for (auto& [name, value] : newer.annotations) {
        older.annotations[name] = std::move(value);
    }
    older.warnings.insert(older.warnings.end(), newer.warnings.begin(), newer.warnings.end());
}

/// A basic string of TOML.
std::string quote(std::string_view text) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string quoted = "\"";
    for (const char c : text) {
        const auto code = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            quoted += cat('\\', c);
        } else if (code < 0x20 || code == 0x7F) {
            quoted += cat("\\u00", digits[code >> 4U], digits[code & 0xFU]);
        } else {
            quoted += c;
        }
    }
    return quoted + '"';
}

class Loader {
public:
    Loader(const std::vector<std::string>& directories, const VariableLookup& environment)
        : searchPath(directories), lookup(environment) {}

    EdfFile load(const std::string& reference, std::string_view where) {
        const auto path = findEdf(reference, searchPath, where);
        if (std::find(chain.begin(), chain.end(), path) != chain.end()) {
            throw Error(cat(where, ": the environment definition inherits from itself: ",
                            printable(join(chain, " -> ")), " -> ", printable(path)));
        }
        if (chain.size() >= deepestInheritance || ++files > mostFiles) {
            throw Error(cat(where, ": environment definitions inherit from more than ", deepestInheritance,
                            " levels or ", mostFiles, " files"));
        }
        auto own = read(path, where);
        chain.push_back(path);
        EdfFile merged;
        for (const auto& base : own.bases) {
            merge(merged, load(expandVariables(base.text, lookup, base.where), base.where));
        }
        chain.pop_back();
        merge(merged, std::move(own));
        return merged;
    }

private:
    static EdfFile read(const std::string& path, std::string_view where) {
        std::string text;
        try {
            text = readFile(path, maxEdfSize);
        } catch (Error& error) {
            error.addContext(
                cat(where, where.empty() ? "" : ": ", "failed to read the environment definition file"));
            throw;
        }
        return parseEdf(text, path);
    }

    const std::vector<std::string>& searchPath;
    const VariableLookup& lookup;
    std::vector<std::string> chain;
    std::size_t files = 0;
};

/// Runs a check of the engine and adds the place of the value to its errors.
template <typename Check>
void checkAt(const EdfText& value, Check check) {
    try {
        check();
    } catch (Error& error) {
        error.addContext(value.where);
        throw;
    }
}

template <typename Value>
void prepend(std::vector<Value>&& front, std::vector<Value>& values) {
    values.insert(values.begin(), std::make_move_iterator(front.begin()),
                  std::make_move_iterator(front.end()));
}

/// Runs before the definition's options join those of the command line, which win.
void noteOrigins(const EdfFile& edf, const std::vector<oci::MountRequest>& mounts,
                 const std::vector<std::string>& devices, engine::LaunchRequest& request) {
    const auto note = [&](std::string_view option, std::string_view value, const EdfText& text) {
        request.optionOrigins[engine::optionKey(option, value)] = cat("EDF file ", text.where);
    };
    const auto noteNamed = [&](std::string_view option, const std::map<std::string, EdfText>& values,
                               const std::vector<std::string>& commandLine) {
        for (const auto& [name, text] : values) {
            if (std::none_of(commandLine.begin(), commandLine.end(),
                             [&, &key = name](const std::string& entry) {
                                 return entry.substr(0, entry.find('=')) == key;
                             })) {
                note(option, name, text);
            }
        }
    };
    for (std::size_t i = 0; i < mounts.size(); ++i) {
        note("--mount", mounts[i].text, edf.mounts[i]);
    }
    for (std::size_t i = 0; i < devices.size(); ++i) {
        note("--device", devices[i], edf.devices[i]);
    }
    noteNamed("--env", edf.env, request.env);
    noteNamed("--annotation", edf.annotations, request.annotations);
}

}  // namespace

std::vector<std::string> edfSearchPath(const VariableLookup& environment,
                                       const std::vector<std::string>& site) {
    std::vector<std::string> directories;
    if (const auto path = environment("EDF_PATH"); path && !path->empty()) {
        for (auto& directory : split(*path, ':')) {
            if (directory.empty()) {
                continue;
            }
            if (!directory.starts_with('/')) {
                throw Error(cat("EDF_PATH: expected absolute paths, found '", printable(directory), "'"));
            }
            directories.push_back(std::move(directory));
        }
    } else if (const auto home = environment("HOME"); home && home->starts_with('/')) {
        directories.push_back(cat(*home, "/.edf"));
    }
    directories.insert(directories.end(), site.begin(), site.end());
    return directories;
}

EdfFile loadEdf(const std::string& reference, const std::vector<std::string>& searchPath,
                const VariableLookup& environment) {
    return Loader(searchPath, environment).load(reference, "");
}

EdfFile inheritFrom(EdfFile base, EdfFile own) {
    merge(base, std::move(own));
    return base;
}

std::string tomlText(const EdfFile& edf) {
    std::string text;
    const auto line = [&](std::string_view key, std::string_view value) {
        text += cat(key, " = ", value, '\n');
    };
    const auto quoted = [&](std::string_view key, const std::optional<EdfText>& value) {
        if (value) {
            line(key, quote(value->text));
        }
    };
    const auto flag = [&](std::string_view key, std::optional<bool> value) {
        if (value) {
            line(key, *value ? "true" : "false");
        }
    };
    const auto list = [&](std::string_view key, const std::vector<EdfText>& values) {
        std::vector<std::string> items;
        for (const auto& value : values) {
            items.push_back(quote(value.text));
        }
        line(key, cat('[', join(items, ", "), ']'));
    };
    const auto table = [&](std::string_view key, const std::map<std::string, EdfText>& values) {
        text += cat('[', key, "]\n");
        for (const auto& [name, value] : values) {
            line(quote(name), quote(value.text));
        }
    };
    quoted("image", edf.image);
    quoted("workdir", edf.workdir);
    flag("entrypoint", edf.entrypoint);
    flag("writable", edf.writable);
    list("mounts", edf.mounts);
    list("devices", edf.devices);
    table("env", edf.env);
    table("annotations", edf.annotations);
    return text;
}

std::optional<std::string> edfImage(const EdfFile& edf, const VariableLookup& environment) {
    if (!edf.image) {
        return std::nullopt;
    }
    auto image = expandVariables(edf.image->text, environment, edf.image->where);
    if (image.empty()) {
        throw Error(cat(edf.image->where, ": the name of the image is empty"));
    }
    return withoutRegistryMark(image);
}

std::string withoutRegistryMark(const std::string& image) {
    const auto separator = image.find('#');
    if (separator == std::string::npos || isPath(image)) {
        return image;
    }
    const auto server = image.substr(0, separator);
    const auto user = server.find('@');
    return cat(server.substr(user == std::string::npos ? 0 : user + 1), '/', image.substr(separator + 1));
}

void applyEdf(const EdfFile& edf, const VariableLookup& environment, const std::string& workingDirectory,
              engine::LaunchRequest& request) {
    const auto expand = [&](const EdfText& value) {
        return expandVariables(value.text, environment, value.where);
    };
    const auto pathLookup = [&](const std::string& name) {
        const auto value = environment(name);
        return value ? std::optional(oci::volumeWord(*value)) : std::nullopt;
    };
    std::vector<oci::MountRequest> mounts;
    for (const auto& mount : edf.mounts) {
        mounts.push_back(oci::parseVolume(expandVariables(mount.text, pathLookup, mount.where), mount.where,
                                          workingDirectory));
    }
    std::vector<std::string> devices;
    for (const auto& device : edf.devices) {
        devices.push_back(expand(device));
        if (!engine::isCdiRequest(devices.back())) {
            checkAt(device, [&] { oci::parseDeviceRequest(devices.back()); });
        }
    }
    std::vector<std::string> variables;
    for (const auto& [name, value] : edf.env) {
        if (value.text.empty()) {
            request.unsetEnv.push_back(name);
        } else {
            variables.push_back(cat(name, '=', expand(value)));
        }
    }
    std::vector<std::string> annotations;
    for (const auto& [name, value] : edf.annotations) {
        annotations.push_back(cat(name, '=', expand(value)));
    }
    if (request.dryRun) {
        noteOrigins(edf, mounts, devices, request);
    }
    prepend(std::move(mounts), request.mounts);
    prepend(std::move(devices), request.devices);
    prepend(std::move(variables), request.env);
    prepend(std::move(annotations), request.annotations);
    if (edf.workdir && !request.workdir) {
        if (const auto workdir = expand(*edf.workdir); !workdir.empty()) {
            checkAt(*edf.workdir, [&] { engine::checkWorkdir(workdir); });
            request.workdir = workdir;
        }
    }
    if (!edf.entrypoint.value_or(false) && !request.entrypoint) {
        request.entrypoint.emplace();
    }
    request.readonlyRoot = request.readonlyRoot || !edf.writable.value_or(true);
}

}  // namespace sarus::cli
