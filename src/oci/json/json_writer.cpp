#include "oci/json/json_writer.hpp"

#include "base/error.hpp"
#include "base/hex.hpp"

namespace sarus::oci {

void JsonWriter::separate() {
    if (commaNeeded) {
        out += ',';
    }
    commaNeeded = true;
}

JsonWriter& JsonWriter::open(char bracket) {
    separate();
    out += bracket;
    commaNeeded = false;
    return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
    out += bracket;
    commaNeeded = true;
    return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
    separate();
    appendString(name);
    out += ':';
    commaNeeded = false;
    return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
    separate();
    appendString(text);
    return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
    separate();
    out += json;
    return *this;
}

void JsonWriter::appendString(std::string_view text) {
    constexpr std::string_view replacementCharacter = "\xEF\xBF\xBD";
    out += '"';
    std::size_t plain = 0;  // length of the start of `text` that can be copied unchanged
    const auto flush = [&](std::size_t skipped) {
        out += text.substr(0, plain);
        text.remove_prefix(plain + skipped);
        plain = 0;
    };
    while (plain < text.size()) {
        const auto byte = static_cast<unsigned char>(text[plain]);
        if (byte >= 0x80) {
            if (const auto length = utf8SequenceLength(text.substr(plain)); length > 0) {
                plain += length;
            } else {
                flush(1);
                out += replacementCharacter;
            }
        } else if (byte == '"' || byte == '\\') {
            flush(1);
            out += '\\';
            out += static_cast<char>(byte);
        } else if (byte == 0) {
            throw Error(cat("A NUL character in '", printable(text), "' cannot be passed on"));
        } else if (byte < 0x20 || byte == 0x7F) {
            flush(1);
            out += cat("\\u00", hexOf(byte));
        } else {
            ++plain;
        }
    }
    flush(0);
    out += '"';
}

}  // namespace sarus::oci
