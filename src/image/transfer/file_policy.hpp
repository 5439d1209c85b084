#pragma once

#include <optional>
#include <string>

#include "image/transfer/skopeo.hpp"

namespace sarus::image {

/// The policy file in effect, by the rules of policyOptions. Throws Error as that does.
std::string policyFile(const std::optional<PolicyChoice>& policy, const std::string& home,
                       const std::string& systemPolicy = "/etc/containers/policy.json");

/// Whether a policy (containers-policy.json(5)) accepts an unsigned image file from `path` through a
/// transport ("docker-archive", "oci-archive" or "oci"). `path`: absolute and resolved, "" if unknown. Throws
/// Error if the text is not a policy.
bool policyAccepts(const std::string& policyText, const std::string& transport, const std::string& path);

/// Whether a policy accepts all images of a transport ("docker": registries) as they are. Throws Error if the
/// text is not a policy.
bool policyAcceptsAll(const std::string& policyText, const std::string& transport);

}  // namespace sarus::image
