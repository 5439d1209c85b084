#include "podman_hpc/hook_tool/glob.hpp"

#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/directory.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc {

namespace {

bool exists(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0;
}

std::vector<std::string> matchingNames(const std::string& directory, const std::string& pattern) {
    std::vector<std::string> names;
    Directory entries(directory.empty() ? "/" : directory, Missing::isEmpty);
    while (const char* name = entries.next()) {
        if (::fnmatch(pattern.c_str(), name, FNM_PERIOD) == 0) {
            names.emplace_back(name);
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace

bool isPattern(const std::string& text) {
    return text.find_first_of("*?[") != std::string::npos;
}

std::vector<std::string> expandGlob(const std::string& pattern) {
    std::vector<std::string> paths{""};
    for (const auto& part : split(pattern, '/')) {
        if (part.empty()) {
            continue;
        }
        std::vector<std::string> next;
        for (const auto& path : paths) {
            if (!isPattern(part)) {
                next.push_back(cat(path, '/', part));
                continue;
            }
            for (const auto& name : matchingNames(path, part)) {
                next.push_back(cat(path, '/', name));
            }
        }
        paths = std::move(next);
    }
    std::erase_if(paths, [](const std::string& path) { return !exists(path); });
    return paths;
}

}  // namespace sarus::podman_hpc
