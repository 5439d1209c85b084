#include "image/build/read/archive.hpp"

#include <sys/stat.h>

#include <array>
#include <cstring>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "image/build/read/tar_reader.hpp"

namespace sarus::image::build {

namespace {

constexpr std::size_t mostMembers = 100'000;
constexpr std::size_t mostNameBytes = 32U << 20U;
constexpr int mostLinks = 16;

/// A file that is read only where its content is requested.
class FileSource final : public ByteSource {
public:
    FileSource(int archive, std::uint64_t archiveSize) : file(archive), size(archiveSize) {}

    std::span<const unsigned char> peek() override {
        if (place < windowBegin || place >= windowBegin + windowSize) {
            windowBegin = place;
            windowSize = readAt(file, window.data(), window.size(), place, "the archive");
        }
        return std::span<const unsigned char>(window)
            .subspan(0, windowSize)
            .subspan(static_cast<std::size_t>(place - windowBegin));
    }
    void consume(std::size_t count) noexcept override { place += count; }
    std::uint64_t skip(std::uint64_t count) override {
        const auto skipped = std::min(count, size - std::min(size, place));
        place += skipped;
        return skipped;
    }
    std::uint64_t position() const noexcept { return place; }

private:
    int file;
    std::uint64_t size;
    std::uint64_t place = 0;
    std::array<unsigned char, 8192> window;
    std::uint64_t windowBegin = 0;
    std::size_t windowSize = 0;
};

std::string withoutLeadingDots(std::string_view name) {
    while (name.starts_with("./")) {
        name.remove_prefix(2);
    }
    return std::string(name);
}

/// The target of a symbolic link among the members, as text. Throws Error if it is outside the archive.
std::string linkedName(const std::string& name, const std::string& target) {
    std::vector<std::string> parts = split(name, '/');
    parts.pop_back();
    bool outside = target.starts_with('/');
    for (const auto& part : split(target, '/')) {
        if (part == "..") {
            outside = outside || parts.empty();
            if (!parts.empty()) {
                parts.pop_back();
            }
        } else if (!part.empty() && part != ".") {
            parts.push_back(part);
        }
    }
    if (outside) {
        throw Error(
            cat("The link '", printable(name), "' leads out of the archive, to '", printable(target), "'"));
    }
    return join(parts, "/");
}

void checkMagic(std::span<const unsigned char> start) {
    constexpr std::size_t place = 257;
    constexpr std::string_view magic = "ustar";
    if (start.empty()) {
        throw Error("The file is empty");
    }
    if (start.size() < place + magic.size() ||
        std::memcmp(start.data() + place, magic.data(), magic.size()) != 0) {
        throw Error("The file is no image archive",
                    "Make one with 'docker save', 'podman save' or 'skopeo copy'");
    }
}

class Archive final : public SourceFiles {
public:
    explicit Archive(UniqueFd archive) : file(std::make_shared<const UniqueFd>(std::move(archive))) {
        struct stat status {};
        checkErrno(::fstat(file->get(), &status), "Failed to examine the archive");
        FileSource source(file->get(), static_cast<std::uint64_t>(status.st_size));
        checkMagic(source.peek());
        readMembers(source);
    }

    StoredFile open(const std::string& name) const override {
        std::string current = name;
        for (int links = 0; links <= mostLinks; ++links) {
            const auto found = members.find(current);
            if (found == members.end()) {
                throw Error(cat("The archive has no member '", printable(current), "'"),
                            "It is incomplete: make it again");
            }
            const Member& member = found->second;
            if (member.repeated) {
                throw Error(cat("The archive has the member '", printable(current), "' twice"));
            }
            if (member.kind == Member::Kind::sparse) {
                throw Error(cat("The archive has '", printable(current), "' as a sparse file"),
                            "Make it again without tar's option --sparse");
            }
            if (member.kind == Member::Kind::file) {
                return {file, member.offset, member.size};
            }
            current =
                member.kind == Member::Kind::symlink ? linkedName(current, member.target) : member.target;
        }
        throw Error(cat("The links of '", printable(name), "' in the archive have no end"));
    }

    bool contains(const std::string& name) const override { return members.contains(name); }

private:
    struct Member {
        enum class Kind { file, sparse, symlink, hardLink };
        Kind kind;
        bool repeated = false;
        std::uint64_t offset = 0;
        std::uint64_t size = 0;
        std::string target{};
    };

    void readMembers(FileSource& source) {
        TarReader reader(source);
        TarEntry entry;
        std::size_t nameBytes = 0;
        while (reader.next(entry)) {
            Member member;
            switch (entry.type) {
                case TarEntry::Type::regular:
                    member = {.kind = reader.isSparse() ? Member::Kind::sparse : Member::Kind::file,
                              .offset = source.position(),
                              .size = entry.size};
                    break;
                case TarEntry::Type::symlink:
                    member = {.kind = Member::Kind::symlink, .target = entry.linkTarget};
                    break;
                case TarEntry::Type::hardLink:
                    member = {.kind = Member::Kind::hardLink, .target = withoutLeadingDots(entry.linkTarget)};
                    break;
                default:
                    continue;
            }
            nameBytes += entry.path.size() + entry.linkTarget.size();
            if (members.size() == mostMembers || nameBytes > mostNameBytes) {
                throw Error(cat("The archive has more than ", mostMembers, " members"),
                            "It is not an archive of one or several images");
            }
            const auto [place, isNew] =
                members.try_emplace(withoutLeadingDots(entry.path), std::move(member));
            place->second.repeated = place->second.repeated || !isNew;
        }
    }

    std::shared_ptr<const UniqueFd> file;
    std::map<std::string, Member> members;
};

}  // namespace

std::shared_ptr<const SourceFiles> openArchive(UniqueFd archive) {
    return std::make_shared<Archive>(std::move(archive));
}

}  // namespace sarus::image::build
