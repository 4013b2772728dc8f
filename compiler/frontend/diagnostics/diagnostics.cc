#include "compiler/frontend/diagnostics/diagnostics.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tessera::frontend {
namespace {

// Longer source lines are shown as a window around the caret.
constexpr int kLineWidth = 140;
constexpr int kTabWidth = 4;

const char* SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kError: return "error";
    case Severity::kWarning: return "warning";
    case Severity::kNote: return "note";
  }
  return "error";
}

bool StartsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// A source line as a row of screen cells: tabs expanded, one cell for each UTF-8 character.
struct Cells {
  std::vector<std::string> cells;
  std::vector<int> cell_of_byte;  // one entry more than the line has bytes
};

Cells ToCells(const std::string& line) {
  Cells result;
  for (size_t i = 0; i < line.size(); ++i) {
    if (i > 0 && !StartsCharacter(line[i]) && !result.cells.empty()) {
      result.cell_of_byte.push_back(static_cast<int>(result.cells.size()) - 1);
      result.cells.back() += line[i];
      continue;
    }
    result.cell_of_byte.push_back(static_cast<int>(result.cells.size()));
    if (line[i] == '\t') {
      do result.cells.push_back(" ");
      while (result.cells.size() % kTabWidth != 0);
    } else {
      bool control = static_cast<unsigned char>(line[i]) < 0x20 || line[i] == 0x7f;
      result.cells.push_back(control ? "?" : std::string(1, line[i]));
    }
  }
  result.cell_of_byte.push_back(static_cast<int>(result.cells.size()));
  return result;
}

}  // namespace

std::string SourceLine(const SourceRange& range, const std::vector<File>& files) {
  if (range.file < 0 || range.file >= static_cast<int>(files.size()) || range.line < 1) return "";
  const std::string& text = files[range.file].text;
  size_t begin = 0;
  for (int line = 1; line < range.line; ++line) {
    begin = text.find('\n', begin);
    if (begin == std::string::npos) return "";
    ++begin;
  }
  return text.substr(begin, text.find('\n', begin) - begin);
}

std::string Render(const Diagnostic& diagnostic, const std::vector<File>& files) {
  const SourceRange& range = diagnostic.range;
  bool known_file = range.file >= 0 && range.file < static_cast<int>(files.size());
  if (!known_file || range.line < 1)
    return absl::StrCat(known_file ? files[range.file].path + ": " : "", SeverityName(diagnostic.severity), ": ",
                        diagnostic.message, "\n");
  std::string out = absl::StrCat(files[range.file].path, ":", range.line, ":", range.column, ": ",
                                 SeverityName(diagnostic.severity), ": ", diagnostic.message, "\n");
  std::string line = SourceLine(range, files);
  if (line.find_first_not_of(" \t\f") == std::string::npos) return out;

  Cells row = ToCells(line);
  int bytes = static_cast<int>(line.size());
  int count = static_cast<int>(row.cells.size());
  int begin = row.cell_of_byte[std::clamp(range.column - 1, 0, bytes)];
  int end = count;
  if (range.end_line <= range.line) end = row.cell_of_byte[std::clamp(range.end_column - 1, 0, bytes)];
  end = std::max(end, begin + 1);

  int first = 0, last = count;
  if (count > kLineWidth) {
    first = std::max(0, std::min(begin - kLineWidth / 4, count - kLineWidth));
    last = std::min(count, first + kLineWidth);
  }
  end = std::min(end, std::max(last, begin + 1));
  std::string text = "  ", marks = "  ";
  if (first > 0) {
    text += "...";
    marks += "   ";
  }
  for (int i = first; i < last; ++i) text += row.cells[i];
  for (int i = first; i < end; ++i) marks += i < begin ? ' ' : i == begin ? '^' : '~';
  if (last < count) text += "...";
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return absl::StrCat(out, text, "\n", marks, "\n");
}

}  // namespace tessera::frontend
