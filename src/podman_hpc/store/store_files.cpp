#include "podman_hpc/store/store_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <tuple>
#include <utility>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "image/store/repository_scan.hpp"
#include "podman_hpc/config/podman_files.hpp"
#include "podman_hpc/store/image_layers.hpp"
#include "podman_hpc/store/record_lock.hpp"

namespace sarus::podman_hpc {

namespace {

constexpr std::size_t largestList = 256U << 20U;
constexpr std::size_t linkLength = 26;
constexpr std::string_view linkCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

bool isLinkName(std::string_view text) {
    return text.size() == linkLength && text.find_first_not_of(linkCharacters) == std::string_view::npos;
}

/// Which file a name stands for, and in which state; all zero if there is none.
using FileState = std::tuple<dev_t, ino_t, off_t, time_t, long>;

FileState stateOf(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
        return {};
    }
    return {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

template <typename Parse>
auto readList(const std::string& path, Parse parse, std::vector<std::string>& problems) {
    if (pathExists(path)) {
        return parse(readFile(path, largestList), path, problems);
    }
    if (hasLostList(path)) {
        problems.push_back(cat(printable(path), " is missing"));
    }
    return decltype(parse("", path, problems))();
}

/// Adds the records of layers that the list has lost.
void completeLayers(const StorePaths& store, StoreLists& lists) {
    for (const auto& image : lists.images) {
        if (image.layer.empty() || chainOf(lists.layers, image.layer).complete) {
            continue;
        }
        const auto layers = layersFromDocuments(store.documents(image.id), image);
        for (const auto& layer : layers) {
            if (findLayer(lists.layers, layer.id) == nullptr) {
                lists.layers.push_back(layer);
            }
        }
        if (!layers.empty()) {
            lists.layerProblems.push_back(
                cat(printable(store.layerList()), " lacks layers of the image ", image.id));
        }
    }
}

void rename(const std::string& from, const std::string& to) {
    checkErrno(::rename(from.c_str(), to.c_str()), cat("Failed to create ", printable(to)));
}

void writeFlushed(const std::string& path, std::string_view text) {
    ::unlink(path.c_str());
    const auto file = openFile(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    writeAll(file.get(), text, path);
    checkErrno(::fsync(file.get()), cat("Failed to flush ", printable(path)));
}

/// Keeps the old list beside the new one.
void keepDamaged(const ChangeLock& lock, const std::string& path, const std::vector<std::string>& problems) {
    if (problems.empty() || !pathExists(path)) {
        return;
    }
    const auto kept = cat(path, ".damaged-", image::formatLocalTime(std::time(nullptr)));
    writeFlushed(kept, readFile(path, largestList));
    lock.warn(cat(problems.front(), problems.size() == 1 ? "" : cat(" (and ", problems.size() - 1, " more)"),
                  ". The list is mended; the old one is kept as ", printable(kept)));
}

void copyFile(const ChangeLock& lock, const std::string& from, const std::string& to) {
    constexpr std::size_t largestCopy = 1U << 30U;
    const auto temporary = to + lock.suffix();
    writeFlushed(temporary, readFile(from, largestCopy));
    rename(temporary, to);
}

bool leadsTo(const std::string& link, const std::string& target) {
    std::string current(target.size() + 1, '\0');
    const auto length = ::readlink(link.c_str(), current.data(), current.size());
    return length >= 0 && current.substr(0, static_cast<std::size_t>(length)) == target;
}

}  // namespace

std::string StoreLists::problem() const {
    auto all = imageProblems;
    all.insert(all.end(), layerProblems.begin(), layerProblems.end());
    return cat(all.front(), all.size() == 1 ? "" : cat(" (and ", all.size() - 1, " more)"));
}

StoreLists readLists(const StorePaths& store) {
    for (;;) {
        const auto before = stateOf(store.imageList());
        StoreLists lists;
        lists.images = readList(store.imageList(), parseImages, lists.imageProblems);
        lists.layers = readList(store.layerList(), parseLayers, lists.layerProblems);
        completeLayers(store, lists);
        // Others replace the lists one after the other.
        if (lists.areSound() || stateOf(store.imageList()) == before) {
            return lists;
        }
    }
}

std::string linkOf(const StorePaths& store, const std::string& layer) {
    const auto file = cat(store.layer(layer), "/link");
    if (!pathExists(file)) {
        return "";
    }
    const std::string name(trim(readFile(file, 4096)));
    return isLinkName(name) ? name : "";
}

std::string newLink() {
    std::string name;
    for (const char letter : randomLetters() + randomLetters()) {
        name += static_cast<char>(letter - 'a' + 'A');
    }
    return name.substr(0, linkLength);
}

ChangeLock::ChangeLock(const StorePaths& store, Warn warningFunction)
    : paths(store),
      warning(std::move(warningFunction)),
      file(openFile(cat(store.root, "/migrate.lock"), O_RDWR | O_CREAT | O_NOFOLLOW, 0644)) {
    if (!lockRecord(file.get(), cat(store.root, "/migrate.lock"))) {
        ending = cat(".new-", randomLetters());
    }
}

void changeLists(const ChangeLock& lock, FirstList first, const std::function<void(StoreLists&)>& change) {
    struct List {
        std::string path;
        FileState state{};
        std::string text{};
    };
    const auto& store = lock.store();
    List layers{store.layerList()};
    List images{store.imageList()};
    for (bool done = false; !done;) {
        layers.state = stateOf(layers.path);
        images.state = stateOf(images.path);
        auto lists = readLists(store);
        const auto read = std::pair(lists.imageProblems, lists.layerProblems);
        change(lists);
        layers.text = serialize(lists.layers);
        images.text = serialize(lists.images);
        for (const auto* list : {&layers, &images}) {
            writeFlushed(list->path + lock.suffix(), list->text);
        }
        const StoreWriteLock podmanLock(store.root, [&](const auto& message) { lock.warn(message); });
        done = stateOf(layers.path) == layers.state && stateOf(images.path) == images.state;
        if (done) {
            keepDamaged(lock, images.path, read.first);
            keepDamaged(lock, layers.path, read.second);
            podmanLock.markChanged();  // first, since it may need space
            for (const auto* list : {first == FirstList::layers ? &layers : &images,
                                     first == FirstList::layers ? &images : &layers}) {
                rename(list->path + lock.suffix(), list->path);
            }
        }
    }
}

void mendLists(const StorePaths& store, const Warn& warn) {
    if (!readLists(store).areSound()) {
        const ChangeLock lock(store, warn);
        if (!readLists(store).areSound()) {  // another program was not faster
            changeLists(lock, FirstList::layers, [](StoreLists&) {});
        }
    }
}

std::string provideLayer(const ChangeLock& lock, const StorePaths& local, const std::string& id,
                         const std::string& preferredLink) {
    const auto& store = lock.store();
    const auto directory = store.layer(id);
    const auto target = cat("../", id, "/diff");
    auto name = linkOf(store, id);
    const bool isThere = !name.empty();
    if (!isThere) {
        name = isLinkName(preferredLink) ? preferredLink : newLink();
    }
    for (const auto* part : {"diff", "merged", "work", "empty"}) {
        if (std::string_view(part) != "empty" || isDirectory(cat(local.layer(id), "/empty"))) {
            createDirectories(cat(directory, '/', part));
        }
    }
    if (const auto link = store.link(name); !leadsTo(link, target)) {
        ::unlink(link.c_str());
        checkErrno(::symlink(target.c_str(), link.c_str()), cat("Failed to create ", printable(link)));
    }
    if (pathExists(local.tarSplit(id)) && !pathExists(store.tarSplit(id))) {
        copyFile(lock, local.tarSplit(id), store.tarSplit(id));
    }
    if (!isThere) {  // last: the layer is complete
        const auto temporary = cat(directory, "/link", lock.suffix());
        writeFlushed(temporary, name);
        rename(temporary, cat(directory, "/link"));
    }
    return name;
}

void provideImageFiles(const ChangeLock& lock, const StorePaths& local, const std::string& id) {
    const auto from = local.documents(id);
    const auto to = lock.store().documents(id);
    createDirectories(to);
    Directory entries(from, Missing::isError);
    while (const char* name = entries.next()) {
        copyFile(lock, cat(from, '/', name), cat(to, '/', name));
    }
}

}  // namespace sarus::podman_hpc
