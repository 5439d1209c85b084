#pragma once

#include <string>
#include <string_view>

namespace sarus::oci {

/// The value of one --device option.
struct DeviceRequest {
    std::string source;
    std::string destination;
    std::string access = "rwm";
};

/// Parses `SRC[:DST][:ACCESS]`; a second part that is not absolute is the access. Throws Error with the
/// documented messages.
DeviceRequest parseDeviceRequest(std::string_view request);

/// Whether it is one to three distinct characters of "rwm".
bool isDeviceAccess(std::string_view access);

/// Accepts one to three distinct characters of "rwm". Throws Error "Input string for device access ...".
void checkDeviceAccess(std::string_view access);

}  // namespace sarus::oci
