// Comes before <torch/torch.h> where clang compiles with libstdc++ 12: libtorch 1.13 names std::vector<IValue> before
// IValue is complete. That is harmless until vector's members are constexpr, as they are from C++20 on: then clang
// looks into them at once and stops. Here they are not; nothing of ours evaluates a vector at compile time.
#pragma once

// All that <vector> includes, as it is.
#include <bits/allocator.h>
#include <bits/range_access.h>
#include <bits/refwrap.h>
#include <bits/stl_algobase.h>
#include <bits/stl_construct.h>
#include <bits/stl_uninitialized.h>
#include <debug/assertions.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#pragma push_macro("_GLIBCXX20_CONSTEXPR")
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 fill_bits  // it fills vector<bool>, and was declared constexpr above
#include <vector>
#undef __fill_a1
#pragma pop_macro("_GLIBCXX20_CONSTEXPR")
