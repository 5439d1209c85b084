#include "hook_contracts/enter_call.hpp"

#include <cstdint>
#include <string_view>

#include "base/text.hpp"

namespace sarus::hook_contracts {

namespace {

struct EnterCall {
    std::string ids;
    std::string payloadNamespace;
    std::string workdir;
    std::vector<std::string> command;
};

std::optional<EnterCall> parseCall(const std::vector<std::string>& words) {
    if (words.empty() || words.front() != enterProgram) {
        return std::nullopt;
    }
    EnterCall call;
    auto word = words.begin() + 1;
    for (; word != words.end() && *word != "--"; ++word) {
        const auto take = [&](std::string_view option, std::string& value) {
            if (word->starts_with(option)) {
                value = word->substr(option.size());
            }
        };
        take("--ids=", call.ids);
        take("--namespace=", call.payloadNamespace);
        take("--workdir=", call.workdir);
        take("--default-workdir=", call.workdir);
    }
    if (word == words.end()) {
        return std::nullopt;
    }
    call.command.assign(word + 1, words.end());
    return call;
}

}  // namespace

std::optional<EnteredIds> findEnteredIds(const oci::BundleConfig& config) {
    const auto mappings = config.uidMappings();
    const auto call = parseCall(config.arguments());
    if (!call || mappings.size() != 1 || mappings[0].containerId != 0 || mappings[0].hostId != 0 ||
        mappings[0].size != 1) {
        return std::nullopt;
    }
    const auto colon = call->ids.find(':');
    const auto uid = parseNumber(std::string_view(call->ids).substr(0, colon));
    const auto gid = colon == std::string::npos ? std::nullopt : parseNumber(call->ids.substr(colon + 1));
    if (!uid || !gid) {
        return std::nullopt;
    }
    const auto descriptor = parseNumber(call->payloadNamespace);
    return EnteredIds{
        .uid = static_cast<uid_t>(*uid),
        .gid = static_cast<gid_t>(*gid),
        .payloadNamespace = descriptor ? std::optional(static_cast<int>(*descriptor)) : std::nullopt};
}

ContainerCommand findContainerCommand(const oci::BundleConfig& config) {
    ContainerCommand result{.arguments = config.arguments(), .workingDirectory = config.workingDirectory()};
    if (auto call = parseCall(result.arguments)) {
        result.arguments = std::move(call->command);
        if (!call->workdir.empty()) {
            result.workingDirectory = std::move(call->workdir);
        }
    }
    if (auto& words = result.arguments; words.size() > 2 && words[0] == initProgram && words[1] == "--") {
        words.erase(words.begin(), words.begin() + 2);
    }
    return result;
}

}  // namespace sarus::hook_contracts
