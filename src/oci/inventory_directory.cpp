#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "oci/inventory.hpp"

namespace sarus::oci {

namespace {

constexpr std::size_t kMaxFile = 1U << 20U;
constexpr std::size_t kMaxFiles = 1000;

void requireRootsOwn(const struct stat& status, const std::string& path) {
    if (status.st_uid != 0 || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        throw Error(
            cat(printable(path), " is not root's alone: it belongs to user ", status.st_uid, " or others may write to it"),
            "it must belong to root, and neither its group nor others may write to it");
    }
}

bool isInventoryName(std::string_view name) {
    return !name.starts_with('.') && (name.ends_with(".cfg") || name.ends_with(".json"));
}

std::vector<std::string> listNames(int directory, const std::string& path) {
    UniqueFd copy(
        checkErrno(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), cat("Failed to open ", printable(path))));
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(copy.get()), ::closedir);
    if (!stream) {
        throwErrno(cat("Failed to list ", printable(path)));
    }
    copy.release();
    std::vector<std::string> names;
    errno = 0;
    while (const auto* entry = ::readdir(stream.get())) {
        if (isInventoryName(entry->d_name)) {
            names.emplace_back(entry->d_name);
        }
        if (names.size() > kMaxFiles) {
            throw Error(cat(printable(path), " holds more than ", kMaxFiles, " inventories"));
        }
        errno = 0;
    }
    if (errno != 0) {
        throwErrno(cat("Failed to list ", printable(path)));
    }
    std::sort(names.begin(), names.end());
    return names;
}

Inventory readInventory(int directory, const std::string& name, const std::string& path, bool mustBeRoots) {
    // Neither a FIFO nor a terminal may hold up the start of a container.
    const auto file = openFileAt(directory, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    struct stat status {};
    checkErrno(::fstat(file.get(), &status), cat("Failed to examine ", printable(path)));
    if (!S_ISREG(status.st_mode)) {
        throw Error(cat(printable(path), " is not a regular file"));
    }
    if (mustBeRoots) {
        requireRootsOwn(status, path);
    }
    return parseInventory(readAll(file.get(), kMaxFile, printable(path)), path);
}

}  // namespace

std::vector<Inventory> readInventories(const std::string& directory, bool mustBeRoots) {
    const auto place = openFile(directory, O_RDONLY | O_DIRECTORY);
    struct stat status {};
    checkErrno(::fstat(place.get(), &status), cat("Failed to examine ", printable(directory)));
    if (mustBeRoots) {
        requireRootsOwn(status, directory);
    }
    std::vector<Inventory> inventories;
    for (const auto& name : listNames(place.get(), directory)) {
        auto inventory = readInventory(place.get(), name, cat(directory, '/', name), mustBeRoots);
        for (const auto& other : inventories) {
            if (other.activationFlag == inventory.activationFlag) {
                throw Error(cat(printable(inventory.file), ": activation_flag: ", inventory.activationFlag, " is that of ",
                                printable(other.file), " already"));
            }
        }
        inventories.push_back(std::move(inventory));
    }
    return inventories;
}

}  // namespace sarus::oci
