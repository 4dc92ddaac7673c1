#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace foretime::data {

/// What a record's workload key says. It is JSON: `["function", arguments...]`, or the md5 of the DAG's text with the
/// shapes of inputs and outputs, `["md5", [1, 4096], [1, 1000]]`; older logs (v3.3 keys of TenSet) have flat integers
/// instead, `["md5", 1, 4096, 1, 1000]`.
struct WorkloadKey {
  std::string name;                          // the function, or the md5
  bool is_hash = false;                      // 32 hexadecimal digits
  bool is_flat = false;                      // no argument is a list
  std::vector<std::vector<int64_t>> shapes;  // of the arguments that are lists of integers, in their order
  std::string flat;  // name and all arguments without their nesting: both forms of one workload have the same
};

/// Throws DataError where the key is not of that form.
WorkloadKey parse_workload_key(std::string_view text);

}  // namespace foretime::data
