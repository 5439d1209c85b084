#include "hook_contracts/enter_call.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "base/text.hpp"

namespace sarus::hook_contracts {

namespace {

constexpr std::string_view percent = "--percent";

bool isUtf8(std::string_view text) {
    while (!text.empty()) {
        const auto length = utf8SequenceLength(text);
        if (length == 0) {
            return false;
        }
        text.remove_prefix(length);
    }
    return true;
}

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
    bool isEncoded = false;
    auto word = words.begin() + 1;
    for (; word != words.end() && *word != "--"; ++word) {
        isEncoded = isEncoded || *word == percent;
        const auto take = [&](std::string_view option, std::string& value) {
            if (word->starts_with(option)) {
                value = isEncoded ? percentDecoded(word->substr(option.size())) : word->substr(option.size());
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
    std::transform(word + 1, words.end(), std::back_inserter(call.command),
                   [&](const auto& each) { return isEncoded ? percentDecoded(each) : each; });
    return call;
}

}  // namespace

std::string percentEncoded(std::string_view bytes) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string text;
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x80 && c != '%') {
            text += c;
        } else {
            text += {'%', digits[byte >> 4U], digits[byte & 15U]};
        }
    }
    return text;
}

std::string percentDecoded(std::string_view text) {
    std::string bytes;
    while (!text.empty()) {
        unsigned byte = 0;
        const bool isEncoded =
            text.size() > 2 && text[0] == '%' &&
            std::from_chars(text.data() + 1, text.data() + 3, byte, 16).ptr == text.data() + 3;
        bytes += isEncoded ? static_cast<char>(byte) : text[0];
        text.remove_prefix(isEncoded ? 3 : 1);
    }
    return bytes;
}

std::vector<std::string> enterWords(const EnterRequest& request) {
    std::vector<std::string> words{
        cat(request.isDefaultWorkdir ? "--default-workdir=" : "--workdir=", request.workdir), "--"};
    words.insert(words.end(), request.command.begin(), request.command.end());
    std::vector<std::string> variables;
    for (const auto& [name, value] : request.environment) {
        if (!isUtf8(name) || !isUtf8(value)) {
            variables.push_back(cat("--env=", name, '=', value));
        }
    }
    if (variables.empty() && std::all_of(words.begin(), words.end(), isUtf8)) {
        return words;
    }
    words.insert(words.begin(), variables.begin(), variables.end());
    std::transform(words.begin(), words.end(), words.begin(), percentEncoded);
    words.insert(words.begin(), std::string(percent));
    return words;
}

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
    if (auto& words = result.arguments;
        words.size() > 2 && words[0] == enterProgram && words[1] == holdOption) {
        words.erase(words.begin(), words.begin() + 2);
    }
    return result;
}

}  // namespace sarus::hook_contracts
