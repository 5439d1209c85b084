#include "hooks/amdgpu/gpu.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/failing_listing.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"

namespace sarus::hooks::amdgpu::gpu_test {
namespace {

/// Directories which look like /dev and /sys of a node.
class Node {
public:
    Node() {
        createDirectories(dev() + "/dri/by-path");
        createDirectories(sys());
    }
    std::string dev() const { return tree.path() + "/dev"; }
    std::string sys() const { return tree.path() + "/sys"; }

    void pathLink(const std::string& name, const std::string& target) const {
        checkErrno(::symlink(("../" + target).c_str(), (dev() + "/dri/by-path/" + name).c_str()), name);
    }
    void gpuByPath(int bus, int card, int render) const {
        const auto name = cat("pci-0000:", bus, ":00.0");
        pathLink(name + "-card", cat("card", card));
        pathLink(name + "-render", cat("renderD", render));
    }
    void topologyNode(int number, const std::string& properties) const {
        const auto directory = cat(sys(), "/class/kfd/kfd/topology/nodes/", number);
        createDirectories(directory);
        replaceFile(directory + "/properties", properties, 0444);
    }

    FoundGpus find() const { return findGpus(dev(), sys()); }

private:
    test::TemporaryDirectory tree;
};

std::string errorOf(const std::vector<Gpu>& gpus, std::string_view value) {
    try {
        selectGpus(gpus, value);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

const std::vector<Gpu> nodeGpus{{0, "card0", "renderD128", 0x18f8a8b5b6c25f66},
                                {1, "card1", "renderD129", 0x18f8a8b5b6c2ffff},
                                {2, "card2", "renderD130", std::nullopt}};

TEST(AmdGpuInventory, PairsCardsAndRenderNodesByTheirBus) {
    const Node node;
    node.gpuByPath(3, 1, 129);
    node.gpuByPath(9, 0, 128);
    const auto found = node.find();
    EXPECT_EQ(found.gpus, (std::vector<Gpu>{{0, "card0", "renderD128", {}}, {1, "card1", "renderD129", {}}}));
    EXPECT_TRUE(found.warnings.empty());
}

TEST(AmdGpuInventory, CardWithoutRenderNodeIsLeftOutWithAWarning) {
    const Node node;
    node.gpuByPath(3, 1, 128);
    node.pathLink("pci-0000:62:00.0-card", "card0");
    const auto found = node.find();
    EXPECT_EQ(found.gpus, (std::vector<Gpu>{{1, "card1", "renderD128", {}}}));
    ASSERT_EQ(found.warnings.size(), 1U);
    EXPECT_NE(found.warnings[0].find("pci-0000:62:00.0-card: it has no render node"), std::string::npos);
}

TEST(AmdGpuInventory, LinksWhichLeadNowhereSensibleAreLeftOut) {
    const Node node;
    node.pathLink("pci-0000:03:00.0-card", "../../etc/passwd");
    node.pathLink("pci-0000:03:00.0-render", "renderD128/..");
    node.pathLink("pci-0000:04:00.0-card", "card1");
    node.pathLink("pci-0000:04:00.0-render", "renderDx");
    const auto found = node.find();
    EXPECT_TRUE(found.gpus.empty());
    EXPECT_EQ(found.warnings.size(), 2U);
}

TEST(AmdGpuInventory, TopologyTellsOrderAndIdentity) {
    const Node node;
    node.topologyNode(0, "cpu_cores_count 64\nsimd_count 0\ndrm_render_minor 0\n");
    node.topologyNode(10, "simd_count 416\ndrm_render_minor 128\nunique_id 1799411425373749094\n");
    node.topologyNode(2, "simd_count 416\ndrm_render_minor 130\nunique_id 0\n");
    node.pathLink("pci-0000:62:00.0-card", "card0");
    node.gpuByPath(4, 1, 128);
    node.gpuByPath(3, 7, 130);
    const auto found = node.find();
    EXPECT_EQ(found.gpus, (std::vector<Gpu>{{0, "card7", "renderD130", {}},
                                            {1, "card1", "renderD128", 1799411425373749094U}}));
    EXPECT_TRUE(found.warnings.empty());
    EXPECT_EQ(found.gpus[1].uuid(), "GPU-18f8cb285e2e7f66");
}

TEST(AmdGpuInventory, CardIsAlsoFoundThroughTheDrmClass) {
    const Node node;
    node.topologyNode(1, "simd_count 416\ndrm_render_minor 128\n");
    node.topologyNode(2, "simd_count 416\ndrm_render_minor 129\n");
    createDirectories(node.sys() + "/class/drm/renderD128/device/drm/renderD128");
    createDirectories(node.sys() + "/class/drm/renderD128/device/drm/card3");
    const auto found = node.find();
    EXPECT_EQ(found.gpus, (std::vector<Gpu>{{0, "card3", "renderD128", {}}, {1, "", "renderD129", {}}}));
}

TEST(AmdGpuInventory, NodeWithoutGraphicsHasNone) {
    const test::TemporaryDirectory empty;
    EXPECT_TRUE(findGpus(empty.path() + "/dev", empty.path() + "/sys").gpus.empty());
}

TEST(AmdGpuSelection, AbsentOrEmptyVariableMeansAll) {
    EXPECT_EQ(selectGpus(nodeGpus, ""), nodeGpus);
    EXPECT_EQ(selectGpus(nodeGpus, " "), nodeGpus);
}

TEST(AmdGpuSelection, IndicesInTheGivenOrderEachOnce) {
    EXPECT_EQ(selectGpus(nodeGpus, "2, 0,2"), (std::vector<Gpu>{nodeGpus[2], nodeGpus[0]}));
}

TEST(AmdGpuSelection, UuidsMayBeCutShortWhileUnmistakable) {
    EXPECT_EQ(selectGpus(nodeGpus, "GPU-18f8a8b5b6c25f66"), (std::vector<Gpu>{nodeGpus[0]}));
    EXPECT_EQ(selectGpus(nodeGpus, "gpu-18F8A8B5B6C2FF"), (std::vector<Gpu>{nodeGpus[1]}));
    EXPECT_EQ(selectGpus(nodeGpus, "GPU-18f8a8b5b6c25f66,1"), (std::vector<Gpu>{nodeGpus[0], nodeGpus[1]}));
    EXPECT_EQ(errorOf(nodeGpus, "GPU-18f8"),
              "ROCR_VISIBLE_DEVICES holds 'GPU-18f8', which is more than one AMD GPU of this node");
}

TEST(AmdGpuSelection, WhatIsNoGpuIsNamed) {
    for (const auto* value : {"3", "-1", "GPU-", "GPU-XX", "0x0", "card0", "0;1", "99999999999999999999"}) {
        EXPECT_EQ(errorOf(nodeGpus, value),
                  cat("ROCR_VISIBLE_DEVICES holds '", value, "', which is no AMD GPU of this node"));
    }
    EXPECT_EQ(errorOf(nodeGpus, "0,,1"), "ROCR_VISIBLE_DEVICES holds '', which is no AMD GPU of this node");
}

TEST(AmdGpuInventory, DirectoriesThatCannotBeReadAreAnError) {
    const Node node;
    node.gpuByPath(3, 1, 129);
    for (const int after : {0, 1, 2}) {
        const test::FailingListing failing(EIO, after);
        EXPECT_THROW(node.find(), Error) << after;
    }
}

}  // namespace
}  // namespace sarus::hooks::amdgpu::gpu_test
