// The quickstart profiles of IIDP and JABAS as values, for tests against their golden results.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/support/paths.h"
#include "yoke/base/document.h"
#include "yoke/base/files.h"
#include "yoke/plan/cost/iidp_model.h"
#include "yoke/plan/import/jabas.h"

namespace yoke::plan::testing {

inline std::string shared_data(const std::string& name) {
  return base::join_path(yoke::testing::kSharedData, name);
}

inline bool has_shared_data() {
  return base::is_folder(yoke::testing::kSharedData);
}

#define YOKE_NEEDS_SHARED_DATA() \
  if (!has_shared_data()) GTEST_SKIP() << "no reference data at " << yoke::testing::kSharedData

inline base::Document load(const std::string& path) {
  return base::load_document(path).value();
}

/// `dataset`: "iidp" or "jabas".
inline JabasWorkspace quickstart(const std::string& dataset) {
  return load_jabas(shared_data(dataset + "-quickstart/config.json")).value();
}

inline cluster::Cluster quickstart_cluster(const std::string& dataset) {
  return quickstart(dataset).cluster;
}

inline profile::ProfileSet quickstart_profiles(const std::string& dataset) {
  return quickstart(dataset).profiles;
}

inline IidpModel quickstart_model(const std::string& dataset) {
  return IidpModel::make(quickstart_cluster(dataset), quickstart_profiles(dataset)).value();
}

/// The position of a node, which in these clusters is also its class.
inline int class_of(const BatchCost& cost, const std::string& node) {
  const auto& nodes = cost.cluster().nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].name == node) return cost.node_classes()[i];
  }
  ADD_FAILURE() << "no node " << node;
  return 0;
}

inline void expect_close(double actual, double expected, double relative) {
  EXPECT_LE(std::abs(actual - expected), relative * std::abs(expected)) << actual << " instead of " << expected;
}

}  // namespace yoke::plan::testing
