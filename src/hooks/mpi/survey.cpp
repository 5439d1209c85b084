#include "hooks/mpi/survey.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "hooks/kit/injection/counterparts.hpp"
#include "hooks/kit/injection/need_lookup.hpp"
#include "hooks/kit/linker_cache/library_search.hpp"
#include "hooks/mpi/library_family.hpp"

namespace sarus::hooks::mpi {

namespace {

LibraryUse useOf(const InjectionRequest& request, std::string_view fileName) {
    const auto name = parseLibraryName(fileName);
    if (!name) {
        return LibraryUse::none;
    }
    return isCounterpart(request, name->linkerName) ? LibraryUse::counterpart
           : isMpi(name->linkerName)                ? LibraryUse::otherMpi
                                                    : LibraryUse::none;
}

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

/// Empty if there was no place to look in.
std::string describePlaces(const LibrarySearch& search, const StartedProgram& program) {
    constexpr std::size_t enough = 20;
    auto places = search.directoryPaths();
    if (places.size() > enough) {
        places.resize(enough);
        places.emplace_back("...");
    }
    if (search.hasCache()) {
        places.emplace_back("the linker cache");
    }
    if (!program.path.empty()) {
        places.push_back(cat(places.empty() ? "" : "and ", "what ", program.path, " loads"));
    }
    return printable(join(places, ", "));
}

/// Explains why no MPI was found, or where it was searched.
void explainAbsence(const LibrarySearch& search, const ElfFile& host, const StartedProgram& program,
                    InjectionPlan& plan) {
    const auto& linkers = search.linkers();
    const auto isForHost = [&](const DynamicLinker& linker) { return linker.machine == host.machine; };
    auto& problem = plan.problems.front();
    if (!linkers.empty() && std::none_of(linkers.begin(), linkers.end(), isForHost)) {
        problem += cat(" for this machine: the image is for ", linkers.front().name);
    } else if (const auto places = describePlaces(search, program); places.empty()) {
        problem += ", which has no directory of libraries";
    } else {
        problem += cat(isMusl(search, host) ? ", whose C library is musl" : "", ": looked in ", places);
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
    const auto use = [&](std::string_view fileName) { return useOf(request, fileName); };
    const auto isWanted = [&](std::string_view fileName) { return use(fileName) != LibraryUse::none; };
    LibrarySearch search(root, command.libraryPath);
    const auto program = readStartedProgram(command, root, search, host, use);
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
        NeedLookup lookup(search, configuration.bindMounts, program.otherLibraries, command.libraryPath);
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
