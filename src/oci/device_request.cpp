#include "oci/device_request.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::oci {

namespace {

enum class AccessProblem { none, empty, tooLong, invalidCharacter, repeated };

AccessProblem findProblem(std::string_view access) noexcept {
    constexpr std::string_view letters = "rwm";
    if (access.empty()) {
        return AccessProblem::empty;
    }
    if (access.size() > letters.size()) {
        return AccessProblem::tooLong;
    }
    if (access.find_first_not_of(letters) != std::string_view::npos) {
        return AccessProblem::invalidCharacter;
    }
    for (std::size_t i = 0; i < access.size(); ++i) {
        if (access.find(access[i], i + 1) != std::string_view::npos) {
            return AccessProblem::repeated;
        }
    }
    return AccessProblem::none;
}

}  // namespace

bool isDeviceAccess(std::string_view access) noexcept {
    return findProblem(access) == AccessProblem::none;
}

void checkDeviceAccess(std::string_view access) {
    std::string what;
    switch (findProblem(access)) {
        case AccessProblem::none:
            return;
        case AccessProblem::empty:
            what = "is empty. ";
            break;
        case AccessProblem::tooLong:
            what = cat("'", printable(access), "' is longer than 3 characters. ");
            break;
        case AccessProblem::invalidCharacter:
            what = cat("'", printable(access), "' contains an invalid character. ");
            break;
        case AccessProblem::repeated:
            what = cat("'", printable(access), "' has repeated characters. ");
            break;
    }
    throw Error(cat("Input string for device access ", what,
                    "Device access must be entered as a combination of 'rwm' characters, with no repetitions"));
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
            throw invalid(cat("container device path '", printable(device.destination), "' must be absolute"));
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
