// The minimum work of any conversion: decompress all layers and compress the contents that remain, on all
// CPUs. Reads both into memory and says so. Then it converts once for each line of input, with the options of
// mksquashfs in that line (an empty line: the builder's default), and prints the seconds and the CPU seconds.
//
// Usage: conversion_bound LAYOUT_DIRECTORY IMAGE.squashfs  (the image was made from the layout with blocks of
// 128 KiB)

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <iostream>
#include <thread>
#include <unordered_set>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "image/build/image_builder.hpp"
#include "image/build/read/layout.hpp"
#include "image/build/write/block_compressor.hpp"
#include "squashfs/reader/reader.hpp"

namespace sarus::image::build {
namespace {

constexpr std::size_t blockSize = 128U << 10U;

struct Block {
    BlockContent content;
    std::string bytes;
};

/// The contents of all files, packed into blocks as a squashfs has them: whole ones, and ends of files
/// together.
std::vector<Block> survivingBlocks(const std::string& image) {
    squashfs::Reader reader(image);
    squashfs::ContentReader content(reader);
    std::vector<Block> blocks;
    std::string ends;
    std::vector<squashfs::OwnInode> waiting;
    std::unordered_set<std::uint32_t> seen;
    waiting.push_back(reader.root());
    while (!waiting.empty()) {
        const auto directory = std::move(waiting.back());
        waiting.pop_back();
        for (auto& entry : reader.list(*directory)) {
            const auto type = entry.inode->base.type;
            if (type == SQFS_INODE_DIR || type == SQFS_INODE_EXT_DIR) {
                waiting.push_back(std::move(entry.inode));
            } else if ((type == SQFS_INODE_FILE || type == SQFS_INODE_EXT_FILE) &&
                       seen.insert(entry.inode->base.inode_number).second) {
                content.read(*entry.inode, [&](std::uint64_t, std::span<const char> bytes) {
                    if (bytes.size() == blockSize) {
                        blocks.push_back({BlockContent::file, {bytes.data(), bytes.size()}});
                        return;
                    }
                    ends.append(bytes.data(), bytes.size());
                    if (ends.size() >= blockSize) {
                        blocks.push_back({BlockContent::fragments, ends.substr(0, blockSize)});
                        ends.erase(0, blockSize);
                    }
                });
            }
        }
    }
    blocks.push_back({BlockContent::fragments, std::move(ends)});
    return blocks;
}

void decompressLayer(const Layer& layer) {
    const auto stored = layer.files->open(layer.name);
    std::uint64_t place = 0;
    std::vector<unsigned char> blob(256U << 10U);
    std::vector<unsigned char> out(256U << 10U);
    std::unique_ptr<Decompressor> decompressor;
    while (true) {
        const auto wanted =
            static_cast<std::size_t>(std::min<std::uint64_t>(blob.size(), stored.size - place));
        const auto count = readAt(stored.file->get(), blob.data(), wanted, stored.offset + place, layer.name);
        place += count;
        std::span<const unsigned char> in(blob.data(), count);
        if (!decompressor) {
            const auto kind = detectCompression(in);
            if (kind == Compression::none) {
                return;
            }
            decompressor = makeDecompressor(kind);
        }
        while (true) {
            const auto step = decompressor->step(in, out);
            in = in.subspan(step.consumed);
            if (step.produced == 0 && in.empty()) {
                break;
            }
        }
        if (count == 0) {
            return;
        }
    }
}

void measure(const SourceImage& source, const std::vector<Block>& blocks, const SquashfsOptions& options) {
    const auto begin = std::chrono::steady_clock::now();
    const auto cpuBegin = std::clock();
    // Layers first, as they are the largest pieces; then blocks until none is left.
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> threads;
    for (unsigned int i = 0; i < availableCpus(); ++i) {
        threads.emplace_back([&] {
            BlockCompressor compressor(options);
            std::vector<unsigned char> out(2 * blockSize);
            for (std::size_t task = next++; task < source.layers.size() + blocks.size(); task = next++) {
                if (task < source.layers.size()) {
                    decompressLayer(source.layers[task]);
                } else {
                    const auto& [content, bytes] = blocks[task - source.layers.size()];
                    compressor.compress(
                        content, {reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()}, out);
                }
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    std::cout << std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() << ' '
              << static_cast<double>(std::clock() - cpuBegin) / CLOCKS_PER_SEC << std::endl;
}

void run(const std::string& layout, const std::string& image) {
    const auto source = openImage({.source = layout});
    const auto blocks = survivingBlocks(image);
    std::cout << "ready" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
        measure(source, blocks, parseMksquashfsOptions(line));
    }
}

}  // namespace
}  // namespace sarus::image::build

int main(int argc, char** argv) {
    if (argc != 3) {
        sarus::printError("usage: conversion_bound LAYOUT_DIRECTORY IMAGE.squashfs");
        return 2;
    }
    try {
        sarus::image::build::run(argv[1], argv[2]);
        return 0;
    } catch (const std::exception& error) {
        sarus::printError(error.what());
        return 1;
    }
}
