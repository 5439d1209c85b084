#include "podman_hpc/store/damage.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "podman_hpc/config/podman_files.hpp"
#include "podman_hpc/store/image_layers.hpp"
#include "podman_hpc/store/migration.hpp"

namespace sarus::podman_hpc {

namespace {

/// Leaves each name to the first image that has it. Podman refuses a store otherwise.
bool separateNames(std::vector<PodmanImage>& images) {
    bool changed = false;
    std::set<std::string> taken;
    for (auto& image : images) {
        auto names = image.names;
        std::erase_if(names, [&](const std::string& name) { return !taken.insert(name).second; });
        if (names != image.names) {
            image = withNames(image, names);
            changed = true;
        }
    }
    return changed;
}

const PodmanImage* findUsed(const std::vector<PodmanImage>& images, const std::string& word) {
    try {
        return word.empty() ? nullptr : findImage(images, word);
    } catch (const Error&) {
        return nullptr;  // several ids begin so; Podman's own store may have such a name
    }
}

/// Several programs do this at the same time.
void provideList(const std::string& path, const std::string& text) {
    if (!pathExists(path) || readFile(path, text.size() + 1) != text) {
        replaceFile(path, text, 0600);
    }
}

/// A store in `directory` with these lists, and links to all other files of `store`.
void provideView(const StorePaths& store, const StoreLists& lists, const StorePaths& view) {
    const auto linkAll = [](const std::string& from, const std::string& to) {
        createDirectories(to, 0700);
        Directory entries(from, Missing::isError);
        while (const char* name = entries.next()) {
            if (!std::string_view(name).ends_with(".json")) {
                provideLink(cat(to, '/', name), cat(from, '/', name));
            }
        }
    };
    linkAll(store.images(), view.images());
    linkAll(store.layers(), view.layers());
    provideLink(cat(view.root, '/', view.driver), cat(store.root, '/', store.driver));
    provideList(view.layerList(), serialize(lists.layers));
    provideList(view.imageList(), serialize(lists.images));
}

}  // namespace

std::string whatIsBroken(const StorePaths& store, const StoreLists& lists, const PodmanImage& image) {
    if (!chainOf(lists.layers, image.layer).complete || image.layer.empty()) {
        return cat(store.layerList(), " lacks its layers");
    }
    const auto documents = store.documents(image.id);
    if (!isDirectory(documents)) {
        return cat(documents, " is missing");
    }
    for (const auto& [name, size] : image.documents) {
        const auto file = cat(documents, '/', documentFile(name));
        struct stat status {};
        if (::stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode) ||
            (size && static_cast<std::uint64_t>(status.st_size) != *size)) {
            return cat(file, " is missing or not complete");
        }
    }
    const auto link = linkOf(store, image.layer);
    if (link.empty() || !isDirectory(store.link(link))) {
        return cat(store.layer(image.layer), " is not complete");
    }
    return isSquashfs(store.squash(link)) ? "" : cat(store.squash(link), " is missing or not complete");
}

const std::string& shownName(const PodmanImage& image) {
    return image.names.empty() ? image.id : image.names.front();
}

std::string readableStore(const StorePaths& store, const StoreUse& use, const std::string& parent,
                          const Warn& warn) {
    auto lists = readLists(store);
    bool isReadable = lists.areSound();
    if (!isReadable) {
        warn(cat("The squash store is damaged: ", printable(lists.problem()),
                 ". Mend it with 'podman-hpc migrate IMAGE', for each image that is missing"));
    }
    const auto* used = findUsed(lists.images, use.image);
    std::vector<PodmanImage> sound;
    for (const auto& image : lists.images) {
        const auto problem = use.listsAll || &image == used ? whatIsBroken(store, lists, image) : "";
        if (!problem.empty()) {
            const auto name = printable(shownName(image));
            warn(cat("The image ", name, " of the squash store cannot be used: ", printable(problem),
                     ". Mend it with 'podman-hpc migrate ", name, "', or remove it with 'podman-hpc rmsqi ",
                     name, '\''));
        }
        if (problem.empty() || !use.listsAll) {
            sound.push_back(image);
        }
    }
    isReadable = isReadable && sound.size() == lists.images.size();
    lists.images = sound;
    if (!separateNames(lists.images) && isReadable) {
        return store.root;
    }
    const StorePaths view{cat(parent, "/squash-store-", sha256Hex(store.root).substr(0, 16))};
    provideView(store, lists, view);
    return view.root;
}

}  // namespace sarus::podman_hpc
