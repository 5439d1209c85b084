#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sarus {

/// A table, a line for each row: the columns are as wide as their longest cell, at least `narrowest`
/// characters, and `gap` blanks apart. All rows have the same number of cells. A table that is wider than
/// `width` (0: any is) has the first cell of each row in a line of its own and the others indented below it.
std::string formatColumns(std::vector<std::vector<std::string>> rows, std::size_t gap,
                          std::size_t narrowest = 0, std::size_t width = 0);

/// The text with blanks behind it, `width` bytes at least.
std::string padded(std::string text, std::size_t width);

/// The columns of the terminal; 0 if the descriptor is none, or its width is unknown.
std::size_t terminalWidth(int fd);

/// The text in lines of `width` columns, of which all but the first begin with `indent` blanks: the first one
/// stands behind as many. Breaks at blanks, and in words that are longer than a line. Width 0 breaks nothing.
std::string foldLine(std::string_view text, std::size_t width, std::size_t indent);

}  // namespace sarus
