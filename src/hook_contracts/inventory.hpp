#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config_files.hpp"
#include "base/log.hpp"

namespace sarus::hook_contracts {

/// What a feature of a vendor's driver adds to a container. All paths are absolute, normal (no "." or "..")
/// and the same on the host and in the container.
struct InventoryFeature {
    std::vector<std::string> devices;  ///< device nodes below /dev
    std::vector<std::string> binaries;
    std::vector<std::string> libraries;
    std::vector<std::string> directories;  ///< created empty if missing
    std::vector<std::string> miscellaneous;
    bool operator==(const InventoryFeature&) const = default;
};

/// One file of the configuration directory: the inventory of one vendor, in the format of oci-decorator.
struct Inventory {
    std::string file;                  ///< for messages
    std::string version;               ///< of the vendor's driver; for display only
    std::optional<LogLevel> logLevel;  ///< verbosity for this vendor
    std::string activationFlag;        ///< the container's variable that requests it
    /// `driver_feature`: the existing ones, in the order in which they are applied.
    std::vector<std::string> features;
    std::map<std::string, InventoryFeature, std::less<>> contents;
};

/// `activation_flag`, `driver_feature` and `inventory` are required. Throws Error naming the file and the
/// key, also for unknown keys: a misspelt list would silently omit a library.
Inventory parseInventory(std::string_view text, const std::string& file);

/// An inventory that cannot be used.
struct BrokenInventory {
    std::string file;
    std::string activationFlag;  ///< as far as the file shows it, otherwise empty
    std::string problem;         ///< one line that names the file
};

struct Inventories {
    std::vector<Inventory> usable;  ///< in the order of their files
    std::vector<BrokenInventory> broken;
};

/// The inventories in the files of the configuration directory. Invalid files and files with the same flag
/// are broken: they affect only the containers that request them.
Inventories parseInventories(const std::vector<ConfigFile>& files);

/// Whether the value of the activation flag requests nothing: `none`, `void`, `0`, `false`, `no` or `off`,
/// ignoring case.
bool isSwitchedOff(std::string_view value);

/// The features requested by the value of the activation flag, in the order of the inventory: all of them for
/// an empty value and for `all`, `1`, `true`, `yes` and `on`, ignoring case; none if isSwitchedOff();
/// otherwise those of a comma-separated list. Throws Error for a feature that the inventory lacks, and for a
/// value of more than 4,096 bytes.
std::vector<std::string> selectFeatures(const Inventory& inventory, std::string_view value);

/// The features together, with each path once.
InventoryFeature mergeFeatures(const Inventory& inventory, const std::vector<std::string>& features);

}  // namespace sarus::hook_contracts
