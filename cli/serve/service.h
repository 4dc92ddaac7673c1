#pragma once

#include <atomic>
#include <semaphore>
#include <string>
#include <string_view>

#include "cli/serve/batcher.h"
#include "cli/serve/http.h"
#include "cli/serve/limits.h"
#include "cli/serve/store.h"
#include "cli/serve/targets.h"

namespace foretime::cli {

/// The server's answers (docs/serving.md).
class Service : public HttpHandler {
 public:
  Service(ModelPtr model, const ServeLimits& limits);

  void admit(const HttpRequest& request) override;
  HttpResponse answer(const HttpRequest& request) override;

  /// New requests are refused; those that are being answered no longer wait for others.
  void drain();

 private:
  HttpResponse open_graph(const HttpRequest& request);
  HttpResponse open_workload(const HttpRequest& request);
  HttpResponse score_graph(const HttpRequest& request, const std::string& id);
  HttpResponse score_workload(const HttpRequest& request, const std::string& id);
  HttpResponse score_tir(const HttpRequest& request);
  void expect_kind(bool fits, const char* what) const;
  std::vector<double> seconds(const Scored& scored, double operations) const;

  const ModelPtr model_;
  const ServeLimits limits_;
  RecentStore<GraphTarget> graphs_;
  RecentStore<WorkloadTarget> workloads_;
  const std::shared_ptr<const Target> tir_;
  std::atomic<int64_t> working_{0};     // requests that score, open something, or wait to
  std::counting_semaphore<> openings_;  // graphs and workloads that are prepared at once
  std::atomic<bool> draining_{false};
  Batcher batcher_;  // ends before what it uses
};

}  // namespace foretime::cli
