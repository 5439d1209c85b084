#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "podman_hpc/doctor/doctor.hpp"
#include "podman_hpc/store/damage.hpp"
#include "podman_hpc/store/record_lock.hpp"

namespace sarus::podman_hpc {

namespace {

/// Files of images that are not in the list.
Findings checkLeftFiles(const StorePaths& store, const StoreLists& lists) {
    std::set<std::string> needed;
    for (const auto& image : lists.images) {
        needed.insert(cat(linkOf(store, image.layer), ".squash"));
    }
    const auto directory = store.link("");
    std::set<std::string> locked;
    std::vector<std::string> left;
    Directory entries(directory, Missing::isEmpty);
    while (const char* entry = entries.next()) {
        const std::string name(entry);
        const auto end = name.find(".squash");
        if (end == std::string::npos || needed.contains(name)) {
            continue;
        }
        const UniqueFd file(::openat(entries.fd(), entry, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (file && isRecordLocked(file.get())) {
            locked.insert(name.substr(1, end - 1));
        } else {
            left.push_back(name);
        }
    }
    std::sort(left.begin(), left.end());
    Findings all;
    for (const auto& name : left) {
        struct stat status {};
        if (!locked.contains(name.substr(0, name.find('.'))) &&
            ::stat(cat(directory, name).c_str(), &status) == 0) {
            all.push_back(doctor::note(
                cat(printable(directory), name, " (", formatSize(static_cast<std::uint64_t>(status.st_size)),
                    ") belongs to no image: a migration was interrupted, or still runs on another node"),
                cat("rm ", shellWord(cat(directory, name)), " # or repeat podman-hpc migrate")));
        }
    }
    return all;
}

}  // namespace

Findings checkImages(const Patient& patient) {
    const StorePaths store{patient.squashDir()};
    const auto word = shellWord(store.root);
    const auto lists = readLists(store);
    const auto command = patient.squash.origin.kind == Origin::Kind::commandLine
                             ? cat("podman-hpc --squash-dir ", word, ' ')
                             : "podman-hpc ";
    Findings all;
    for (const auto* problems : {&lists.imageProblems, &lists.layerProblems}) {
        for (const auto& problem : *problems) {
            const auto& name = lists.images.empty() ? std::string("IMAGE") : shownName(lists.images.front());
            all.push_back(doctor::error(cat("the squash store is damaged: ", problem),
                                        cat(command, "migrate ", shellWord(name),
                                            " # mends the lists; then migrate the images that are missing")));
        }
    }
    std::set<std::string> names;
    for (const auto& image : lists.images) {
        for (const auto& name : image.names) {
            if (!names.insert(name).second) {
                const auto shown = shellWord(name);
                all.push_back(doctor::error(cat("two images of ", printable(store.root), " have the name ",
                                                printable(name), ": Podman refuses the store"),
                                            cat(command, "rmsqi ", shown, " && ", command, "rmsqi ", shown,
                                                " && ", command, "migrate ", shown)));
            }
        }
    }
    if (all.empty()) {
        all.push_back(doctor::ok(pathExists(store.imageList()) ? cat(names.size(), " in the squash store")
                                                               : "the squash store is empty"));
    }
    auto others = checkLeftFiles(store, lists);
    for (const auto& image : lists.images) {
        const auto& name = shownName(image);
        if (const auto problem = whatIsBroken(store, lists, image); !problem.empty()) {
            others.push_back(
                doctor::error(cat("the image ", printable(name), " cannot be used: ", printable(problem)),
                              cat(command, "migrate ", shellWord(name), " || ", command, "migrate docker://",
                                  shellWord(name), " # or remove it: ", command, "rmsqi ", image.id)));
        }
    }
    for (auto& finding : others) {
        finding.check = "squashed images";
        all.push_back(std::move(finding));
    }
    return all;
}

}  // namespace sarus::podman_hpc
