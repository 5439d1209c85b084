#include "hooks/mpi/survey.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "base/text.hpp"
#include "hooks/kit/library_search.hpp"
#include "hooks/mpi/library_family.hpp"

namespace sarus::hooks::mpi {

namespace {

std::vector<HostLibrary> readAllLibraries(const std::vector<std::string>& paths) {
    std::vector<HostLibrary> result;
    for (const auto& path : paths) {
        result.push_back(readHostLibrary(path));
    }
    return result;
}

bool isCounterpartName(const InjectionRequest& request, std::string_view fileName) {
    const auto name = parseLibraryName(fileName);
    if (!name) {
        return false;
    }
    return std::any_of(request.mpiLibraries.begin(), request.mpiLibraries.end(),
                       [&](const auto& library) { return isSameLibrary(library.name.linkerName, name->linkerName); }) ||
           std::any_of(request.dependencies.begin(), request.dependencies.end(),
                       [&](const auto& library) { return library.name.linkerName == name->linkerName; });
}

/// The container's counterparts: one entry for each file and linker name, under the path with the most complete version.
std::vector<ContainerLibrary> collectCounterparts(const InjectionRequest& request, const LibrarySearch& search, int root) {
    std::vector<ContainerLibrary> result;
    std::map<std::tuple<dev_t, ino_t, std::string>, std::size_t> known;
    const auto isWanted = [&](std::string_view fileName) { return isCounterpartName(request, fileName); };
    for (const auto& found : search.findAll(request.mpiLibraries.front().elf, isWanted, ElfDetail::everything)) {
        auto name = resolveLibraryName(root, found.path);
        if (!name) {
            continue;
        }
        completeVersion(*name, found.elf);
        const auto [position, isNew] = known.emplace(std::tuple(found.device, found.inode, name->linkerName), result.size());
        if (isNew) {
            result.push_back({.path = found.path, .name = *name, .versionDefinitions = found.elf.versionDefinitions});
        }
        auto& library = result[position->second];
        library.names.insert(found.path.substr(found.path.rfind('/') + 1));
        if (name->version.size() > library.name.version.size() || found.path.ends_with(cat('/', name->text()))) {
            library.path = found.path;
            library.name = std::move(*name);
        }
    }
    return result;
}

bool isBelowAny(const std::string& path, const std::vector<std::string>& directories) {
    return std::any_of(directories.begin(), directories.end(),
                       [&](const auto& directory) { return path == directory || path.starts_with(cat(directory, '/')); });
}

std::optional<std::vector<std::string>> definitionsOfHostFile(const ElfFile& like, const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    try {
        auto elf = file ? readElf(file.get()) : std::nullopt;
        return elf && isSameMachine(*elf, like) ? std::optional(std::move(elf->versionDefinitions)) : std::nullopt;
    } catch (const Error&) {
        return std::nullopt;
    }
}

/// Looks where the dynamic linker will look for what a host library needs, with the host's BIND_MOUNTS in place.
class Lookup {
public:
    Lookup(const LibrarySearch& theSearch, const std::vector<std::string>& theBindMounts, std::string_view libraryPath)
        : search(theSearch), bindMounts(theBindMounts), libraryDirectories(split(libraryPath, ':')) {}

    std::optional<std::vector<std::string>> operator()(const HostLibrary& requester, const std::string& name) {
        if (auto found = inDirectories(requester.elf, split(requester.elf.rpath.value_or(""), ':'), name)) {
            return found;
        }
        if (auto found = inDirectories(requester.elf, split(requester.elf.runpath.value_or(""), ':'), name)) {
            return found;
        }
        if (auto found = inDirectories(requester.elf, libraryDirectories, name)) {
            return found;
        }
        auto [position, isNew] = known.emplace(name, std::nullopt);
        if (isNew) {
            if (auto found = search.find(requester.elf, name)) {
                position->second = std::move(found->elf.versionDefinitions);
            }
        }
        return position->second;
    }

private:
    std::optional<std::vector<std::string>> inDirectories(const ElfFile& like, const std::vector<std::string>& directories,
                                                          const std::string& name) const {
        for (const auto& directory : directories) {
            if (!directory.starts_with('/') || directory.find('$') != std::string::npos) {
                continue;
            }
            const auto path = cat(directory, '/', name);
            if (isBelowAny(path, bindMounts)) {
                if (auto found = definitionsOfHostFile(like, path)) {
                    return found;
                }
            }
            if (auto found = search.open(like, path, ElfDetail::everything)) {
                return std::move(found->elf.versionDefinitions);
            }
        }
        return std::nullopt;
    }

    const LibrarySearch& search;
    const std::vector<std::string>& bindMounts;
    std::vector<std::string> libraryDirectories;
    std::map<std::string, std::optional<std::vector<std::string>>> known;
};

std::string describeAll(const std::vector<MissingNeed>& needs) {
    std::string text;
    for (const auto& need : needs) {
        text += cat(text.empty() ? "" : "; ", describe(need));
    }
    return text;
}

void reportMissing(const Configuration& configuration, Survey& survey) {
    std::vector<MissingNeed> fatal;
    std::vector<MissingNeed> others;
    for (const auto& need : survey.missing) {
        (configuration.isMissingVersionFatal && isFatal(need) ? fatal : others).push_back(need);
    }
    if (!fatal.empty()) {
        survey.plan.problems.push_back(
            cat("The host's MPI libraries cannot work in this container, which lacks ", describeAll(fatal)));
    }
    if (!others.empty()) {
        survey.plan.warnings.push_back(
            cat("The host's MPI libraries may not work in this container, which lacks ", describeAll(others)));
    }
}

/// Explains a container without MPI by the architecture, if that is why.
void explainMachine(const LibrarySearch& search, const ElfFile& host, InjectionPlan& plan) {
    const auto& linkers = search.linkers();
    const auto isForHost = [&](const DynamicLinker& linker) { return linker.machine == host.machine; };
    if (plan.problems.empty() || linkers.empty() || std::any_of(linkers.begin(), linkers.end(), isForHost)) {
        return;
    }
    plan.problems.front() += cat(" for this machine: the image is for ", linkers.front().name);
}

}  // namespace

Survey makeSurvey(const Configuration& configuration, int root, std::string_view libraryPath) {
    InjectionRequest request{.mpiLibraries = readAllLibraries(configuration.mpiLibraries),
                             .dependencies = readAllLibraries(configuration.dependencies),
                             .containerLibraries = {},
                             .policy = configuration.policy};
    const LibrarySearch search(root, libraryPath);
    request.containerLibraries = collectCounterparts(request, search, root);
    Survey survey{.plan = planInjection(request), .missing = {}};
    explainMachine(search, request.mpiLibraries.front().elf, survey.plan);
    if (survey.plan.problems.empty()) {
        survey.missing = findMissingNeeds(survey.plan.injections, Lookup(search, configuration.bindMounts, libraryPath));
        reportMissing(configuration, survey);
    }
    return survey;
}

}  // namespace sarus::hooks::mpi
