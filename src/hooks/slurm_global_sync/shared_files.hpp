#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus::hooks::slurm_global_sync {

/// The shared directory in which the tasks of a step find each other. Each function is one operation on
/// metadata of the file system. Paths are relative to the directory. All throw Error for what is not said
/// here.
class SharedFiles {
public:
    struct Status {
        bool marked = false;
        std::chrono::seconds modified{};  ///< since 1970
    };

    SharedFiles() = default;
    SharedFiles(const SharedFiles&) = delete;
    SharedFiles& operator=(const SharedFiles&) = delete;
    virtual ~SharedFiles() = default;

    enum class Made { now, before, noParent };
    virtual Made makeDirectory(const std::string& path) = 0;
    virtual Made makeFile(const std::string& path, std::string_view content) = 0;
    /// False if one of them is missing.
    virtual bool rename(const std::string& from, const std::string& to) = 0;
    /// Nothing happens if it is missing.
    virtual void remove(const std::string& path) = 0;
    /// False if it is not empty.
    virtual bool removeDirectory(const std::string& path) = 0;
    /// Marks a directory for status() on every node; nothing happens if it is missing.
    virtual void mark(const std::string& directory) = 0;
    /// Of a directory, as the file server knows it now; nullopt if it is missing.
    virtual std::optional<Status> status(const std::string& directory) = 0;
    /// The names in a directory; none if it is missing.
    virtual std::vector<std::string> list(const std::string& directory) = 0;
    /// nullopt if it is missing.
    virtual std::optional<std::string> read(const std::string& path) = 0;
};

/// The real one, with the rights of this process.
class DiskFiles : public SharedFiles {
public:
    /// Makes the directory `<base>/<inside>` where it is missing, mode 0700; `base` must exist. Throws Error,
    /// also if its last part belongs to another user, who could pretend that tasks have arrived.
    DiskFiles(const std::string& base, const std::string& inside);

    Made makeDirectory(const std::string& path) override;
    Made makeFile(const std::string& path, std::string_view content) override;
    bool rename(const std::string& from, const std::string& to) override;
    void remove(const std::string& path) override;
    bool removeDirectory(const std::string& path) override;
    void mark(const std::string& directory) override;
    std::optional<Status> status(const std::string& directory) override;
    std::vector<std::string> list(const std::string& directory) override;
    std::optional<std::string> read(const std::string& path) override;

private:
    std::string shown(const std::string& path) const;
    Made made(const std::string& path, bool done) const;

    std::string name;
    UniqueFd directory;
};

}  // namespace sarus::hooks::slurm_global_sync
