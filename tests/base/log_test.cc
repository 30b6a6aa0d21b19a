#include "yoke/base/log.h"

#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "yoke/base/document.h"

namespace yoke::base {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

struct Lines {
  std::vector<std::string> all;
  Logger logger(LogOptions options) {
    return Logger::to_sink(options, [this](std::string_view line) { all.emplace_back(line); });
  }
};

TEST(Log, IsSilentByDefault) {
  const Logger logger;
  EXPECT_FALSE(logger.enabled(LogLevel::kError));
  logger.error("nobody hears {}", "this");
}

TEST(Log, TextNamesLevelModuleAndRank) {
  Lines lines;
  lines.logger({.rank = 3}).module("plan").warning("gbs {} is odd", 7);
  ASSERT_EQ(lines.all.size(), 1U);
  EXPECT_THAT(lines.all[0], EndsWith("warning [plan rank 3] gbs 7 is odd"));
}

TEST(Log, DropsLinesBelowItsLevel) {
  Lines lines;
  const Logger logger = lines.logger({.level = LogLevel::kWarning});
  logger.info("no");
  logger.error("yes");
  EXPECT_THAT(lines.all, ElementsAre(HasSubstr("yes")));
}

TEST(Log, JsonLinesParseWhateverTheMessage) {
  Lines lines;
  lines.logger({.format = LogFormat::kJson, .rank = 1}).module("comm").info("quote \" newline \n byte {}", "\xff");
  const auto document = parse_json(lines.all.at(0), "log");
  ASSERT_TRUE(document.ok()) << document.error().to_string();
  Reader reader(*document);
  View root = reader.root();
  EXPECT_EQ(root.field("level").text(), "info");
  EXPECT_EQ(root.field("module").text(), "comm");
  EXPECT_EQ(root.field("rank").integer(), 1);
  EXPECT_THAT(root.field("message").text(), HasSubstr("newline \n"));
  EXPECT_EQ(lines.all[0].find('\n'), std::string::npos) << "one line each";
  EXPECT_TRUE(reader.ok());
}

TEST(Log, ThreadsShareASink) {
  Lines lines;
  const Logger logger = lines.logger({});
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&logger] {
        for (int line = 0; line < 100; ++line) logger.info("{}", line);
      });
    }
  }
  EXPECT_EQ(lines.all.size(), 400U);
}

TEST(Log, LevelNamesParse) {
  EXPECT_EQ(*parse_log_level("debug"), LogLevel::kDebug);
  EXPECT_THAT(parse_log_level("warnin").error().message, HasSubstr("did you mean `warning`"));
}

}  // namespace
}  // namespace yoke::base
