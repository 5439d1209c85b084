#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/subprocess.hpp"
#include "starter/isolated.hpp"
#include "starter/starter_sandbox.hpp"
#include "starter/supervise/ended_by_janitor.hpp"

namespace sarus::starter::janitor_as_root_test {
namespace {

/// In the janitor of a set-user-ID starter, for a process of this identity.
template <typename Prepare>
void expectEnd(bool expected, Prepare prepare) {
    test::asStarter(test::Caller::setUserId, [&](const Credentials& credentials) {
        test::blockAllSignals();
        const Child program(test::startPaused(prepare));
        EXPECT_EQ(test::endedByJanitor(credentials, program.pid()), expected);
    });
}

void become(uid_t user, bool confined) {
    ::prctl(PR_SET_NO_NEW_PRIVS, confined ? 1 : 0, 0, 0, 0);
    ::setresuid(user, user, user);
}

TEST(JanitorAsRoot, EndsTheProgramOfARuntimeThatWasKilledWithTheStarter) {
    expectEnd(true, [] { become(test::userId, true); });
}

/// Whoever stops a starter until its program has gone can have the number given to a process of root, and
/// then kill the starter.
TEST(JanitorAsRoot, EndsNoProcessOfSomebodyElse) {
    expectEnd(false, [] { become(0, true); });
}

}  // namespace
}  // namespace sarus::starter::janitor_as_root_test
