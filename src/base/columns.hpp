#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sarus {

/// A table, a line for each row: the columns are as wide as their longest cell, at least `narrowest`
/// characters, and `gap` blanks apart. All rows have the same number of cells.
std::string formatColumns(std::vector<std::vector<std::string>> rows, std::size_t gap,
                          std::size_t narrowest = 0);

}  // namespace sarus
