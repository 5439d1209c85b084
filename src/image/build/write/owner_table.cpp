#include "image/build/write/owner_table.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

constexpr std::size_t idsPerBlock = 2048;  // 8 KiB
constexpr std::uint16_t uncompressed = 0x8000;
constexpr std::size_t mostSlots = std::numeric_limits<std::uint16_t>::max();
constexpr std::string_view recordMark = "sarus owners: ";

template <typename Number>
void append(std::string& bytes, Number value) {
    for (std::size_t i = 0; i < sizeof value; ++i) {
        bytes += static_cast<char>(static_cast<std::uint64_t>(value) >> 8 * i & 0xFFU);
    }
}

void writeAtEnd(squashfs::File& file, const std::string& bytes) {
    file.check(file.get()->write_at(file.get(), file.size(), bytes.data(), bytes.size()), "Failed to write");
}

std::optional<OwnerSlot> parseSlot(std::string_view text) {
    if (text.empty() || (text[0] != 'u' && text[0] != 'g')) {
        return std::nullopt;
    }
    const auto id = parseNumber(text.substr(1));
    if (!id || *id > std::numeric_limits<std::uint32_t>::max()) {
        return std::nullopt;
    }
    return OwnerSlot{text[0] == 'u' ? OwnerSlot::Kind::user : OwnerSlot::Kind::group,
                     static_cast<std::uint32_t>(*id)};
}

}  // namespace

IdTable::IdTable(const std::vector<OwnerSlot>& slots, const ForcedOwner& forced) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
        if (i % idsPerBlock == 0) {
            const auto size = std::min(slots.size() - i, idsPerBlock) * sizeof(std::uint32_t);
            append(blocks, static_cast<std::uint16_t>(uncompressed | size));
        }
        const auto& value = slots[i].kind == OwnerSlot::Kind::user ? forced.uid : forced.gid;
        append(blocks, value.value_or(slots[i].id));
    }
}

std::string IdTable::index(std::uint64_t begin) const {
    constexpr auto blockSize = sizeof(std::uint16_t) + idsPerBlock * sizeof(std::uint32_t);
    std::string positions;
    for (std::size_t offset = 0; offset < blocks.size(); offset += blockSize) {
        append(positions, begin + offset);
    }
    return positions;
}

std::uint16_t OwnerTable::slot(const OwnerSlot& owner, const std::optional<std::uint32_t>& value) {
    const auto found = numbers.find(owner);
    if (found != numbers.end()) {
        return found->second;
    }
    if (slots.size() == mostSlots) {
        const auto same = std::find_if(slots.begin(), slots.end(),
                                       [&](const OwnerSlot& known) { return known.kind == owner.kind; });
        if (!value || same == slots.end()) {
            throw Error(cat("The image's files have more than ", mostSlots, " owners and groups"));
        }
        complete = false;
        return static_cast<std::uint16_t>(same - slots.begin());
    }
    const auto number = static_cast<std::uint16_t>(slots.size());
    numbers.emplace(owner, number);
    slots.push_back(owner);
    return number;
}

void OwnerTable::write(squashfs::File& file, sqfs_super_t& super) const {
    const IdTable table(slots, forced);
    const auto index = table.index(file.size());
    writeAtEnd(file, table.blocks);
    super.id_table_start = file.size();
    super.id_count = static_cast<std::uint16_t>(slots.size());
    writeAtEnd(file, index);
}

std::string serialize(const OwnerRecord& record) {
    auto text = cat(recordMark, record.layersId, ' ', record.entries);
    for (const auto& slot : record.slots) {
        text += cat(slot.kind == OwnerSlot::Kind::user ? " u" : " g", slot.id);
    }
    return text + '\n';
}

std::optional<OwnerRecord> parseOwnerRecord(std::string_view text) {
    const auto end = text.find('\n');
    if (!text.starts_with(recordMark) || end == std::string_view::npos) {
        return std::nullopt;
    }
    const auto words = split(text.substr(recordMark.size(), end - recordMark.size()), ' ');
    const auto entries = words.size() > 1 ? parseNumber(words[1]) : std::nullopt;
    if (!entries || words.size() - 2 > mostSlots) {
        return std::nullopt;
    }
    OwnerRecord record{.layersId = words[0], .entries = *entries, .slots = {}};
    for (std::size_t i = 2; i < words.size(); ++i) {
        const auto slot = parseSlot(words[i]);
        if (!slot) {
            return std::nullopt;
        }
        record.slots.push_back(*slot);
    }
    return record;
}

}  // namespace sarus::image::build
