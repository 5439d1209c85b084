#include "oci/cdi/cdi_spec.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::oci::cdi_spec_test {
namespace {

std::string failure(std::string_view text, std::string_view file = "gpu.json") {
    try {
        parseCdiSpec(text, file);
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

std::string withVersion(std::string_view version, std::string_view rest) {
    return cat(R"({"cdiVersion": ")", version, R"(", "kind": "v.com/c", )", rest, "}");
}

constexpr std::string_view oneDevice = R"("devices": [{"name": "d", "containerEdits": {"env": ["A=1"]}}])";

TEST(CdiSpec, whatNvidiaCtkWritesIsRead) {
    const auto spec = parseCdiSpec(R"(---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/nvidiactl
  - path: /dev/nvidia-uvm
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  hooks:
  - args:
    - nvidia-cdi-hook
    - create-symlinks
    - --link
    - libcuda.so.1::/usr/lib/x86_64-linux-gnu/libcuda.so
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
  mounts:
  - containerPath: /usr/bin/nvidia-smi
    hostPath: /usr/bin/nvidia-smi
    options:
    - ro
    - nosuid
    - nodev
    - rbind
    - rprivate
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - hostPath: /dev/dri/card1
      path: /dev/dri/card0
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: GPU-6a5c9c44-1111-2222-3333-444455556666
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: all
kind: nvidia.com/gpu
)",
                                   "/etc/cdi/nvidia.yaml");
    EXPECT_EQ(spec.kind, "nvidia.com/gpu");
    EXPECT_EQ(spec.file, "/etc/cdi/nvidia.yaml");
    ASSERT_EQ(spec.devices.size(), 3U);
    EXPECT_EQ(spec.devices[0].name, "0");
    EXPECT_EQ(spec.devices[0].edits.deviceNodes[1].hostPath, "/dev/dri/card1");
    EXPECT_EQ(spec.edits.deviceNodes.size(), 2U);
    EXPECT_EQ(spec.edits.env[0].second, "void");
    ASSERT_EQ(spec.edits.hooks.size(), 1U);
    EXPECT_EQ(spec.edits.hooks[0].hook.args[3], "libcuda.so.1::/usr/lib/x86_64-linux-gnu/libcuda.so");
    EXPECT_EQ(spec.edits.mounts[0].options->size(), 5U);
}

TEST(CdiSpec, versionsAreKnownOnesAndNotLowerThanWhatTheFileUses) {
    EXPECT_EQ(failure(withVersion("v0.3.0", oneDevice)), "accepted");
    EXPECT_EQ(failure(withVersion("1.1.0", oneDevice)), "accepted");
    EXPECT_EQ(failure(withVersion("2.0.0", oneDevice)),
              "gpu.json: cdiVersion: expected a version of CDI from 0.1.0 to 1.1.0, found '2.0.0'");
    EXPECT_EQ(
        failure(withVersion("0.4.0", R"("devices": [{"name": "0", "containerEdits": {"env": ["A=1"]}}])")),
        "gpu.json: cdiVersion is 0.4.0, but the file uses device names that begin with a digit, which "
        "requires 0.5.0");
    EXPECT_EQ(failure(withVersion(
                  "0.6.0", R"("devices": [{"name": "d", "containerEdits": {"additionalGids": [1]}}])")),
              "gpu.json: cdiVersion is 0.6.0, but the file uses container edits, which requires 0.7.0");
    EXPECT_EQ(failure(withVersion("0.5.0", cat(R"("annotations": {"a": "b"}, )", oneDevice))),
              "gpu.json: cdiVersion is 0.5.0, but the file uses annotations, which requires 0.6.0");
    EXPECT_EQ(failure(cat(R"({"cdiVersion": "0.5.0", "kind": "v.com/c.d", )", oneDevice, "}")),
              "gpu.json: cdiVersion is 0.5.0, but the file uses a '.' in the class, which requires 0.6.0");
}

TEST(CdiSpec, violationsNameTheKey) {
    EXPECT_EQ(failure("{}"), "gpu.json: the required key 'cdiVersion' is missing");
    EXPECT_EQ(failure(withVersion("0.3.0", R"("devices": [])")),
              "gpu.json: devices: expected at least one device, found none");
    EXPECT_EQ(failure(withVersion("0.3.0", R"("devices": [{"name": "d", "containerEdits": {}}])")),
              "gpu.json: devices[0]: the device 'd' has no container edits");
    EXPECT_EQ(failure(withVersion("0.3.0", R"("devices": [{"name": "d"}])")),
              "gpu.json: devices[0]: the required key 'containerEdits' is missing");
    EXPECT_EQ(failure(withVersion("0.3.0", cat(oneDevice, R"(, "more": 1)"))),
              "gpu.json: unknown key 'more'");
    EXPECT_EQ(failure(withVersion("0.3.0", R"("devices": [{"name": "d", "containerEdits": {"env": ["A=1"]}},
                                                          {"name": "d", "containerEdits": {"env": ["A=1"]}}])")),
              "gpu.json: devices: the device 'd' is there twice");
    EXPECT_EQ(failure(R"({"kind": "com"})"),
              "gpu.json: kind: expected a kind \"vendor.com/class\", found 'com'");
    EXPECT_EQ(failure("[]"), "gpu.json: the document: expected an object, found an array");
    EXPECT_NE(failure("{"), "accepted");
    EXPECT_NE(failure("kind: a/b", "x.yaml"), "accepted");
}

TEST(CdiSpec, qualifiedNames) {
    const auto name = parseCdiName("nvidia.com/gpu=GPU-1:0");
    ASSERT_TRUE(name.has_value());
    EXPECT_EQ(name->kind, "nvidia.com/gpu");
    EXPECT_EQ(name->device, "GPU-1:0");
    EXPECT_TRUE(parseCdiName("v/c=0"));
    for (const auto* other :
         {"/dev/fuse", "/dev/a/b=c", "nvidia.com/gpu", "nvidia.com=all", "gpu=0", "1.com/gpu=0", "v.com/=0",
          "v.com/c=", "v.com/c=-a", "v.com/c=a-", "v.com/c=a=b", "v.com/c/d=a", "v com/c=a", "v./c=a", ""}) {
        EXPECT_FALSE(parseCdiName(other)) << other;
    }
}

}  // namespace
}  // namespace sarus::oci::cdi_spec_test
