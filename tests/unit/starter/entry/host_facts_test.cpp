#include "starter/entry/host_facts.hpp"

#include <gtest/gtest.h>
#include <sched.h>

namespace sarus::starter::host_facts_test {
namespace {

TEST(FindGroup, ReadsTheThirdFieldOfTheGroupsLine) {
    EXPECT_EQ(findGroup("root:x:0:\ntty:x:5:\nttys:x:6:\n", "tty"), 5U);
    EXPECT_EQ(findGroup("tty:x:5:a,b", "tty"), 5U);
    EXPECT_EQ(findGroup("ttys:x:6:\nmytty:x:7:\n", "tty"), std::nullopt);
    EXPECT_EQ(findGroup("", "tty"), std::nullopt);
}

TEST(FindGroup, SkipsMalformedLines) {
    EXPECT_EQ(findGroup("tty:x\ntty:x:no:\ntty:x:99999999999:\ntty:x:4294967295:\ntty:x:5:\n", "tty"), 5U);
}

TEST(CpuAffinity, IsTheCallersMask) {
    cpu_set_t before;
    ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
    const auto all = cpuAffinity();
    ASSERT_FALSE(all.empty());
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(all.back()), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(cpuAffinity(), std::vector<int>{all.back()});
    ::sched_setaffinity(0, sizeof before, &before);
}

}  // namespace
}  // namespace sarus::starter::host_facts_test
