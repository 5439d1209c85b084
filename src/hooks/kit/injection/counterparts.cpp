#include "hooks/kit/injection/counterparts.hpp"

#include <utility>

#include "base/text.hpp"

namespace sarus::hooks {

void Counterparts::add(const FoundLibrary& found, bool isUsed) {
    auto name = resolveLibraryName(root, found.path);
    if (!name) {
        return;
    }
    completeVersion(*name, found.elf);
    const auto [position, isNew] =
        known.emplace(std::tuple(found.device, found.inode, name->linkerName), list.size());
    if (isNew) {
        list.push_back(
            {.path = found.path, .name = *name, .versionDefinitions = found.elf.versionDefinitions});
    }
    auto& library = list[position->second];
    library.isUsed = library.isUsed || isUsed;
    library.names.insert(fileNameOf(found.path));
    if (name->version.size() > library.name.version.size() || found.path.ends_with(cat('/', name->text()))) {
        library.path = found.path;
        library.name = std::move(*name);
    }
}

}  // namespace sarus::hooks
