#include "hooks/mpi/injection_plan.hpp"

#include <algorithm>
#include <iterator>

#include "base/text.hpp"
#include "hooks/mpi/library_family.hpp"

namespace sarus::hooks::mpi {

namespace {

constexpr std::string_view directoryOfAddedLibraries = "/usr/lib/";

void appendOnce(std::vector<std::string>& list, std::string element) {
    if (std::find(list.begin(), list.end(), element) == list.end()) {
        list.push_back(std::move(element));
    }
}

/// The path with the version found through its links: "/usr/lib/libmpi.so (libmpi.so.12.1.8)".
std::string describe(const std::string& path, const LibraryName& name) {
    const auto full = name.text();
    return path.ends_with(cat('/', full)) ? printable(path)
                                          : cat(printable(path), " (", printable(full), ')');
}

AbiMatch compare(const HostLibrary& host, const ContainerLibrary& container, AbiPolicy policy) {
    auto name = host.name;
    name.linkerName = container.name.linkerName;
    return compareAbi(name, container.name, policy);
}

bool isPrivate(const std::string& version) {
    return version.find("_PRIVATE") != std::string::npos;
}

/// The symbol versions of one library that another one lacks.
std::vector<std::string> lacking(const std::vector<std::string>& versions,
                                 const std::vector<std::string>& present) {
    std::vector<std::string> result;
    std::copy_if(versions.begin(), versions.end(), std::back_inserter(result), [&](const auto& version) {
        return std::find(present.begin(), present.end(), version) == present.end();
    });
    return result;
}

/// Programs of the container may need symbol versions that the host's library lacks, whatever the version
/// numbers are; private ones are for libraries of the same package only ("IBVERBS_PRIVATE_34").
bool lacksDefinitions(const HostLibrary& host, const ContainerLibrary& container) {
    const auto missing = lacking(container.versionDefinitions, host.elf.versionDefinitions);
    return !std::all_of(missing.begin(), missing.end(), isPrivate);
}

/// Whether the host's library has private symbol versions that the container's lacks: the host's libraries
/// of the same package, such as the drivers of its network, work with no other.
bool isPartOfPackage(const HostLibrary& host, const ContainerLibrary& container) {
    const auto own = lacking(host.elf.versionDefinitions, container.versionDefinitions);
    return std::any_of(own.begin(), own.end(), isPrivate);
}

class Planner {
public:
    explicit Planner(const InjectionRequest& theRequest) : request(theRequest) {}

    InjectionPlan make() {
        for (const auto& library : request.mpiLibraries) {
            planMpiLibrary(library);
        }
        findOtherMpis();
        if (!plan.isMpiFound) {
            plan.problems.insert(plan.problems.begin(), "No MPI libraries found in the container");
        }
        settleConflicts();
        warnOfOlderHost();
        for (const auto& library : request.dependencies) {
            if (!isPlanned(library)) {
                planDependency(library);
            }
        }
        addNeeded();
        return std::move(plan);
    }

private:
    std::vector<const ContainerLibrary*> counterparts(const std::string& linkerName) const {
        std::vector<const ContainerLibrary*> result;
        for (const auto& library : request.containerLibraries) {
            if (library.name.linkerName == linkerName) {
                result.push_back(&library);
            }
        }
        return result;
    }

    bool isReplaced(const ContainerLibrary& library) const {
        return std::any_of(plan.injections.begin(), plan.injections.end(), [&](const Injection& other) {
            const auto& paths = other.destinations;
            return std::find(paths.begin(), paths.end(), library.path) != paths.end();
        });
    }

    /// Counterparts under other names of the family that match no other host library.
    std::vector<const ContainerLibrary*> relatives(const HostLibrary& host) const {
        std::vector<const ContainerLibrary*> result;
        for (const auto& library : request.containerLibraries) {
            const auto& name = library.name.linkerName;
            const auto isNamedByHost = [&](const HostLibrary& other) {
                return other.name.linkerName == name;
            };
            if (isSameLibrary(host.name.linkerName, name) && !isReplaced(library) &&
                std::none_of(request.mpiLibraries.begin(), request.mpiLibraries.end(), isNamedByHost)) {
                result.push_back(&library);
            }
        }
        return result;
    }

    void planMpiLibrary(const HostLibrary& host) {
        Injection injection{.library = host, .destinations = {}, .links = linksOf(host)};
        const auto same = counterparts(host.name.linkerName);
        const auto others = relatives(host);
        plan.isMpiFound = plan.isMpiFound || !same.empty() || !others.empty();
        const bool isReplacingSame = matchAll(host, same, true, injection);
        // If the host's own name decides, counterparts with another distribution's name are no obstacle.
        const bool isReplacing = matchAll(host, others, !isReplacingSame, injection) || isReplacingSame;
        if (isReplacing) {
            plan.injections.push_back(std::move(injection));
        }
    }

    /// Adds the replaceable libraries to the injection, and the others to `conflicts`.
    bool matchAll(const HostLibrary& host, const std::vector<const ContainerLibrary*>& libraries,
                  bool isDecisive, Injection& injection) {
        bool isReplacing = false;
        for (const auto* library : libraries) {
            const auto match = compare(host, *library, request.policy);
            if (match == AbiMatch::incompatible) {
                addConflict(host, *library, isDecisive);
                continue;
            }
            if (match == AbiMatch::hostMinorOlder) {
                older.push_back(cat(describe(host.path, host.name), " is older than container's MPI library ",
                                    describe(library->path, library->name)));
            }
            isReplacing = true;
            injection.destinations.push_back(library->path);
            if (library->name.linkerName != host.name.linkerName) {
                auto names = library->name.linkNames();
                names.resize(std::min<std::size_t>(names.size(), 2));
                for (auto& name : names) {
                    appendOnce(injection.links, std::move(name));
                }
            }
        }
        return isReplacing;
    }

    std::string describeUse(const ContainerLibrary& library) const {
        return cat(describe(library.path, library.name),
                   library.isUsed ? cat(", which ", printable(request.program), " uses") : "");
    }

    void addConflict(const HostLibrary& host, const ContainerLibrary& library, bool isDecisive) {
        const auto shown = describeUse(library);
        if (!library.name.majorNumber()) {
            conflicts.push_back(
                {&library, library.isUsed, isDecisive,
                 cat("The container's MPI library has no version number in its file names and SONAME: ",
                     shown)});
            return;
        }
        const bool isSameAbi = library.name.majorNumber() == host.name.majorNumber();
        conflicts.push_back({&library, library.isUsed || (isSameAbi && isDecisive), isDecisive,
                             cat("Host's MPI library ", describe(host.path, host.name), " is not ",
                                 request.policy == AbiPolicy::strict ? "strictly " : "",
                                 "ABI compatible with container's MPI library ", shown)});
    }

    /// The MPIs of the image that are no counterpart of any host library, as those of another ABI. The
    /// program decides whether they matter: MPICH 5 comes with both ABIs.
    void findOtherMpis() {
        const auto& all = request.containerLibraries;
        const bool isProgramServed = std::any_of(
            all.begin(), all.end(),
            [&](const ContainerLibrary& library) { return library.isUsed && isReplaced(library); });
        const auto& host = request.mpiLibraries.front();
        for (const auto& library : all) {
            if (!isMpi(library.name.linkerName) || isCounterpart(request, library.name.linkerName)) {
                continue;
            }
            plan.isMpiFound = true;
            if (isProgramServed) {
                plan.notes.push_back(cat("The container's ", describe(library.path, library.name),
                                         " is not replaced: the host has no such library"));
                continue;
            }
            conflicts.push_back(
                {&library, library.isUsed, true,
                 cat("Host's MPI library ", describe(host.path, host.name),
                     " is not ABI compatible with container's MPI library ", describeUse(library))});
        }
    }

    /// An image may contain another MPI beside the replaced one.
    void settleConflicts() {
        const bool isAnyReplaced = !plan.injections.empty();
        std::vector<std::string> kept;
        for (const auto& conflict : conflicts) {
            if (isReplaced(*conflict.library)) {
                continue;
            }
            if (conflict.isProblem || (!isAnyReplaced && conflict.isDecisive)) {
                appendOnce(plan.problems, conflict.text);
                continue;
            }
            // A name without version is a link for compilers, or a plugin.
            if (conflict.library->name.majorNumber()) {
                appendOnce(kept, describe(conflict.library->path, conflict.library->name));
            }
        }
        if (isAnyReplaced && !kept.empty()) {
            plan.warnings.push_back(cat(
                "Another MPI in the container is not replaced, because the host's is not ABI compatible: ",
                join(kept, ", "), ". Programs that use it run without the host's MPI"));
        }
    }

    void warnOfOlderHost() {
        if (!older.empty()) {
            plan.warnings.push_back(cat("Partial ABI compatibility detected: host's MPI library ",
                                        join(older, "; "),
                                        ". Programs that use the newer functions will fail"));
        }
    }

    bool isPlanned(const HostLibrary& library) const {
        return std::any_of(plan.injections.begin(), plan.injections.end(),
                           [&](const Injection& other) { return other.library.path == library.path; });
    }

    bool isNeeded(const HostLibrary& library) const {
        return std::any_of(plan.injections.begin(), plan.injections.end(), [&](const Injection& other) {
            const auto& needed = other.library.elf.needed;
            return std::find(needed.begin(), needed.end(), library.soname()) != needed.end();
        });
    }

    /// Adds MPI libraries without counterpart in the container, if other libraries need them.
    void addNeeded() {
        std::vector<const HostLibrary*> left;
        for (const auto& library : request.mpiLibraries) {
            if (!isPlanned(library)) {
                left.push_back(&library);
            }
        }
        for (auto found = left.begin(); found != left.end();) {
            found = std::find_if(left.begin(), left.end(),
                                 [&](const auto* library) { return isNeeded(*library); });
            if (found != left.end()) {
                plan.injections.push_back(
                    {.library = **found,
                     .method = Method::add,
                     .destinations = {cat(directoryOfAddedLibraries, (*found)->fileName())},
                     .links = linksOf(**found)});
                left.erase(found);
                found = left.begin();
            }
        }
        for (const auto* library : left) {
            if (counterparts(library->name.linkerName).empty() && relatives(*library).empty()) {
                plan.notes.push_back(cat("The host's ", printable(library->path),
                                         " is left out: the container has no such library"));
            }
        }
    }

    void planDependency(const HostLibrary& host) {
        Injection injection{.library = host, .role = Role::dependency, .destinations = {}, .links = {}};
        std::set<std::string, std::less<>> keptNames;
        for (const auto* library : counterparts(host.name.linkerName)) {
            const bool isUnversioned = host.name.version.empty() && library->name.version.empty();
            const auto match =
                isUnversioned ? AbiMatch::compatible : compare(host, *library, AbiPolicy::full);
            const bool isNewer = match != AbiMatch::compatible || lacksDefinitions(host, *library);
            if (!isNewer || (match != AbiMatch::incompatible && isPartOfPackage(host, *library))) {
                injection.destinations.push_back(library->path);
                if (isNewer) {
                    plan.warnings.push_back(cat("The container's ", describe(library->path, library->name),
                                                " is replaced, although it is newer than the host's ",
                                                describe(host.path, host.name),
                                                ", because the host's network drivers need theirs"));
                }
                continue;
            }
            keptNames.insert(library->names.begin(), library->names.end());
            keptNames.insert(host.name.linkerName);
            if (match != AbiMatch::incompatible) {
                keptNames.insert(host.soname());
                plan.notes.push_back(cat("The container's ", describe(library->path, library->name),
                                         " is newer than the host's ", describe(host.path, host.name),
                                         " and is kept"));
            } else {
                plan.notes.push_back(cat("The container's ", describe(library->path, library->name),
                                         " is another version than the host's ",
                                         describe(host.path, host.name), ", which is added beside it"));
            }
        }
        if (injection.destinations.empty()) {
            injection.method = Method::add;
            injection.destinations.push_back(cat(directoryOfAddedLibraries, host.fileName()));
        }
        for (auto& name : linksOf(host)) {
            if (!keptNames.contains(name)) {
                injection.links.push_back(std::move(name));
            }
        }
        plan.injections.push_back(std::move(injection));
    }

    static std::vector<std::string> linksOf(const HostLibrary& host) {
        const auto fileVersion = parseLibraryName(host.path);
        auto links = fileVersion ? fileVersion->linkNames() : std::vector{host.fileName()};
        if (host.elf.soname && host.elf.soname->find('/') == std::string::npos && !host.elf.soname->empty()) {
            appendOnce(links, *host.elf.soname);
        }
        return links;
    }

    const InjectionRequest& request;
    InjectionPlan plan;
    /// A library of the container that the host's MPI does not fit.
    struct Conflict {
        const ContainerLibrary* library;
        bool isProblem;   ///< whatever else is replaced
        bool isDecisive;  ///< if nothing else is replaced
        std::string text;
    };
    std::vector<Conflict> conflicts;
    std::vector<std::string> older;  ///< host libraries and what they replace
};

}  // namespace

bool isCounterpart(const InjectionRequest& request, std::string_view linkerName) {
    const auto isSame = [&](const HostLibrary& library) {
        return isSameLibrary(library.name.linkerName, linkerName);
    };
    const auto isNamed = [&](const HostLibrary& library) { return library.name.linkerName == linkerName; };
    return std::any_of(request.mpiLibraries.begin(), request.mpiLibraries.end(), isSame) ||
           std::any_of(request.dependencies.begin(), request.dependencies.end(), isNamed);
}

InjectionPlan planInjection(const InjectionRequest& request) {
    return Planner(request).make();
}

}  // namespace sarus::hooks::mpi
