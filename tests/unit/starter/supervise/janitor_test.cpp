#include "starter/supervise/janitor.hpp"

#include <gtest/gtest.h>

#include "base/subprocess.hpp"
#include "starter/fake_runtime.hpp"
#include "starter/isolated.hpp"
#include "starter/supervise/ended_by_janitor.hpp"

namespace sarus::starter::janitor_test {
namespace {

bool ends(time_t age) {
    return test::isolated([&] {
               test::FakeRuntime::becomeStarter();
               const Child program(test::startPaused([] {}));
               return test::endedByJanitor(Credentials::acquire(Mode::rootless), program.pid(), age) ? 0 : 1;
           }) == 0;
}

TEST(Janitor, EndsTheProgramOfARuntimeThatWasKilledWithTheStarter) {
    EXPECT_TRUE(ends(0));
}

TEST(Janitor, EndsNoProcessThatHasGotTheNumberOfTheProgram) {
    EXPECT_FALSE(ends(5));
}

}  // namespace
}  // namespace sarus::starter::janitor_test
