#include "oci/runtime/device_request.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::oci {

namespace {

/// Empty if it is a combination of "rwm".
std::string findProblem(std::string_view access) {
    constexpr std::string_view letters = "rwm";
    const auto shown = cat("'", printable(access), "' ");
    if (access.empty()) {
        return "is empty";
    }
    if (access.size() > letters.size()) {
        return cat(shown, "is longer than 3 characters");
    }
    if (access.find_first_not_of(letters) != std::string_view::npos) {
        return cat(shown, "contains an invalid character");
    }
    const auto isRepeated = [&](char letter) { return std::count(access.begin(), access.end(), letter) > 1; };
    return std::any_of(access.begin(), access.end(), isRepeated) ? cat(shown, "has repeated characters")
                                                                 : std::string();
}

}  // namespace

bool isDeviceAccess(std::string_view access) {
    return findProblem(access).empty();
}

void checkDeviceAccess(std::string_view access) {
    if (const auto problem = findProblem(access); !problem.empty()) {
        throw Error(
            cat("Input string for device access ", problem,
                ". Device access must be entered as a combination of 'rwm' characters, with no repetitions"));
    }
}

DeviceRequest parseDeviceRequest(std::string_view request) {
    if (request.empty()) {
        throw Error("Invalid device request: no values provided");
    }
    const auto invalid = [&](std::string_view why) {
        return Error(cat("Invalid device request '", printable(request), "': ", why));
    };
    if (request.find('\0') != std::string_view::npos) {
        throw invalid("it holds a NUL character");
    }
    const auto tokens = split(request, ':');
    if (tokens.size() > 3) {
        throw invalid(
            "too many tokens provided. The format of the option value must be at most "
            "'<host device>:<container device>:<access>'");
    }
    DeviceRequest device;
    device.source = device.destination = tokens[0];
    const bool secondIsAccess = tokens.size() == 2 && !tokens[1].starts_with('/');
    if (device.source.empty()) {
        throw invalid("detected empty host device path");
    }
    if (!device.source.starts_with('/')) {
        throw invalid(cat("host device path '", printable(device.source), "' must be absolute"))
            .setHint("A device is a path, or a CDI device: vendor.com/class=name");
    }
    if (tokens.size() > 1 && !secondIsAccess) {
        device.destination = tokens[1];
        if (device.destination.empty()) {
            throw invalid("detected empty container device path");
        }
        if (!device.destination.starts_with('/')) {
            throw invalid(
                cat("container device path '", printable(device.destination), "' must be absolute"));
        }
    }
    if (tokens.size() == 3 || secondIsAccess) {
        device.access = tokens.back();
        try {
            checkDeviceAccess(device.access);
        } catch (const Error& error) {
            throw invalid(error.what());
        }
    }
    return device;
}

}  // namespace sarus::oci
