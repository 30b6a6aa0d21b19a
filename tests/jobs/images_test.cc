// A folder of images, one of which is broken.
#include "tests/data/pictures.h"
#include "tests/jobs/whole_job.h"
#include "tests/support/paths.h"

namespace yoke::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ABrokenImage : public WholeJob {
 protected:
  void SetUp() override {
    for (int i = 0; i < 16; ++i) {
      temp_.write(fmt::format("images/train/{}/{}.jpg", i % 2 == 0 ? "cat" : "dog", i),
                  to_jpeg(make_picture(40, 30, 3, static_cast<std::uint64_t>(i))));
    }
    const std::string whole = read_text(broken_);
    temp_.write("images/train/dog/7.jpg", whole.substr(0, whole.size() / 2));
  }
  std::string train(const std::string& policy, int expected_code) {
    return run({yoke::testing::program("yoke"), "run", images_, "--cluster", cluster_, "--run-dir", temp_.file("run"),
                "--set", "data.corrupt=" + policy},
               expected_code);
  }

  const std::string broken_ = temp_.file("images/train/dog/7.jpg");
  const std::string images_ = temp_.write("images.yaml",
                                          "model: {name: mlp}\n"
                                          "data: {name: image-folder, path: images, image: 16, resize: 20}\n"
                                          "batch: {global: 8, local: 2}\n"
                                          "optimizer: {lr: 0.01}\n"
                                          "epochs: 2\n");
  const std::string cluster_ = temp_.write("cluster.yaml", "nodes:\n- {name: node0, devices: 2}\n");
};

TEST_F(ABrokenImage, StopsTheJobThatSaysSo) {
  EXPECT_THAT(train("stop", 2), AllOf(HasSubstr("yoke: error: " + broken_), HasSubstr("data.corrupt: skip")));
  EXPECT_FALSE(base::exists(in_run("result.json")));
}

TEST_F(ABrokenImage, IsSkippedAndCounted) {
  EXPECT_THAT(train("skip", 0), AllOf(HasSubstr("30 samples, 2 epochs"), HasSubstr("skipped        2 samples")));
  EXPECT_EQ(number("steps"), 4);
  EXPECT_EQ(number("samples"), 30);
  EXPECT_EQ(number("skipped_samples"), 2) << "once in each epoch, whichever rank found it";
  EXPECT_THAT(read_text(in_run("events.jsonl")),
              AllOf(HasSubstr("1 corrupt samples were left out, 1 since the start"),
                    HasSubstr("1 corrupt samples were left out, 2 since the start")));
}

}  // namespace
}  // namespace yoke::testing
