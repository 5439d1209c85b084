#include "hooks/mpi/injection_plan.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "hooks/mpi/library_family.hpp"

namespace sarus::hooks::mpi {

namespace {

constexpr std::string_view kDirectoryOfAddedLibraries = "/usr/lib/";

void appendOnce(std::vector<std::string>& list, std::string element) {
    if (std::find(list.begin(), list.end(), element) == list.end()) {
        list.push_back(std::move(element));
    }
}

/// The path with the version that was found through its links: "/usr/lib/libmpi.so (libmpi.so.12.1.8)".
std::string describe(const std::string& path, const LibraryName& name) {
    const auto full = name.text();
    return path.ends_with(cat('/', full)) ? printable(path) : cat(printable(path), " (", printable(full), ')');
}

AbiMatch compare(const HostLibrary& host, const ContainerLibrary& container, AbiPolicy policy) {
    auto name = host.name;
    name.linkerName = container.name.linkerName;
    return compareAbi(name, container.name, policy);
}

/// Programs of the container may need symbol versions that the host's library does not have, whatever the numbers say.
bool lacksDefinitions(const HostLibrary& host, const ContainerLibrary& container) {
    const auto& present = host.elf.versionDefinitions;
    return std::any_of(container.versionDefinitions.begin(), container.versionDefinitions.end(),
                       [&](const auto& version) { return std::find(present.begin(), present.end(), version) == present.end(); });
}

class Planner {
public:
    explicit Planner(const InjectionRequest& theRequest) : request(theRequest) {}

    InjectionPlan make() {
        bool isAnyMapped = false;
        for (const auto& library : request.mpiLibraries) {
            isAnyMapped = planMpiLibrary(library) || isAnyMapped;
        }
        if (!isAnyMapped) {
            plan.problems.insert(plan.problems.begin(), "No MPI libraries found in the container");
        }
        settleIncompatibilities();
        for (const auto& library : request.dependencies) {
            const auto isPlanned = [&](const Injection& other) { return other.library.path == library.path; };
            if (std::none_of(plan.injections.begin(), plan.injections.end(), isPlanned)) {
                planDependency(library);
            }
        }
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

    /// Counterparts under other names of the family, which no other host library stands for.
    std::vector<const ContainerLibrary*> relatives(const HostLibrary& host) const {
        std::vector<const ContainerLibrary*> result;
        for (const auto& library : request.containerLibraries) {
            const auto& name = library.name.linkerName;
            const auto isNamedByHost = [&](const HostLibrary& other) { return other.name.linkerName == name; };
            const auto isReplaced = [&](const Injection& other) {
                const auto& paths = other.destinations;
                return std::find(paths.begin(), paths.end(), library.path) != paths.end();
            };
            if (isSameLibrary(host.name.linkerName, name) &&
                std::none_of(request.mpiLibraries.begin(), request.mpiLibraries.end(), isNamedByHost) &&
                std::none_of(plan.injections.begin(), plan.injections.end(), isReplaced)) {
                result.push_back(&library);
            }
        }
        return result;
    }

    /// Returns whether the container has the library at all.
    bool planMpiLibrary(const HostLibrary& host) {
        if (!host.name.majorNumber()) {
            plan.problems.push_back(
                cat("The host's MPI library ", printable(host.path), " has no version number in its file names and SONAME"));
        }
        Injection injection{.library = host, .destinations = {}, .links = linksOf(host)};
        const auto same = counterparts(host.name.linkerName);
        const auto others = relatives(host);
        const bool isReplacingSame = matchAll(host, same, injection);
        std::vector<std::string> incompatible;
        std::swap(incompatible, conflicts);
        const bool isReplacingOther = matchAll(host, others, injection);
        // What another distribution's name stands for counts only where it decides something.
        if (same.empty() && !isReplacingOther) {
            incompatible.insert(incompatible.end(), conflicts.begin(), conflicts.end());
        }
        conflicts.clear();
        for (auto& conflict : incompatible) {
            incompatibilities.push_back(std::move(conflict));
        }
        if (isReplacingSame || isReplacingOther) {
            isStandardAbiReplaced = isStandardAbiReplaced || isStandardAbi(host.name.linkerName);
        } else if (!incompatible.empty()) {
            return true;  // left as it is; settleIncompatibilities decides whether that is a problem
        } else if (!(same.empty() && others.empty())) {
            plan.problems.push_back(cat("The container's MPI library ",
                                        printable(same.empty() ? others.front()->path : same.front()->path),
                                        " has no version number in its file names and SONAME"));
            return true;
        } else {
            injection.method = Method::add;
            injection.destinations.push_back(cat(kDirectoryOfAddedLibraries, host.fileName()));
        }
        plan.injections.push_back(std::move(injection));
        return !(same.empty() && others.empty());
    }

    /// Adds the libraries that can be replaced to the injection, and the others to `conflicts`.
    bool matchAll(const HostLibrary& host, const std::vector<const ContainerLibrary*>& libraries, Injection& injection) {
        bool isReplacing = false;
        for (const auto* library : libraries) {
            if (!library->name.majorNumber() || !host.name.majorNumber()) {
                continue;
            }
            const auto match = compare(host, *library, request.policy);
            if (match == AbiMatch::incompatible) {
                conflicts.push_back(cat("Host's MPI library ", describe(host.path, host.name), " is not ",
                                        request.policy == AbiPolicy::strict ? "strictly " : "",
                                        "ABI compatible with container's MPI library ", describe(library->path, library->name)));
                continue;
            }
            if (match == AbiMatch::hostMinorOlder) {
                plan.warnings.push_back(cat("Partial ABI compatibility: host's MPI library ", describe(host.path, host.name),
                                            " is older than container's MPI library ", describe(library->path, library->name),
                                            ". Programs which use the newer functions will fail"));
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

    /// Programs for the standard ABI do not care which other MPI libraries the container has.
    void settleIncompatibilities() {
        auto& list = isStandardAbiReplaced ? plan.warnings : plan.problems;
        for (const auto& text : incompatibilities) {
            list.push_back(isStandardAbiReplaced ? cat(text, ": only programs for the standard ABI of MPI 5 use the host's MPI")
                                                 : text);
        }
    }

    void planDependency(const HostLibrary& host) {
        Injection injection{.library = host, .role = Role::dependency, .destinations = {}, .links = {}};
        std::set<std::string, std::less<>> keptNames;
        for (const auto* library : counterparts(host.name.linkerName)) {
            const bool isUnversioned = host.name.version.empty() && library->name.version.empty();
            const auto match = isUnversioned ? AbiMatch::compatible : compare(host, *library, AbiPolicy::full);
            if (match == AbiMatch::compatible && !lacksDefinitions(host, *library)) {
                injection.destinations.push_back(library->path);
                continue;
            }
            keptNames.insert(library->names.begin(), library->names.end());
            keptNames.insert(host.name.linkerName);
            if (match != AbiMatch::incompatible) {
                keptNames.insert(host.soname());
                plan.notes.push_back(cat("The container's ", describe(library->path, library->name), " is newer than the host's ",
                                         describe(host.path, host.name), " and is kept"));
            } else {
                plan.notes.push_back(cat("The container's ", describe(library->path, library->name),
                                         " is another version than the host's ", describe(host.path, host.name),
                                         ", which is added beside it"));
            }
        }
        if (injection.destinations.empty()) {
            injection.method = Method::add;
            injection.destinations.push_back(cat(kDirectoryOfAddedLibraries, host.fileName()));
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
    std::vector<std::string> conflicts;
    std::vector<std::string> incompatibilities;
    bool isStandardAbiReplaced = false;
};

}  // namespace

InjectionPlan planInjection(const InjectionRequest& request) {
    return Planner(request).make();
}

}  // namespace sarus::hooks::mpi
