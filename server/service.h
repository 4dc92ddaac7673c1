#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string>

#include "server/batcher.h"
#include "server/http/http.h"
#include "server/http/limits.h"
#include "server/store.h"
#include "server/targets.h"

namespace foretime::server {

/// Answers the requests to `foretime serve` (docs/how-to/serve.md).
class Service : public HttpHandler {
 public:
  Service(ModelPtr model, const ServeLimits& limits);

  void admit(const HttpRequest& request) override;
  HttpResponse answer(const HttpRequest& request) override;

  /// Answers later requests with this model; clients must send graphs and workloads again. Requests that run now are
  /// answered with the earlier model.
  void replace_model(ModelPtr model);

  /// Refuses new requests except for /healthz. Running requests no longer wait for others to be scored with.
  void drain();

 private:
  /// Holds a model with the graphs and workloads that it scores.
  struct Served {
    Served(ModelPtr opened, const ServeLimits& limits);

    const ModelPtr model;
    RecentStore<GraphTarget> graphs;
    RecentStore<WorkloadTarget> workloads;
    const std::shared_ptr<const Target> tir;
  };
  std::shared_ptr<Served> served() const;  // the present model
  HttpResponse open_graph(Served& served, const HttpRequest& request);
  HttpResponse open_workload(Served& served, const HttpRequest& request);
  HttpResponse score_graph(Served& served, const HttpRequest& request, const std::string& id);
  HttpResponse score_workload(Served& served, const HttpRequest& request, const std::string& id);
  HttpResponse score_tir(Served& served, const HttpRequest& request);

  const ServeLimits limits_;
  mutable std::mutex mutex_;
  std::shared_ptr<Served> served_;      // never null
  std::atomic<int64_t> working_{0};     // requests that score, open a graph or workload, or wait to do so
  std::counting_semaphore<> openings_;  // free places for preparing a graph or workload
  std::atomic<bool> draining_{false};
  Batcher batcher_;  // last: its threads use the members above
};

}  // namespace foretime::server
