#include "hooks/pc_injection/settings.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "oci/runtime/runtime_devices.hpp"

namespace sarus::hooks::pc_injection {

namespace {

using Values = std::vector<std::string>;

/// An option that may be repeated, and the variable with the list that counts without it.
struct Setting {
    std::string_view option;
    std::string_view variable;
    char separator;
};
constexpr std::array<Setting, 5> settings{{{"--lib", "INJECTION_PRIMARY_LIBS", ':'},
                                           {"--dependency-lib", "INJECTION_DEPENDENCY_LIBS", ':'},
                                           {"--file", "INJECTION_EXTRA_FILES", ':'},
                                           {"--env", "INJECTION_EXTRA_ENV", ';'},
                                           {"--mount", "INJECTION_EXTRA_MOUNTS", ';'}}};
constexpr std::string_view unversionedOption = "--allow-unversioned-primary-overwrite";

[[noreturn]] void refuse(std::string_view setting, std::string_view value, std::string_view why) {
    throw Error(cat(setting, ": ", printable(value), ": ", why),
                "Correct \"args\" or \"env\" in the hook's JSON file");
}

std::map<std::string_view, Values> readOptions(const std::vector<std::string>& arguments, Settings& result) {
    std::map<std::string_view, Values> given;
    for (const std::string_view argument : arguments) {
        const auto equals = argument.find('=');
        const auto name = argument.substr(0, equals);
        const auto* const known = std::find_if(settings.begin(), settings.end(),
                                               [&](const auto& setting) { return setting.option == name; });
        if (argument == unversionedOption) {
            result.overwritesUnversioned = true;
        } else if (equals != std::string_view::npos && known != settings.end()) {
            given[known->option].emplace_back(argument.substr(equals + 1));
        } else if (!argument.starts_with("--ldconfig=")) {  // the hook needs no program
            throw Error(cat("Unknown argument ", printable(argument)), "pc_injection_hook --help lists them");
        }
    }
    return given;
}

/// Options replace the variable as a whole.
Values valuesOf(const Setting& setting, const std::map<std::string_view, Values>& given,
                const HookEnvironment& environment) {
    if (const auto found = given.find(setting.option); found != given.end()) {
        return found->second;
    }
    Values values = split(environment.find(setting.variable).value_or(""), setting.separator);
    std::erase(values, "");
    return values;
}

std::string requireAbsolute(std::string_view setting, const std::string& path) {
    if (path.empty() || path.front() != '/') {
        refuse(setting, path, "not an absolute path");
    }
    return path;
}

std::vector<HostLibrary> readLibraries(std::string_view setting, const Values& paths) {
    std::vector<HostLibrary> libraries;
    for (const auto& path : paths) {
        if (!parseLibraryName(requireAbsolute(setting, path))) {
            refuse(setting, path, "not the name of a shared library");
        }
        libraries.push_back(readHostLibrary(path));
    }
    return libraries;
}

std::pair<std::string, std::string> parseVariable(const std::string& text) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
        refuse("--env", text, "expected NAME=VALUE");
    }
    return {text.substr(0, equals), text.substr(equals + 1)};
}

std::string requireFile(const std::string& path) {
    struct stat status {};
    checkErrno(::lstat(requireAbsolute("--file", path).c_str(), &status), cat("--file: ", printable(path)));
    if (!S_ISREG(status.st_mode)) {
        refuse("--file", path, "not a regular file");
    }
    return path;
}

std::string resolveSource(const std::string& path) {
    auto resolved = realPath(requireAbsolute("--mount", path));
    struct stat status {};
    if (resolved.empty() || ::stat(resolved.c_str(), &status) != 0) {
        throwErrno(cat("--mount: ", printable(path)));
    }
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
        refuse("--mount", path, "neither a regular file nor a directory");
    }
    return resolved;
}

std::string requireDestination(const std::string& path) {
    const auto parts = split(requireAbsolute("--mount", path), '/');
    if (std::any_of(parts.begin(), parts.end(),
                    [](const auto& part) { return part == "." || part == ".."; })) {
        refuse("--mount", path, "a destination must not contain '.' or '..'");
    }
    auto plain = normalizePath(path);
    if (const auto why = oci::whyReserved(plain)) {
        refuse("--mount", path, *why);
    }
    return plain;
}

/// SOURCE:DESTINATION:OPTIONS, in the variable SOURCE:DESTINATION:TYPE:OPTIONS.
oci::RuntimeMount parseMount(const std::string& text, bool hasType) {
    constexpr std::array<std::string_view, 17> allowed{
        "bind", "rbind",   "ro",       "rw",    "nosuid", "suid",   "nodev",   "dev",         "noexec",
        "exec", "private", "rprivate", "slave", "rslave", "shared", "rshared", "x-create=dir"};
    const auto parts = split(text, ':');
    if (parts.size() != (hasType ? 4U : 3U)) {
        refuse("--mount", text,
               hasType ? "expected SOURCE:DESTINATION:TYPE:OPTIONS" : "expected SOURCE:DESTINATION:OPTIONS");
    }
    if (hasType && !parts[2].empty() && parts[2] != "bind" && parts[2] != "none") {
        refuse("--mount", text, "only bind mounts are supported");
    }
    auto options = split(parts.back(), ',');
    std::erase(options, "");
    for (const auto& option : options) {
        if (std::find(allowed.begin(), allowed.end(), option) == allowed.end()) {
            refuse("--mount", text, cat("unknown option ", printable(option)));
        }
    }
    std::erase(options, "x-create=dir");  // the OCI runtime makes missing directories
    const auto isBind = [](const auto& option) { return option == "bind" || option == "rbind"; };
    if (std::none_of(options.begin(), options.end(), isBind)) {
        options.insert(options.begin(), "rbind");
    }
    return {requireDestination(parts[1]), "bind", resolveSource(parts[0]), options};
}

}  // namespace

Settings readSettings(const HookSetup& setup) {
    Settings result;
    const auto given = readOptions(setup.arguments, result);
    const auto values = [&](std::size_t index) {
        return valuesOf(settings[index], given, setup.environment);
    };
    result.primary = readLibraries("--lib", values(0));
    result.dependency = readLibraries("--dependency-lib", values(1));
    if (result.primary.empty() && result.dependency.empty()) {
        throw Error("There is no --lib and no --dependency-lib", "See \"args\" in the hook's JSON file");
    }
    for (const auto& library : result.primary) {
        if (!library.name.majorNumber() && !result.overwritesUnversioned) {
            refuse("--lib", library.path,
                   cat("the library has no version number (see ", unversionedOption, ')'));
        }
    }
    for (const auto& path : values(2)) {
        result.files.push_back(requireFile(path));
    }
    for (const auto& text : values(3)) {
        result.variables.push_back(parseVariable(text));
    }
    for (const auto& text : values(4)) {
        result.mounts.push_back(parseMount(text, !given.contains("--mount")));
    }
    return result;
}

}  // namespace sarus::hooks::pc_injection
