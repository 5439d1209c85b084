#include "starter/process_tree.hpp"

#include <dirent.h>
#include <signal.h>

#include <memory>
#include <string>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

/// "" for a file of a process that has ended.
std::string readProcFile(const std::string& path) {
    try {
        return readFile(path);
    } catch (const Error&) {
        return {};
    }
}

void collectDescendants(pid_t process, std::vector<pid_t>& found) {
    for (const pid_t child : childrenOf(process)) {
        found.push_back(child);
        collectDescendants(child, found);
    }
}

}  // namespace

std::vector<pid_t> childrenOf(pid_t process) {
    std::vector<pid_t> children;
    const std::string tasks = cat("/proc/", process, "/task");
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(tasks.c_str()), &::closedir);
    while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
        const std::string name = static_cast<const char*>(entry->d_name);
        if (!parseNumber(name)) {
            continue;
        }
        for (const auto& word : splitWords(readProcFile(cat(tasks, '/', name, "/children")))) {
            if (const auto pid = parseNumber(word)) {
                children.push_back(static_cast<pid_t>(*pid));
            }
        }
    }
    return children;
}

void killDescendants(pid_t process, int attempts) {
    for (int attempt = 0; attempt < attempts; ++attempt) {
        std::vector<pid_t> descendants;
        collectDescendants(process, descendants);
        bool alive = false;
        for (const pid_t descendant : descendants) {
            if (isRunning(descendant)) {
                alive = true;
                ::kill(descendant, SIGKILL);
            }
        }
        if (!alive) {
            return;
        }
    }
}

bool isRunning(pid_t process) {
    const auto status = readProcFile(cat("/proc/", process, "/stat"));
    const auto name = status.rfind(')');  // the name may contain anything
    if (name == std::string::npos || name + 2 >= status.size()) {
        return false;
    }
    const char state = status[name + 2];
    return state != 'Z' && state != 'X';
}

}  // namespace sarus::starter
