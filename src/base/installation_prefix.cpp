#include "base/installation_prefix.hpp"

#include <algorithm>

#include "base/file_io.hpp"

namespace sarus {

std::string installationPrefix() {
    auto path = ownProgramPath();
    for (int level = 0; level < 2; ++level) {
        path.resize(std::min(path.rfind('/'), path.size()));
    }
    return path;
}

}  // namespace sarus
