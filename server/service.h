#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string>

#include "server/batcher.h"
#include "server/http.h"
#include "server/limits.h"
#include "server/store.h"
#include "server/targets.h"

namespace foretime::server {

/// The server's answers (docs/how-to/serve.md).
class Service : public HttpHandler {
 public:
  Service(ModelPtr model, const ServeLimits& limits);

  void admit(const HttpRequest& request) override;
  HttpResponse answer(const HttpRequest& request) override;

  /// Requests that come from now on are answered by this model, which knows no graphs and workloads yet. Those that are
  /// being answered keep theirs.
  void replace_model(ModelPtr model);

  /// New requests are refused; those that are being answered no longer wait for others.
  void drain();

 private:
  /// A model, and what it was given to score candidates of.
  struct Served {
    Served(ModelPtr opened, const ServeLimits& limits);

    const ModelPtr model;
    RecentStore<GraphTarget> graphs;
    RecentStore<WorkloadTarget> workloads;
    const std::shared_ptr<const Target> tir;
  };
  std::shared_ptr<Served> served() const;
  HttpResponse open_graph(Served& served, const HttpRequest& request);
  HttpResponse open_workload(Served& served, const HttpRequest& request);
  HttpResponse score_graph(Served& served, const HttpRequest& request, const std::string& id);
  HttpResponse score_workload(Served& served, const HttpRequest& request, const std::string& id);
  HttpResponse score_tir(Served& served, const HttpRequest& request);

  const ServeLimits limits_;
  mutable std::mutex mutex_;
  std::shared_ptr<Served> served_;      // never null
  std::atomic<int64_t> working_{0};     // requests that score, open something, or wait to
  std::counting_semaphore<> openings_;  // graphs and workloads that are prepared at once
  std::atomic<bool> draining_{false};
  Batcher batcher_;  // ends before what it uses
};

}  // namespace foretime::server
