// Finds the image in an OCI layout: index.json, image indexes, manifest and configuration.
//
// Input: up to four documents, separated by NUL: index.json, an image index, a manifest, a configuration. In
// each of them "@1",
// "@2" and "@3" stand for the descriptors' members of the document with that number (digest and size), which
// no mutation could get right.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "fuzz_files.hpp"
#include "image/build/read/layout.hpp"

namespace {

using namespace sarus::image::build;

std::string replaceAll(std::string text, std::string_view what, std::string_view by) {
    for (auto found = text.find(what); found != std::string::npos;
         found = text.find(what, found + by.size())) {
        text.replace(found, what.size(), by);
    }
    return text;
}

void writeLayout(const std::string& root, std::vector<std::string> documents) {
    sarus::createDirectories(root + "/blobs/sha256");
    for (std::size_t i = documents.size(); i-- > 1;) {
        const auto digest = digestOf("sha256", documents[i]);
        sarus::test::fuzz::write(sarus::cat(root, "/blobs/sha256/", digest.hex()), documents[i]);
        const auto descriptor =
            sarus::cat(R"("digest":")", digest.text(), R"(","size":)", documents[i].size());
        for (std::size_t j = 0; j < i; ++j) {
            documents[j] = replaceAll(documents[j], sarus::cat('@', i), descriptor);
        }
    }
    sarus::test::fuzz::write(root + "/index.json", documents[0]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto root = sarus::test::fuzz::scratchDirectory() + "/layout";
    auto documents = sarus::split(std::string_view(reinterpret_cast<const char*>(data), size), '\0');
    documents.resize(std::min<std::size_t>(documents.size(), 4));
    writeLayout(root, std::move(documents));
    for (const char* platform : {"linux/amd64", "linux/arm64/v8"}) {
        try {
            const auto image =
                openImage({.source = root, .platform = sarus::oci::parsePlatformName(platform)});
            for (const auto& layer : image.layers) {
                if (!layer.name.starts_with("blobs/") || layer.name.find("..") != std::string::npos) {
                    std::abort();  // a file that is not the layout's would be read
                }
            }
        } catch (const sarus::Error&) {
            continue;  // refused, as most inputs should be
        }
    }
    sarus::removeTree(root);
    return 0;
}
