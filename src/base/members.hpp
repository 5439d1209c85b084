#pragma once

#include <poll.h>

#include <functional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus {

/// A process that has come to a keeper, as its connection shows it.
struct Member {
    UniqueFd socket{};
    std::string id{};
    bool accepted = false;
    bool done = false;      ///< has sent "done": it ended by itself
    bool finished = false;  ///< has closed its side, or was refused
    bool gone = false;      ///< has closed both sides
};

/// The processes for which a keeper holds something open, such as the tasks of a job step that share a
/// container. Each has a connection. The kernel closes it however the process ends, so a keeper misses no
/// end and needs no process ids. Processes of other users are not let in. A member that shuts down its side
/// may wait until the keeper closes the other one.
class Members {
public:
    /// `listener`: a listening Unix socket of the type SOCK_SEQPACKET. `expected`: how many come in all.
    Members(UniqueFd listener, unsigned expected);

    /// What to wait for with poll(2).
    void addTo(std::vector<pollfd>& sources) const;
    /// `found`: the entries of addTo() after poll(2). `greeted` gets the first message of each connection and
    /// calls admit() or refuse().
    void handle(const pollfd* found, const std::function<void(Member&, const std::string&)>& greeted);

    /// False if all have come, or somebody with this id has.
    bool admit(Member& member, const std::string& id);
    static void refuse(Member& member) { member.finished = true; }

    /// Closes the connections of those that have finished. `keepLast`: but for the last one, unless it is
    /// gone.
    void release(bool keepLast);

    void forEachActive(const std::function<void(const Member&)>& action) const;
    /// The connections that are open, of those that have finished too.
    const std::vector<Member>& open() const noexcept { return members; }
    /// How many have not finished.
    std::size_t active() const;
    std::size_t arrived() const noexcept { return ids.size(); }
    bool areComplete() const noexcept { return ids.size() >= expected; }
    /// Whether the one that finished last had sent "done".
    bool lastWasDone() const noexcept { return orderly; }

private:
    void hear(Member& member, const std::function<void(Member&, const std::string&)>& greeted);

    UniqueFd listener;
    unsigned expected;
    std::vector<Member> members{};
    std::vector<std::string> ids{};  ///< of all that were admitted
    bool orderly = false;
};

}  // namespace sarus
