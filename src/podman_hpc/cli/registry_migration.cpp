#include "podman_hpc/cli/registry_migration.hpp"

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "image/transfer/file_policy.hpp"
#include "image/transfer/pull_failure.hpp"
#include "image/transfer/skopeo.hpp"
#include "image/types/reference.hpp"
#include "oci/image/image_manifest.hpp"
#include "oci/image/platform.hpp"
#include "podman_hpc/cli/commands.hpp"
#include "podman_hpc/cli/squash_maker.hpp"
#include "podman_hpc/store/damage.hpp"
#include "podman_hpc/store/registry_image.hpp"
#include "podman_hpc/store/work_directory.hpp"

namespace sarus::podman_hpc {

namespace {

/// An image of a registry, as skopeo finds it.
class Registry {
public:
    Registry(image::ImageReference wanted, const std::string& temporary)
        : reference(std::move(wanted)),
          skopeo({.path = program(), .policy = {}, .registriesDPath = {}}, temporary) {}

    /// The manifest for this machine; `reference` names it from then on.
    std::string manifest() {
        auto text = inspect();
        if (oci::manifestKind(text) == oci::ManifestKind::imageIndex) {
            const auto index = oci::parseImageIndex(text);
            const auto* entry = oci::selectPlatform(index, oci::hostPlatform());
            if (entry == nullptr) {
                throw Error(cat("The image ", reference.full(), " has no variant for platform ",
                                oci::toString(oci::hostPlatform())));
            }
            reference.digest = entry->digest.text();
            reference.tag.clear();
            text = inspect();
        }
        if (oci::manifestKind(text) != oci::ManifestKind::imageManifest) {
            throw Error(cat("The manifest of ", reference.full(), " is of an unknown type"));
        }
        return text;
    }

    void copy(const std::string& directory) { check(skopeo.copyUnchanged(source(), directory)); }

private:
    static std::string program() {
        const auto found = findProgram("skopeo");
        if (!found) {
            throw Error("No skopeo binary found in PATH",
                        "Install skopeo, or pull the image with podman-hpc pull");
        }
        return *found;
    }
    image::ImageSource source() const {
        return {.name = cat("docker://", reference.full()),
                .server = reference.server,
                .image = reference.full()};
    }
    std::string inspect() const {
        const auto result = skopeo.inspectRaw(source());
        check(result);
        return result.out;
    }
    void check(const image::ToolResult& result) const {
        if (!result.status.ok()) {
            const auto login = cat("podman-hpc login ", printable(reference.server));
            throw Error(cat("Failed to get image ", reference.full()),
                        join(image::explainPullFailure(
                                 result.err, reference.server, false,
                                 image::policyFile(std::nullopt, hostVariable("HOME").value_or("")),
                                 {.sentence = cat("Run: ", login), .brief = login}),
                             "\n"));
        }
    }

    image::ImageReference reference;
    image::Skopeo skopeo;
};

}  // namespace

std::pair<MigrationResult, std::string> migrateFromRegistry(const std::string& word, const Settings& settings,
                                                            const StorePaths& store,
                                                            const Surroundings& from) {
    const auto reference = image::parseReference(word).normalized();
    const auto name = reference.full();
    const WorkDirectory work(settings.text(Key::graphRoot));
    Registry registry(reference, work.path());
    const auto manifest = oci::parseImageManifest(registry.manifest());
    oci::checkIsImage(manifest);
    const auto known = readLists(store);
    if (const auto* image = findImageById(known.images, manifest.config.digest.hex())) {
        const auto problem = whatIsBroken(store, known, *image);
        if (problem.empty()) {
            const auto refuse = [](const SquashOrder&) { throw Error("The squash store has changed"); };
            return {migrate(store, known, withNames(*image, {name}), store, refuse, printWarning), name};
        }
        printWarning(cat("The image ", image->id, " in the squash store is damaged: ", printable(problem),
                         ". It is mended"));
    }
    const auto directory = work.path() + "/download";
    createDirectories(directory, 0700);
    registry.copy(directory);
    const auto arranged = arrangeRegistryImage(directory, name);
    const auto lists = readLists(arranged.store);
    const auto result = migrate(
        arranged.store, lists, lists.images.front(), store,
        [&](const SquashOrder& order) { makeSquashOfLayout(order, arranged.layout, from); }, printWarning);
    if (result == MigrationResult::migrated) {
        noteSquash(store, lists, lists.images.front());
    }
    return {result, name};
}

}  // namespace sarus::podman_hpc
