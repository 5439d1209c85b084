#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"

namespace sarus::oci {

constexpr std::string_view defaultInventoryDirectory = "/etc/oci-decorator/oci-decorator.d";

/// What a feature of a vendor's driver brings into a container. All paths are absolute, normal (no "." or "..") and the same on
/// the host and in the container.
struct InventoryFeature {
    std::vector<std::string> devices;  ///< device nodes below /dev
    std::vector<std::string> binaries;
    std::vector<std::string> libraries;
    std::vector<std::string> directories;  ///< are made, empty, if they are missing
    std::vector<std::string> miscellaneous;
    bool operator==(const InventoryFeature&) const = default;
};

/// One file of the configuration directory: the inventory of one vendor, in the format of oci-decorator.
struct Inventory {
    std::string file;                   ///< for messages
    std::string version;                ///< of the vendor's driver; only shown
    std::optional<LogLevel> logLevel;   ///< how much is said about this vendor
    std::string activationFlag;         ///< the container's variable that asks for it
    std::vector<std::string> features;  ///< `driver_feature`: those which exist, in the order in which they are applied
    std::map<std::string, InventoryFeature, std::less<>> contents;
};

/// `activation_flag`, `driver_feature` and `inventory` are required. Throws Error which names the file and the key, also
/// for unknown keys: a misspelt list would be a library that is silently missing.
Inventory parseInventory(std::string_view text, const std::string& file);

/// Reads the files `*.cfg` and `*.json` of `directory` by name in the order of bytes; hidden files are left out. With
/// `mustBeRoots` nobody but root may be able to write the directory and the files, because they say which files of the host root
/// gives away; a reader with its user's rights alone need not ask for that. Throws Error, with errno ENOENT if there is
/// no such directory; also if two files have the same flag.
std::vector<Inventory> readInventories(const std::string& directory, bool mustBeRoots);

/// The features that the value of the activation flag asks for, in the order of the inventory: all of them for `all` and for
/// an empty value; none for `none`, `void` and `0`; else those of a list separated by commas. Throws Error for a
/// feature which the inventory does not have, and for a value of more than 4,096 bytes.
std::vector<std::string> selectFeatures(const Inventory& inventory, std::string_view value);

/// The features together, with each path once.
InventoryFeature mergeFeatures(const Inventory& inventory, const std::vector<std::string>& features);

}  // namespace sarus::oci
