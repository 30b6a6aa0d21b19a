// Backends that a build or a machine may lack: each says so, as an input error, and none crashes.
#include <gmock/gmock.h>

#include "yoke/comm/gloo/gloo.h"
#include "yoke/comm/mpi/mpi.h"
#include "yoke/comm/nccl/nccl.h"

namespace yoke::comm {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class OptionalBackends : public ::testing::Test {
 protected:
  const base::SystemClock clock_{};
  const std::unique_ptr<Store> store_ = make_memory_store();
  const BackendOptions options_{.name = "group", .store = store_.get(), .clock = &clock_};
  const base::Deadline deadline_ = base::Deadline::in(std::chrono::seconds(10), clock_);
};

TEST_F(OptionalBackends, SayWhatTheyAreAndWhatIsMissing) {
  EXPECT_EQ(gloo_info().name, "gloo");
  EXPECT_EQ(mpi_info().name, "mpi");
  EXPECT_EQ(nccl_info().name, "nccl");
  for (const auto& info : {gloo_info(), mpi_info(), nccl_info()}) EXPECT_THAT(info.detail, Not(IsEmpty())) << info.name;
}

TEST_F(OptionalBackends, NcclWithoutADeviceIsAnInputError) {
  if (nccl_info().available) GTEST_SKIP() << "this machine has a CUDA device";
  const auto backend = make_nccl_backend(options_, deadline_);
  ASSERT_FALSE(backend.ok());
  EXPECT_EQ(backend.error().kind, base::ErrorKind::kInput);
  EXPECT_THAT(backend.error().message, AnyOf(HasSubstr("no CUDA device"), HasSubstr("no NCCL")));
}

TEST_F(OptionalBackends, MpiOutsideOfMpirunIsAnInputError) {
  const auto backend = make_mpi_backend(options_, deadline_);
  ASSERT_FALSE(backend.ok());
  EXPECT_EQ(backend.error().kind, base::ErrorKind::kInput);
  EXPECT_THAT(backend.error().message, AnyOf(HasSubstr("mpirun"), HasSubstr("no MPI")));
}

TEST_F(OptionalBackends, GlooOnAnAddressOfAnotherMachineIsAnInputError) {
  if (!gloo_info().available) GTEST_SKIP() << gloo_info().detail;
  BackendOptions options = options_;
  options.size = 2;
  options.interface = "203.0.113.1";  // kept for documentation: nobody's
  const auto backend = make_gloo_backend(options, deadline_);
  ASSERT_FALSE(backend.ok());
  EXPECT_EQ(backend.error().kind, base::ErrorKind::kInput);
  EXPECT_THAT(backend.error().message, HasSubstr("203.0.113.1"));
}

}  // namespace
}  // namespace yoke::comm
