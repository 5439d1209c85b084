#include "hooks/mps/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::hooks::mps::settings_test {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

std::string complaintAbout(Variables variables) {
    try {
        parseSettings(HookEnvironment(std::move(variables)));
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(MpsSettings, AreTheProgramsOwnWithoutVariables) {
    const auto settings = parseSettings(HookEnvironment(Variables{}));
    EXPECT_EQ(settings.environment(),
              (std::vector<std::string>{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                        "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps"}));
}

TEST(MpsSettings, OfTheHookFileReachTheControlProgram) {
    const auto settings = parseSettings(HookEnvironment(Variables{{"PATH", "/opt/bin"},
                                                                  {"CUDA_MPS_PIPE_DIRECTORY", "/run/mps"},
                                                                  {"CUDA_MPS_LOG_DIRECTORY", "/var/log/mps"},
                                                                  {"CUDA_VISIBLE_DEVICES", "0,1"}}));
    EXPECT_THAT(settings.environment(),
                testing::ElementsAre("PATH=/opt/bin", "CUDA_MPS_PIPE_DIRECTORY=/run/mps",
                                     "CUDA_MPS_LOG_DIRECTORY=/var/log/mps", "CUDA_VISIBLE_DEVICES=0,1"));
}

TEST(MpsSettings, WithMistakesAreRefused) {
    EXPECT_THAT(complaintAbout({{"CUDA_MPS_PIPE_DIRECTORY", "run/mps"}}),
                testing::HasSubstr("not an absolute path"));
    EXPECT_THAT(complaintAbout({{"MPS_USER_DIRECTORY", "/run"}, {"CUDA_MPS_PIPE_DIRECTORY", "/run/mps"}}),
                testing::HasSubstr("cannot be set as well"));
    EXPECT_THAT(complaintAbout({{"MPS_TIMEOUT", "0"}}), testing::HasSubstr("from 1 to 100"));
    EXPECT_THAT(complaintAbout({{"MPS_TIMEOUT", "1 s"}}), testing::HasSubstr("from 1 to 100"));
}

TEST(MpsSettings, AllowTheControlSocketNoMoreThan107Bytes) {
    const std::string longest(107 - std::string("/control").size(), 'x');
    EXPECT_EQ(complaintAbout({{"CUDA_MPS_PIPE_DIRECTORY", "/" + longest.substr(1)}}), "");
    EXPECT_THAT(complaintAbout({{"CUDA_MPS_PIPE_DIRECTORY", "/" + longest}}),
                testing::HasSubstr("longer than 107 bytes"));
    EXPECT_THAT(complaintAbout({{"MPS_USER_DIRECTORY", "/" + longest.substr(10)}}),
                testing::HasSubstr("longer than 107 bytes"));
}

}  // namespace
}  // namespace sarus::hooks::mps::settings_test
