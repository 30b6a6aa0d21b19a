#include "yoke/base/files.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/support/temp_folder.h"

namespace yoke::base {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using yoke::testing::TempFolder;

TEST(Files, ReadsWhatWasPublished) {
  const TempFolder folder;
  const std::string content("a\0b\n", 4);
  ASSERT_TRUE(publish_file(folder.file("x"), content).ok());
  EXPECT_EQ(*read_file(folder.file("x")), content);
  EXPECT_THAT(*list_folder(folder.path()), ElementsAre("x")) << "no temporary file may stay";
}

TEST(Files, PiecesAppearTogetherOrNotAtAll) {
  const TempFolder folder;
  folder.write("x", "old");
  {
    auto file = FileWriter::create(folder.file("x"));
    ASSERT_TRUE(file.ok());
    FileWriter given_up = *std::move(file);
    ASSERT_TRUE(given_up.write("new ").ok());
    EXPECT_EQ(*read_file(folder.file("x")), "old");
  }
  EXPECT_THAT(*list_folder(folder.path()), ElementsAre("x")) << "given up, it leaves nothing";
  FileWriter file = *FileWriter::create(folder.file("x"));
  ASSERT_TRUE(file.write("in two ").ok() && file.write("pieces").ok());
  ASSERT_TRUE(std::move(file).publish().ok());
  EXPECT_EQ(*read_file(folder.file("x")), "in two pieces");
  EXPECT_THAT(*list_folder(folder.path()), ElementsAre("x"));
}

TEST(Files, PublishReplacesAndHonoursTheUmask) {
  const TempFolder folder;
  const mode_t old = ::umask(027);
  ASSERT_TRUE(publish_file(folder.file("x"), "old").ok());
  ::umask(old);
  struct stat info {};
  ASSERT_EQ(::stat((folder.file("x")).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640U);
  ASSERT_TRUE(publish_file(folder.file("x"), "new").ok());
  EXPECT_EQ(*read_file(folder.file("x")), "new");
}

TEST(Files, RefusesWhatIsNoReadableFile) {
  const TempFolder folder;
  EXPECT_THAT(read_file(folder.file("absent")).error().to_string(), HasSubstr("absent"));
  EXPECT_THAT(read_file(folder.path()).error().message, HasSubstr("folder"));
  EXPECT_THAT(read_file("/dev/null").error().message, HasSubstr("regular file"));
  ASSERT_EQ(::mkfifo((folder.file("pipe")).c_str(), 0600), 0);
  EXPECT_FALSE(read_file(folder.file("pipe")).ok()) << "must not wait for a writer";
}

TEST(Files, RefusesHugeFilesBeforeReadingThem) {
  const TempFolder folder;
  const std::string path = folder.write("huge", "");
  std::filesystem::resize_file(path, 100'000'000);
  const Error error = read_file(path).error();
  EXPECT_EQ(error.kind, ErrorKind::kInput);
  EXPECT_THAT(error.message, HasSubstr("100000000"));
}

TEST(Files, PublishFailureLeavesTheOldFile) {
  const TempFolder folder;
  const Error missing = publish_file(folder.file("no/such/folder/x"), "new").error();
  EXPECT_EQ(missing.kind, ErrorKind::kInput);
  EXPECT_THAT(missing.message, HasSubstr("found no folder"));
  EXPECT_EQ(publish_file("/proc/x", "new").error().kind, ErrorKind::kInput) << "where nothing can be written";
  EXPECT_EQ(publish_file(folder.file(std::string(300, 'x')), "new").error().kind, ErrorKind::kInput) << "a long name";
  ASSERT_TRUE(make_folder(folder.file("taken")).ok());
  EXPECT_THAT(publish_file(folder.file("taken"), "new").error().message, HasSubstr("found a folder"));
  EXPECT_THAT(publish_file("/dev/null", "new").error().message, HasSubstr("found a device"));
  EXPECT_THAT(*list_folder(folder.path()), ElementsAre("taken"));
}

// A writer that is killed at a random moment leaves the old content or the new, never a part.
TEST(Files, KilledWriterLeavesAWholeFile) {
  const TempFolder folder;
  const std::string path = folder.file("x");
  const std::string contents[] = {std::string(200'000, 'a'), std::string(300'000, 'b')};
  ASSERT_TRUE(publish_file(path, contents[0]).ok());
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0;; ++i) {
        if (!publish_file(path, contents[i % 2]).ok()) ::_exit(1);
      }
    }
    ::usleep(static_cast<useconds_t>(1000 + 700 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto read = read_file(path);
    ASSERT_TRUE(read.ok());
    EXPECT_TRUE(*read == contents[0] || *read == contents[1]) << "half a file of " << read->size() << " bytes";
  }
}

TEST(Files, FoldersAreMadeAndListedInOrder) {
  const TempFolder folder;
  ASSERT_TRUE(make_folder(folder.file("a/b")).ok());
  ASSERT_TRUE(make_folder(folder.file("a/b")).ok());
  folder.write("a/z", "");
  folder.write("a/c", "");
  EXPECT_THAT(*list_folder(folder.file("a")), ElementsAre("b", "c", "z"));
  EXPECT_FALSE(make_folder(folder.file("a/z/deeper")).ok());
  EXPECT_THAT(list_folder(folder.file("a/z")).error().message, HasSubstr("found a file"));
  EXPECT_FALSE(list_folder(folder.file("absent")).ok());
}

TEST(Files, JoinsPaths) {
  EXPECT_EQ(join_path("a/b", "c"), "a/b/c");
  EXPECT_EQ(join_path("a", "/c"), "/c");
  EXPECT_EQ(join_path("", "c"), "c");
  EXPECT_EQ(parent_folder("a/b/c.json"), "a/b");
  EXPECT_EQ(parent_folder("c.json"), "");
}

}  // namespace
}  // namespace yoke::base
