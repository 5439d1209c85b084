#include "image/build/read/layer_promise.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <span>
#include <string_view>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "image/build/read/decompressor.hpp"
#include "image/build/read/image_json.hpp"

namespace sarus::image::build {

namespace {

constexpr std::size_t longestLine = 64U << 20U;  // the headers of one member, as base64

/// "./a//b/" is "a/b", and "./" is ".", as LayerDirectory calls them.
std::string plainPath(std::string_view name) {
    std::string path;
    for (const auto& part : split(name, '/')) {
        if (!part.empty() && part != ".") {
            path += cat(path.empty() ? "" : "/", part);
        }
    }
    return path.empty() ? "." : path;
}

/// 0 if it is missing or no such number.
std::uint64_t numberMember(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

}  // namespace

LayerPromise::LayerPromise(const std::string& path) {
    const auto file = openFile(path, O_RDONLY);
    const auto decompressor = makeDecompressor(Compression::gzip);
    std::array<unsigned char, 1U << 16U> packed;
    std::array<unsigned char, 1U << 16U> unpacked;
    std::string text;
    while (const auto size = checkErrno(::read(file.get(), packed.data(), packed.size()),
                                        cat("Failed to read ", printable(path)))) {
        std::span<const unsigned char> left(packed.data(), static_cast<std::size_t>(size));
        for (bool isMore = true; isMore;) {
            const auto step = decompressor->step(left, unpacked);
            left = left.subspan(step.consumed);
            isMore = !left.empty() || step.produced == unpacked.size();
            text.append(reinterpret_cast<const char*>(unpacked.data()), step.produced);
            takeLines(text, path);
        }
    }
    if (!decompressor->complete() || !text.empty()) {
        throw Error(cat(printable(path), " is truncated"));
    }
}

void LayerPromise::takeLines(std::string& text, const std::string& path) {
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
        addLine(text.substr(begin, end - begin), path);
    }
    text.erase(0, begin);
    if (text.size() > longestLine) {
        throw Error(cat(printable(path), " has a line of more than ", longestLine, " bytes"));
    }
}

void LayerPromise::addLine(const std::string& line, const std::string& path) {
    constexpr std::uint64_t member = 1;
    if (line.starts_with(R"({"type":2,)")) {
        return;  // the archive's own bytes between the contents of members, half of all
    }
    const auto json = parseJsonObject(line, path);
    const auto name = stringMember(json, "name");
    if (numberMember(json, "type") != member || name.empty()) {  // a name that is not UTF-8 has another key
        return;
    }
    // An unprivileged Podman cannot make the devices of a layer, which runtimes hide anyway. The last is a
    // header.
    if (const auto plain = plainPath(name); !plain.starts_with("dev/") && plain != "pax_global_header") {
        sizes[plain] = numberMember(json, "size");
    }
}

void LayerPromise::keep(const TarEntry& entry) {
    const auto found = sizes.find(entry.path);
    // The archive may have called another name of a file the first one, which alone has a size.
    if (found != sizes.end() &&
        (entry.type != TarEntry::Type::regular || found->second == 0 || found->second == entry.size)) {
        sizes.erase(found);
    }
}

std::optional<std::string> LayerPromise::broken() const {
    return sizes.empty() ? std::nullopt : std::optional(sizes.begin()->first);
}

}  // namespace sarus::image::build
