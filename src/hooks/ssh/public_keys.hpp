#pragma once

#include <string>
#include <string_view>

namespace sarus::hooks::ssh {

/// The public keys in the text of a file such as ~/.ssh/id_ed25519.pub, a line each. Throws Error unless
/// every line is one key (its type, its base64 text, and perhaps a comment), empty, or a comment.
std::string parsePublicKeys(std::string_view text);

/// The public half of a private ECDSA key in Dropbear's format, as it goes over the network and as base64:
/// the file begins with it. Throws Error.
std::string publicHalf(std::string_view privateKey);

}  // namespace sarus::hooks::ssh
