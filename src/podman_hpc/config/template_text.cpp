#include "podman_hpc/config/template_text.hpp"

#include "base/name_service.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc {

namespace {

std::string userName(const Surroundings& from) {
    if (const auto account = findAccount(from.uid)) {
        return account->name;
    }
    if (auto user = from.variable("USER"); user && !user->empty()) {
        return *user;  // compute nodes may not know the name
    }
    throw Error("'USER'", cat("User ", from.uid, " has no name. Set the variable USER"));
}

std::string valueOf(std::string_view name, const Surroundings& from) {
    if (name == "uid") {
        return cat(from.uid);
    }
    if (name == "user") {
        return userName(from);
    }
    if (name.starts_with("env.")) {
        const std::string variable(name.substr(4));
        auto value = from.variable(variable);
        if (!value) {
            throw Error(cat('\'', printable(variable), '\''),
                        cat("The environment has no variable ", printable(variable)));
        }
        return *value;
    }
    throw Error(cat("Unknown placeholder '", printable(name), '\''), "Known: uid, user, env.NAME");
}

}  // namespace

std::string expandTemplate(const std::string& text, const Surroundings& from) {
    std::string out;
    std::size_t position = 0;
    while (true) {
        const auto open = text.find("{{", position);
        const auto close = open == std::string::npos ? open : text.find("}}", open);
        if (close == std::string::npos) {
            return out + text.substr(position);
        }
        out += text.substr(position, open - position);
        out += valueOf(trim(std::string_view(text).substr(open + 2, close - open - 2)), from);
        position = close + 2;
    }
}

}  // namespace sarus::podman_hpc
