#include "image/transfer/file_policy.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "oci/json/json_lines.hpp"

namespace sarus::image {

namespace {

using Json = nlohmann::json;

/// The requirements for the narrowest scope that fits.
const Json* requirements(const Json& scopes, std::string path, bool hasPaths) {
    while (hasPaths && !path.empty()) {
        if (const auto found = scopes.find(path); found != scopes.end()) {
            return &*found;
        }
        path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
    const auto general = scopes.find("");
    return general != scopes.end() ? &*general : nullptr;
}

bool needsNothing(const Json& list) {
    return list.is_array() && !list.empty() &&
           std::all_of(list.begin(), list.end(), [](const Json& requirement) {
               return requirement.is_object() && requirement.size() == 1 &&
                      requirement.value("type", Json()) == "insecureAcceptAnything";
           });
}

Json parsePolicy(const std::string& text) {
    auto policy = Json::parse(text, nullptr, false);
    if (!policy.is_object() || !policy.contains("default")) {
        throw Error("The containers policy has no \"default\"");
    }
    return policy;
}

/// Skopeo refuses a policy with anything else in it, or with one member twice: it may be meant to demand
/// more.
bool hasOnlyKnownMembers(const Json& policy, const std::string& text) {
    const auto transports = policy.find("transports");
    const bool hasTransports = transports != policy.end();
    return policy.size() == (hasTransports ? 2 : 1) && oci::findJsonLines(text).twice.empty() &&
           (!hasTransports ||
            (transports->is_object() && std::all_of(transports->begin(), transports->end(),
                                                    [](const Json& scopes) { return scopes.is_object(); })));
}

/// nullptr if the policy has no rules of its own for the transport.
const Json* scopesOf(const Json& policy, const std::string& transport) {
    const auto transports = policy.find("transports");
    if (transports == policy.end() || !transports->is_object()) {
        return nullptr;
    }
    const auto scopes = transports->find(transport);
    return scopes != transports->end() && scopes->is_object() ? &*scopes : nullptr;
}

}  // namespace

std::string policyFile(const std::optional<PolicyChoice>& policy, const std::string& home,
                       const std::string& systemPolicy) {
    const auto options = policyOptions(policy, home, systemPolicy);
    if (!options.empty()) {
        return options.back();
    }
    const auto ofUser = cat(home, "/.config/containers/policy.json");
    return !home.empty() && pathExists(ofUser) ? ofUser : systemPolicy;
}

bool policyAccepts(const std::string& policyText, const std::string& transport, const std::string& path) {
    const auto policy = parsePolicy(policyText);
    if (const auto* scopes = scopesOf(policy, transport)) {
        // Archives of docker save have only the general scope.
        if (const auto* chosen = requirements(*scopes, path, transport != "docker-archive")) {
            return needsNothing(*chosen);
        }
    }
    return needsNothing(policy["default"]);
}

bool policyAcceptsAll(const std::string& policyText, const std::string& transport) {
    const auto policy = parsePolicy(policyText);
    const auto* scopes = scopesOf(policy, transport);
    return hasOnlyKnownMembers(policy, policyText) && needsNothing(policy["default"]) &&
           (scopes == nullptr || std::all_of(scopes->begin(), scopes->end(), needsNothing));
}

}  // namespace sarus::image
