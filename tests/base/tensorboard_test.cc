#include "yoke/base/tensorboard.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/tensorboard_reader.h"

namespace yoke::base {
namespace {

using ::testing::HasSubstr;
using yoke::testing::read_board;
using yoke::testing::read_text;

// RFC 3720, B.4.
TEST(TensorBoard, ChecksumIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(crc32c(""), 0U);
}

Result<std::string> write_example(const std::string& folder) {
  YOKE_TRY(auto writer, TensorBoardWriter::create(folder, "host.7", 1700000000.5));
  YOKE_CHECK(writer.restart(2, 1700000001));
  YOKE_CHECK(writer.add(3, {{"loss", 0.25}, {"lr", 1e-3}}, 1700000002));
  YOKE_CHECK(writer.add(std::int64_t{1} << 40U, {{"loss", std::nan("")}}, 1700000003));
  return writer.path();
}

TEST(TensorBoard, AnIndependentReaderFindsWhatWasWritten) {
  const yoke::testing::TempFolder folder;
  const auto path = write_example(folder.path());
  ASSERT_TRUE(path.ok()) << path.error().to_string();
  EXPECT_THAT(*path, HasSubstr("/events.out.tfevents.1700000000.host.7"));
  const auto events = read_board(read_text(*path));
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[0].seconds, 1700000000.5);
  EXPECT_TRUE(events[1].restart);
  EXPECT_EQ(events[1].step, 2);
  EXPECT_EQ(events[2].step, 3);
  EXPECT_EQ(events[2].scalars, (std::map<std::string, float>{{"loss", 0.25F}, {"lr", 1e-3F}}));
  EXPECT_EQ(events[3].step, std::int64_t{1} << 40U);
  EXPECT_TRUE(std::isnan(events[3].scalars.at("loss")));
}

TEST(TensorBoard, TensorBoardItselfReadsIt) {
  const yoke::testing::TempFolder folder;
  const auto path = write_example(folder.path());
  ASSERT_TRUE(path.ok()) << path.error().to_string();
  const std::string script =
      "try:\n"
      "  from tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n"
      "except ImportError:\n"
      "  print('absent'); raise SystemExit\n"
      "import sys\n"
      "board = EventAccumulator(sys.argv[1]); board.Reload()\n"
      "print(board.Tags()['scalars'], [(e.step, e.value) for e in board.Scalars('lr')])\n";
  yoke::testing::Process python({"/usr/bin/python3", "-c", script, *path});
  ASSERT_TRUE(python.wait(std::chrono::seconds(60)));
  if (python.exit_code() == 127 || python.output().starts_with("absent")) GTEST_SKIP() << "python has no tensorboard";
  EXPECT_THAT(python.output(), HasSubstr("['loss', 'lr'] [(3, 0.001"));
}

TEST(TensorBoard, AFolderThatIsNotThereIsAnError) {
  const auto path = write_example("/nowhere");
  ASSERT_FALSE(path.ok());
  EXPECT_THAT(path.error().to_string(), HasSubstr("/nowhere/events.out.tfevents"));
}

}  // namespace
}  // namespace yoke::base
