#include "squashfs/server/chores.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/eventually.hpp"

namespace sarus::squashfs::chores_test {
namespace {

using namespace std::chrono_literals;

bool becomes(const std::atomic<int>& number, int value) {
    return test::eventually([&] { return number == value; });
}

TEST(Chores, APauseIsUsedOnce) {
    static auto& chores = *new Chores;  // its threads never end
    static std::atomic<int> done{0};
    static std::atomic<int> pauses{0};
    chores.whenIdle(20ms, [] { ++pauses; });
    for (int i = 0; i < 3; ++i) {
        std::thread([] { chores.work(); }).detach();
    }
    std::this_thread::sleep_for(100ms);
    EXPECT_EQ(pauses, 0) << "nothing was done that could be tidied up";
    for (int round = 1; round <= 2; ++round) {
        chores.add([] { ++done; });
        EXPECT_TRUE(becomes(done, round));
        EXPECT_TRUE(becomes(pauses, round));
        std::this_thread::sleep_for(100ms);
        EXPECT_EQ(pauses, round);
    }
}

}  // namespace
}  // namespace sarus::squashfs::chores_test
