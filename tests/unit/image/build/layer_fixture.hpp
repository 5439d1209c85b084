#pragma once

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "image/build/hash/hasher.hpp"
#include "image/build/image_builder.hpp"
#include "image/build/read/layout.hpp"
#include "squashfs/reader/reader.hpp"

namespace sarus::image::build::test {

using namespace sarus::test;  // test::Scratch is the same where this header is

/// Writes tar archives with any content, also such that no tar program would make.
class TarWriter {
public:
    struct Member {
        std::string name;
        char type = '0';
        std::string content{};
        std::string link{};
        unsigned int mode = 0644;
        std::int64_t mtime = 1'000'000'000;
        unsigned int major = 0;
        unsigned int minor = 0;
        std::vector<std::pair<std::string, std::string>> pax{};
        std::string magic{"ustar\00000", 8};
        std::string prefix{};
        std::string size{};  ///< the text of the field where it is not the number
    };

    TarWriter& add(Member member) {
        if (member.name.size() > 100) {
            member.pax.emplace_back("path", member.name);
            member.name.resize(100);
        }
        if (member.link.size() > 100) {
            member.pax.emplace_back("linkpath", member.link);
            member.link.resize(100);
        }
        if (!member.pax.empty()) {
            addPax('x', member.pax);
        }
        addRaw(member, member.content.size());
        return *this;
    }
    TarWriter& file(std::string name, std::string content, unsigned int mode = 0644) {
        return add({.name = std::move(name), .content = std::move(content), .mode = mode});
    }
    TarWriter& directory(std::string name, unsigned int mode = 0755, std::int64_t mtime = 1'000'000'000) {
        return add({.name = std::move(name), .type = '5', .mode = mode, .mtime = mtime});
    }
    TarWriter& symlink(std::string name, std::string target) {
        return add({.name = std::move(name), .type = '2', .link = std::move(target), .mode = 0777});
    }
    TarWriter& hardLink(std::string name, std::string target) {
        return add({.name = std::move(name), .type = '1', .link = std::move(target)});
    }
    TarWriter& addPax(char type, const std::vector<std::pair<std::string, std::string>>& records) {
        std::string text;
        for (const auto& [key, value] : records) {
            const std::size_t rest = key.size() + value.size() + 3;
            std::size_t length = rest + 1;
            while (cat(length).size() + rest != length) {
                ++length;
            }
            text += cat(length, ' ', key, '=', value, '\n');
        }
        Member header{.name = "pax", .type = type, .content = text};
        addRaw(header, text.size());
        return *this;
    }
    /// A header that claims `size` bytes of data, whatever follows.
    TarWriter& addRaw(const Member& member, std::uint64_t size) {
        std::string block(512, '\0');
        const auto put = [&](std::size_t offset, std::string_view text) {
            block.replace(offset, text.size(), text);
        };
        put(0, std::string_view(member.name).substr(0, 100));
        put(100, octal(member.mode, 7));
        put(108, octal(0, 7));
        put(116, octal(0, 7));
        put(124, member.size.empty() ? octal(size, 11) : member.size);
        if (member.mtime >= 0 && member.mtime < (std::int64_t{1} << 33)) {
            put(136, octal(static_cast<std::uint64_t>(member.mtime), 11));
        } else {
            for (int i = 0; i < 12; ++i) {
                block[static_cast<std::size_t>(147 - i)] =
                    static_cast<char>(i < 8 ? member.mtime >> (8 * i) : member.mtime >> 63);
            }
            block[136] = static_cast<char>(member.mtime < 0 ? 0xFF : 0x80);
        }
        block[156] = member.type;
        put(157, std::string_view(member.link).substr(0, 100));
        put(257, member.magic);
        put(345, member.prefix);
        put(329, octal(member.major, 7));
        put(337, octal(member.minor, 7));
        put(148, "        ");
        unsigned int sum = 0;
        for (const char byte : block) {
            sum += static_cast<unsigned char>(byte);
        }
        put(148, octal(sum, 6) + '\0');
        return append(block + member.content);
    }
    TarWriter& append(const std::string& bytes) {
        archive += bytes;
        archive.resize((archive.size() + 511) / 512 * 512, '\0');
        return *this;
    }

    std::string finish() const { return archive + std::string(1024, '\0'); }
    const std::string& unfinished() const { return archive; }

private:
    static std::string octal(std::uint64_t value, std::size_t digits) {
        std::string text(digits, '0');
        for (auto i = digits; i > 0 && value != 0; --i, value >>= 3U) {
            text[i - 1] = static_cast<char>('0' + (value & 7U));
        }
        return text;
    }

    std::string archive;
};

inline std::string gzip(std::string_view data) {
    z_stream stream{};
    deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    std::string out(deflateBound(&stream, data.size()) + 64, '\0');
    stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(data.data()));
    stream.avail_in = static_cast<unsigned int>(data.size());
    stream.next_out = reinterpret_cast<unsigned char*>(out.data());
    stream.avail_out = static_cast<unsigned int>(out.size());
    deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
}

inline std::string zstd(std::string_view data) {
    std::string out(ZSTD_compressBound(data.size()), '\0');
    out.resize(ZSTD_compress(out.data(), out.size(), data.data(), data.size(), 3));
    return out;
}

inline std::string sha256(std::string_view data) {
    return digestOf("sha256", data).text();
}

/// Makes OCI layouts in a temporary directory.
inline std::string contentOf(const Layer& layer) {
    return readSmallFile(*layer.files, layer.name, 1U << 30U);
}

class LayoutWriter {
public:
    LayoutWriter() { createDirectories(directory / "layout/blobs/sha256"); }

    std::string path() const { return directory / "layout"; }
    std::string scratch(const std::string& name) const { return directory / name; }

    static void write(const std::string& file, std::string_view data) {
        writeAll(openFile(file, O_WRONLY | O_CREAT | O_TRUNC, 0644).get(), data, file);
    }
    std::string addBlob(std::string_view data) {
        const std::string digest = sha256(data);
        write(blobPath(digest), data);
        return digest;
    }
    static std::string blobName(const std::string& digest) { return cat("blobs/sha256/", digest.substr(7)); }
    std::string blobPath(const std::string& digest) const { return cat(path(), '/', blobName(digest)); }
    std::shared_ptr<const SourceFiles> files() const {
        return openSourceDirectory(openFile(path(), O_RDONLY | O_DIRECTORY));
    }

    static std::string descriptor(std::string_view type, std::string_view digest, std::size_t size,
                                  std::string_view more = {}) {
        return cat(R"({"mediaType":")", type, R"(","digest":")", digest, R"(","size":)", size, more, '}');
    }

    /// `layers`: uncompressed archives, the lowest first; returns the manifest's descriptor.
    std::string addImage(const std::vector<std::string>& layers, std::string (*pack)(std::string_view) = gzip,
                         std::string_view architecture = "amd64", std::string_view more = {}) {
        std::string descriptors;
        std::string diffIds;
        for (const auto& layer : layers) {
            const std::string packed = pack != nullptr ? pack(layer) : layer;
            descriptors += cat(
                descriptors.empty() ? "" : ",",
                descriptor("application/vnd.oci.image.layer.v1.tar+gzip", addBlob(packed), packed.size()));
            diffIds += cat(diffIds.empty() ? "\"" : ",\"", sha256(layer), '"');
        }
        const std::string config =
            cat(R"({"architecture":")", architecture,
                R"(","os":"linux","rootfs":{"type":"layers","diff_ids":[)", diffIds, "]}}");
        return addManifest(config, descriptors, more);
    }
    std::string addManifest(const std::string& config, const std::string& layerDescriptors,
                            std::string_view more = {}) {
        const std::string manifest =
            cat(R"({"schemaVersion":2,"config":)",
                descriptor("application/vnd.oci.image.config.v1+json", addBlob(config), config.size()),
                R"(,"layers":[)", layerDescriptors, "]}");
        return descriptor("application/vnd.oci.image.manifest.v1+json", addBlob(manifest), manifest.size(),
                          more);
    }
    void writeIndex(const std::string& descriptors) {
        write(path() + "/index.json", cat(R"({"schemaVersion":2,"manifests":[)", descriptors, "]}"));
    }

private:
    sarus::test::TemporaryDirectory directory;
};

/// What an image shows under one name.
struct Seen {
    unsigned int mode = 0;  ///< type and permissions
    std::uint32_t mtime = 0;
    std::uint32_t inode = 0;
    std::uint32_t links = 1;
    std::uint32_t device = 0;
    std::string content{};  ///< or a link's target
    squashfs::XattrSet xattrs{};
};
using SeenTree = std::map<std::string, Seen>;

inline Seen describe(squashfs::Reader& reader, squashfs::ContentReader& content,
                     const sqfs_inode_generic_t& inode) {
    Seen seen{.mode = inode.base.mode, .mtime = inode.base.mod_time, .inode = inode.base.inode_number};
    switch (inode.base.type) {
        case SQFS_INODE_FILE:
        case SQFS_INODE_EXT_FILE: {
            seen.links = inode.base.type == SQFS_INODE_EXT_FILE ? inode.data.file_ext.nlink : 1;
            sqfs_u64 size = 0;
            sqfs_inode_get_file_size(&inode, &size);
            seen.content.assign(size, '\0');
            content.read(inode, [&](std::uint64_t offset, std::span<const char> bytes) {
                seen.content.replace(offset, bytes.size(), bytes.data(), bytes.size());
            });
            break;
        }
        case SQFS_INODE_SLINK:
            seen.content.assign(reinterpret_cast<const char*>(inode.extra), inode.data.slink.target_size);
            break;
        case SQFS_INODE_BDEV:
        case SQFS_INODE_CDEV:
            seen.device = inode.data.dev.devno;
            break;
        default:
            break;
    }
    seen.xattrs = reader.xattrs(inode);
    return seen;
}

inline SeenTree readTree(const std::string& image) {
    squashfs::Reader reader(image);
    squashfs::ContentReader content(reader);
    SeenTree tree;
    std::vector<std::pair<std::string, squashfs::OwnInode>> waiting;
    waiting.emplace_back("", reader.root());
    tree.emplace("/", describe(reader, content, *waiting.back().second));
    while (!waiting.empty()) {
        const auto [path, directory] = std::move(waiting.back());
        waiting.pop_back();
        for (auto& entry : reader.list(*directory)) {
            const std::string name = path.empty() ? entry.name : cat(path, '/', entry.name);
            tree.emplace(name, describe(reader, content, *entry.inode));
            if ((entry.inode->base.mode & 0170000U) == 0040000U) {
                waiting.emplace_back(name, std::move(entry.inode));
            }
        }
    }
    return tree;
}

inline BuildRequest requestFor(const LayoutWriter& layout, const std::string& output) {
    BuildRequest request;
    request.layers = openImage({.source = layout.path()}).layers;
    request.outputPath = output;
    request.owner = {1234, 5678};
    return request;
}

/// Converts layers (the lowest first) and reads the result back.
inline SeenTree convert(const std::vector<std::string>& layers,
                        std::string (*pack)(std::string_view) = gzip) {
    LayoutWriter layout;
    layout.writeIndex(layout.addImage(layers, pack));
    const std::string output = layout.scratch("out.squashfs");
    buildImage(requestFor(layout, output));
    return readTree(output);
}

inline std::vector<std::string> namesOf(const SeenTree& tree) {
    std::vector<std::string> names;
    for (const auto& [name, seen] : tree) {
        if (name != "/") {
            names.push_back(name);
        }
    }
    return names;
}

}  // namespace sarus::image::build::test
