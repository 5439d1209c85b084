#pragma once

#include <sys/types.h>

#include <string>

#include "base/unique_fd.hpp"

namespace sarus {

/// Whether a file must survive a crash of the node.
enum class Flush { yes, no };

/// A new file that gets its name only when it is complete, so a reader sees the old file or the new one, and
/// whoever fails before leaves nothing. Until then it has no name where the file system can do without
/// (O_TMPFILE, open(2)): a killed process leaves nothing, either. Elsewhere, and for a moment in replace(),
/// it is called like the file with a hyphen and letters behind it.
class Draft {
public:
    /// In the same directory as `path` will be. `mode`: as for open(2). Throws Error.
    Draft(std::string path, mode_t mode);
    Draft(const Draft&) = delete;
    Draft& operator=(const Draft&) = delete;
    ~Draft();

    /// To be written.
    int fd() const noexcept { return file.get(); }

    /// Flushes the file, gives it its name instead of what has that name, and flushes the directory. Throws
    /// Error.
    void replace();
    /// The same for a name that is free. False, and no file, if it is not. Throws Error.
    bool create(Flush flush = Flush::yes);

private:
    void flushFile() const;
    void flushDirectory() const;
    bool link(const std::string& name) const;

    std::string path;
    std::string temporary;  ///< "" if there is no such file
    UniqueFd file;
};

}  // namespace sarus
