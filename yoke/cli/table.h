// Tables and bars for people who look at a terminal.
#pragma once

#include <string>
#include <vector>

namespace yoke::cli {

/// Columns as wide as their widest cell, two blanks apart; numbers read better on the right.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// Precondition: one cell per column.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  /// Titles, a rule, the rows; every line ends with a newline and has no trailing blanks.
  std::string to_string() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// A bar of `width` cells filled to `share` (0 to 1, clamped) in eighths of a cell.
std::string bar(double share, int width = 20);

}  // namespace yoke::cli
