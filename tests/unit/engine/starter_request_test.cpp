#include "engine/starter_request.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.hpp"

namespace sarus::engine::starter_request_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LaunchRequest fullRequest() {
    LaunchRequest request;
    request.imageFd = 7;
    request.imagePath = "/images/a.squashfs";
    request.imageReference = "docker.io/library/a:1";
    request.imageDigest = "fsverity-sha256:00";
    request.metadata.cmd = {"sh"};
    request.metadata.entrypoint = {"/entry", ""};
    request.metadata.workingDir = "/w";
    request.metadata.env = {"A=1", "B=\xFF"};
    request.metadata.labels = {{"k", "v"}, {"l", ""}};
    request.command = {"echo", "a b"};
    request.entrypoint = std::vector<std::string>{};
    request.hostEnvironment = {"PATH=/bin", "malformed"};
    request.env = {"X=1", "Y"};
    request.mounts = {
        {.source = "/lr=0.1,batch=32", .destination = "/b:\xFF\n", .readonly = true, .text = "as typed"},
        {.destination = "/d", .tmpfsSize = 0x1122334455667788, .tmpfsMode = 01777},
        {.destination = "/u", .isUnmount = true},
        {.source = "/f", .destination = "/f", .mustBeDirectory = false}};
    request.devices = {"/dev/fuse:rw"};
    request.unsetEnv = {"GONE"};
    request.annotations = {"a=b"};
    request.workloadDirectories = {"/var/spool/slurmd/pmix.1.0"};
    request.workdir = "/work";
    request.name = "name";
    request.imageContent = "0123abc";
    request.mpiType = "mpich";
    request.mpi = request.ssh = request.tty = request.dryRun = true;
    request.stackLimit = 0x1122334455667788;
    request.logLevel = LogLevel::debug;
    return request;
}

template <typename Request>
Request crossed(const Request& request) {
    return std::get<Request>(parseRequest(serializeRequest(request)));
}

std::string errorOf(std::string_view bytes) {
    try {
        parseRequest(bytes);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(StarterRequest, EveryFieldSurvivesTheCrossing) {
    const auto original = fullRequest();
    const auto copy = crossed(original);
    EXPECT_EQ(copy.imageFd, original.imageFd);
    EXPECT_EQ(copy.imagePath, original.imagePath);
    EXPECT_EQ(copy.imageReference, original.imageReference);
    EXPECT_EQ(copy.imageDigest, original.imageDigest);
    EXPECT_EQ(copy.metadata, original.metadata);
    EXPECT_EQ(copy.stackLimit, original.stackLimit);
    EXPECT_EQ(copy.command, original.command);
    EXPECT_EQ(copy.entrypoint, original.entrypoint);
    EXPECT_EQ(copy.hostEnvironment, original.hostEnvironment);
    EXPECT_EQ(copy.env, original.env);
    EXPECT_EQ(copy.unsetEnv, original.unsetEnv);
    EXPECT_EQ(copy.mounts, original.mounts);
    EXPECT_EQ(copy.devices, original.devices);
    EXPECT_EQ(copy.annotations, original.annotations);
    EXPECT_EQ(copy.workloadDirectories, original.workloadDirectories);
    EXPECT_EQ(copy.workdir, original.workdir);
    EXPECT_EQ(copy.name, original.name);
    EXPECT_EQ(copy.imageContent, original.imageContent);
    EXPECT_EQ(copy.mpiType, original.mpiType);
    EXPECT_TRUE(copy.mpi);
    EXPECT_FALSE(copy.glibc);
    EXPECT_TRUE(copy.ssh);
    EXPECT_FALSE(copy.init);
    EXPECT_TRUE(copy.tty);
    EXPECT_FALSE(copy.privatePid);
    EXPECT_EQ(copy.logLevel, LogLevel::debug);
}

TEST(StarterRequest, AbsentOptionsStayAbsent) {
    const auto copy = crossed(LaunchRequest{});
    EXPECT_EQ(copy.imageFd, -1);
    EXPECT_EQ(copy.entrypoint, std::nullopt);
    EXPECT_EQ(copy.workdir, std::nullopt);
    EXPECT_EQ(copy.name, std::nullopt);
    EXPECT_EQ(copy.mpiType, std::nullopt);
    EXPECT_EQ(copy.logLevel, LogLevel::warn);
}

TEST(StarterRequest, EachFlagIsItsOwn) {
    for (auto flag : {&LaunchRequest::mpi, &LaunchRequest::glibc, &LaunchRequest::ssh, &LaunchRequest::init,
                      &LaunchRequest::tty, &LaunchRequest::privatePid, &LaunchRequest::readonlyRoot,
                      &LaunchRequest::keep, &LaunchRequest::hold}) {
        LaunchRequest request;
        request.*flag = true;
        const auto copy = crossed(request);
        EXPECT_TRUE(copy.*flag);
        EXPECT_EQ(copy.mpi + copy.glibc + copy.ssh + copy.init + copy.tty + copy.privatePid +
                      copy.readonlyRoot + copy.keep + copy.hold,
                  1);
    }
}

TEST(StarterRequest, SavingNamesTheContainerAndItsImage) {
    const auto request = std::get<SaveRequest>(parseRequest(
        serializeRequest(SaveRequest{.job = "7", .name = "work", .content = "abc", .imageFd = 5})));
    EXPECT_EQ(request.job, "7");
    EXPECT_EQ(request.name, "work");
    EXPECT_EQ(request.content, "abc");
    EXPECT_EQ(request.imageFd, 5);
    EXPECT_EQ(std::get<SaveRequest>(parseRequest(serializeRequest(SaveRequest()))).imageFd, -1);
}

TEST(StarterRequest, TruncationAtEveryByteIsRefused) {
    const auto bytes = serializeRequest(fullRequest());
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        EXPECT_THROW(parseRequest(std::string_view(bytes).substr(0, length)), Error) << length;
    }
}

TEST(StarterRequest, SuperfluousBytesAreRefused) {
    EXPECT_THAT(errorOf(serializeRequest(fullRequest()) + '\0'), HasSubstr("superfluous"));
}

TEST(StarterRequest, AnotherMagicOrVersionIsRefused) {
    auto bytes = serializeRequest(fullRequest());
    EXPECT_THAT(errorOf("x" + bytes), HasSubstr("does not come from sarus"));
    bytes[8] = 99;
    EXPECT_THAT(errorOf(bytes), HasSubstr("version 99, expected 12"));
}

TEST(StarterRequest, EachVerbIsItsOwn) {
    const auto exec = crossed(ExecRequest{.name = "job",
                                          .command = {"echo", ""},
                                          .hostEnvironment = {"A=1"},
                                          .env = {"B"},
                                          .workdir = "/w",
                                          .tty = true,
                                          .ownStep = true,
                                          .keeper = 9,
                                          .imageReference = "a:1",
                                          .imageContent = "content",
                                          .settings = {{"mount on /a", "/b"}, {"SSH", ""}},
                                          .stackLimit = 7,
                                          .logLevel = LogLevel::info});
    EXPECT_TRUE(exec.ownStep);
    EXPECT_EQ(exec.keeper, 9);
    EXPECT_EQ(exec.name, "job");
    EXPECT_THAT(exec.command, ElementsAre("echo", ""));
    EXPECT_THAT(exec.hostEnvironment, ElementsAre("A=1"));
    EXPECT_THAT(exec.env, ElementsAre("B"));
    EXPECT_EQ(exec.workdir, "/w");
    EXPECT_TRUE(exec.tty);
    EXPECT_EQ(exec.imageReference, "a:1");
    EXPECT_EQ(exec.imageContent, "content");
    EXPECT_EQ(exec.settings, (ContainerSettings{{"mount on /a", "/b"}, {"SSH", ""}}));
    EXPECT_EQ(exec.stackLimit, 7U);
    EXPECT_EQ(exec.logLevel, LogLevel::info);
    const auto list = crossed(ListRequest{
        .sessionDirectory = "/run/user/1", .json = true, .all = true, .brief = true, .width = 40});
    EXPECT_EQ(list.sessionDirectory, "/run/user/1");
    EXPECT_TRUE(list.json && list.all && list.brief);
    EXPECT_EQ(list.width, 40);
    const auto inspect = crossed(InspectRequest{.sessionDirectory = "/s", .name = "job", .json = true});
    EXPECT_EQ(inspect.sessionDirectory, "/s");
    EXPECT_EQ(inspect.name, "job");
    EXPECT_TRUE(inspect.json);
    const auto kill = crossed(KillRequest{.sessionDirectory = "/s", .name = "job", .signal = "TERM"});
    EXPECT_EQ(kill.sessionDirectory, "/s");
    EXPECT_EQ(kill.name, "job");
    EXPECT_EQ(kill.signal, "TERM");
    crossed(CreateRepositoryRequest());
}

TEST(StarterRequest, AnUnknownVerbIsRefused) {
    auto bytes = serializeRequest(CreateRepositoryRequest());
    for (const char verb : {static_cast<char>(std::variant_size_v<StarterRequest>), '\xFF'}) {
        bytes[12] = verb;
        EXPECT_THAT(errorOf(bytes), HasSubstr("unknown verb"));
    }
}

/// Damages each byte in turn: the parser either refuses or returns a request that has exactly this form. It
/// never crashes or allocates without measure.
TEST(StarterRequest, DamagedBytesAreRefusedOrMeanSomethingElse) {
    const auto bytes = serializeRequest(fullRequest());
    for (std::size_t position = 0; position < bytes.size(); ++position) {
        for (const int value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
            auto damaged = bytes;
            damaged[position] = static_cast<char>(value);
            try {
                EXPECT_EQ(serializeRequest(parseRequest(damaged)), damaged) << position;
            } catch (const Error&) {
                SUCCEED();
            }
        }
    }
}

/// The first list, metadata.cmd, starts behind magic, version, verb, imageFd and three empty strings.
TEST(StarterRequest, HostileCountsAreRefused) {
    const auto bytes = serializeRequest(LaunchRequest{});
    constexpr std::size_t countPosition = 8 + 4 + 4 + 4 + 4 + 4 + 4;
    for (const std::uint32_t count : {1U << 30U, 0xFFFFFFFFU, 65537U, 1000U}) {
        auto damaged = bytes;
        for (unsigned i = 0; i < 4; ++i) {
            damaged[countPosition + i] = static_cast<char>(count >> (8 * i));
        }
        EXPECT_THAT(errorOf(damaged), HasSubstr("a list is too long")) << count;
    }
}

TEST(StarterRequest, HostileStringLengthsAreRefused) {
    const auto bytes = serializeRequest(LaunchRequest{});
    constexpr std::size_t lengthPosition = 8 + 4 + 4 + 4;
    auto damaged = bytes;
    damaged.replace(lengthPosition, 4, "\xFF\xFF\xFF\xFF");
    EXPECT_THAT(errorOf(damaged), HasSubstr("a string is too long"));
    damaged.replace(lengthPosition, 4,
                    std::string("\x00\x00\x10\x00", 4));  // as long as allowed, but not there
    EXPECT_THAT(errorOf(damaged), HasSubstr("truncated"));
}

TEST(StarterRequest, NulCharactersInStringsAreRefused) {
    LaunchRequest request;
    request.command = {std::string("a\0b", 3)};
    EXPECT_THAT(errorOf(serializeRequest(request)), HasSubstr("NUL"));
}

TEST(StarterRequest, TooLargeRequestsAreRefusedOnBothSides) {
    LaunchRequest request;
    request.hostEnvironment.assign(10, "A=" + std::string(900'000, 'x'));
    EXPECT_THROW(serializeRequest(request), Error);
    EXPECT_THAT(errorOf(std::string(maxRequestSize + 1, 'x')), HasSubstr("too large"));
    request.hostEnvironment = {"A=" + std::string(maxRequestStringLength, 'x')};
    EXPECT_THROW(serializeRequest(request), Error);
    request.hostEnvironment.assign(maxRequestListLength + 1, "");
    EXPECT_THROW(serializeRequest(request), Error);
}

TEST(StarterRequest, TwoMebibytesOfEnvironmentPass) {
    LaunchRequest request;
    request.hostEnvironment.assign(20'000, "NAME=" + std::string(100, 'x'));
    EXPECT_EQ(crossed(request).hostEnvironment, request.hostEnvironment);
}

TEST(StarterRequest, RandomBytesAreRefused) {
    std::mt19937 random(1);
    const auto head = serializeRequest(LaunchRequest{}).substr(0, 16);
    for (int round = 0; round < 2000; ++round) {
        auto bytes = head;
        for (int i = 0; i < 200; ++i) {
            bytes += static_cast<char>(random() % 4);
        }
        EXPECT_THROW(parseRequest(bytes), Error);
    }
}

}  // namespace
}  // namespace sarus::engine::starter_request_test
