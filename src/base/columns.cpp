#include "base/columns.hpp"

#include <sys/ioctl.h>

#include <algorithm>

#include "base/text.hpp"

namespace sarus {

namespace {

std::size_t widthOf(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
        return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
    }));
}

/// The cells of a row behind the first one, as many side by side as fit.
std::string foldRow(const std::vector<std::string>& row, std::size_t gap, std::size_t width) {
    constexpr std::size_t indent = 2;
    auto text = cat(foldLine(row.front(), width, 0), '\n');
    std::size_t column = 0;
    for (std::size_t i = 1; i < row.size(); ++i) {
        if (row[i].empty()) {
            continue;
        }
        const auto size = widthOf(row[i]);
        const bool fits = column != 0 && column + gap + size <= width;
        text += fits ? std::string(gap, ' ') : cat(column == 0 ? "" : "\n", std::string(indent, ' '));
        text += fits ? row[i] : foldLine(row[i], width, indent);
        column = size + (fits ? column + gap : indent);
    }
    return column == 0 ? text : cat(text, '\n');
}

/// The rows of a table in at most `width` columns.
std::string foldRows(const std::vector<std::vector<std::string>>& rows, std::size_t gap, std::size_t width) {
    std::string table;
    for (const auto& row : rows) {
        table += foldRow(row, gap, width);
    }
    return table;
}

}  // namespace

std::string padded(std::string text, std::size_t width) {
    text.resize(std::max(width, text.size()), ' ');
    return text;
}

std::string formatColumns(std::vector<std::vector<std::string>> rows, std::size_t gap, std::size_t narrowest,
                          std::size_t width) {
    std::vector<std::size_t> widths(rows.front().size(), narrowest);
    for (const auto& row : rows) {
        for (std::size_t column = 0; column < row.size(); ++column) {
            widths[column] = std::max(widths[column], row[column].size());
        }
    }
    std::string table;
    std::size_t whole = (widths.size() - 1) * gap;
    for (const auto columnWidth : widths) {
        whole += columnWidth;
    }
    if (width != 0 && whole > width) {
        return foldRows(rows, gap, width);
    }
    for (auto& row : rows) {
        for (std::size_t column = 0; column + 1 < row.size(); ++column) {
            row[column] = padded(std::move(row[column]), widths[column] + gap);
        }
        table += cat(join(row, ""), '\n');
    }
    return table;
}

std::size_t terminalWidth(int fd) {
    winsize size{};
    return ::ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string foldLine(std::string_view text, std::size_t width, std::size_t indent) {
    if (width <= indent) {
        return std::string(text);
    }
    const auto room = width - indent;
    std::string out;
    std::size_t column = 0;
    const auto breakLine = [&] {
        out += cat('\n', std::string(indent, ' '));
        column = 0;
    };
    for (const auto& word : splitWords(text)) {
        const auto isStart = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; };
        const auto length = static_cast<std::size_t>(std::count_if(word.begin(), word.end(), isStart));
        if (column != 0 && column + 1 + length > room) {
            breakLine();
        } else if (column != 0) {
            out += ' ';
            ++column;
        }
        for (const char byte : word) {
            if (isStart(byte) && column++ == room) {
                breakLine();
                ++column;
            }
            out += byte;
        }
    }
    return out;
}

}  // namespace sarus
