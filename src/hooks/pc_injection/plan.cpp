#include "hooks/pc_injection/plan.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace sarus::hooks::pc_injection {

namespace {

std::string describe(const std::string& path, const LibraryName& name) {
    return cat(printable(path), " (", printable(name.text()), ')');
}

/// Adds the library beside those of the container.
void add(Injection& injection) {
    const auto& host = injection.library;
    injection.method = Method::add;
    injection.links = {host.fileName()};
    const auto offer = [&](const std::string& name) {
        const bool isName = !name.empty() && name.find('/') == std::string::npos;
        if (isName &&
            std::find(injection.links.begin(), injection.links.end(), name) == injection.links.end()) {
            injection.links.push_back(name);
        }
    };
    offer(host.soname());
    if (host.name.majorNumber()) {
        offer(host.name.text());
    }
    for (const auto& name : injection.links) {
        injection.destinations.push_back(cat(directoryOfAdded, '/', name));
    }
}

void replace(const std::vector<ContainerLibrary>& libraries, Injection& injection, InjectionPlan& plan) {
    const auto& host = injection.library;
    const auto shown = describe(host.path, host.name);
    bool hasVersion = false;
    std::vector<std::string> unversioned;
    for (const auto& library : libraries) {
        if (library.name.linkerName != host.name.linkerName) {
            continue;
        }
        hasVersion = hasVersion || library.name.majorNumber();
        if (!library.name.majorNumber()) {
            unversioned.push_back(printable(library.path));
        }
        const auto match = host.name.majorNumber() ? compareAbi(host.name, library.name, AbiPolicy::major)
                                                   : AbiMatch::compatible;
        if (match != AbiMatch::incompatible) {
            injection.destinations.push_back(library.path);
        } else if (library.name.majorNumber()) {
            plan.warnings.push_back(cat("The container's ", describe(library.path, library.name),
                                        " is not ABI compatible with ", shown, " and stays"));
        }
        if (match == AbiMatch::hostMinorOlder) {
            plan.warnings.push_back(cat("Partial ABI compatibility detected: ", shown,
                                        " is older than the container's ",
                                        describe(library.path, library.name)));
        }
    }
    if (host.name.majorNumber() && !hasVersion && !unversioned.empty()) {
        plan.problems.push_back(cat("The container's ", join(unversioned, ", "),
                                    " has no version number to compare with ", shown));
    }
}

}  // namespace

InjectionPlan planInjection(const Settings& settings, const std::vector<ContainerLibrary>& libraries) {
    InjectionPlan plan;
    const auto inject = [&](const HostLibrary& host, Role role) {
        Injection injection{.library = host, .role = role, .destinations = {}, .links = {host.soname()}};
        if (role == Role::mpi) {
            replace(libraries, injection, plan);
        }
        if (injection.destinations.empty()) {
            add(injection);
        }
        plan.injections.push_back(std::move(injection));
    };
    for (const auto& host : settings.primary) {
        inject(host, Role::mpi);
    }
    for (const auto& host : settings.dependency) {
        inject(host, Role::dependency);
    }
    return plan;
}

std::string libraryPathWith(std::string_view current) {
    std::vector<std::string> entries{std::string(directoryOfAdded)};
    for (auto& entry : split(current, ':')) {
        if (!entry.empty() && std::find(entries.begin(), entries.end(), entry) == entries.end()) {
            entries.push_back(std::move(entry));
        }
    }
    return join(entries, ":");
}

}  // namespace sarus::hooks::pc_injection
