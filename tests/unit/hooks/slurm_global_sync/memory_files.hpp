#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hooks/slurm_global_sync/shared_files.hpp"

namespace sarus::hooks::slurm_global_sync {

/// A file system in memory that counts operations.
class MemoryFiles : public SharedFiles {
public:
    struct Count {
        std::uint64_t changes = 0;   ///< made, renamed, removed or marked
        std::uint64_t looks = 0;     ///< status and read
        std::uint64_t listings = 0;  ///< of directories...
        std::uint64_t entries = 0;   ///< ...with so many entries together
        std::uint64_t operations() const { return changes + looks + listings; }
    };

    Made makeDirectory(const std::string& path) override {
        ++count.changes;
        if (!directories.contains(parentOf(path))) {
            return Made::noParent;
        }
        if (!directories[parentOf(path)].entries.try_emplace(nameOf(path)).second) {
            return Made::before;
        }
        directories[path] = {};
        return Made::now;
    }
    Made makeFile(const std::string& path, std::string_view content) override {
        ++count.changes;
        const auto parent = directories.find(parentOf(path));
        if (parent == directories.end()) {
            return Made::noParent;
        }
        made.push_back(path);
        return parent->second.entries.try_emplace(nameOf(path), content).second ? Made::now : Made::before;
    }
    bool rename(const std::string& from, const std::string& to) override {
        ++count.changes;
        const auto source = directories.find(parentOf(from));
        const auto target = directories.find(parentOf(to));
        if (source == directories.end() || target == directories.end() ||
            source->second.entries.erase(nameOf(from)) == 0) {
            return false;
        }
        made.push_back(to);
        target->second.entries[nameOf(to)] = "";
        return true;
    }
    void remove(const std::string& path) override {
        ++count.changes;
        if (const auto parent = directories.find(parentOf(path)); parent != directories.end()) {
            parent->second.entries.erase(nameOf(path));
        }
    }
    bool removeDirectory(const std::string& path) override {
        ++count.changes;
        const auto found = directories.find(path);
        if (found == directories.end()) {
            return true;
        }
        if (!found->second.entries.empty()) {
            return false;
        }
        directories.erase(found);
        directories[parentOf(path)].entries.erase(nameOf(path));
        return true;
    }
    void mark(const std::string& directory) override {
        ++count.changes;
        directories.at(directory).marked = true;
    }
    std::optional<Status> status(const std::string& directory) override {
        ++count.looks;
        const auto found = directories.find(directory);
        return found == directories.end() ? std::nullopt : std::optional(Status{found->second.marked, now});
    }
    std::vector<std::string> list(const std::string& directory) override {
        ++count.listings;
        std::vector<std::string> names;
        const auto found = directories.find(directory == "." ? "" : directory);
        if (found != directories.end()) {
            for (const auto& [name, content] : found->second.entries) {
                names.push_back(name);
            }
        }
        count.entries += names.size();
        return names;
    }
    std::optional<std::string> read(const std::string& path) override {
        ++count.looks;
        const auto parent = directories.find(parentOf(path));
        if (parent == directories.end() || !parent->second.entries.contains(nameOf(path))) {
            return std::nullopt;
        }
        return parent->second.entries[nameOf(path)];
    }

    bool isEmpty() const { return directories.size() == 1 && directories.at("").entries.empty(); }

    Count count;
    std::chrono::seconds now{1'000'000};  ///< every directory was changed just now
    std::vector<std::string> made;        ///< every file that ever was

private:
    struct Folder {
        std::map<std::string, std::string> entries{};
        bool marked = false;
    };
    static std::string parentOf(const std::string& path) {
        const auto slash = path.rfind('/');
        return slash == std::string::npos ? "" : path.substr(0, slash);
    }
    static std::string nameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

    std::map<std::string, Folder> directories{{"", {}}};
};

}  // namespace sarus::hooks::slurm_global_sync
