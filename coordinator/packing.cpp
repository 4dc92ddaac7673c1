#include "coordinator/packing.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "coordinator/agree.h"
#include "coordinator/catalogue.h"
#include "data/pack.h"

namespace foretime::coordinator {
namespace {

/// This rank's parts, removed whatever comes.
class PartFiles {
 public:
  explicit PartFiles(std::vector<std::filesystem::path> files) : files_(std::move(files)) {}
  ~PartFiles() {
    std::error_code ignored;
    for (const auto& file : files_) std::filesystem::remove(file, ignored);
  }
  PartFiles(const PartFiles&) = delete;
  PartFiles& operator=(const PartFiles&) = delete;

 private:
  std::vector<std::filesystem::path> files_;
};

/// Runs `work` for each number below `count` in a thread of its own, and throws what the first that failed threw.
void in_threads(size_t count, const std::function<void(size_t)>& work) {
  std::vector<std::exception_ptr> failures(count);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        try {
          work(i);
        } catch (...) {
          failures[i] = std::current_exception();
        }
      });
    }
  }
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace

std::vector<data::GroupHeader> share_headers(comm::Communicator& comm, const std::vector<data::GroupHeader>& headers) {
  Catalogue catalogue;
  for (const auto& header : headers) catalogue.entries.push_back({.header = header});
  std::vector<data::GroupHeader> shared;
  for (auto& entry : parse_catalogue(comm.broadcast_bytes(serialize(catalogue), 0)).entries)
    shared.push_back(std::move(entry.header));
  return shared;
}

void pack_collection(comm::Communicator& comm, const std::filesystem::path& file,
                     const std::vector<data::GroupHeader>& headers, const PackOptions& options) {
  const auto ranks = static_cast<int64_t>(comm.size());
  const auto groups = std::max<int64_t>(1, static_cast<int64_t>(headers.size()));
  const int64_t workers = std::min(groups, ranks * std::max<int64_t>(1, options.threads));
  const auto lists = data::deal_groups(headers, workers);
  data::MemoryBudget memory(options.memory);
  if (workers == 1) {
    run_together(comm, [&] {
      if (comm.rank() == 0) data::pack_groups(file, headers, lists[0], memory, options.extras);
    });
    return;
  }

  // A second run beside this one, into the same file, must have parts of other names.
  const std::string token = comm.broadcast_bytes(std::to_string(::getpid()), 0);
  std::vector<std::filesystem::path> parts, own;
  std::vector<size_t> own_workers;
  for (size_t worker = 0; worker < lists.size(); ++worker) {
    parts.push_back(file);
    parts.back() += fmt::format(".{}.part{}", token, worker);
    if (static_cast<int64_t>(worker) % ranks != comm.rank()) continue;
    own.push_back(parts.back());
    own_workers.push_back(worker);
  }
  const PartFiles cleaned(own);
  run_together(comm, [&] {
    in_threads(own_workers.size(), [&](size_t i) {
      const size_t worker = own_workers[i];
      if (!lists[worker].empty()) data::pack_groups(parts[worker], headers, lists[worker], memory, options.extras);
    });
  });
  run_together(comm, [&] {
    if (comm.rank() == 0) data::join_parts(file, parts, lists);
  });
}

}  // namespace foretime::coordinator
