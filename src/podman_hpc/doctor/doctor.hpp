#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/node_checks.hpp"
#include "podman_hpc/config/settings.hpp"

namespace sarus::podman_hpc {

using doctor::Finding;
using Findings = std::vector<Finding>;

/// What the checks look at.
struct Patient {
    const Settings& settings;
    SettingValue squash;  ///< the squash store
    const Surroundings& from;
    std::function<long(const std::string& path)> filesystem = doctor::filesystemOf;

    const std::string& squashDir() const { return squash.words.front(); }
};

/// Carries out all checks, with the rights of the caller. Changes nothing.
Findings examine(const Patient& patient);

/// What Podman needs when an account gets subordinate ids.
inline constexpr std::string_view migrateAfterNewIds = "; then run podman-hpc system migrate";

// The checks by topic.
Finding checkOwnDirectory(Key key, const Patient& patient);
Finding checkSquashDirectory(const Patient& patient);
Finding checkRuntimeDirectory(const Patient& patient);
/// The images of the squash store, and what interrupted migrations have left there.
Findings checkImages(const Patient& patient);

}  // namespace sarus::podman_hpc
