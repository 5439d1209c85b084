#include "base/members.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <optional>
#include <vector>

#include "base/abstract_address.hpp"
#include "base/text.hpp"

namespace sarus::base::members_test {
namespace {

UniqueFd makeSocket() {
    return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

/// A keeper for two, and processes that come to it.
class MembersTest : public testing::Test {
protected:
    UniqueFd come(const std::string& id) {
        auto socket = makeSocket();
        EXPECT_EQ(::connect(socket.get(), address.get(), address.size()), 0);
        EXPECT_GT(::send(socket.get(), id.data(), id.size(), 0), 0);
        step();
        step();
        return socket;
    }

    void say(const UniqueFd& socket, const std::string& text) {
        EXPECT_GT(::send(socket.get(), text.data(), text.size(), 0), 0);
        step();
    }

    void leave(const UniqueFd& socket) {
        ::shutdown(socket.get(), SHUT_WR);
        step();
    }

    void step() {
        std::vector<pollfd> sources;
        members.addTo(sources);
        ::poll(sources.data(), sources.size(), 0);
        members.handle(sources.data(), [&](Member& member, const std::string& text) {
            if (!members.admit(member, text)) {
                Members::refuse(member);
            }
        });
    }

    static bool isClosed(const UniqueFd& socket) {
        char byte = 0;
        return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 0;
    }

    AbstractAddress address{cat("members-test-", ::getpid())};
    Members members{listen(), 2};

private:
    UniqueFd listen() const {
        auto socket = makeSocket();
        EXPECT_EQ(::bind(socket.get(), address.get(), address.size()), 0);
        EXPECT_EQ(::listen(socket.get(), 8), 0);
        return socket;
    }
};

TEST_F(MembersTest, OnlyTheExpectedOnesAreAdmittedAndEachOnce) {
    const auto first = come("0");
    const auto again = come("0");
    EXPECT_EQ(members.arrived(), 1U);
    const auto second = come("1");
    EXPECT_TRUE(members.areComplete());
    const auto third = come("2");
    EXPECT_EQ(members.active(), 2U);
    members.release(false);
    EXPECT_TRUE(isClosed(again) && isClosed(third));
    EXPECT_FALSE(isClosed(first) || isClosed(second));
}

TEST_F(MembersTest, TheLastOneIsKeptUntilTheKeeperReleasesIt) {
    const auto first = come("0");
    const auto second = come("1");
    leave(first);
    members.release(false);
    EXPECT_TRUE(isClosed(first));
    leave(second);
    EXPECT_EQ(members.active(), 0U);
    members.release(true);
    EXPECT_FALSE(isClosed(second));
    members.release(false);
    EXPECT_TRUE(isClosed(second));
}

TEST_F(MembersTest, AKilledOneHasFinishedAndIsNotKept) {
    std::optional<UniqueFd> killed(come("0"));
    killed.reset();
    step();
    EXPECT_EQ(members.active(), 0U);
    step();
    members.release(true);
    EXPECT_TRUE(members.open().empty());
    EXPECT_FALSE(members.areComplete());
}

TEST_F(MembersTest, OnlyWhoSaysThatItIsDoneHasEndedByItself) {
    const auto first = come("0");
    say(first, "done");
    leave(first);
    EXPECT_TRUE(members.lastWasDone());
    const auto second = come("1");
    leave(second);
    EXPECT_FALSE(members.lastWasDone());
}

}  // namespace
}  // namespace sarus::base::members_test
