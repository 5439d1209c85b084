#include "hooks/mpi/survey.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "container_root/root_files.hpp"
#include "hooks/kit/linker_cache/library_search.hpp"
#include "hooks/mpi/library_family.hpp"

namespace sarus::hooks::mpi {

namespace {

bool isCounterpartName(const InjectionRequest& request, std::string_view fileName) {
    const auto name = parseLibraryName(fileName);
    if (!name) {
        return false;
    }
    return std::any_of(request.mpiLibraries.begin(), request.mpiLibraries.end(),
                       [&](const auto& library) {
                           return isSameLibrary(library.name.linkerName, name->linkerName);
                       }) ||
           std::any_of(request.dependencies.begin(), request.dependencies.end(),
                       [&](const auto& library) { return library.name.linkerName == name->linkerName; });
}

/// The container's counterparts: one entry for each file and linker name, under the path with the most
/// complete version.
class Counterparts {
public:
    explicit Counterparts(int rootFd) : root(rootFd) {}

    void add(const FoundLibrary& found, bool isUsed) {
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
        library.names.insert(found.path.substr(found.path.rfind('/') + 1));
        if (name->version.size() > library.name.version.size() ||
            found.path.ends_with(cat('/', name->text()))) {
            library.path = found.path;
            library.name = std::move(*name);
        }
    }

    std::vector<ContainerLibrary> list;

private:
    int root;
    std::map<std::tuple<dev_t, ino_t, std::string>, std::size_t> known;
};

bool isBelowAny(const std::string& path, const std::vector<std::string>& directories) {
    return std::any_of(directories.begin(), directories.end(), [&](const auto& directory) {
        return path == directory || path.starts_with(cat(directory, '/'));
    });
}

std::optional<std::vector<std::string>> definitionsOfHostFile(const ElfFile& like, const std::string& path) {
    // The container's LD_LIBRARY_PATH influences the path, so use only the user's rights.
    const UniqueFd host(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    const auto file = container_root::tryOpenFileInRoot(host.get(), path);
    try {
        auto elf = file ? readElf(file.get()) : std::nullopt;
        return elf && isSameMachine(*elf, like) ? std::optional(std::move(elf->versionDefinitions))
                                                : std::nullopt;
    } catch (const Error&) {
        return std::nullopt;
    }
}

/// Searches as the dynamic linker will for what a host library needs, with the host's BIND_MOUNTS in place.
class Lookup {
public:
    Lookup(const LibrarySearch& theSearch, const std::vector<std::string>& theBindMounts,
           const StartedProgram& theProgram, std::string_view libraryPath)
        : search(theSearch),
          bindMounts(theBindMounts),
          program(theProgram),
          libraryDirectories(split(libraryPath, ':')) {}

    std::optional<std::vector<std::string>> operator()(const HostLibrary& requester,
                                                       const std::string& name) {
        // A name that the program has already loaded is not searched again.
        if (const auto loaded = program.otherLibraries.find(name); loaded != program.otherLibraries.end()) {
            return loaded->second;
        }
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
    std::optional<std::vector<std::string>> inDirectories(const ElfFile& like,
                                                          const std::vector<std::string>& directories,
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
    const StartedProgram& program;
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

bool isMusl(const LibrarySearch& search, const ElfFile& host) {
    const auto& linkers = search.linkers();
    const auto isOther = [&](const auto& linker) {
        return linker.machine == host.machine && linker.library != CLibrary::musl;
    };
    const auto isThis = [&](const auto& linker) {
        return linker.machine == host.machine && linker.library == CLibrary::musl;
    };
    return std::none_of(linkers.begin(), linkers.end(), isOther) &&
           std::any_of(linkers.begin(), linkers.end(), isThis);
}

void reportMissing(const Configuration& configuration, bool isForMusl, Survey& survey) {
    std::vector<MissingNeed> fatal;
    std::vector<MissingNeed> others;
    for (const auto& need : survey.missing) {
        (configuration.isMissingVersionFatal && isFatal(need) ? fatal : others).push_back(need);
    }
    const std::string_view lacks = isForMusl ? ", whose C library is musl: it lacks " : ", which lacks ";
    if (!fatal.empty()) {
        survey.plan.problems.push_back(
            cat("The host's MPI libraries cannot work in this container", lacks, describeAll(fatal)));
    }
    if (!others.empty()) {
        survey.plan.warnings.push_back(
            cat("The host's MPI libraries may not work in this container", lacks, describeAll(others)));
    }
}

std::string describePlaces(const LibrarySearch& search, const StartedProgram& program) {
    constexpr std::size_t enough = 20;
    auto places = search.directoryPaths();
    const bool isCut = places.size() > enough;
    places.resize(std::min(places.size(), enough));
    auto text = printable(join(places, ", "));
    text += isCut ? ", ..." : "";
    text += search.hasCache() ? ", the linker cache" : "";
    return program.path.empty() ? text : cat(text, ", and what ", printable(program.path), " loads");
}

/// Explains why no MPI was found, or where it was searched.
void explainAbsence(const LibrarySearch& search, const ElfFile& host, const StartedProgram& program,
                    InjectionPlan& plan) {
    const auto& linkers = search.linkers();
    const auto isForHost = [&](const DynamicLinker& linker) { return linker.machine == host.machine; };
    auto& problem = plan.problems.front();
    if (!linkers.empty() && std::none_of(linkers.begin(), linkers.end(), isForHost)) {
        problem += cat(" for this machine: the image is for ", linkers.front().name);
    } else {
        problem += cat(isMusl(search, host) ? ", whose C library is musl" : "", ": looked in ",
                       describePlaces(search, program));
    }
}

/// Libraries in a directory of BIND_MOUNTS are mounted over its content.
void noteCoveredPlaces(const Configuration& configuration, InjectionPlan& plan) {
    for (const auto& injection : plan.injections) {
        for (const auto& destination : injection.destinations) {
            if (isBelowAny(destination, configuration.bindMounts)) {
                plan.notes.push_back(cat(printable(destination), " is in BIND_MOUNTS, too: ",
                                         printable(injection.library.path), " is mounted over it"));
            }
        }
    }
}

}  // namespace

Survey makeSurvey(const Configuration& configuration, int root, const StartedCommand& command,
                  const std::vector<HostLibrary>& glibc) {
    const container_root::ContainerView view;
    InjectionRequest request{.mpiLibraries = configuration.mpiLibraries,
                             .dependencies = configuration.dependencies,
                             .containerLibraries = {},
                             .policy = configuration.policy};
    const auto& host = request.mpiLibraries.front().elf;
    const auto isWanted = [&](std::string_view fileName) { return isCounterpartName(request, fileName); };
    LibrarySearch search(root, command.libraryPath);
    const auto program = readStartedProgram(command, root, search, host, isWanted);
    search.prepend(program.directories);
    Counterparts counterparts(root);
    for (const auto& found : search.findAll(host, isWanted, ElfDetail::everything)) {
        counterparts.add(found, false);
    }
    for (const auto& found : program.libraries) {
        counterparts.add(found, true);
    }
    request.containerLibraries = std::move(counterparts.list);
    request.program = program.path;
    Survey survey{.plan = planInjection(request), .program = program.path};
    noteCoveredPlaces(configuration, survey.plan);
    if (!survey.plan.isMpiFound) {
        explainAbsence(search, host, program, survey.plan);
    }
    if (survey.plan.problems.empty()) {
        Lookup lookup(search, configuration.bindMounts, program, command.libraryPath);
        survey.missing = findMissingNeeds(
            survey.plan.injections, [&](const HostLibrary& requester, const std::string& name) {
                auto versions = lookup(requester, name);
                for (const auto& library : glibc) {
                    // The newer of both has all versions of the older one.
                    if (versions && search.hasGlibc() && library.soname() == name) {
                        const auto& more = library.elf.versionDefinitions;
                        versions->insert(versions->end(), more.begin(), more.end());
                    }
                }
                return versions;
            });
        reportMissing(configuration, isMusl(search, host), survey);
    }
    return survey;
}

}  // namespace sarus::hooks::mpi
