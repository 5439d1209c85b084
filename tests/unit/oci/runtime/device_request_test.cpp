#include "oci/runtime/device_request.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::oci::device_request_test {
namespace {

std::string errorOf(std::string_view request) {
    try {
        parseDeviceRequest(request);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

void expectDevice(std::string_view request, std::string_view source, std::string_view destination,
                  std::string_view access) {
    const auto device = parseDeviceRequest(request);
    EXPECT_EQ(device.source, source) << request;
    EXPECT_EQ(device.destination, destination) << request;
    EXPECT_EQ(device.access, access) << request;
}

constexpr auto accessHelp =
    "Device access must be entered as a combination of 'rwm' characters, with no repetitions";

TEST(DeviceRequest, DestinationAndAccessAreOptional) {
    expectDevice("/dev/fuse", "/dev/fuse", "/dev/fuse", "rwm");
    expectDevice("/dev/fuse:/dev/x", "/dev/fuse", "/dev/x", "rwm");
    expectDevice("/dev/fuse:rw", "/dev/fuse", "/dev/fuse", "rw");
    expectDevice("/dev/fuse:/dev/x:mr", "/dev/fuse", "/dev/x", "mr");
}

TEST(DeviceRequest, EmptyPartsAreRefused) {
    EXPECT_EQ(errorOf(""), "Invalid device request: no values provided");
    EXPECT_EQ(errorOf(":rw"), "Invalid device request ':rw': detected empty host device path");
    EXPECT_EQ(errorOf("/dev/fuse::rw"),
              "Invalid device request '/dev/fuse::rw': detected empty container device path");
}

TEST(DeviceRequest, PathsMustBeAbsolute) {
    EXPECT_EQ(errorOf("dev/fuse:/dev/x:rw"),
              "Invalid device request 'dev/fuse:/dev/x:rw': host device path 'dev/fuse' must be absolute");
    EXPECT_EQ(errorOf("/dev/fuse:dev/cont_fuse:rw"),
              "Invalid device request '/dev/fuse:dev/cont_fuse:rw': container device path 'dev/cont_fuse' "
              "must be absolute");
}

TEST(DeviceRequest, AtMostThreeTokens) {
    EXPECT_EQ(errorOf("/a:/b:rw:x"),
              "Invalid device request '/a:/b:rw:x': too many tokens provided. The format of the option value "
              "must be at most '<host "
              "device>:<container device>:<access>'");
}

TEST(DeviceRequest, AccessIsACombinationOfTheThreeLetters) {
    const auto message = [](std::string_view request, std::string_view what) {
        return "Invalid device request '" + std::string(request) + "': Input string for device access " +
               std::string(what) + " " + accessHelp;
    };
    EXPECT_EQ(errorOf("/d:"), message("/d:", "is empty."));
    EXPECT_EQ(errorOf("/d:/e:"), message("/d:/e:", "is empty."));
    EXPECT_EQ(errorOf("/d:rwmm"), message("/d:rwmm", "'rwmm' is longer than 3 characters."));
    EXPECT_EQ(errorOf("/d:rrw"), message("/d:rrw", "'rrw' has repeated characters."));
    EXPECT_EQ(errorOf("/d:ra"), message("/d:ra", "'ra' contains an invalid character."));
    EXPECT_EQ(errorOf("/d:dev/x"), message("/d:dev/x", "'dev/x' is longer than 3 characters."));
    for (const auto* access : {"r", "w", "m", "rw", "wr", "rwm", "mwr"}) {
        EXPECT_TRUE(isDeviceAccess(access)) << access;
    }
}

TEST(DeviceRequest, NulCharactersAreRefused) {
    EXPECT_EQ(errorOf(std::string_view("/dev/x\0y", 8)),
              "Invalid device request '/dev/x\\x00y': it holds a NUL character");
}

}  // namespace
}  // namespace sarus::oci::device_request_test
