#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "podman_hpc/config/podman_files.hpp"
#include "podman_hpc/store/migration.hpp"

namespace sarus::podman_hpc::test {

inline const std::string base(64, 'b');

inline std::string idOf(char letter) {
    return std::string(64, letter);
}

/// The superblock of a squashfs file of 96 bytes.
inline std::string squashfs() {
    std::string image(96, '\0');
    image.replace(0, 4, "hsqs");
    image[28] = 4;
    image[40] = 96;
    return image;
}

/// A local store with the images a (top layer 1) and c (top layer 2) over one lowest layer.
class MigrationStores : public testing::Test {
protected:
    MigrationStores() {
        provideSquashStore(local.root, ::geteuid());
        provideSquashStore(store.root, ::geteuid());
        replaceFile(local.layerList(),
                    cat("[", layer(base, ""), ",", layer(idOf('1'), base), ",", layer(idOf('2'), base), "]"),
                    0644);
        replaceFile(local.imageList(), cat("[", image('a', '1', "x:1"), ",", image('c', '2', "y:1"), "]"),
                    0644);
        for (const auto& id : {base, idOf('1'), idOf('2')}) {
            createDirectories(cat(local.layer(id), "/diff"));
            replaceFile(cat(local.layer(id), "/link"),
                        std::string(26, id[0] == 'b'   ? 'B'
                                        : id[0] == '1' ? 'X'
                                                       : 'Y'),
                        0644);
        }
        for (const char letter : {'a', 'c'}) {
            createDirectories(cat(local.images(), '/', idOf(letter)));
            replaceFile(cat(local.images(), '/', idOf(letter), "/manifest"), "{}", 0600);
        }
    }
    static std::string layer(const std::string& id, const std::string& parent) {
        return cat(R"({"id":")", id, R"(","parent":")", parent, R"("})");
    }
    static std::string image(char id, char top, const std::string& name) {
        return cat(R"({"id":")", idOf(id), R"(","names":[")", name, R"("],"layer":")", idOf(top),
                   R"(","big-data-names":["manifest"],"big-data-sizes":{"manifest":2}})");
    }
    MigrationResult add(char letter) {
        const auto lists = readLists(local);
        return migrate(
            local, lists, *findImageById(lists.images, idOf(letter)), store,
            [&](const SquashOrder& order) {
                ++made;
                writeAll(order.output, squashfs(), "output");
            },
            [&](const std::string& warning) { warnings.push_back(warning); });
    }
    std::vector<std::string> names() const {
        std::vector<std::string> all;
        for (const auto& one : readLists(store).images) {
            all.insert(all.end(), one.names.begin(), one.names.end());
        }
        return all;
    }
    std::string squash(char letter) const { return store.squash(std::string(26, letter)); }

    sarus::test::TemporaryDirectory directory;
    StorePaths local{directory / "local"};
    StorePaths store{directory / "squash"};
    int made = 0;
    std::vector<std::string> warnings;
};

}  // namespace sarus::podman_hpc::test
