#include "podman_hpc/hook_tool/rule_runner.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "container_root/root_files.hpp"
#include "hooks/kit/linker_cache/library_directories.hpp"
#include "hooks/kit/linker_cache/library_files.hpp"
#include "podman_hpc/hook_tool/glob.hpp"

namespace sarus::podman_hpc {

namespace {

bool isDirectoryIn(int root, const std::string& path) {
    const auto found = container_root::tryFindInRoot(root, path);
    struct stat status {};
    return found && ::fstat(found.get(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string linkText(const std::string& link) {
    std::array<char, PATH_MAX> text{};
    const auto length = ::readlink(link.c_str(), text.data(), text.size());
    checkErrno(length, cat("Failed to read ", printable(link)));
    return {text.data(), static_cast<std::size_t>(length)};
}

std::vector<std::string> namesIn(const std::string& directory) {
    std::vector<std::string> names;
    Directory entries(directory, Missing::isError);
    while (const char* name = entries.next()) {
        names.emplace_back(name);
    }
    return names;
}

/// Whether one of the paths is the other one or lies below it.
bool overlap(const std::string& first, const std::string& second) {
    const auto isAt = [](const std::string& path, const std::string& directory) {
        return path.starts_with(directory) &&
               (path.size() == directory.size() || directory.ends_with('/') || path[directory.size()] == '/');
    };
    return isAt(first, second) || isAt(second, first);
}

}  // namespace

ModulePlan planModule(const Module& module, const std::string& directory,
                      const std::function<std::optional<std::string>(const std::string& name)>& variable) {
    ModulePlan plan;
    for (const bool isBind : {false, true}) {
        for (const auto& text : isBind ? module.bindRules : module.copyRules) {
            ModulePlan::Entry entry{.rule = text, .isBind = isBind};
            try {
                const auto rule = parseRule(text, directory, variable);
                entry.placements = placementsOf(rule, expandGlob(rule.source));
            } catch (const Error& error) {
                if (error.errnum() != 0 && error.errnum() != EACCES) {
                    throw;  // the container would lack files, and nobody would know
                }
                entry.problem = error.what();
            }
            plan.entries.push_back(std::move(entry));
        }
    }
    return plan;
}

void RuleRunner::run(const ModulePlan& plan) {
    for (const auto& entry : plan.entries) {
        log.line(cat('\t', entry.rule));
        if (!entry.problem.empty()) {
            log.line(cat("Error: ", entry.problem));
        }
        for (const auto& placement : entry.placements) {
            place(placement, entry.isBind);
        }
    }
}

void RuleRunner::place(const Placement& placement, bool isBind) {
    const auto& source = placement.source;
    struct stat status {};
    if ((isBind ? ::stat(source.c_str(), &status) : ::lstat(source.c_str(), &status)) != 0) {
        log.line(cat("Error: ", source, " leads nowhere"));
        return;
    }
    auto target = placement.target;
    while (target.size() > 1 && target.ends_with('/')) {
        target.pop_back();
    }
    const bool isDirectory = S_ISDIR(status.st_mode);
    if (!isDirectory && isDirectoryIn(root, target)) {
        // A pattern that matches one file on this node, and several on others.
        target = cat(target, target.ends_with('/') ? "" : "/", fileNameOf(source));
    }
    log.line(cat("\t\t", isBind ? "bind: " : "copy: ", source, " to ", target));
    if (isBind) {
        editor.bind(source, target, {});
    } else {
        copy(source, target);
    }
    if (isDirectory) {
        placedDirectories.push_back(target);
    } else if (hooks::isLibraryName(fileNameOf(target)) || target.starts_with("/etc/ld.so.conf")) {
        placedLibrary = true;
    }
}

void RuleRunner::copy(const std::string& source, const std::string& target) {
    struct stat status {};
    checkErrno(::lstat(source.c_str(), &status), cat("Failed to examine ", printable(source)));
    if (S_ISDIR(status.st_mode)) {
        editor.makeDirectory(target);
        for (const auto& name : namesIn(source)) {
            copy(cat(source, '/', name), cat(target == "/" ? "" : target, '/', name));
        }
    } else if (S_ISLNK(status.st_mode)) {
        editor.replaceLink(target, linkText(source));
    } else {
        editor.copyFile(source, target);
    }
}

bool RuleRunner::touchedLibraries() const {
    if (placedLibrary || placedDirectories.empty()) {
        return placedLibrary;
    }
    std::vector<std::string> searched{"/lib", "/lib64", "/usr/lib", "/usr/lib64"};
    try {
        const auto configured = hooks::configuredLibraryDirectories(root);
        searched.insert(searched.end(), configured.begin(), configured.end());
    } catch (const Error&) {
        return true;  // too many of them: the linker cache says so
    }
    return std::any_of(placedDirectories.begin(), placedDirectories.end(), [&](const std::string& directory) {
        return std::any_of(searched.begin(), searched.end(),
                           [&](const std::string& path) { return overlap(path, directory); });
    });
}

}  // namespace sarus::podman_hpc
