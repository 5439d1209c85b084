#include "base/members.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/abstract_address.hpp"
#include "base/received_message.hpp"

namespace sarus {

Members::Members(UniqueFd theListener, unsigned howMany)
    : listener(std::move(theListener)), expected(howMany) {}

void Members::addTo(std::vector<pollfd>& sources) const {
    sources.push_back({listener.get(), POLLIN, 0});
    for (const auto& member : members) {
        // Who has finished is waited for no more, unless to be gone altogether.
        sources.push_back({member.socket.get(), static_cast<short>(member.finished ? 0 : POLLIN), 0});
    }
}

void Members::handle(const pollfd* found, const std::function<void(Member&, const std::string&)>& greeted) {
    for (std::size_t i = 0; i < members.size(); ++i) {
        const auto events = static_cast<unsigned>(found[i + 1].revents);
        if (!members[i].finished && (events & POLLIN) != 0) {
            hear(members[i], greeted);
        } else if (events != 0) {
            members[i].finished = members[i].gone = true;
        }
    }
    if (found->revents != 0) {
        Member member{.socket = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))};
        if (member.socket && isOwnPeer(member.socket.get())) {
            members.push_back(std::move(member));
        }
    }
}

void Members::hear(Member& member, const std::function<void(Member&, const std::string&)>& greeted) {
    std::array<char, 4096> text{};
    const auto message = receiveMessage(member.socket.get(), text);
    if (message.size <= 0) {
        member.finished = true;
        orderly = member.done;
        return;
    }
    const std::string words(text.data(), static_cast<std::size_t>(message.size));
    if (member.accepted) {
        member.done = words == "done";
    } else {
        greeted(member, words);
    }
}

bool Members::admit(Member& member, const std::string& id) {
    if (areComplete() || std::find(ids.begin(), ids.end(), id) != ids.end()) {
        return false;
    }
    member.accepted = true;
    member.id = id;
    ids.push_back(id);
    orderly = false;
    return true;
}

void Members::release(bool keepLast) {
    auto kept = members.end();
    for (auto i = members.begin(); i != members.end(); ++i) {
        kept = keepLast && i->finished && i->accepted && !i->gone ? i : kept;
    }
    std::vector<Member> remaining;
    for (auto i = members.begin(); i != members.end(); ++i) {
        if (!i->finished || i == kept) {
            remaining.push_back(std::move(*i));
        }
    }
    members = std::move(remaining);
}

void Members::forEachActive(const std::function<void(const Member&)>& action) const {
    for (const auto& member : members) {
        if (member.accepted && !member.finished) {
            action(member);
        }
    }
}

std::size_t Members::active() const {
    return static_cast<std::size_t>(std::count_if(members.begin(), members.end(), [](const Member& member) {
        return member.accepted && !member.finished;
    }));
}

}  // namespace sarus
