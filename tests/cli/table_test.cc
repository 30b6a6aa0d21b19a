#include "yoke/cli/table.h"

#include <gtest/gtest.h>

#include "yoke/base/error.h"

namespace yoke::cli {
namespace {

TEST(Table, AlignsColumns) {
  Table table({{"node"}, {"vsw", Table::Align::kRight}, {"bar"}});
  table.add({"a", "12", "██"});
  table.add({"longer", "3", ""});
  EXPECT_EQ(table.to_string(),
            "node    vsw  bar\n"
            "------  ---  ---\n"
            "a        12  ██\n"
            "longer    3\n");
}

TEST(Table, RefusesRowsOfAnotherWidth) {
  Table table({{"a"}, {"b"}});
  EXPECT_THROW(table.add({"1"}), base::Failure);
}

TEST(Bar, FillsInEighths) {
  EXPECT_EQ(bar(0, 4), "");
  EXPECT_EQ(bar(1, 4), "████");
  EXPECT_EQ(bar(0.5, 4), "██");
  EXPECT_EQ(bar(0.53125, 4), "██▏");
  EXPECT_EQ(bar(7, 2), "██");
  EXPECT_EQ(bar(-1, 2), "");
}

}  // namespace
}  // namespace yoke::cli
