#include "starter/supervise/running_container.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::starter::running_container_test {
namespace {

using engine::OciRuntime;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(RuntimeStateFile, OfCrunAndRuncNamesTheFirstProcess) {
    const auto crun = parseRuntimeState(
        R"({"pid": 12, "process-start-time": 345, "bundle": "/b", "created": "2026-01-01T00:00:00.5Z"})",
        OciRuntime::crun);
    EXPECT_EQ(crun.pid, 12);
    EXPECT_EQ(crun.started, 345U);
    EXPECT_EQ(crun.bundle, "/b");
    EXPECT_EQ(crun.created, "2026-01-01T00:00:00.5Z");
    const auto runc = parseRuntimeState(
        R"({"init_process_pid": 7, "init_process_start": 8, "config": {"labels": ["a=b", "bundle=/c"]}})",
        OciRuntime::runc);
    EXPECT_EQ(runc.pid, 7);
    EXPECT_EQ(runc.started, 8U);
    EXPECT_EQ(runc.bundle, "/c");
    EXPECT_EQ(runc.created, "");
}

TEST(RuntimeStateFile, OfAnotherFormIsRefused) {
    for (const auto* text : {"", "[]", "{}", R"({"pid":1})", R"({"pid":"1","process-start-time":1})",
                             R"({"pid":-1,"process-start-time":1})", R"({"pid":0,"process-start-time":1})",
                             R"({"pid":99999999999,"process-start-time":1})"}) {
        EXPECT_THROW(parseRuntimeState(text, OciRuntime::crun), Error) << text;
    }
}

TEST(RuntimeStateFile, WithAnotherProcessKeepsTheRest) {
    EXPECT_EQ(withOtherProcess(R"({"pid":1,"process-start-time":2,"bundle":"/b"})", OciRuntime::crun, 10, 20),
              R"({"pid":10,"process-start-time":20,"bundle":"/b"})");
    EXPECT_EQ(
        withOtherProcess(
            R"({"init_process_pid":1,"init_process_start":2,"namespace_paths":{"NEWNS":"/proc/1/ns/mnt"}})",
            OciRuntime::runc, 10, 20),
        R"({"init_process_pid":10,"init_process_start":20,"namespace_paths":{"NEWNS":"/proc/10/ns/mnt"}})");
}

TEST(RuntimeStateFile, CanKeepCommandsInTheirOwnCgroups) {
    constexpr auto* state =
        R"({"init_process_pid":1,"init_process_start":2,"cgroup_paths":{"devices":"/sys/fs/cgroup/devices/x"}})";
    EXPECT_EQ(withOtherProcess(state, OciRuntime::runc, 10, 20, true),
              R"({"init_process_pid":10,"init_process_start":20,"cgroup_paths":{}})");
    EXPECT_THAT(withOtherProcess(state, OciRuntime::runc, 10, 20), testing::HasSubstr("devices/x"));
}

}  // namespace
}  // namespace sarus::starter::running_container_test
