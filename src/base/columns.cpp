#include "base/columns.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace sarus {

std::string formatColumns(std::vector<std::vector<std::string>> rows, std::size_t gap,
                          std::size_t narrowest) {
    std::vector<std::size_t> widths(rows.front().size(), narrowest);
    for (const auto& row : rows) {
        for (std::size_t column = 0; column < row.size(); ++column) {
            widths[column] = std::max(widths[column], row[column].size());
        }
    }
    std::string table;
    for (auto& row : rows) {
        for (std::size_t column = 0; column + 1 < row.size(); ++column) {
            row[column].resize(widths[column] + gap, ' ');
        }
        table += cat(join(row, ""), '\n');
    }
    return table;
}

}  // namespace sarus
