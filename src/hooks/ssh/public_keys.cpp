#include "hooks/ssh/public_keys.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "base/base64.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::hooks::ssh {

namespace {

constexpr std::string_view base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::optional<std::string> decodeBase64(std::string_view text) {
    std::string bytes;
    std::uint32_t bits = 0;
    int count = 0;
    while (text.ends_with('=')) {
        text.remove_suffix(1);
    }
    for (const char digit : text) {
        const auto value = base64Digits.find(digit);
        if (value == std::string_view::npos) {
            return std::nullopt;
        }
        bits = bits << 6U | static_cast<std::uint32_t>(value);
        count += 6;
        if (count >= 8) {
            count -= 8;
            bytes.push_back(static_cast<char>(bits >> static_cast<unsigned>(count) & 0xFFU));
        }
    }
    return bytes;
}

/// The string at the beginning (RFC 4251, section 5), which is cut off; nullopt if there is none.
std::optional<std::string_view> takeString(std::string_view& data) {
    std::size_t size = 0;
    if (data.size() < 4) {
        return std::nullopt;
    }
    for (int i = 0; i < 4; ++i) {
        size = size << 8U | static_cast<unsigned char>(data[static_cast<std::size_t>(i)]);
    }
    data.remove_prefix(4);
    if (size > data.size()) {
        return std::nullopt;
    }
    const auto text = data.substr(0, size);
    data.remove_prefix(size);
    return text;
}

bool isPublicKey(std::string_view line) {
    constexpr std::array<std::string_view, 7> types{"ssh-ed25519",
                                                    "ecdsa-sha2-nistp256",
                                                    "ecdsa-sha2-nistp384",
                                                    "ecdsa-sha2-nistp521",
                                                    "sk-ssh-ed25519@openssh.com",
                                                    "sk-ecdsa-sha2-nistp256@openssh.com",
                                                    "ssh-rsa"};
    const auto words = splitWords(line);
    if (words.size() < 2 || std::find(types.begin(), types.end(), words[0]) == types.end()) {
        return false;
    }
    const auto blob = decodeBase64(words[1]);
    std::string_view rest = blob ? *blob : std::string_view();
    return blob && takeString(rest) == words[0] && !rest.empty();
}

}  // namespace

std::string parsePublicKeys(std::string_view text) {
    std::string keys;
    for (const auto& line : split(text, '\n')) {
        const auto trimmed = trim(line);
        if (trimmed.empty() || trimmed.front() == '#') {
            continue;
        }
        if (!isPublicKey(trimmed)) {
            throw Error("it does not contain public SSH keys alone",
                        "Give the file with the public key, such as ~/.ssh/id_ed25519.pub");
        }
        keys += cat(trimmed, '\n');
    }
    if (keys.empty()) {
        throw Error("it contains no public SSH key");
    }
    return keys;
}

std::string publicHalf(std::string_view privateKey) {
    auto rest = privateKey;
    const auto type = takeString(rest);
    const auto curve = takeString(rest);
    const auto point = takeString(rest);
    if (!type || !type->starts_with("ecdsa-sha2-") || !curve || !point) {
        throw Error("it is not an ECDSA key of Dropbear");
    }
    return encodeBase64(privateKey.substr(0, privateKey.size() - rest.size()));
}

}  // namespace sarus::hooks::ssh
