#pragma once

#include <optional>
#include <string>

namespace sarus::node {

/// Throws Error if a label, the value of `key` in sarus.json, is unusable: this kernel has no SELinux, or its
/// policy does not know the label. Some runtimes would start the container without the label. If the policy
/// does not let this process ask, the kernel decides when the label is used. Does nothing without a label.
void checkSelinuxLabel(const std::optional<std::string>& label, const char* key);

/// Mount options that give all files the label `selinuxMountLabel` of the configuration, if set. The label is
/// quoted: labels with several categories contain commas (mount(8), option context).
std::string withMountLabel(std::string options, const std::optional<std::string>& label);

}  // namespace sarus::node
