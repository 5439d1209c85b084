#include "hooks/kit/injection/version_check.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "hooks/kit/linker_cache/ld_cache.hpp"

namespace sarus::hooks {

namespace {

using Versions = std::vector<std::string>;

bool contains(const Versions& list, const std::string& element) {
    return std::find(list.begin(), list.end(), element) != list.end();
}

/// "GLIBC_" of "GLIBC_2.34".
std::string familyOf(const std::string& version) {
    return version.substr(0, std::min(version.find_first_of("0123456789"), version.size()));
}

std::string newestOfFamily(const Versions& versions, const std::string& family) {
    std::string best;
    for (const auto& version : versions) {
        const bool isMember = version.starts_with(family) && version.size() > family.size();
        if (isMember && (best.empty() || compareLibraryNames(version, best) > 0)) {
            best = version;
        }
    }
    return best;
}

class Checker {
public:
    Checker(const std::vector<Injection>& theInjections, const ProviderLookup& theLookup)
        : injections(theInjections), lookup(theLookup) {}

    std::vector<MissingNeed> check() {
        for (const auto& injection : injections) {
            const auto& elf = injection.library.elf;
            for (const auto& need : elf.versionNeeds) {
                checkNeed(injection.library, need.file, need.versions);
            }
            for (const auto& name : elf.needed) {
                const auto isVersioned = [&](const VersionNeed& need) { return need.file == name; };
                if (std::none_of(elf.versionNeeds.begin(), elf.versionNeeds.end(), isVersioned)) {
                    checkNeed(injection.library, name, {});
                }
            }
        }
        return std::move(missing);
    }

private:
    /// The injected library that the dynamic linker finds by this name. What is added beside a library of the
    /// container has no link of a name that the container keeps.
    const HostLibrary* findInjected(const std::string& name) const {
        for (const auto& injection : injections) {
            const auto& library = injection.library;
            const bool isReplacing = injection.method == Method::replace;
            if (contains(injection.links, name) ||
                (isReplacing && (library.soname() == name || library.fileName() == name))) {
                return &library;
            }
        }
        return nullptr;
    }

    void checkNeed(const HostLibrary& requester, const std::string& name, const Versions& versions) {
        Versions present;
        const auto* injected = findInjected(name);
        if (injected != nullptr) {
            present = injected->elf.versionDefinitions;
            if (present.empty() || std::all_of(versions.begin(), versions.end(),
                                               [&](auto& v) { return contains(present, v); })) {
                return;
            }
        }
        const auto inContainer = lookup(requester, name);
        if (inContainer) {
            if (inContainer->empty()) {
                return;
            }
            present.insert(present.end(), inContainer->begin(), inContainer->end());
        }
        const bool isFound = injected != nullptr || inContainer;
        if (!isFound && versions.empty()) {
            add(requester, name, isFound, {}, present);
        }
        for (const auto& version : versions) {
            if (!contains(present, version)) {
                add(requester, name, isFound, version, present);
            }
        }
    }

    void add(const HostLibrary& requester, const std::string& name, bool isFound, const std::string& version,
             const Versions& present) {
        const auto isSame = [&](const MissingNeed& need) { return need.provider == name; };
        auto entry = std::find_if(missing.begin(), missing.end(), isSame);
        if (entry == missing.end()) {
            entry = missing.insert(
                missing.end(),
                MissingNeed{name, isFound, {}, {}, newestOfFamily(present, familyOf(version))});
        }
        if (!version.empty() && !contains(entry->versions, version)) {
            entry->versions.push_back(version);
        }
        if (!contains(entry->neededBy, requester.fileName())) {
            entry->neededBy.push_back(requester.fileName());
        }
    }

    const std::vector<Injection>& injections;
    const ProviderLookup& lookup;
    std::vector<MissingNeed> missing;
};

}  // namespace

std::vector<MissingNeed> findMissingNeeds(const std::vector<Injection>& injections,
                                          const ProviderLookup& lookup) {
    return Checker(injections, lookup).check();
}

bool isFatal(const MissingNeed& need) {
    return !need.versions.empty();
}

std::string describe(const MissingNeed& need) {
    auto text = need.versions.empty()
                    ? printable(need.provider)
                    : cat(printable(join(need.versions, ", ")), " of ", printable(need.provider));
    if (!need.isProviderFound) {
        text += " (there is no such library)";
    } else if (!need.newestPresent.empty()) {
        text += cat(" (which goes up to ", printable(need.newestPresent), ')');
    }
    return cat(text, ", needed by ", printable(join(need.neededBy, ", ")));
}

}  // namespace sarus::hooks
