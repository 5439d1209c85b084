#include "image/types/build_report.hpp"

#include <type_traits>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/fsverity.hpp"
#include "base/text.hpp"
#include "oci/image/digest.hpp"

namespace sarus::image {

namespace {

bool isAnything(std::string_view) noexcept {
    return true;
}

bool isThere(std::string_view text) noexcept {
    return !text.empty();
}

bool isLine(std::string_view text) {
    return !text.empty() && printable(text) == text;
}

/// Calls visit(key, member, required form of its text) for each field of the line.
template <typename Report, typename Visit>
void visitFields(Report& report,
                 Visit&& visit) requires std::is_same_v<std::remove_const_t<Report>, BuildReport> {
    visit("manifestDigest", report.manifestDigest, isAnything);
    visit("configDigest", report.configDigest, oci::Digest::isValid);
    visit("config", report.config, isThere);
    visit("squashfsDigest", report.squashfsDigest, fsverity::isDigest);
    visit("squashfsSize", report.squashfsSize, isAnything);
    visit("entries", report.entries, isAnything);
    visit("owner", report.owner, isLine);
    visit("builder", report.builder, isLine);
    visit("compressor", report.compressor, isLine);
    visit("layersId", report.layersId, isAnything);
}

template <typename Description, typename Visit>
void visitFields(Description& description,
                 Visit&& visit) requires std::is_same_v<std::remove_const_t<Description>, ImageDescription> {
    visit("format", description.format, isThere);
    visit("configDigest", description.configDigest, oci::Digest::isValid);
    visit("name", description.name, isAnything);
    visit("config", description.config, isThere);
    visit("layersId", description.layersId, isAnything);
}

template <typename Description, typename Visit>
void visitFields(Description& description, Visit&& visit) requires
    std::is_same_v<std::remove_const_t<Description>, ConversionDescription> {
    visit("owner", description.owner, isLine);
    visit("builder", description.builder, isLine);
    visit("compressor", description.compressor, isLine);
}

template <typename Fields>
nlohmann::ordered_json toJson(const Fields& fields) {
    nlohmann::ordered_json line;
    visitFields(fields, [&](const char* key, const auto& value, auto) { line[key] = value; });
    return line;
}

template <typename Fields>
Fields parse(std::string_view line) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    Fields fields;
    visitFields(fields, [&](const char* key, auto& value, auto isValid) {
        constexpr bool isNumber = std::is_integral_v<std::remove_reference_t<decltype(value)>>;
        const auto found = json.is_object() ? json.find(key) : json.end();
        bool valid = found != json.end() && (isNumber ? found->is_number_unsigned() : found->is_string());
        if (valid) {
            found->get_to(value);
        }
        if constexpr (!isNumber) {
            valid = isValid(value);
        }
        if (!valid) {
            throw Error(cat("The image builder reported no valid ", key));
        }
    });
    return fields;
}

}  // namespace

std::string serializeBuildReport(const BuildReport& report) {
    auto line = toJson(report);
    if (report.manifestDigest.empty()) {
        line.erase("manifestDigest");
    }
    if (report.layersId.empty()) {
        line.erase("layersId");
    }
    return line.dump();
}

BuildReport parseBuildReport(std::string_view line) {
    return parse<BuildReport>(line);
}

std::string serializeImageDescription(const ImageDescription& description) {
    return toJson(description).dump();
}

ImageDescription parseImageDescription(std::string_view line) {
    return parse<ImageDescription>(line);
}

std::string serializeConversionDescription(const ConversionDescription& description) {
    return toJson(description).dump();
}

ConversionDescription parseConversionDescription(std::string_view line) {
    return parse<ConversionDescription>(line);
}

}  // namespace sarus::image
