#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "hooks/kit/injection/injection.hpp"
#include "hooks/kit/linker_cache/library_search.hpp"

namespace sarus::hooks {

/// The container's counterparts of host libraries: one entry for each file and linker name, under the path
/// with the most complete version.
class Counterparts {
public:
    /// `rootFd`: the container's root directory, not owned.
    explicit Counterparts(int rootFd) : root(rootFd) {}

    /// Omits a file whose name is no library's.
    void add(const FoundLibrary& found, bool isUsed);

    std::vector<ContainerLibrary> list;

private:
    int root;
    std::map<std::tuple<dev_t, ino_t, std::string>, std::size_t> known;
};

}  // namespace sarus::hooks
