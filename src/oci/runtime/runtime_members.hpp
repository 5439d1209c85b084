#pragma once

#include <string_view>

#include "oci/runtime/runtime_config.hpp"

namespace sarus::oci {

// The members of objects of config.json: calls `put(name, value)` for each member present, in the order of
// writing, both for serializeRuntimeConfig() and for configurations of other programs.

template <typename Put>
void forEachMember(const RuntimeMount& mount, Put put) {
    put("destination", mount.destination);
    if (mount.type) {
        put("type", *mount.type);
    }
    put("source", mount.source);
    if (mount.options) {
        put("options", *mount.options);
    }
}

template <typename Put>
void forEachMember(const RuntimeDeviceRule& rule, Put put) {
    put("allow", rule.allow);
    if (rule.type != 'a') {
        put("type", std::string_view(&rule.type, 1));
    }
    if (rule.major) {
        put("major", *rule.major);
    }
    if (rule.minor) {
        put("minor", *rule.minor);
    }
    put("access", rule.access);
}

template <typename Put>
void forEachMember(const RuntimeHook& hook, Put put) {
    put("path", hook.path);
    if (!hook.args.empty()) {
        put("args", hook.args);
    }
    if (!hook.env.empty()) {
        put("env", hook.env);
    }
    if (hook.timeout) {
        put("timeout", *hook.timeout);
    }
}

}  // namespace sarus::oci
