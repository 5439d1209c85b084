#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sarus::test {

/// Writes small ELF shared objects for tests: one segment which maps the file at address 0x10000, with what
/// readElf looks at.
struct ElfBuilder {
    bool is64Bit = true;
    bool bigEndian = false;
    std::uint16_t machine = 62;
    std::uint32_t flags = 0;
    std::string soname{};
    std::vector<std::string> needed{};
    std::string rpath{};
    std::string runpath{};
    std::string interpreter{};
    std::vector<std::pair<std::string, std::vector<std::string>>> versionNeeds{};
    std::vector<std::string> versionDefinitions{};
    /// Links every record of the version needs to itself instead of the next one, with the largest counts.
    bool endlessVersions = false;

    static constexpr std::uint64_t baseAddress = 0x10000;

    std::string build() const {
        Texts texts;
        const auto verneed = buildNeeds(texts);
        const auto verdef = buildDefinitions(texts);
        std::vector<std::pair<std::uint64_t, std::uint64_t>> dynamic;
        for (const auto& name : needed) {
            dynamic.emplace_back(1, texts.add(name));
        }
        if (!soname.empty()) {
            dynamic.emplace_back(14, texts.add(soname));
        }
        if (!rpath.empty()) {
            dynamic.emplace_back(15, texts.add(rpath));
        }
        if (!runpath.empty()) {
            dynamic.emplace_back(29, texts.add(runpath));
        }
        const std::size_t header = is64Bit ? 64 : 52;
        const std::size_t programHeader = is64Bit ? 56 : 32;
        const std::size_t word = is64Bit ? 8 : 4;
        const auto interpreterAt = header + 3 * programHeader;
        const auto stringsAt = interpreterAt + interpreter.size() + 1;
        const auto needsAt = stringsAt + texts.bytes.size();
        const auto definitionsAt = needsAt + verneed.size();
        const auto dynamicAt = definitionsAt + verdef.size();
        dynamic.emplace_back(5, baseAddress + stringsAt);
        dynamic.emplace_back(10, texts.bytes.size());
        if (!versionNeeds.empty()) {
            dynamic.emplace_back(0x6ffffffe, baseAddress + needsAt);
            dynamic.emplace_back(0x6fffffff, endlessVersions ? 0xffffffffU : versionNeeds.size());
        }
        if (!versionDefinitions.empty()) {
            dynamic.emplace_back(0x6ffffffc, baseAddress + definitionsAt);
            dynamic.emplace_back(0x6ffffffd, versionDefinitions.size() + 1);
        }
        dynamic.emplace_back(0, 0);
        const auto end = dynamicAt + dynamic.size() * 2 * word;

        std::string out(
            "\x7f"
            "ELF",
            4);
        out += {static_cast<char>(is64Bit ? 2 : 1), static_cast<char>(bigEndian ? 2 : 1), 1};
        out.append(9, '\0');
        put(out, 3, 2);
        put(out, machine, 2);
        put(out, 1, 4);
        put(out, 0, word);
        put(out, header, word);
        put(out, 0, word);
        put(out, flags, 4);
        put(out, header, 2);
        put(out, programHeader, 2);
        put(out, interpreter.empty() ? 2 : 3, 2);
        put(out, 0, 6);
        putProgramHeader(out, 1, 0, baseAddress, end);
        putProgramHeader(out, 2, dynamicAt, baseAddress + dynamicAt, end - dynamicAt);
        putProgramHeader(out, interpreter.empty() ? 0 : 3, interpreterAt, baseAddress + interpreterAt,
                         interpreter.size() + 1);
        out += interpreter + '\0';
        out += texts.bytes + verneed + verdef;
        for (const auto& [tag, value] : dynamic) {
            put(out, tag, word);
            put(out, value, word);
        }
        return out;
    }

private:
    struct Texts {
        std::string bytes = std::string(1, '\0');
        std::uint64_t add(const std::string& text) {
            const auto offset = bytes.size();
            bytes += text + '\0';
            return offset;
        }
    };

    void put(std::string& out, std::uint64_t value, std::size_t size) const {
        for (std::size_t i = 0; i < size; ++i) {
            const auto shift = 8 * (bigEndian ? size - 1 - i : i);
            out += static_cast<char>(shift >= 64 ? 0 : (value >> shift) & 0xffU);
        }
    }

    void putProgramHeader(std::string& out, std::uint64_t type, std::uint64_t offset, std::uint64_t address,
                          std::uint64_t size) const {
        const std::size_t word = is64Bit ? 8 : 4;
        put(out, type, 4);
        if (is64Bit) {
            put(out, 5, 4);
        }
        for (const auto value : {offset, address, address, size, size}) {
            put(out, value, word);
        }
        if (!is64Bit) {
            put(out, 5, 4);
        }
        put(out, 8, word);
    }

    std::string buildNeeds(Texts& texts) const {
        std::string out;
        for (std::size_t i = 0; i < versionNeeds.size(); ++i) {
            const auto& [file, versions] = versionNeeds[i];
            const bool last = i + 1 == versionNeeds.size() && !endlessVersions;
            put(out, 1, 2);
            put(out, endlessVersions ? 0xffff : versions.size(), 2);
            put(out, texts.add(file), 4);
            put(out, 16, 4);
            put(out, last ? 0 : endlessVersions ? 0xfffffff0U : 16 + 16 * versions.size(), 4);
            for (std::size_t j = 0; j < versions.size(); ++j) {
                put(out, 0x1234, 4);
                put(out, versions[j].starts_with("weak:") ? 2 : 0, 2);
                put(out, j + 2, 2);
                put(out, texts.add(versions[j]), 4);
                put(out, j + 1 == versions.size() ? 0 : 16, 4);
            }
        }
        return out;
    }

    std::string buildDefinitions(Texts& texts) const {
        std::string out;
        for (std::size_t i = 0; !versionDefinitions.empty() && i <= versionDefinitions.size(); ++i) {
            put(out, 1, 2);
            put(out, i == 0 ? 1 : 0, 2);
            put(out, i + 1, 2);
            put(out, 1, 2);
            put(out, 0, 4);
            put(out, 20, 4);
            put(out, i == versionDefinitions.size() ? 0 : 28, 4);
            put(out, texts.add(i == 0 ? soname : versionDefinitions[i - 1]), 4);
            put(out, 0, 4);
        }
        return out;
    }
};

}  // namespace sarus::test
