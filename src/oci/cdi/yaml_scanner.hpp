#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sarus::oci {

struct YamlScalar {
    std::string text;
    bool isPlain = false;
    bool isOnOneLine = false;
};

/// The characters of a YAML 1.1 document with their positions, and its scalars. All functions throw Error
/// "<what>: line <number>: ...". Refers to both texts.
class YamlScanner {
public:
    /// Refuses what is not UTF-8 and control characters. Skips a byte order mark and the lines before the
    /// document.
    YamlScanner(std::string_view document, std::string_view what);

    [[noreturn]] void fail(std::string_view why) const;

    /// The next character, or the one `ahead` of it; '\0' behind the end.
    char peek(std::size_t ahead = 0) const;
    void take();
    /// Whether the document ends here, by the end of the text or by a marker.
    bool atEnd() const;
    /// Whether this indicator of blocks stands here, with a blank or a line's end behind it.
    bool atIndicator(char indicator) const;
    /// Like take(), for one of these: a key may stand behind it on its line.
    void takeIndicator();
    std::size_t offset() const { return at; }
    std::size_t line() const { return lineNumber; }
    std::size_t column() const { return at - lineStart; }
    /// Whether a block can begin here: nothing is before it on its line but indicators of blocks.
    bool isBlockPossible() const { return blockPossible; }

    /// Skips blanks, comments and line ends.
    void skipToToken(bool inFlow);
    void skipBlanks();

    /// A name behind '&' or '*', or a tag: up to a blank, or to an indicator of flows.
    std::string readWord(bool inFlow);
    /// A scalar in quotes.
    YamlScalar readQuoted();
    /// One without. Its further lines are indented deeper than `parent`.
    YamlScalar readPlain(std::ptrdiff_t parent, bool inFlow);
    /// One behind '|' or '>', indented deeper than `parent`.
    YamlScalar readBlockScalar(std::ptrdiff_t parent);

private:
    bool atBreak() const;
    bool atBlank(std::size_t ahead = 0) const;
    bool atBlankOrBreak(std::size_t ahead) const;
    bool atMarker(std::string_view marker) const;
    void takeBreak();
    void skipComment();
    void readDirectives();
    bool endsPlain(bool inFlow) const;
    void readEscape(std::string& out);
    /// Takes blanks and line ends; the number of the latter. Refuses tabs where they count as indentation.
    std::size_t takeBreaks(std::ptrdiff_t parent);
    std::string readEmptyLines(std::size_t& indent, std::ptrdiff_t parent);

    std::string_view name;
    std::string_view text;
    std::size_t at = 0;
    std::size_t lineStart = 0;
    std::size_t lineNumber = 1;
    bool blockPossible = true;
};

}  // namespace sarus::oci
